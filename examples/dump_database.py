"""A script: dump the database in a pod into a file, if its exporter reports that the database is up (docs/guide/scripts.md)."""

import asyncio
import sys
from typing import BinaryIO

import konverge as kv

EXPORTER = 9187


async def is_up(client: kv.Client, namespace: str, pod: str) -> bool:
    """Return whether the exporter in the pod reaches the database."""
    page = b""
    async with client.port_forward(pod, namespace, EXPORTER) as connection:
        await connection.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        while data := await connection.read():
            page += data
    return b"\npg_up 1\n" in page


async def dump(client: kv.Client, namespace: str, pod: str, file: BinaryIO) -> None:
    """Write a dump as it arrives, so that only a part of it is in memory."""
    async with client.exec(pod, namespace, ["pg_dump", "shop"], container="postgres") as process:
        async for output in process:
            (file if output.stream == "stdout" else sys.stderr.buffer).write(output.data)
    if process.returncode != 0:
        raise SystemExit(f"pg_dump ended with {process.returncode}")


async def main(namespace: str, pod: str) -> None:
    async with kv.Client(await kv.ClientConfig.load(), name="dump-database") as client:
        result = await client.run(pod, namespace, ["psql", "shop"], container="postgres", stdin=b"CHECKPOINT;")
        if result.returncode != 0 or not await is_up(client, namespace, pod):
            raise SystemExit(f"the database is not up: {result.stderr.decode()}")
        await dump(client, namespace, pod, sys.stdout.buffer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
