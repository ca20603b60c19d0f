"""Both servers, the in-memory server and a real control plane, so that clients here are tested against the behaviour of Kubernetes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from go_programs import CLIENTS, HELM, go_program
from helm_template import CHART, Template, konverge
from kubectl_runner import Kubectl

from konverge_testing import ApiServer, plugin
from konverge_testing.control_plane import ControlPlane
from konverge_testing.failures import ControlPlaneError
from konverge_testing.kubeconfigs import write_kubeconfig


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    """The kubectl of the control plane's programs: without it a test is skipped, or fails if a control plane is required."""
    found = plugin._find_programs()
    if isinstance(found, str):
        plugin._give_up(found)
    if found.kubectl is None:
        plugin._give_up(found.describe())
    return found.kubectl


@pytest.fixture(scope="session")
def go_programs_of(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Clients written in Go, built if they are missing; if that fails, the tests are skipped or fail as without a control plane."""

    def tell(line: str) -> None:
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n==> {line}", flush=True)

    def look(name: str) -> Path | str:
        declined = os.environ.get(plugin.DECLINE_VARIABLE, "") not in ("", "0")
        try:
            return go_program(name, os.environ, tell=None if declined else tell)
        except ControlPlaneError as error:
            return f"{error}, as {plugin.DECLINE_VARIABLE} is set" if declined else str(error)

    def find(name: str) -> Path:
        found = look(name)
        if isinstance(found, str):
            plugin._give_up(found)
        return found

    return find


@pytest.fixture(scope="session")
def helm_program(go_programs_of: Callable[[str], Path]) -> Path:
    return go_programs_of(HELM)


@pytest.fixture(scope="session")
def go_clients(go_programs_of: Callable[[str], Path]) -> Path:
    return go_programs_of(CLIENTS)


@pytest.fixture(scope="module")
def chart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart of the operator that the parameter, or OPERATOR of the module, names; the daemon's without a name."""
    operator = getattr(request, "param", getattr(request.module, "OPERATOR", None))
    if operator is None:
        return CHART
    folder = tmp_path_factory.mktemp("chart") / "operator"
    konverge("chart", operator, "-o", str(folder), "--name", "konverge")
    return folder


@pytest.fixture
def template(helm_program: Path, chart: Path) -> Template:
    return Template(helm_program, chart)


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
        home = plane.directory  # so that the session uses discovery once
        run = Kubectl(kubectl_program, plane.kubeconfig, home, namespace)
        await plane.create_namespace(namespace)
        yield run
        await run("delete", "namespace", namespace, "--wait=false")
        return
    async with ApiServer() as server, server.http(tls=True) as shell:
        run = Kubectl(kubectl_program, write_kubeconfig(tmp_path / "kubeconfig", shell), tmp_path, namespace)
        await run("create", "namespace", namespace)
        yield run


@dataclass(frozen=True)
class Place:
    """A server that clients find by a kubeconfig, a namespace of the test's own, and a folder for the client's files."""

    kubeconfig: Path
    namespace: str
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program: nothing of the caller's, which could name a proxy or another cluster."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}


@pytest.fixture(params=["memory", pytest.param("control-plane", marks=pytest.mark.control_plane)])
async def place(request: pytest.FixtureRequest, tmp_path: Path, numbers: Iterator[int]) -> AsyncIterator[Place]:
    namespace = f"clients-{next(numbers)}"
    if request.param == "control-plane":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        await plane.create_namespace(namespace)
        yield Place(plane.kubeconfig, namespace, tmp_path)
        await asyncio.to_thread(plane.blocking.api.delete_namespace, namespace)
        return
    async with ApiServer(namespaces=("default", "kube-system", namespace)) as server, server.http(tls=True) as shell:
        yield Place(write_kubeconfig(tmp_path / "kubeconfig", shell, namespace=namespace), namespace, tmp_path)
