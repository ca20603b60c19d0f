"""kubectl on both servers: the one in memory, and a real control plane, so that what is expected here is what Kubernetes does."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from konverge.testing import plugin
from konverge.testing.apiserver.kubeconfig import write_kubeconfig
from konverge.testing.apiserver.server import ApiServer
from konverge.testing.control_plane import ControlPlane


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
        """Run a command to its end, whatever that is; a dict goes in as JSON."""
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
        """Run a command that is to succeed; returns what it printed."""
        ran = await self.run(*command, stdin=stdin, **environment)
        assert ran.code == 0, f"kubectl {' '.join(command)}: {ran.code}\n{ran.err}\n{ran.out}"
        return ran.out

    async def refused(self, *command: str, stdin: str | dict[str, Any] = "") -> str:
        """Run a command that is to fail; returns what it complained about."""
        ran = await self.run(*command, stdin=stdin)
        assert ran.code != 0, ran.out
        return ran.err

    async def read(self, *command: str) -> dict[str, Any]:
        """Read an object, or a list, whole."""
        found: dict[str, Any] = json.loads(await self("get", *command, "-o", "json"))
        return found


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    """The kubectl of the control plane's programs: where there is none, a test is skipped, or fails where one is required."""
    found = plugin._look()
    if isinstance(found, str):
        plugin._give_up(found)
    if found.kubectl is None:
        plugin._give_up(found.describe())
    return found.kubectl


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture(params=["memory", pytest.param("control-plane", marks=pytest.mark.control_plane)])
async def kubectl(
    request: pytest.FixtureRequest, kubectl_program: Path, tmp_path: Path, numbers: Iterator[int]
) -> AsyncIterator[Kubectl]:
    namespace = f"kubectl-{next(numbers)}"
    if request.param == "control-plane":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        home = plane.directory  # so that the session asks for discovery once
        run = Kubectl(kubectl_program, plane.kubeconfig, home, namespace)
        await plane.create_namespace(namespace)
        yield run
        await run("delete", "namespace", namespace, "--wait=false")
        return
    async with ApiServer() as server, server.http(tls=True) as shell:
        run = Kubectl(kubectl_program, write_kubeconfig(tmp_path / "kubeconfig", shell), tmp_path, namespace)
        await run("create", "namespace", namespace)
        yield run
