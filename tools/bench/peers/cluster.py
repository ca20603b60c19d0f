"""A fresh, warmed server for one run, with the harness' own way to it, and the account of the contestant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from peers import scrape
from peers.objects import CRD, ITEMS, NAMESPACE, WARM, item, item_name, rights, status_intent

from konverge_testing import ControlPlane, ControlPlaneConfig
from konverge_testing.arguments import etcd_arguments

ACCOUNT = "contestant"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
RESOURCES = frozenset({"items", "configmaps", "events"})


class Server(Protocol):
    """A running server: the real one or the stand-in."""

    @property
    def host(self) -> str:
        """Its address."""

    @property
    def port(self) -> int:
        """Its port."""

    def tls(self) -> ssl.SSLContext:
        """The trust of the harness in it, with the certificate of the harness if it has one."""

    def headers(self) -> Mapping[str, str]:
        """The headers that identify the harness."""

    def pids(self) -> list[int]:
        """Its processes."""

    def fallen(self) -> str:
        """Why it does not run any more; "" while it runs."""

    async def account_files(self, mount: Path) -> None:
        """Write the contestant's account as a pod has it."""

    async def facts(self) -> dict[str, str]:
        """The versions of its programs, and the flags that affect the figures."""


@dataclass(frozen=True, slots=True)
class RealServer:
    """A control plane as a server of the benchmark."""

    plane: ControlPlane
    host: str
    port: int

    def tls(self) -> ssl.SSLContext:
        layout = self.plane.blocking.layout
        tls = ssl.create_default_context(cafile=str(layout.pki("ca.crt")))
        tls.load_cert_chain(str(layout.pki("admin.crt")), str(layout.pki("admin.key")))
        return tls

    def headers(self) -> Mapping[str, str]:
        return {}

    def pids(self) -> list[int]:
        return list(self.plane.blocking.pids().values())

    def fallen(self) -> str:
        return str(self.plane.fallen() or "")

    async def account_files(self, mount: Path) -> None:
        await self.plane.service_account_files(mount, namespace=NAMESPACE, name=ACCOUNT)

    async def facts(self) -> dict[str, str]:
        etcd = await asyncio.create_subprocess_exec(
            self.plane.binaries.etcd, "--version", stdout=asyncio.subprocess.PIPE
        )
        message, _ = await etcd.communicate()
        unsafe = "--unsafe-no-fsync=true" in etcd_arguments(self.plane.blocking.layout)
        return {
            "etcd": message.decode().split("\n", 1)[0].removeprefix("etcd Version: "),
            "fsync": "off (etcd --unsafe-no-fsync)" if unsafe else "on",
            "audit log": "off",
            "kube-controller-manager": "none",
        }


@dataclass(frozen=True, slots=True)
class _StandIn:
    """The stand-in: `tools/bench/standin`."""

    process: asyncio.subprocess.Process
    folder: Path
    port: int
    host: str = "127.0.0.1"

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {(self.folder / 'token').read_text()}"}

    def pids(self) -> list[int]:
        return [self.process.pid]

    def fallen(self) -> str:
        return "" if self.process.returncode is None else f"the stand-in ended with code {self.process.returncode}"

    async def account_files(self, mount: Path) -> None:
        mount.mkdir()
        for name in ("ca.crt", "token"):
            shutil.copyfile(self.folder / name, mount / name)
        (mount / "namespace").write_text(NAMESPACE)

    async def facts(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running server, and a session as its administrator (exempt from API Priority and Fairness)."""

    server: Server
    session: aiohttp.ClientSession

    async def send(self, method: str, path: str, body: Any = None, *, as_: str = "application/json") -> dict[str, Any]:
        """Send one request; raises ClientResponseError if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": as_}
        async with self.session.request(method, path, data=data, headers=headers, raise_for_status=True) as answer:
            document: dict[str, Any] = json.loads(await answer.read())
            return document

    async def facts(self) -> dict[str, str]:
        """The versions of the programs, and the flags that affect the figures."""
        return {"kube-apiserver": (await self.send("GET", "/version"))["gitVersion"], **await self.server.facts()}

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
        await self.server.account_files(mount)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        server = f"https://{self.server.host}:{port or self.server.port}"
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
async def _real() -> AsyncIterator[Server]:
    async with ControlPlane(ControlPlaneConfig()) as plane:
        yield RealServer(plane, plane.host, plane.port)


@contextlib.asynccontextmanager
async def stand_in(program: Path) -> AsyncIterator[Server]:
    """Run the stand-in as long as the block lives."""
    with tempfile.TemporaryDirectory(prefix="konverge-standin-") as folder:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(str(program), folder, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield _StandIn(process, Path(folder), json.loads(await process.stdout.readline())["port"])
        finally:
            process.stdin.close()
            await process.wait()


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Cluster]:
    """A session as the administrator of a server."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=600)
    connector = aiohttp.TCPConnector(ssl=server.tls(), limit=0)
    url = f"https://{server.host}:{server.port}"
    async with aiohttp.ClientSession(
        url, connector=connector, timeout=timeout, read_bufsize=2**20, headers=server.headers()
    ) as session:
        yield Cluster(server, session)


@contextlib.asynccontextmanager
async def cluster(*, warm: int, program: Path | None = None) -> AsyncIterator[Cluster]:
    """Start the real server, or the stand-in if its program is given; install what the benchmark needs, and warm the server with `warm`
    objects of another namespace."""
    async with _real() if program is None else stand_in(program) as server, connected(server) as target:
        await _install(target)
        await _warm(target, warm)
        yield target


async def _install(target: Cluster) -> None:
    await target.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    for name in (NAMESPACE, WARM):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await target.send("POST", "/api/v1/namespaces", namespace)
    for path, document in rights(ACCOUNT):
        await target.send("POST", path, document)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(aiohttp.ClientResponseError):
                await target.send("GET", ITEMS.format(WARM))
                return
            await asyncio.sleep(0.1)


async def _warm(target: Cluster, count: int) -> None:
    """Send every kind of request that a run sends, so that no contestant pays for the server's first time."""
    path = ITEMS.format(WARM)

    async def one(number: int) -> None:
        await target.send("POST", path, item(number, WARM))
        intent = status_intent(item_name(number), 1)
        await target.send("PATCH", f"{path}/{item_name(number)}/status?fieldManager=peer&force=true", intent, as_=APPLY)
        await target.send("PATCH", f"{path}/{item_name(number)}", {"spec": {"revision": 2}}, as_=MERGE)

    await gathered((one(number) for number in range(count)), 10)
    await target.send("GET", path)
    await target.send("DELETE", path)
