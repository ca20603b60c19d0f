"""An operator as a process of its own, for tests that end it in ways that a coroutine does not allow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from forkserver import ForkServer
from prometheus_client.parser import text_string_to_metric_families

_POLL = 0.02
_REPOSITORY = Path(__file__).parents[2]


class Process(Protocol):
    """The used part of a process."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, None while it runs."""

    async def wait(self) -> int:
        """Wait for its end."""

    def terminate(self) -> None:
        """Send SIGTERM."""


class Operator:
    """`konverge run` with these arguments; it may be started again after its end. Its log is appended to a file.

    `environment` is its whole environment, apart from the variables that find Python. A `forkserver` speeds up its starts. `program`
    replaces this tree's `konverge`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        forkserver: ForkServer | None = None,
        program: str = "",
    ) -> None:
        self._program = (program,) if program else (sys.executable, "-m", "konverge.daemon.main")
        self._arguments = tuple(arguments)
        self._environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(log.parent), **(environment or {})}
        self._forkserver = forkserver
        self.log = log
        self.process: Process | None = None
        self.starts = 0
        self._offset = 0

    async def start(self) -> None:
        """Start it; it is not ready yet."""
        assert self.process is None or self.process.returncode is not None
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        if self._forkserver is not None:
            self.process = await self._forkserver.start(self._arguments, self.log, self._environment)
        else:
            self.process = await self._spawn()
        self.starts += 1

    async def _spawn(self) -> Process:
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(*self._program, "run", *self._arguments),
                cwd=_REPOSITORY,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.returncode is None

    def kill(self) -> None:
        """Send SIGKILL: the process runs no further instruction."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    async def stop(self) -> int:
        """Send SIGTERM and wait for the end; returns its exit code."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        async with asyncio.timeout(40):
            return await self.process.wait()

    async def ended(self) -> int:
        """Wait until it has ended; returns its exit code, negative for a signal."""
        assert self.process is not None
        return await self.process.wait()

    def said(self, event: str) -> dict[str, Any] | None:
        """Return the newest log line of this event since the last start, None if there is none."""
        if not self.log.exists():  # a forked process opens its log itself, a moment later
            return None
        with self.log.open("rb") as log:
            log.seek(self._offset)
            lines = [line for line in log if line.startswith(b"{") and line.endswith(b"}\n")]
        entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return next((entry for entry in reversed(entries) if entry["event"] == event), None)

    async def answers(self, path: str, *, part: str = "health") -> tuple[int, str]:
        """Ask a path of its server of metrics, health and debug, once it serves."""
        async with asyncio.timeout(90):
            while (serving := self.said("serving")) is None:
                assert self.running, self.story()
                await asyncio.sleep(_POLL)
        async with aiohttp.ClientSession() as session, session.get(f"{serving[part]}{path}") as answer:
            return answer.status, await answer.text()

    async def gauge(self, name: str, label: str) -> dict[str, float]:
        """Return the values of one metric by one of its labels."""
        _, text = await self.answers("/metrics", part="metrics")
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {sample.labels[label]: sample.value for sample in samples if sample.name == name}

    async def ready(self, *, timeout: float = 90.0) -> None:
        """Wait until /readyz is ok."""
        status, text = 0, ""
        try:
            async with asyncio.timeout(timeout):
                while status != 200:
                    status, text = await self.answers("/readyz")
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise AssertionError(f"not ready: {text}\n{self.story()}") from None

    def story(self, lines: int = 40) -> str:
        """Return the end of its log."""
        text = self.log.read_text() if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @contextlib.asynccontextmanager
    async def running_for(self) -> AsyncIterator[Operator]:
        """Run it for a block; no process is left afterwards."""
        await self.start()
        try:
            yield self
        finally:
            if self.running:
                self.kill()
            assert self.process is not None
            await self.process.wait()
