"""A process that has imported the daemon already and forks it on demand: a start costs milliseconds instead of a second of CPU.

Run as a program it reads orders from standard input, one JSON line each, `{"arguments", "log", "environment"}`; it writes the pid of each
new process, and reports its exit. A fork is a process like any other: SIGKILL ends it between two instructions.

`ForkServer` is its client for tests.
"""

import asyncio
import contextlib
import importlib
import json
import os
import select
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

# --- in the test's process ------------------------------------------------------------------------------------------------------


class Forked:
    """A process that the forkserver forked; behaves as far as needed like `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()

    async def wait(self) -> int:
        """Wait for its end; returns its exit code, negative for a signal."""
        await self.ended.wait()
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)


class ForkServer:
    """Starts processes of `konverge run` by forking; `async with` starts and ends the server and its remaining processes."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._born: deque[asyncio.Future[Forked]] = deque()
        self._alive: dict[int, Forked] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(sys.executable, __file__, stdin=PIPE, stdout=PIPE)
        self._reader = asyncio.create_task(self._listen(self._process), name="forkserver")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._reader is not None
        for forked in self._alive.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(forked.pid, signal.SIGKILL)
        self._process.stdin.close()
        await self._reader
        await self._process.wait()

    async def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Forked:
        """Fork a process of `konverge run` with these arguments; its output is added to the log."""
        assert self._process is not None
        assert self._process.stdin is not None
        born: asyncio.Future[Forked] = asyncio.get_running_loop().create_future()
        self._born.append(born)
        order = {"arguments": list(arguments), "log": str(log), "environment": dict(environment)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return await born

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            word, pid, *code = line.split()
            if word == b"born":
                forked = self._alive[int(pid)] = Forked(int(pid))
                self._born.popleft().set_result(forked)
            else:
                forked = self._alive.pop(int(pid))
                forked.returncode = int(code[0])
                forked.ended.set()


# --- in the forkserver --------------------------------------------------------------------------------------------------------------

_PRELOADED: Final = (
    "konverge.client.kubeconfig",
    "konverge.daemon.engine",
    "konverge.daemon.families",
    "konverge.daemon.programs",
    "konverge.daemon.run",
    *(entry.module for entry in entry_points(group="konverge.families")),
    "konverge.runtime.manager.manager",
    "kubernetes_asyncio.client",  # the library imports it only to read a kubeconfig: half a second of CPU
    "kubernetes_asyncio.config",
)


def _tell(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def _reap() -> None:
    """Report every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _tell(f"dead {ended[0]} {os.waitstatus_to_exitcode(ended[1])}")


def _live(order: Mapping[str, Any]) -> NoReturn:
    """Be the daemon."""
    from konverge.daemon.main import program

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(order["environment"])
    code = 0
    try:
        program(["run", *order["arguments"]], prog_name="konverge")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Fork on demand until standard input ends; then wait for all that was forked."""
    for module in _PRELOADED:
        importlib.import_module(module)
    # A SIGCHLD writes a byte into a pipe, so an exit between a check of the children and the wait for orders is not missed.
    bell, ringing = os.pipe()
    os.set_blocking(ringing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ringing)
    orders = b""
    while True:
        ready, _, _ = select.select([0, bell], [], [])
        if 0 in ready:
            if not (chunk := os.read(0, 65536)):
                break
            *lines, orders = (orders + chunk).split(b"\n")
            for line in lines:
                pid = os.fork()
                if pid == 0:
                    _live(json.loads(line))
                _tell(f"born {pid}")
        if bell in ready:
            os.read(bell, 65536)
            _reap()
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.wait()
            _tell(f"dead {pid} {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
