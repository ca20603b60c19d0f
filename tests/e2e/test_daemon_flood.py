"""The daemon as a process under a flood of half-open connections. It needs no API server: the probes work without it."""

import asyncio
import json
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

FLOOD = 2000
HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {"token": "none"}}],
}


@pytest.fixture
def _enough_files() -> Iterator[None]:
    """Let this process hold its ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FLOOD + 200:
        pytest.skip(f"this process may open {hard} files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 200), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def daemon(folder: Path) -> Iterator[tuple[int, Path]]:
    """Run `konverge run` as a shell with 256 open files would; yields its process id and its log."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    words = f"run --kubeconfig {kubeconfig} --metrics 127.0.0.1:0 --health 127.0.0.1:0 --debug 127.0.0.1:0 --log-format json --drain 0"
    command = f"ulimit -Sn 256; exec {sys.executable} -m konverge.daemon.main {words}"
    with log.open("wb") as file, subprocess.Popen(["/bin/sh", "-c", command], stderr=file) as process:
        try:
            yield process.pid, log
        finally:
            process.kill()


async def serving(log: Path) -> dict[str, Any]:
    """Wait for the line with the addresses."""
    try:
        async with asyncio.timeout(90):
            while True:
                for line in log.read_text().splitlines():
                    if '"serving"' in line:
                        found: dict[str, Any] = json.loads(line)
                        return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it never served: {log.read_text()}") from None


async def half_open(address: tuple[str, int]) -> socket.socket:
    """Connect, and send half the head of a request."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, address)
    await loop.sock_sendall(sock, HALF)
    return sock


async def seconds_for(address: tuple[str, int], path: str) -> float:
    """Send a request on a new connection; returns the time until the response."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    took = loop.time() - begun
    writer.close()
    return took


@pytest.mark.usefixtures("_enough_files")
@pytest.mark.linux
async def test_healthz_answers_within_a_second_under_2000_half_open_connections(tmp_path: Path) -> None:
    with daemon(tmp_path) as (pid, log), ExitStack() as flood:
        told = await serving(log)
        metrics, health = (
            (str(urlsplit(told[part]).hostname), int(urlsplit(told[part]).port or 0)) for part in ("metrics", "health")
        )
        took = []
        await seconds_for(health, "/healthz")  # the daemon still starts
        for number in range(FLOOD):
            flood.enter_context(await half_open((metrics, health)[number % 2]))
            if number % 40 == 0:
                took.append(await seconds_for(health, "/healthz"))
        took += [await seconds_for(health, "/healthz") for _ in range(20)]
        await seconds_for(metrics, "/metrics")
        assert max(took) < 1.0, took
        [limit] = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open")]
        _, _, _, soft, hard, _ = limit.split()
        assert soft == hard != "256"
        assert log.stat().st_size < 50_000, log.read_text()[-2000:]
