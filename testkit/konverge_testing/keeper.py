"""A small process that keeps the programs of one control plane, so that they cannot outlive the process that started them.

Run as a script, never imported by konverge: `python -I -S keeper.py DIRECTORY LOCK_FD`. It needs the standard library only.

Guarantees
- It reads commands from its standard input, one JSON object per line, and reports on its standard output:
  `{"do": "start", "name": ..., "argv": [...], "log": ...}` -> `{"did": "started", "name": ..., "pid": ...}`,
  `{"do": "kill", "name": ...}`; `{"do": "end"}`; the end of every program -> `{"did": "exited", "name": ..., "code": ...}`.
- On the command to end, at the end of its standard input, or when its parent has died, however it died, it kills every program
  with SIGKILL, waits for their ends, removes DIRECTORY and ends.
- On Linux the programs also die when the keeper itself is killed (parent-death signal). That signal is bound to the
  parent's *thread*; the keeper has only one thread, so the programs are the keeper's children and not a multi-threaded
  program's.
- It holds the lock on LOCK_FD as long as it lives, and hands it to no program: a free lock means that DIRECTORY belongs
  to a dead keeper.

Caveats: on systems other than Linux the programs survive if only the keeper is killed with SIGKILL.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_LOOK_AT_PARENT_SECONDS = 1.0


class Keeper:
    """The loop: commands in, ends of programs out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._parent = os.getppid()
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self._tie = _tie_to(os.getpid()) if sys.platform == "linux" else None

    def run(self) -> None:
        """Serve until the other side has ended, then remove everything."""
        try:
            self._serve(_child_signals())
        finally:
            self._end_all()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self, child_ended: int) -> None:
        pending = b""
        while os.getppid() == self._parent:
            readable, _, _ = select.select([0, child_ended], [], [], _LOOK_AT_PARENT_SECONDS)
            if child_ended in readable:
                os.read(child_ended, 4096)
            self._report_ends()
            if 0 in readable:
                data = os.read(0, 65536)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for command in map(json.loads, lines):
                    if command["do"] == "end":
                        return
                    self._obey(command)

    def _obey(self, command: dict[str, Any]) -> None:
        if command["do"] == "start":
            self._start(command["name"], command["argv"], command["log"])
        elif command["do"] == "kill" and command["name"] in self._programs:
            self._programs[command["name"]].kill()

    def _start(self, name: str, argv: list[str], log: str) -> None:
        try:
            with Path(log).open("ab") as output:
                self._programs[name] = self._spawn(argv, output)
        except OSError as error:
            self._send({"did": "exited", "name": name, "code": 127, "why": str(error)})
            return
        self._send({"did": "started", "name": name, "pid": self._programs[name].pid})

    def _spawn(self, argv: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._directory,
            preexec_fn=self._tie,  # noqa: PLW1509  this process has one thread, so running Python after the fork is safe
        )

    def _report_ends(self) -> None:
        for name, program in list(self._programs.items()):
            code = program.poll()
            if code is not None:
                del self._programs[name]
                self._send({"did": "exited", "name": name, "code": code})

    def _end_all(self) -> None:
        for program in self._programs.values():
            program.kill()
        for program in self._programs.values():
            program.wait()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            pass  # the reader has ended: the end of standard input follows


def _tie_to(parent: int) -> Callable[[], None]:
    """Return what a program runs between fork and exec: ask the kernel for SIGKILL at the keeper's end."""
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the keeper died before the request to the kernel
            os._exit(1)

    return tie


def _child_signals() -> int:
    """Return a descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def main(arguments: list[str]) -> None:
    """Keep programs for the process on the other end of standard input."""
    os.set_inheritable(int(arguments[1]), False)
    Keeper(Path(arguments[0])).run()


if __name__ == "__main__":
    main(sys.argv[1:])
