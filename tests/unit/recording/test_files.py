"""The files of a recording: bounded, complete by themselves, readable after a crash."""

import os
import socket
from functools import partial
from pathlib import Path

import msgspec
import pytest

from konverge.errors import ConfigError, UsageError
from konverge.recording import read_lines, read_recording
from konverge.recording.entries import VERSION, Document, Header, KeyName, RecordedReconcile
from konverge.recording.files import LEAST, LogFiles, older, path_of

KEY = KeyName("v1", "ConfigMap", "web", "a")


def head(version: int = VERSION, pid: int = 1) -> bytes:
    header = Header(
        version=version, operator="op", namespace=None, konverge="9", python="3", host="h", pid=pid, started=""
    )
    return msgspec.json.encode(header) + b"\n"


def reconcile(number: int, *documents: str, dropped: int = 0) -> bytes:
    entry = RecordedReconcile(
        number=number,
        controller="c",
        key=KEY,
        reasons=(),
        began="",
        duration=0,
        object=documents[0] if documents else "",
        dropped=dropped,
    )
    return msgspec.json.encode(entry) + b"\n"


def document(name: str, size: int) -> bytes:
    return msgspec.json.encode(Document(id=name, body=msgspec.Raw(msgspec.json.encode("x" * size)))) + b"\n"


def ring(path: Path, size: int = LEAST) -> LogFiles:
    opened = LogFiles(path, size, lambda: [head()])
    opened.open()
    return opened


def test_two_files_hold_the_last_reconciles_in_the_given_size(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    writer = ring(path)
    for number in range(400):
        name = f"d{number % 3}"
        writer.write({name: partial(document, name, 300)}, reconcile(number, name), lambda _: b"")
    writer.close()
    recording = read_recording(path)
    numbers = [each.number for each in recording.reconciles]
    assert numbers == list(range(numbers[0], 400))
    assert len(numbers) > 100
    assert path.stat().st_size + older(path).stat().st_size <= LEAST
    assert {each.object for each in read_lines(path.read_bytes().splitlines(True), "").reconciles} <= {"d0", "d1", "d2"}
    for file in (path, older(path)):
        alone = read_lines(file.read_bytes().splitlines(True), file.name)
        assert all(each.object in alone.documents for each in alone.reconciles)


def test_a_reconcile_that_does_not_fit_is_recorded_without_its_documents(tmp_path: Path) -> None:
    writer = ring(tmp_path / "tape")
    writer.write({"big": partial(document, "big", LEAST)}, reconcile(1, "big"), lambda size: reconcile(1, dropped=size))
    (entry,) = read_recording(tmp_path / "tape").reconciles
    assert entry.dropped > LEAST
    assert entry.object == ""
    writer.close()


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    path.write_bytes(head() + reconcile(1) + reconcile(2)[:20])
    assert [each.number for each in read_recording(path).reconciles] == [1]


def test_the_file_of_an_earlier_process_is_kept_and_not_joined(tmp_path: Path) -> None:
    path = tmp_path / "tape"
    path.write_bytes(head(pid=7) + reconcile(5))
    ring(path).close()
    assert read_recording(path).reconciles == []
    assert [each.number for each in read_recording(older(path)).reconciles] == [5]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no header"),
        (reconcile(1), "no header"),
        (head(VERSION + 1), "later konverge"),
        (head() + b"{}\n" + reconcile(1), "malformed"),
    ],
    ids=["empty", "no header", "later version", "broken middle"],
)
def test_another_file_than_a_recording_is_an_error(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "tape"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=match):
        read_recording(path)


def test_a_name_may_have_the_process_and_the_host_in_it() -> None:
    assert path_of("/tmp/{hostname}-{pid}").name == f"{socket.gethostname()}-{os.getpid()}"
    with pytest.raises(ConfigError, match="only"):
        path_of("/tmp/{user}")


def test_a_file_that_cannot_be_created_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot record to"):
        ring(tmp_path / "absent" / "tape")


def test_an_error_of_the_disk_ends_only_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ring(tmp_path / "tape")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for number in range(2):
        writer.write({}, reconcile(number), lambda _: b"")
    monkeypatch.undo()
    assert read_recording(tmp_path / "tape").reconciles == []
