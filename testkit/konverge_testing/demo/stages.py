"""The API server of a demo: in memory, or a real one; both over HTTPS on loopback, with RBAC.

Guarantees: imports of a stage happen when it is entered; an error names the missing extra or program. Leaving a stage removes the folder
with its kubeconfig and keys.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from konverge.client import ClientConfig

__all__ = ["STAGES", "Stage", "memory", "real"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running API server, with its files and credentials."""

    directory: Path
    """The folder of the demo's files; removed at the end."""
    kubeconfig: Path
    """The administrator's kubeconfig."""
    config: ClientConfig
    """The administrator's configuration."""
    act_as: Callable[[str, tuple[str, ...]], Awaitable[ClientConfig]]
    """Returns the configuration of a user in groups, by a client certificate, which does not expire as a token does."""
    kubectl: str
    """The command of kubectl, "" if it is not installed."""
    runs_jobs: bool = False
    """Whether a Job controller creates pods for Jobs."""


@asynccontextmanager
async def memory() -> AsyncIterator[Stage]:
    """Run an API server in this process."""
    _require("cel_expr_python")
    from konverge_testing.apiserver.requests import User
    from konverge_testing.kubeconfigs import client_config, write_kubeconfig
    from konverge_testing.memory_server import ApiServer

    click.echo("==> starting an API server in memory")
    with tempfile.TemporaryDirectory(prefix="konverge-demo-") as folder:
        async with ApiServer() as server, server.http(tls=True) as shell:

            async def act_as(name: str, groups: tuple[str, ...]) -> ClientConfig:
                return client_config(shell, user=User(name, groups))

            directory = Path(folder)
            yield Stage(
                directory=directory,
                kubeconfig=write_kubeconfig(directory / "kubeconfig", shell),
                config=client_config(shell),
                act_as=act_as,
                kubectl=_kubectl(),
            )


@asynccontextmanager
async def real() -> AsyncIterator[Stage]:
    """Run etcd, kube-apiserver and kube-controller-manager; raises ControlPlaneError if they are not installed."""
    from konverge_testing import ControlPlane, ControlPlaneConfig

    click.echo("==> starting etcd, kube-apiserver and kube-controller-manager")
    async with ControlPlane(ControlPlaneConfig(controllers=True)) as plane:

        async def act_as(name: str, groups: tuple[str, ...]) -> ClientConfig:
            return await ClientConfig.from_kubeconfig(plane.user_kubeconfig(name, groups))

        result = plane.binaries.kubectl
        yield Stage(
            directory=plane.directory,
            kubeconfig=plane.kubeconfig,
            config=await ClientConfig.from_kubeconfig(plane.kubeconfig),
            act_as=act_as,
            kubectl=str(result) if result else _kubectl(),
            runs_jobs=True,
        )


STAGES: Final[Mapping[str, Callable[[], AbstractAsyncContextManager[Stage]]]] = {"memory": memory, "real": real}


def _require(module: str) -> None:
    if find_spec(module) is None:
        raise click.ClickException(
            f"konverge demo needs {module}, which comes with an extra: pip install 'konverge[testing]'"
        )


def _kubectl() -> str:
    """Find kubectl: on the path, or beside the programs of a control plane."""
    if shutil.which("kubectl"):
        return "kubectl"
    from konverge_testing.binaries import find_binaries
    from konverge_testing.failures import BinariesMissing

    try:
        return str(find_binaries(os.environ).kubectl or "")
    except BinariesMissing:
        return ""
