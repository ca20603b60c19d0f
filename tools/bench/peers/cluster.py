"""A fresh, warmed control plane for one run, with the harness' own way to it, and the account of the contestant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from peers import scrape
from peers.objects import CRD, ITEMS, NAMESPACE, WARM, item, item_name, rights, status_intent

from konverge_testing import ControlPlane, ControlPlaneConfig
from konverge_testing.arguments import etcd_arguments

__all__ = ["Cluster", "cluster", "gathered"]

ACCOUNT = "contestant"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
RESOURCES = frozenset({"items", "configmaps", "events"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane, and a session as its administrator (exempt from API Priority and Fairness)."""

    plane: ControlPlane
    session: aiohttp.ClientSession

    @property
    def pids(self) -> list[int]:
        """The processes of the servers."""
        return list(self.plane.blocking.pids().values())

    async def send(self, method: str, path: str, body: Any = None, *, as_: str = "application/json") -> dict[str, Any]:
        """Send one request; raises ClientResponseError if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": as_}
        async with self.session.request(method, path, data=data, headers=headers, raise_for_status=True) as answer:
            found: dict[str, Any] = json.loads(await answer.read())
            return found

    async def server(self) -> dict[str, str]:
        """The versions of the programs, and the flags that affect the figures."""
        etcd = await asyncio.create_subprocess_exec(
            self.plane.binaries.etcd, "--version", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await etcd.communicate()
        return {
            "kube-apiserver": (await self.send("GET", "/version"))["gitVersion"],
            "etcd": said.decode().split("\n", 1)[0].removeprefix("etcd Version: "),
            "fsync": "off (etcd --unsafe-no-fsync)" if "--unsafe-no-fsync=true" in self._etcd else "on",
            "audit log": "off",
            "kube-controller-manager": "none",
        }

    @property
    def _etcd(self) -> list[str]:
        return etcd_arguments(self.plane.blocking.layout)

    async def counted(self) -> Counter[scrape.Request]:
        """The server's counters so far."""
        async with self.session.get("/metrics", raise_for_status=True) as answer:
            return scrape.parse(await answer.text(), RESOURCES)

    async def ended_watches(self) -> int:
        """Watches that the server ended for being slow, the observer's and the contestant's."""
        async with self.session.get("/metrics", raise_for_status=True) as answer:
            return scrape.ended_watches(await answer.text())

    async def account(self, folder: Path, port: int | None) -> tuple[Path, Path]:
        """The contestant's ServiceAccount, as a kubeconfig (to another port, if given) and as the folder that a pod has."""
        mount = folder / "mount"
        await self.plane.service_account_files(mount, namespace=NAMESPACE, name=ACCOUNT)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        server = f"https://{self.plane.host}:{port or self.plane.port}"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "bench", "cluster": {"server": server, "certificate-authority": str(mount / "ca.crt")}}
            ],
            "users": [{"name": ACCOUNT, "user": {"token": (mount / "token").read_text()}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": ACCOUNT, "namespace": NAMESPACE}}],
            "current-context": "bench",
        }
        kubeconfig.write_text(json.dumps(document))
        return kubeconfig, mount


async def gathered(calls: Iterable[Any], width: int) -> None:
    """Await coroutines, so many at a time."""
    waiting = iter(calls)

    async def worker() -> None:
        for call in waiting:
            await call

    await asyncio.gather(*(worker() for _ in range(width)))


@contextlib.asynccontextmanager
async def cluster(*, warm: int) -> AsyncIterator[Cluster]:
    """Start a control plane, install what the benchmark needs, and warm the server with `warm` objects of another namespace."""
    async with ControlPlane(ControlPlaneConfig()) as plane:
        layout = plane.blocking.layout
        tls = ssl.create_default_context(cafile=str(layout.pki("ca.crt")))
        tls.load_cert_chain(str(layout.pki("admin.crt")), str(layout.pki("admin.key")))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=600)
        async with aiohttp.ClientSession(
            plane.url, connector=connector, timeout=timeout, read_bufsize=2**20
        ) as session:
            made = Cluster(plane, session)
            await _install(made)
            await _warm(made, warm)
            yield made


async def _install(made: Cluster) -> None:
    await made.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    for name in (NAMESPACE, WARM):
        await made.plane.create_namespace(name)
    for path, document in rights(ACCOUNT):
        await made.send("POST", path, document)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(aiohttp.ClientResponseError):
                await made.send("GET", ITEMS.format(WARM))
                return
            await asyncio.sleep(0.1)


async def _warm(made: Cluster, count: int) -> None:
    """Send every kind of request that a run sends, so that no contestant pays for the server's first time."""
    path = ITEMS.format(WARM)

    async def one(number: int) -> None:
        await made.send("POST", path, item(number, WARM))
        intent = status_intent(item_name(number), 1)
        await made.send("PATCH", f"{path}/{item_name(number)}/status?fieldManager=peer&force=true", intent, as_=APPLY)
        await made.send("PATCH", f"{path}/{item_name(number)}", {"spec": {"revision": 2}}, as_=MERGE)

    await gathered((one(number) for number in range(count)), 10)
    await made.send("GET", path)
    await made.send("DELETE", path)
