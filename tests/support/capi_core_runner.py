"""The core controller of Cluster API as a process, with its definitions. `tools/go_programs.py cluster-api` builds it."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from konverge.testing.certificates import Authority
from konverge.testing.ports import ReservedPort

__all__ = ["core_manifests", "core_running"]

_SECONDS = 90


def core_manifests(program: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the definitions and the role of the version that was built: they lie beside the program.

    Without webhooks the definitions have no conversion, so objects are written in the version that is stored.
    """
    folder = program.parent / "config"
    found = [
        yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted((folder / "crd" / "bases").glob("*.yaml"))
    ]
    for one in found:
        # As its kustomization does: by these the core finds the version of a contract.
        one["metadata"].setdefault("labels", {}).update(
            {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
        )
    role: dict[str, Any] = yaml.safe_load((folder / "rbac" / "role.yaml").read_text())
    return found, role


@asynccontextmanager
async def core_running(program: Path, kubeconfig: Path, folder: Path) -> AsyncIterator[Path]:
    """Run the controller until the block ends; yields its log. Its webhooks listen, and no request is sent to them."""
    folder.mkdir()
    pair = Authority.create("core").server("core", ["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    log, webhooks, health = folder / "log", ReservedPort("127.0.0.1"), ReservedPort("127.0.0.1")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(program), "--kubeconfig", str(kubeconfig), "--feature-gates", "MachinePool=true"),
            *("--webhook-cert-dir", str(folder), "--webhook-port", str(webhooks.number)),
            *("--health-addr", f"127.0.0.1:{health.number}", "--diagnostics-address", "127.0.0.1:0"),
            "--insecure-diagnostics",
            env={"HOME": str(folder), "POD_NAMESPACE": "default", "POD_NAME": "core", "POD_UID": "core"},
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
        )
        try:
            await _healthy(health.number, process, log)
            yield log
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            webhooks.release()
            health.release()


async def _healthy(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, log.read_text()[-4000:]
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.2)
