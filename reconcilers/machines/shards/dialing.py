"""Channels to servers over TLS 1.3.

A ping of HTTP/2 more often than every five minutes makes grpc-go end the connection, so none is sent: the poll of each session, with its
time limit, finds a connection that is half open.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeAlias

from grpclib.client import Channel

from konverge.client.credentials import TlsMaterial
from konverge.client.tls import TlsOptions, make_context
from konverge.reconcilers.machines.shards.addresses import Address

__all__ = ["Dial", "over_tls"]

Dial: TypeAlias = Callable[[Address], Channel]
"""Returns a channel that connects at its first call."""


async def over_tls(tls: TlsMaterial) -> Dial:
    """Return channels that use these certificates; raises ConfigError if they are not PEM. The server's name is the host of its address."""
    context = await asyncio.to_thread(_context, tls)
    return lambda address: Channel(address.host, address.port, ssl=context)


def _context(tls: TlsMaterial) -> ssl.SSLContext:
    context = make_context(tls, TlsOptions())
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    return context
