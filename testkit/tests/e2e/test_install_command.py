"""`konverge control-plane install` as a process, with a fake Go; no control plane and no network is needed."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from konverge_testing.binaries import APISERVER, KUBERNETES_VERSION, PROGRAMS, Cache

SCRIPT = "from konverge_testing.commands import control_plane; control_plane()"

GO = """#!{python}
import json, os, sys, time
arguments = sys.argv[1:]
target = arguments[arguments.index("-o") + 1]
with open({calls!r}, "a") as calls:
    calls.write(json.dumps([os.getcwd(), *arguments]) + "\\n")
os.makedirs(os.environ["GOCACHE"], exist_ok=True)
if os.path.basename(target) == os.environ.get("FAIL_AT"):
    sys.exit("cannot compile")
with open(target, "w") as program:
    program.write("half")
    program.flush()
    if os.path.basename(target) == os.environ.get("HANG_AT"):
        try:
            time.sleep(600)
        finally:
            print("cleaned up")
    program.write(" whole")
"""


@dataclass
class Workshop:
    cache: Cache
    calls: Path
    environment: dict[str, str]

    @contextmanager
    def install(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "install", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**self.environment, **variables},
        ) as process:
            yield process

    def finished(self, *arguments: str, **variables: str) -> tuple[int, str]:
        with self.install(*arguments, **variables) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def built(self) -> list[str]:
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()]
        return [Path(call[call.index("-o") + 1]).name.removeprefix(".").removesuffix(".part") for call in calls]

    def programs(self) -> dict[str, str]:
        directory = self.cache.version(KUBERNETES_VERSION)
        return {path.name: path.read_text() for path in directory.iterdir()} if directory.exists() else {}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    calls, tools = tmp_path / "calls", tmp_path / "bin"
    tools.mkdir()
    (tools / "go").write_text(GO.format(python=sys.executable, calls=str(calls)))
    (tools / "go").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": str(tools),
        "KONVERGE_CACHE": str(tmp_path / "cache"),
        "KONVERGE_ENVTEST_MIRROR": "http://127.0.0.1:1",
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("KUBEBUILDER_ASSETS", None)
    return Workshop(Cache(tmp_path / "cache"), calls, environment)


def read_until(stream: IO[str] | None, words: str) -> str:
    assert stream is not None
    seen = ""
    for line in stream:
        seen += line
        if words in line:
            return seen
    raise AssertionError(f"{words!r} was never said: {seen}")


def test_everything_is_built_once(workshop: Workshop) -> None:
    code, output = workshop.finished("--from", "go")
    assert (code, workshop.built()) == (0, list(PROGRAMS))
    assert workshop.programs() == dict.fromkeys(PROGRAMS, "half whole")
    assert "[4/5] build kubectl" in output
    assert not workshop.cache.go_build.exists()

    code, output = workshop.finished("--from", "go")
    assert (code, workshop.built()) == (0, list(PROGRAMS)), "the second time there is nothing to do"
    assert "[1/" not in output


@pytest.mark.skipif(Path("/usr/local/kubebuilder/bin").exists(), reason="this machine has programs of its own")
def test_a_failed_fetch_is_reported_and_followed_by_a_build(workshop: Workshop) -> None:
    code, output = workshop.finished()
    assert (code, workshop.built()) == (0, list(PROGRAMS))
    assert "could not be fetched" in output
    assert output.index("could not be fetched") < output.index("build etcd")


def test_an_interrupted_install_keeps_what_is_whole_and_goes_on_there(workshop: Workshop) -> None:
    with workshop.install("--from", "go", HANG_AT=f".{APISERVER}.part") as process:
        seen = read_until(process.stdout, f"build {APISERVER}")
        while len(workshop.built()) < 2:
            select.select([], [], [], 0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert process.returncode == 1
    assert "the same command goes on where this one stopped" in output
    assert "Traceback" not in seen + output
    assert workshop.programs() == {"etcd": "half whole"}
    assert workshop.cache.go_build.exists(), "what was compiled is kept for the next time"

    code, _ = workshop.finished("--from", "go")
    assert code == 0
    assert workshop.built() == ["etcd", APISERVER, *PROGRAMS[1:]]
    assert workshop.programs() == dict.fromkeys(PROGRAMS, "half whole")
    assert not workshop.cache.go_build.exists()


def test_a_failed_build_shows_what_go_said(workshop: Workshop) -> None:
    code, output = workshop.finished("--from", "go", FAIL_AT=f".{APISERVER}.part")
    assert code == 1
    assert f"go build of {APISERVER} failed" in output
    assert "cannot compile" in output
    assert workshop.programs() == {"etcd": "half whole"}


def test_a_second_install_waits_for_the_first_and_finds_the_work_done(workshop: Workshop) -> None:
    workshop.cache.control_plane.mkdir(parents=True)
    with (workshop.cache.control_plane / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with workshop.install("--from", "go") as process:
            read_until(process.stdout, "another install into this cache is running")
            assert process.poll() is None
            directory = workshop.cache.version(KUBERNETES_VERSION)
            directory.mkdir()
            for name in PROGRAMS:
                (directory / name).touch(mode=0o755)
            fcntl.flock(lock, fcntl.LOCK_UN)
            output, _ = process.communicate()
    assert process.returncode == 0
    assert "[1/" not in output
    assert not workshop.calls.exists(), "nothing was built"
