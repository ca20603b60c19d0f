"""Runs `konverge apiserver run` as a program, and ends it as a user would."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 60.0


@dataclass(frozen=True)
class Served:
    """A running program that has reported its readiness."""

    process: Process
    kubeconfig: Path
    line: str

    async def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; returns the exit code, and the rest of both outputs."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(_SECONDS):
            output, errors = await self.process.communicate()
        return self.process.returncode or 0, (output + errors).decode()


@asynccontextmanager
async def served(kubeconfig: Path, *words: str | Path) -> AsyncIterator[Served]:
    """Run the program until the block ends; then it has to exit cleanly."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", "apiserver", "run", "--kubeconfig", kubeconfig, *words),
        env=dict(os.environ),
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(_SECONDS):
        line = (await process.stdout.readline()).decode()
    running = Served(process, kubeconfig, line)
    try:
        yield running
    finally:
        code, said = await running.end()
        assert code == 0, said
