"""Fetching the envtest archive, from a server on loopback; no control plane is needed."""

import hashlib
import io
import os
import socket
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from konverge_testing.binaries import APISERVER, ETCD, KUBECTL
from konverge_testing.commands import control_plane
from konverge_testing.envtest import MIRROR_VARIABLE, Archive, fetch
from konverge_testing.failures import InstallFailed

CONTENT = {f"controller-tools/envtest/{name}": name.encode() * 1000 for name in (ETCD, APISERVER, KUBECTL)}


def packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Site:
    """A web server whose pages a test sets; it hangs up after `cut` bytes."""

    def __init__(self) -> None:
        self.body = b""
        self.cut: int | None = None
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if site.body else 404)
                self.send_header("Content-Length", str(len(site.body)))
                self.end_headers()
                self.wfile.write(site.body[: site.cut])

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def archive(self, files: Mapping[str, bytes], *, sha512: str | None = None) -> Archive:
        self.body = packed(files)
        url = f"http://127.0.0.1:{self.server.server_address[1]}/envtest.tar.gz"
        return Archive(url, sha512 or hashlib.sha512(self.body).hexdigest())


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.thread.start()
    yield site
    site.server.shutdown()
    site.thread.join()
    site.server.server_close()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_programs_of_the_archive_are_put_into_the_folder(site: Site, tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    fetch(site.archive(CONTENT), tmp_path / "new", lambda came, total: reports.append((came, total)))
    assert names(tmp_path / "new") == sorted((ETCD, APISERVER, KUBECTL))
    for name in (ETCD, APISERVER, KUBECTL):
        assert (tmp_path / "new" / name).read_bytes() == name.encode() * 1000
        assert os.access(tmp_path / "new" / name, os.X_OK)
    assert reports[-1] == (len(site.body), len(site.body))


def test_an_archive_with_another_checksum_is_not_unpacked(site: Site, tmp_path: Path) -> None:
    with pytest.raises(InstallFailed, match=f"SHA-512 [0-9a-f]{{128}}, pinned is {'0' * 128}"):
        fetch(site.archive(CONTENT, sha512="0" * 128), tmp_path, lambda _came, _total: None)
    assert names(tmp_path) == []


def test_only_the_expected_files_leave_the_archive(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    extra = {**CONTENT, "../../escaped": b"bad", "/etc/konverge-escaped": b"bad", "controller-tools/README": b"hello"}
    fetch(site.archive(extra), folder, lambda _came, _total: None)
    assert names(folder) == sorted((ETCD, APISERVER, KUBECTL))
    assert names(tmp_path) == ["inner"]


@pytest.mark.parametrize("name", [ETCD, APISERVER, KUBECTL])
def test_an_archive_that_lacks_a_program_is_refused_by_name(site: Site, tmp_path: Path, name: str) -> None:
    rest = {path: content for path, content in CONTENT.items() if not path.endswith(name)}
    with pytest.raises(InstallFailed, match=f"lacks {name}"):
        fetch(site.archive(rest), tmp_path, lambda _came, _total: None)


def test_link_with_the_name_of_a_program_is_not_a_program(site: Site, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(ETCD)
        member.type, member.linkname = tarfile.SYMTYPE, "/bin/sh"
        archive.addfile(member)
    address = site.archive(CONTENT).url
    site.body = buffer.getvalue()
    with pytest.raises(InstallFailed, match="lacks etcd, kube-apiserver, kubectl"):
        fetch(Archive(address, hashlib.sha512(site.body).hexdigest()), tmp_path, lambda _came, _total: None)
    assert names(tmp_path) == []


def test_a_download_that_breaks_off_leaves_nothing_and_succeeds_the_next_time(site: Site, tmp_path: Path) -> None:
    archive = site.archive(CONTENT)
    site.cut = len(site.body) // 2
    with pytest.raises(InstallFailed):
        fetch(archive, tmp_path, lambda _came, _total: None)
    assert names(tmp_path) == []
    site.cut = None
    fetch(archive, tmp_path, lambda _came, _total: None)
    assert len(names(tmp_path)) == 3


def test_an_interrupted_download_leaves_nothing(site: Site, tmp_path: Path) -> None:
    def interrupt(_came: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site.archive(CONTENT), tmp_path, interrupt)
    assert names(tmp_path) == []


def test_a_page_that_is_not_there_is_a_failure_with_its_status(site: Site, tmp_path: Path) -> None:
    archive = site.archive(CONTENT)
    site.body = b""
    with pytest.raises(InstallFailed, match="404"):
        fetch(archive, tmp_path, lambda _came, _total: None)


def test_a_server_that_does_not_listen_fails_at_once(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(InstallFailed, match="refused"):
            fetch(Archive(url, "0" * 128), tmp_path, lambda _came, _total: None)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(InstallFailed, match=r"sent nothing for 0\.2 s"):
            fetch(Archive(url, "0" * 128), tmp_path, lambda _came, _total: None, silence_seconds=0.2)


@contextmanager
def serving(answer: bytes, *, stalls: bool) -> Iterator[str]:
    """A server that sends this to its only client; then it hangs up, or sends nothing more."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
                over.wait(30 if stalls else 0)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize("arguments", [["install"], ["install", "--from", "envtest"]])
@pytest.mark.parametrize(
    ("answer", "stalls", "cause"),
    [
        (b"", True, "the server sent nothing for 0.2 s"),
        (HEAD[:20], True, "the server sent nothing for 0.2 s"),
        (HEAD + b"half", True, "the server sent nothing for 0.2 s"),
        (b"", False, "Remote end closed connection without response"),
        (b"this is no HTTP\r\n\r\n", False, "this is no HTTP"),
    ],
)
def test_stalled_or_broken_download_ends_install_with_one_line_and_remedy(
    answer: bytes, stalls: bool, cause: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("konverge_testing.binaries.SYSTEM_DIRECTORY", tmp_path / "system")
    monkeypatch.setattr("konverge_testing.envtest.fetch", partial(fetch, silence_seconds=0.2))
    monkeypatch.setenv("KONVERGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    with serving(answer, stalls=stalls) as address:
        monkeypatch.setenv(MIRROR_VARIABLE, address)
        result = CliRunner().invoke(control_plane, arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    *steps, error = result.output.splitlines()
    assert [step.partition(" ")[0] for step in steps] == ["[1/1]", "[1/1]"]
    assert error.startswith(f"Error: {address}/envtest-v")
    assert f"could not be fetched: {cause}; run the same command again later, or name a mirror" in error
