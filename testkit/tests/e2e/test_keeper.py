"""The keeper of programs, with real processes; no control plane is needed."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from konverge import clock
from konverge_testing.failures import ControlPlaneError
from konverge_testing.processes import KeeperClient
from konverge_testing.scratch import claim

pytestmark = pytest.mark.linux
SLEEPER = ["/bin/sleep", "600"]

PARENT = """
import sys, threading
from pathlib import Path
from konverge_testing.processes import KeeperClient
from konverge_testing.scratch import claim

claimed = claim(Path(sys.argv[1]))
keeper = KeeperClient.launch(claimed)
starter = threading.Thread(target=lambda: keeper.start("sleeper", ["/bin/sleep", "600"], claimed.directory / "log"))
starter.start()
starter.join()
print(claimed.directory, keeper.pid, keeper.pids()["sleeper"], flush=True)
sys.stdin.read()
"""


def gone(pid: int, seconds: float = 90.0) -> bool:
    """Wait until a process has ended; a zombie counts as ended."""
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        select.select([], [], [], 0.02)
    return False


def removed(path: Path, seconds: float = 90.0) -> bool:
    deadline = clock.monotonic() + seconds
    while path.exists() and clock.monotonic() < deadline:
        select.select([], [], [], 0.02)
    return not path.exists()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def keeper(root: Path) -> Iterator[KeeperClient]:
    keeper = KeeperClient.launch(claim(root))
    yield keeper
    keeper.close()


@pytest.fixture
def parent(root: Path) -> Iterator[tuple[subprocess.Popen[str], Path, int, int]]:
    """A process with a keeper and a program, started from a thread that has ended since."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    directory, keeper, sleeper = process.stdout.readline().split()
    yield process, Path(directory), int(keeper), int(sleeper)
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_program_runs_until_it_is_killed(keeper: KeeperClient, tmp_path: Path) -> None:
    keeper.start("sleeper", SLEEPER, tmp_path / "log")
    pid = keeper.pids()["sleeper"]
    assert not gone(pid, seconds=0.1)
    assert keeper.exit_of("sleeper") is None
    keeper.kill("sleeper")
    assert gone(pid)
    assert str(keeper.exit_of("sleeper")) == "killed by signal 9"
    keeper.kill("sleeper")


def test_the_end_of_a_program_is_noticed_with_code_and_log(keeper: KeeperClient, tmp_path: Path) -> None:
    keeper.start("failing", ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], tmp_path / "log")
    while keeper.exit_of("failing") is None:
        keeper.wait_for_news(1.0)
    assert str(keeper.exit_of("failing")) == "exit code 3"
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_a_program_that_does_not_exist_ends_with_the_reason(keeper: KeeperClient, tmp_path: Path) -> None:
    keeper.start("ghost", [str(tmp_path / "ghost")], tmp_path / "log")
    assert "No such file" in str(keeper.exit_of("ghost"))
    assert keeper.pids() == {}


def test_a_program_can_be_started_again_under_its_name(keeper: KeeperClient, tmp_path: Path) -> None:
    keeper.start("sleeper", SLEEPER, tmp_path / "log")
    first = keeper.pids()["sleeper"]
    keeper.kill("sleeper")
    keeper.start("sleeper", SLEEPER, tmp_path / "log")
    assert keeper.pids()["sleeper"] != first
    assert keeper.exit_of("sleeper") is None


def test_closing_ends_programs_and_removes_the_directory(root: Path, tmp_path: Path) -> None:
    claimed = claim(root)
    keeper = KeeperClient.launch(claimed)
    keeper.start("sleeper", SLEEPER, tmp_path / "log")
    pids = (keeper.pid, keeper.pids()["sleeper"])
    keeper.close()
    assert all(map(gone, pids))
    assert not claimed.directory.exists()
    keeper.close()
    with pytest.raises(ControlPlaneError, match="is gone"):
        keeper.start("sleeper", SLEEPER, tmp_path / "log")


def test_programs_outlive_the_thread_that_started_them(parent: tuple[object, Path, int, int]) -> None:
    _, directory, keeper, sleeper = parent
    assert not gone(sleeper, seconds=0.3)
    assert not gone(keeper, seconds=0.0)
    assert directory.exists()


def test_nothing_is_left_when_the_parent_is_killed(parent: tuple[subprocess.Popen[str], Path, int, int]) -> None:
    process, directory, keeper, sleeper = parent
    process.send_signal(signal.SIGKILL)
    assert gone(sleeper)
    assert gone(keeper)
    assert removed(directory)


def test_programs_die_with_a_killed_keeper_whose_directory_is_swept_later(
    parent: tuple[subprocess.Popen[str], Path, int, int], root: Path
) -> None:
    process, directory, keeper, sleeper = parent
    os.kill(keeper, signal.SIGKILL)
    assert gone(sleeper)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert directory.exists(), "nobody was left to remove it"
    following = claim(root)
    os.close(following.lock)
    assert not directory.exists()


def test_the_end_of_the_keeper_is_noticed(keeper: KeeperClient, tmp_path: Path) -> None:
    keeper.start("sleeper", SLEEPER, tmp_path / "log")
    os.kill(keeper.pid, signal.SIGKILL)
    while keeper.exit_of("sleeper") is None:
        keeper.wait_for_news(1.0)
    assert str(keeper.exit_of("sleeper")) == "its keeper was killed"
    with pytest.raises(ControlPlaneError, match="is gone"):
        keeper.start("sleeper", SLEEPER, tmp_path / "log")
