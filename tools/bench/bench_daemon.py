"""The daemon at rest: what `konverge run` with all families holds and burns while nothing happens, against a real kube-apiserver.

Once with the mounted files of a ServiceAccount, as in a pod, and once with a kubeconfig, for which kubernetes_asyncio is imported. The account has
exactly what `konverge rbac` prints, and every kind is served that the families watch, so that each controller runs. The process is measured
when it has been ready for a while; memory is resident memory, which counts pages of libraries that other processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiohttp
from peers.machine import Memory, cpu_seconds, memory, tree

from konverge.client import Client, ClientConfig
from konverge.clock import monotonic
from konverge_testing import BinariesMissing, ControlPlane, install_crds
from konverge_testing.binaries import find_binaries
from konverge_testing.flux import flux_crds

Row: TypeAlias = dict[str, Any]

QUICK: Final = bool(os.environ.get("BENCH_QUICK"))
QUIET: Final = 2.0 if QUICK else 10.0
IDLE: Final = 5.0 if QUICK else 60.0
PATIENCE: Final = 60.0
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
    try:
        find_binaries(os.environ)
    except BinariesMissing as missing:
        print(f"skipped: no control plane to measure on ({missing})", file=sys.stderr)
        return []
    return asyncio.run(_measured())


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
            return [row for way, variables in ways.items() for row in _rows(way, await _rest(way, variables, scratch))]


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
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"konverge {' '.join(words)} ended with {process.returncode}")
    return said.decode()


async def _rest(way: Way, variables: Mapping[str, str], scratch: str) -> Rest:
    """Start the daemon, wait until it is ready and has been quiet, watch it idle, and end it."""
    async with _running(way, variables, scratch) as (process, serving):
        await _ready(process, serving["health"])
        await asyncio.sleep(QUIET)
        began, before = monotonic(), cpu_seconds(tree(process.pid))
        await asyncio.sleep(IDLE)
        share = (cpu_seconds(tree(process.pid)) - before) / (monotonic() - began)
        return Rest(memory(tree(process.pid)), 100 * share, len(serving["controllers"]))


@contextlib.asynccontextmanager
async def _running(
    way: Way, variables: Mapping[str, str], scratch: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("KONVERGE_", "KUBE"))}
    log = Path(scratch) / f"{way.name}.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(
                *PROGRAM,
                "run",
                "--metrics",
                "127.0.0.1:0",
                "--health",
                "127.0.0.1:0",
                "--debug",
                "127.0.0.1:0",
                "--log-format",
                "json",
            ),
            *way.words,
            env={**clean, **variables, "HOME": scratch},
            stderr=file,
        )
        try:
            yield process, await _serving(process, log)
        except BaseException:
            print(log.read_text(), file=sys.stderr)
            raise
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


async def _serving(process: asyncio.subprocess.Process, log: Path) -> dict[str, Any]:
    """Return what the daemon says it serves."""
    async with asyncio.timeout(PATIENCE):
        while process.returncode is None:
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
            found: dict[str, Any] | None = next((line for line in lines if line.get("event") == "serving"), None)
            if found is not None:
                return found
            await asyncio.sleep(0.1)
    raise RuntimeError(f"the daemon ended with {process.returncode}")


async def _ready(process: asyncio.subprocess.Process, health: str) -> None:
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while process.returncode is None:
            async with session.get(f"{health.rstrip('/')}/readyz") as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.1)
    raise RuntimeError(f"the daemon ended with {process.returncode}")


def _rows(way: Way, rest: Rest) -> list[Row]:
    how = (
        f"konverge run, {rest.controllers} controllers of all families, nothing stored, {QUIET:g} s after it was ready"
    )
    holds = rest.memory.now <= way.target
    return [
        _row(way, "resident memory", rest.memory.now, "MiB", f"{how}, and {IDLE:g} s idle")
        | {"target": f"<= {way.target}", "holds": holds},
        _row(way, "peak memory", rest.memory.peak, "MiB", "resident, the highest since it was started"),
        _row(way, "CPU", rest.cpu, "%", f"of one core, over {IDLE:g} s"),
    ]


def _row(way: Way, what: str, value: float, unit: str, how: str) -> Row:
    name = f"idle, {way.name}: {what}"
    return {"bench": "daemon", "name": name, "value": value, "unit": unit, "target": None, "holds": None, "how": how}
