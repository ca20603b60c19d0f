"""The operator's link to servers of Nstance over TLS, with an API server in memory for its identity."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from nstance_kit import Heard

from konverge.client import Client
from konverge.reconcilers.machines.identity.certificates import OperatorName
from konverge.reconcilers.machines.identity.link import ServerLink
from konverge.reconcilers.machines.identity.names import IdentityNames
from konverge.reconcilers.machines.kinds import CONFIG_MAP, SECRET
from konverge.reconcilers.machines.shards.client import ShardClient
from konverge.reconcilers.machines.shards.connections import Connections
from konverge.reconcilers.machines.shards.dialing import over_tls
from konverge.reconcilers.machines.shards.document import ShardMap, parse_shard_map
from konverge.reconcilers.machines.shards.pace import SessionPace
from konverge_testing import ApiServer

NAMES = IdentityNames()
SEED = bytes(range(32))
"""From which the operator makes its key."""
_SPACE = "nstance-system"


@dataclass
class Linked:
    """A link that runs, and its listener."""

    client: Client
    link: ServerLink
    heard: Heard

    def shard(self, name: str) -> ShardClient:
        """Return the calls of a shard."""
        return self.link.connections.client(name)

    async def write_authority(self, pem: bytes) -> None:
        """Replace the authority in its ConfigMap."""
        patch = {"data": {"ca.crt": pem.decode()}}
        written = await self.client.patch(CONFIG_MAP, NAMES.ca_configmap, _SPACE, patch=patch, style="merge")
        self.link.use_authority(written.metadata.resource_version)

    async def give_nonce(self, nonce: str) -> None:
        """Create the Secret with a nonce."""
        data = {"nonce.jwt": base64.b64encode(nonce.encode()).decode()}
        await self.client.create(SECRET.new(NAMES.nonce_secret, _SPACE, data=data))

    async def stored(self, secret: str, key: str) -> bytes:
        """Return the data of a Secret."""
        found = await self.client.get(SECRET, secret, _SPACE)
        return base64.b64decode(found.get("data", key))

    async def until(self, test: Callable[[], bool], *, seconds: float = 30.0) -> None:
        """Wait until a test holds."""
        async with asyncio.timeout(seconds):
            while not test():
                await asyncio.sleep(0.01)


def shards_at(addresses: Mapping[str, tuple[str, str]]) -> ShardMap:
    """Return the document of shards with these addresses, of the operator's port and of registration."""
    shards = {
        name: {"operator_addr": operator, "registration_addr": registration}
        for name, (operator, registration) in addresses.items()
    }
    return parse_shard_map({"config.yaml": json.dumps({"cluster_id": "acme", "tenant": "blue", "shards": shards})})


@asynccontextmanager
async def linked(shards: ShardMap, *, ca: bytes, nonce: str) -> AsyncIterator[Linked]:
    """Run a link with a key generated from SEED."""
    async with (
        ApiServer(namespaces=(_SPACE,), random=Random(1)) as server,
        Client(server.config(), name="konverge", random=Random(2)) as client,
    ):
        authority = await client.create(CONFIG_MAP.new(NAMES.ca_configmap, _SPACE, data={"ca.crt": ca.decode()}))
        heard = Heard()
        connections = Connections(heard, random=Random(3), pace=SessionPace(first_delay=0.05, longest_delay=0.1))
        link = ServerLink(
            connections,
            owner=OperatorName("acme", "blue"),
            namespace=_SPACE,
            names=NAMES,
            dial=over_tls,
            entropy=lambda count: SEED[:count],
        )
        link.use_authority(authority.metadata.resource_version)
        link.use(shards)
        made = Linked(client, link, heard)
        await made.give_nonce(nonce)
        task = asyncio.create_task(link.run(client, Random(4)))
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.wait([task])
