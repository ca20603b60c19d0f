"""The core controller of Cluster API as a process, webhooks included. `tools/go_programs.py cluster-api` builds it."""

import asyncio
import base64
import contextlib
import json
import re
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from konverge_testing import ControlPlane
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.ports import ReservedPort

_SECONDS = 90
_MODULE = Path(__file__).parent / "go_cluster_api" / "go.mod"
_found = re.search(r"^\s*sigs\.k8s\.io/cluster-api (v\S+)", _MODULE.read_text(), re.MULTILINE)
assert _found
CORE_RELEASE = _found[1]


async def core_components(program: Path, plane: ControlPlane) -> tuple[str, Path]:
    """Return the components of the built release, and the path of its metadata: both files are beside the program."""
    folder = program.parent
    return await plane.kubectl("kustomize", str(folder / "config" / "default")), folder / "metadata.yaml"


@asynccontextmanager
async def core_running(program: Path, plane: ControlPlane, folder: Path) -> AsyncIterator[Path]:
    """Run the controller with the rights of its own account until the block ends; yields its log.

    Its components have to be installed. The API server sends their webhooks and conversions to this process.
    """
    folder.mkdir()
    authority = Authority.create("core")
    pair = authority.server("core", ["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    log, webhooks, health = folder / "log", ReservedPort("127.0.0.1"), ReservedPort("127.0.0.1")
    await _send_webhooks(plane, f"https://127.0.0.1:{webhooks.number}", authority.certificate)
    kubeconfig = await plane.service_account_kubeconfig("capi-system", "capi-manager")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(program), "--kubeconfig", str(kubeconfig), "--feature-gates", "MachinePool=true"),
            *("--webhook-cert-dir", str(folder), "--webhook-port", str(webhooks.number)),
            *("--health-addr", f"127.0.0.1:{health.number}", "--diagnostics-address", "127.0.0.1:0"),
            "--insecure-diagnostics",
            env={"HOME": str(folder), "POD_NAMESPACE": "capi-system", "POD_NAME": "core", "POD_UID": "core"},
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


async def _send_webhooks(plane: ControlPlane, url: str, authority: bytes) -> None:
    """Let webhooks and conversions reach a process outside of the cluster, as cert-manager and a Service do inside."""
    names = "customresourcedefinitions,mutatingwebhookconfigurations,validatingwebhookconfigurations"
    found = json.loads(await plane.kubectl("get", names, "-l", "cluster.x-k8s.io/provider=cluster-api", "-o", "json"))
    for one in found["items"]:
        hooks = one.get("webhooks") or [one["spec"]["conversion"]["webhook"]]
        for hook in hooks:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"] |= {"url": url + path, "caBundle": base64.b64encode(authority).decode()}
    await plane.kubectl("replace", "-f", "-", stdin=json.dumps(found))


async def _healthy(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, log.read_text()[-4000:]
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.2)
