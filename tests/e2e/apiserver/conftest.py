"""kubectl on both servers: the one in memory, and a real control plane, so that what is expected here is what Kubernetes does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from kubectl_runner import Kubectl

from konverge.testing import plugin
from konverge.testing.apiserver.kubeconfig import write_kubeconfig
from konverge.testing.apiserver.server import ApiServer
from konverge.testing.control_plane import ControlPlane


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
