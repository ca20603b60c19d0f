"""A slower network: a TCP proxy that delays every piece of data by half of the round trip in each direction.

Run as a program with the port to forward to and the round trip in milliseconds; it prints its own port and serves until its standard input
closes. Pieces keep their order, and their number is not limited, so the proxy adds time and does not reduce bandwidth. It needs no rights.
"""

import asyncio
import contextlib
import sys

HOST = "127.0.0.1"
PIECE = 256 * 1024


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Forward bytes, each piece `seconds` after it was read."""
    loop = asyncio.get_running_loop()
    while data := await reader.read(PIECE):
        loop.call_later(seconds, writer.write, data)
    await asyncio.sleep(seconds)
    with contextlib.suppress(OSError):
        writer.close()


async def serve(port: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            above, below = await asyncio.open_connection(HOST, port)
        except OSError:
            writer.close()
            return
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the latter when the program ends
            await asyncio.gather(carry(reader, below, seconds), carry(above, writer, seconds))

    server = await asyncio.start_server(connected, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    await stdin.read()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 2000))
