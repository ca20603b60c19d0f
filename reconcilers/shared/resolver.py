"""A resolver of host names for connections to servers that tenants name.

The address that was checked is the address that is connected to, so a name that changes its address between two look-ups (DNS rebinding)
gains nothing. aiohttp does not resolve a host that is an address: `EndpointPolicy` checks such a host.
"""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from konverge.reconcilers.shared.endpoints import is_public

__all__ = ["NoPublicAddress", "PublicResolver"]


class NoPublicAddress(OSError):
    """The name resolves to no address of the public Internet."""


class PublicResolver(AbstractResolver):
    """Resolves names to public addresses only; `inner` does the look-up."""

    def __init__(self, inner: AbstractResolver | None = None) -> None:
        self._inner = ThreadedResolver() if inner is None else inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the public addresses of a name; raises NoPublicAddress if it has none."""
        results = [result for result in await self._inner.resolve(host, port, family) if is_public(result["host"])]
        if not results:
            raise NoPublicAddress(None, "the name has no public address")
        return results

    async def close(self) -> None:
        """Close the inner resolver."""
        await self._inner.close()
