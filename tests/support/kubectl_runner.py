"""Runs kubectl, and programs that are called like it, beside a server that lives in the test's own loop."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """Runs kubectl against one server, in a namespace of the test's own."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path, namespace: str) -> None:
        self.program = program
        self.kubeconfig = kubeconfig
        self.home = home
        self.namespace = namespace

    async def start(self, *command: str, **environment: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            str(self.program),
            f"--namespace={self.namespace}",
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), **environment},
        )

    async def run(self, *command: str, stdin: str | dict[str, Any] = "", **environment: str) -> Ran:
        """Run a command until it exits, with any exit code; a dict is sent to its standard input as JSON."""
        process = await self.start(*command, **environment)
        given = stdin if isinstance(stdin, str) else json.dumps(stdin)
        try:
            async with asyncio.timeout(40):
                out, err = await process.communicate(given.encode())
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    async def __call__(self, *command: str, stdin: str | dict[str, Any] = "", **environment: str) -> str:
        """Run a command that must succeed; returns its output."""
        ran = await self.run(*command, stdin=stdin, **environment)
        assert ran.code == 0, f"{self.program.name} {' '.join(command)}: {ran.code}\n{ran.err}\n{ran.out}"
        return ran.out

    async def refused(self, *command: str, stdin: str | dict[str, Any] = "") -> str:
        """Run a command that must fail; returns its error output."""
        ran = await self.run(*command, stdin=stdin)
        assert ran.code != 0, ran.out
        return ran.err

    async def read(self, *command: str) -> dict[str, Any]:
        """Read an object, or a list, whole."""
        found: dict[str, Any] = json.loads(await self("get", *command, "-o", "json"))
        return found
