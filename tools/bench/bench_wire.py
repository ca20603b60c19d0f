"""The cost of TLS, HTTP and the event loop for a request: the client's CPU for a status apply, on each loop, with and without TLS.

Each life is a process of its own against a server process that answers at once, so the CPU is the client's only; the lives alternate.
"""

import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rows import QUICK, Row, row

from konverge.client import Client, ClientConfig
from konverge.clock import cpu_time
from konverge.kinds import kind

CALLS, WARM, LIVES = (100, 20, 1) if QUICK else (2_000, 200, 5)
PARALLEL = (1, 10, 30)
KIND = kind("bench.konverge.dev/v1", "Item", namespaced=True, plural="items")
READY = {"type": "Ready", "status": "True", "reason": "InPlace", "message": "in place"}
INTENT = {
    "apiVersion": "bench.konverge.dev/v1",
    "kind": "Item",
    "metadata": {"name": "a", "namespace": "bench"},
    "status": {"observedGeneration": 2, "conditions": [READY]},
}
OBJECT = INTENT | {"spec": {f"field{number}": "x" * 50 for number in range(30)}}


async def serve(folder: str) -> None:
    """Respond to every request with the same object, until standard input ends."""
    body = json.dumps(OBJECT).encode()
    response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = next(
                (line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b"0"
            )
            await reader.readexactly(int(length))
            writer.write(response)
        writer.close()

    context = None
    if folder:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(f"{folder}/server.pem")
    server = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def spend(url: str, folder: str) -> dict[int, float]:
    """Return the CPU for one status apply, in milliseconds, by the number of parallel applies."""
    tls: dict[str, Any] = {"ca": Path(folder, "ca.pem").read_bytes()} if folder else {}
    spent = {}
    async with Client(ClientConfig.direct(url, **tls), name="bench") as client:

        async def applies(count: int) -> None:
            for _ in range(count):
                await client.apply_raw(KIND, INTENT, force=True, subresource="status", writer="bench", normalized=True)

        for parallel in PARALLEL:
            await asyncio.gather(*(applies(WARM // parallel + 1) for _ in range(parallel)))
            before = cpu_time()
            await asyncio.gather(*(applies(CALLS // parallel) for _ in range(parallel)))
            spent[parallel] = (cpu_time() - before) * 1000 / (CALLS // parallel * parallel)
    return spent


def life(loop: str, folder: str) -> dict[int, float]:
    """Run one client on a loop, with TLS if there is a folder of certificates; return its CPU."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, __file__, "serve", folder], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        url = f"http{'s' * bool(folder)}://127.0.0.1:{server.stdout.readline().strip()}"
        done = subprocess.run([sys.executable, __file__, loop, url, folder], capture_output=True, text=True, check=True)
        server.communicate("")
    return {int(parallel): spent for parallel, spent in json.loads(done.stdout).items()}


def run() -> list[Row]:
    """Measure each loop with and without TLS, in turn."""
    import trustme

    loops = ["asyncio", *(["uvloop"] if find_spec("uvloop") is not None else [])]
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(f"{folder}/ca.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(f"{folder}/server.pem")
        ways = [(loop, tls) for loop in loops for tls in (folder, "")]
        lives = [{way: life(*way) for way in ways} for _ in range(LIVES)]
    how = f"median of {LIVES} lives of {CALLS} status applies, each way in turn; the client's CPU only"
    rows = []
    for parallel in PARALLEL:
        medians = {way: statistics.median(each[way][parallel] for each in lives) for way in ways}
        for loop, tls in ways:
            name = f"{loop}, {'TLS' if tls else 'plain'}, {parallel} at once"
            rows.append(row(name, medians[loop, tls], "ms of CPU/request", how))
        if "uvloop" in loops:
            ratio = statistics.median(
                each["uvloop", folder][parallel] / each["asyncio", folder][parallel] for each in lives
            )
            rows.append(
                row(f"uvloop to asyncio, TLS, {parallel} at once", ratio, "times the CPU", f"{how}; pair by pair")
            )
    return rows


def main(command: str, *arguments: str) -> None:
    """Serve, or run one client."""
    if command == "serve":
        asyncio.run(serve(*arguments))
        return
    factory = None
    if command == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(spend(*arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
