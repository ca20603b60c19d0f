"""The resolver for servers that tenants name: only public addresses reach the connection."""

import socket
from collections import deque

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from konverge.reconcilers.shared.resolver import NoPublicAddress, PublicResolver


class Names(AbstractResolver):
    """Look-ups with prepared responses, one after the other."""

    def __init__(self, *responses: list[str]) -> None:
        self._responses = deque(responses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)
            for address in self._responses.popleft()
        ]

    async def close(self) -> None:
        self._responses.clear()


async def test_only_public_addresses_of_a_name_are_returned() -> None:
    resolver = PublicResolver(Names(["10.0.0.1", "1.1.1.1", "::ffff:127.0.0.1", "2606:4700::1111"]))

    assert [one["host"] for one in await resolver.resolve("s3.example.com")] == ["1.1.1.1", "2606:4700::1111"]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fd00::1", "64:ff9b::a00:1"])
async def test_name_that_resolves_to_a_private_address_is_refused(address: str) -> None:
    with pytest.raises(NoPublicAddress):
        await PublicResolver(Names([address])).resolve("s3.example.com")


async def test_each_look_up_is_checked_again() -> None:
    resolver = PublicResolver(Names(["1.1.1.1"], ["127.0.0.1"]))
    await resolver.resolve("rebinding.example.com")

    with pytest.raises(NoPublicAddress):
        await resolver.resolve("rebinding.example.com")
