"""A contestant as a process: start, output, measurement from outside, end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import machine
from peers.machine import Memory
from peers.protocol import Ready, Stats, parse

from konverge.clock import monotonic

END_SECONDS = 30
ANSWER_SECONDS = 60
TAIL = 15


class Died(Exception):
    """A contestant ended, or did not do what it should; the message has its last words."""


class Running:
    """A running contestant; `started` is the time of its start."""

    def __init__(self, process: asyncio.subprocess.Process, started: float, log: Path) -> None:
        self.process, self.started, self.log = process, started, log
        self.ready_at = 0.0
        self.said: Ready | None = None
        self._ready = asyncio.Event()
        self._stats: asyncio.Queue[Stats] = asyncio.Queue()

    async def listen(self) -> None:
        """Read its output until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            match parse(line):
                case Ready() as ready:
                    self.said, self.ready_at = ready, monotonic()
                    self._ready.set()
                case Stats() as stats:
                    self._stats.put_nowait(stats)
                case None:
                    pass

    async def ready(self, seconds: float) -> float | None:
        """Wait until it is ready; returns the seconds until its caches were synced, None if it has no such moment."""
        await self.alive_during(self._ready.wait(), seconds)
        assert self.said is not None
        return self.ready_at - self.started if self.said.synced else None

    async def alive_during(self, work: Any, seconds: float) -> Any:
        """Await something for so long; raises Died if it takes longer or the contestant ends."""
        task, ended = asyncio.ensure_future(work), asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({task, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if ended.done():
                raise Died(f"ended with code {self.process.returncode}: {self.last_words()}")
            raise Died(f"not done after {seconds:.0f} s: {self.last_words()}")
        finally:
            for each in (task, ended):
                each.cancel()
            await asyncio.gather(task, ended, return_exceptions=True)

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL:]
        return " | ".join(line.strip()[:300] for line in lines) or "it said nothing"

    def begin_stalls(self) -> None:
        """Start its measurement of its loop's stalls, if it supports that."""
        if self.said is not None and self.said.stalls:
            self.process.send_signal(signal.SIGUSR2)

    async def stats(self) -> Stats:
        """Request its counters."""
        self.process.send_signal(signal.SIGUSR1)
        result: Stats = await self.alive_during(self._stats.get(), ANSWER_SECONDS)
        return result

    @property
    def pids(self) -> list[int]:
        return machine.tree(self.process.pid)

    def cpu(self) -> float:
        """CPU seconds so far."""
        return machine.cpu_seconds(self.pids)

    def memory(self) -> Memory:
        """Resident memory."""
        return machine.memory(self.pids)


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path
) -> AsyncIterator[Running]:
    """Run a contestant as long as the block lives; it gets SIGTERM at the end, and is killed if it continues."""
    with log.open("ab") as errors:
        started = monotonic()
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environment),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=2**20,
            start_new_session=True,
        )
    manifest = Running(process, started, log)
    listening = asyncio.create_task(manifest.listen())
    try:
        yield manifest
    finally:
        await _end(process)
        await asyncio.gather(listening, return_exceptions=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
