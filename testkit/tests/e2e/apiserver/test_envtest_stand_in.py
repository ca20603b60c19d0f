"""The programs that envtest starts in place of etcd and kube-apiserver, started as envtest does it."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest
from suites.run import stand_ins

from konverge.client import Client, ClientConfig
from konverge.errors import NotFound, Unauthorized, Unreachable
from konverge.kinds import kind
from konverge_testing.apiserver.certificates import Authority, KeyPair
from konverge_testing.ports import ReservedPort

SERVICE_ACCOUNT = kind("v1", "ServiceAccount")


@contextmanager
def reserved() -> Iterator[int]:
    port = ReservedPort("127.0.0.1")
    try:
        yield port.number
    finally:
        port.release()


@asynccontextmanager
async def running(*command: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that has to exit cleanly on request."""
    process = await asyncio.create_subprocess_exec(*command)
    try:
        yield process
    finally:
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0


async def eventually(ask: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await ask()
                return
            except (Unreachable, aiohttp.ClientError):
                await asyncio.sleep(0.02)


def test_the_stand_ins_know_no_flag_that_envtest_looks_for(tmp_path: Path) -> None:
    """envtest treats an API server with --insecure-port as a very old API server."""
    for program in stand_ins(tmp_path):
        done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_etcd_says_that_it_is_well(tmp_path: Path) -> None:
    etcd, _ = stand_ins(tmp_path)
    with reserved() as port:
        url = f"http://127.0.0.1:{port}"
        async with (
            running(etcd, f"--data-dir={tmp_path}", f"--listen-client-urls={url}"),
            aiohttp.ClientSession() as http,
        ):

            async def ask() -> None:
                async with http.get(f"{url}/health") as response:
                    assert response.status == 200

            await eventually(ask)


async def test_the_api_server_takes_certificates_tokens_and_rights_from_the_flags(tmp_path: Path) -> None:
    _, apiserver = stand_ins(tmp_path)
    serving, users = Authority.create("serving"), Authority.create("users")
    write(tmp_path / "apiserver", serving.server("kube-apiserver", ("127.0.0.1",)))
    (tmp_path / "users.crt").write_bytes(users.certificate)
    (tmp_path / "tokens.csv").write_text('t-1,jane,1,"dev,system:masters"\n')
    with reserved() as port:
        flags = (
            f"--cert-dir={tmp_path}",
            f"--client-ca-file={tmp_path / 'users.crt'}",
            f"--token-auth-file={tmp_path / 'tokens.csv'}",
            f"--secure-port={port}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
        )
        url = f"https://127.0.0.1:{port}"
        admin = users.client("admin", groups=("system:masters",))
        async with running(apiserver, *flags):
            config = ClientConfig.direct(url, ca=serving.certificate, certificate=admin.certificate, key=admin.key)
            async with Client(config, name="t") as client:
                await eventually(lambda: client.raw("GET", "/healthz"))
                assert (await client.list(SERVICE_ACCOUNT, "default")).items == []
            async with Client(ClientConfig.direct(url, ca=serving.certificate, token="t-1"), name="t") as client:
                with pytest.raises(NotFound):
                    await client.get(SERVICE_ACCOUNT, "none", "default")
            async with Client(ClientConfig.direct(url, ca=serving.certificate, token="t-2"), name="t") as client:
                with pytest.raises(Unauthorized):
                    await client.get(SERVICE_ACCOUNT, "none", "default")


def write(path: Path, pair: KeyPair) -> None:
    path.with_suffix(".crt").write_bytes(pair.certificate)
    path.with_suffix(".key").write_bytes(pair.key)
