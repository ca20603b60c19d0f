"""Runs the program on client-go (`go_clients/`): orders are sent as lines, its reports are read as JSON objects."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


class GoClient:
    """One running program."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def order(self, *words: str) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words).encode() + b"\n")
        await self.process.stdin.drain()

    async def hears(self, said: str = "", *, seconds: float = 90) -> dict[str, Any]:
        """Return the program's next report; with `said`, assert that it has this type."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            line = await self.process.stdout.readline()
        assert line, "it has ended"
        found: dict[str, Any] = json.loads(line)
        assert said in ("", found["said"]), found
        return found

    async def end(self) -> int:
        """End its input, and with it the program."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(60):
            return await self.process.wait()

    async def kill(self) -> None:
        """End it between two instructions."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()


@asynccontextmanager
async def go_client(program: Path, environment: Mapping[str, str], *arguments: str) -> AsyncIterator[GoClient]:
    """Run the program until the block ends, with or without an error."""
    process = await asyncio.create_subprocess_exec(str(program), *arguments, stdin=PIPE, stdout=PIPE, env=environment)
    client = GoClient(process)
    try:
        yield client
    finally:
        await client.kill()
