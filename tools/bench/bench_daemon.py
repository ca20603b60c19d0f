"""The daemon at rest: memory and CPU of `konverge run` with all families while nothing changes, against a real kube-apiserver.

Once with the mounted files of a ServiceAccount, as in a pod, and once with a kubeconfig, which needs the import of kubernetes_asyncio. The
account has exactly the rights that `konverge rbac` prints, and the API server serves every kind that the families watch, so that each
controller runs. The process is measured when it has been ready for a while; memory is resident memory, which counts pages of libraries that
other processes share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import PORTS, on_control_plane
from operators import Operator
from peers.machine import Memory, cpu_seconds, memory, tree
from rows import QUICK, Row, row

from konverge.client import Client, ClientConfig
from konverge.clock import monotonic
from konverge_testing import ControlPlane, install_crds
from konverge_testing.flux import flux_crds

QUIET: Final = 2.0 if QUICK else 10.0
IDLE: Final = 5.0 if QUICK else 60.0
NAMESPACE, ACCOUNT = "konverge", "daemon"
PROGRAM: Final = (sys.executable, "-m", "konverge.daemon.main")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to the API server: its name, the arguments of the process, and the resident MiB that it should stay within."""

    name: str
    words: tuple[str, ...]
    target: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A process at rest."""

    memory: Memory
    cpu: float
    controllers: int


def run() -> list[Row]:
    """Measure both ways and return a row per figure."""
    return on_control_plane(_measured)


async def _measured() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="konverge-daemon-") as scratch:
        async with ControlPlane() as plane:
            await _prepared(plane)
            mount = Path(scratch) / "mount"
            await plane.service_account_files(mount, namespace=NAMESPACE, name=ACCOUNT)
            kubeconfig = await plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
            in_cluster = {"KUBERNETES_SERVICE_HOST": plane.host, "KUBERNETES_SERVICE_PORT": str(plane.port)}
            ways = {
                Way("ServiceAccount", ("--set", f"service_account={mount}"), 80): in_cluster,
                Way("kubeconfig", ("--kubeconfig", str(kubeconfig)), 130): {},
            }
            return [
                figure for way, variables in ways.items() for figure in _rows(way, await _rest(way, variables, scratch))
            ]


async def _prepared(plane: ControlPlane) -> None:
    """Install every kind that is watched, and the account with its rights."""
    await plane.create_namespace(NAMESPACE)
    ours = json.loads(await _said("crds", "--output", "json"))
    config = await ClientConfig.load(kubeconfig=plane.admin_kubeconfig)
    async with Client(config, name="bench") as admin:
        await install_crds(admin, [*ours["items"], *flux_crds()])
    await plane.kubectl("apply", "-f", "-", stdin=await _said("rbac", "--service-account", f"{NAMESPACE}/{ACCOUNT}"))


async def _said(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(*PROGRAM, *words, stdout=asyncio.subprocess.PIPE)
    message, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"konverge {' '.join(words)} ended with {process.returncode}")
    return message.decode()


async def _rest(way: Way, variables: Mapping[str, str], scratch: str) -> Rest:
    """Start the daemon, wait until it is ready and has been quiet, and watch it idle."""
    daemon = Operator((*PORTS, *way.words), Path(scratch) / f"{way.name}.log", environment=variables)
    async with daemon.running_for():
        await daemon.ready()
        serving = daemon.said("serving")
        assert serving is not None
        assert daemon.process is not None
        pid = daemon.process.pid
        await asyncio.sleep(QUIET)
        began, before = monotonic(), cpu_seconds(tree(pid))
        await asyncio.sleep(IDLE)
        share = (cpu_seconds(tree(pid)) - before) / (monotonic() - began)
        return Rest(memory(tree(pid)), 100 * share, len(serving["controllers"]))


def _rows(way: Way, rest: Rest) -> list[Row]:
    how = (
        f"konverge run, {rest.controllers} controllers of all families, nothing stored, {QUIET:g} s after it was ready"
    )
    name = f"idle, {way.name}:"
    memory_how = f"{how}, and {IDLE:g} s idle"
    return [
        row(f"{name} resident memory", rest.memory.now, "MiB", memory_how, f"<= {way.target}"),
        row(f"{name} peak memory", rest.memory.peak, "MiB", "resident, the highest since it was started"),
        row(f"{name} CPU", rest.cpu, "%", f"of one core, over {IDLE:g} s"),
    ]
