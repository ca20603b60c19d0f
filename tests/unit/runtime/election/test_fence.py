"""No byte of a write leaves the process behind the fence, and reads go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from konverge.client import Client, ClientConfig
from konverge.errors import NotLeading, Unreachable
from konverge.kinds import kind
from konverge.runtime.election.fence import LeaseFence

CONFIG_MAP = kind("v1", "ConfigMap", plural="configmaps", namespaced=True)


class Wall:
    """A server that takes bytes and answers nothing, slowly enough that a large body waits in the process."""

    def __init__(self) -> None:
        self.received = 0
        self.reading = asyncio.Event()

    async def __aenter__(self) -> Wall:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.received += len(await reader.read(1))
            await self.reading.wait()
            while chunk := await reader.read(65536):
                self.received += len(chunk)
        except ConnectionError:
            pass
        finally:
            writer.close()
