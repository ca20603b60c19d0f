"""The client of the keeper: starts programs that cannot outlive this process, and follows their ends.

Guarantees: `start` returns once the program runs; `kill` once it has ended; `exit_of` knows the end of each program, expected
or not. Every method may be called from any thread; none of them needs an event loop. `close` ends all programs and removes
the directory; so does the keeper by itself when this process dies (see `keeper.py`).

Caveats: no graceful termination. Programs are killed with SIGKILL, because kube-apiserver ends on SIGTERM only when its
watches have ended, a minute later or more, and the data is thrown away.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from konverge_testing.failures import ControlPlaneError
from konverge_testing.scratch import Claim

__all__ = ["Exit", "KeeperClient"]

_ANSWER_SECONDS = 10.0
_END_SECONDS = 20.0
_SCRIPT = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a program: its exit code (negative: the signal), and why it could not be started, if so."""

    code: int
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return self.why
        return f"killed by signal {-self.code}" if self.code < 0 else f"exit code {self.code}"


class KeeperClient:
    """One keeper process with its programs; `KeeperClient.launch` starts it."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self._directory = directory
        self._process = process
        self._changed = threading.Condition()
        self._pids: dict[str, int] = {}
        self._exits: dict[str, Exit] = {}
        self._gone = False
        assert process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(process.stdout,), name="keeper", daemon=True)

    @classmethod
    def launch(cls, claim: Claim) -> KeeperClient:
        """Start a keeper for a claimed directory; from then on only the keeper holds the claim's lock."""
        try:
            process = _launch(claim)
        except OSError:
            shutil.rmtree(claim.directory, ignore_errors=True)
            raise
        finally:
            os.close(claim.lock)
        keeper = cls(claim.directory, process)
        keeper._listener.start()
        return keeper

    @property
    def pid(self) -> int:
        """The keeper's own process id."""
        return self._process.pid

    def pids(self) -> dict[str, int]:
        """Return the process ids of the programs that run."""
        with self._changed:
            return dict(self._pids)

    def exit_of(self, name: str) -> Exit | None:
        """Return how a program ended, None while it runs or if it was never started."""
        with self._changed:
            return Exit(-9, "its keeper was killed") if self._gone else self._exits.get(name)

    def start(self, name: str, argv: Sequence[str], log: Path) -> None:
        """Start a program; its output is appended to `log`. If it cannot be started, `exit_of` reports it."""
        with self._changed:
            self._exits.pop(name, None)
            self._send_command({"do": "start", "name": name, "argv": list(argv), "log": str(log)})
            self._await(lambda: name in self._pids or name in self._exits, f"{name} to start")

    def kill(self, name: str) -> None:
        """Kill a program and wait for its end; nothing if it does not run."""
        with self._changed:
            if name not in self._pids:
                return
            self._send_command({"do": "kill", "name": name})
            self._await(lambda: name not in self._pids, f"{name} to end")

    def wait_for_news(self, seconds: float) -> None:
        """Wait until a program starts or ends, at most so long."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        """End all programs, remove the directory, end the keeper; may be called twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            # An explicit command too: a forked child of this process may hold a copy of the pipe, which then never ends.
            self._send_command({"do": "end"})
        except ControlPlaneError:
            pass  # it has already ended, or was closed before
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._process.stdout.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _send_command(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise ControlPlaneError("the keeper of this control plane is gone, and its programs with it") from error

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        if not self._changed.wait_for(lambda: self._gone or condition(), _ANSWER_SECONDS):
            raise ControlPlaneError(f"waited {_ANSWER_SECONDS:g} s for {what}")
        if self._gone:
            raise ControlPlaneError("the keeper of this control plane is gone, and its programs with it")

    def _listen(self, output: IO[bytes]) -> None:
        for line in output:
            self._note(json.loads(line))
        with self._changed:
            self._gone = True
            self._pids.clear()
            self._changed.notify_all()

    def _note(self, message: dict[str, Any]) -> None:
        with self._changed:
            name = message["name"]
            if message["did"] == "started":
                self._pids[name] = message["pid"]
            else:
                self._pids.pop(name, None)
                self._exits[name] = Exit(message["code"], message.get("why", ""))
            self._changed.notify_all()


def _launch(claim: Claim) -> subprocess.Popen[bytes]:
    """Start the keeper in a session of its own, so that a Ctrl-C at the terminal reaches only this process."""
    with (claim.directory / "keeper.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), str(claim.directory), str(claim.lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            pass_fds=(claim.lock,),
        )
