"""The Node of an instance, read live: with a cache that lags, a drain would be acknowledged before the cache has its Node.

Which shard has the instance is read live too, from the records of the operator in its namespace.

Guarantees: the Nodes are listed after the call. Calls during a list share the next list.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from konverge.client import Client
from konverge.objects import Object
from konverge.reconcilers.machines.correlation import matches
from konverge.reconcilers.machines.kinds import NODE, NSTANCE_MACHINE, POOL, SHARD_GROUP
from konverge.reconcilers.machines.records import ShardRecords

__all__ = ["NodeFinder"]


class NodeFinder:
    """Finds Nodes by the provider ids of servers; `namespace` is the operator's."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._begun = 0
        self._shared = 0
        """The number of the last list that succeeded."""
        self._one_at_a_time = asyncio.Lock()
        self._nodes: dict[str, list[Object]] = {}

    async def find(self, instance: str) -> list[Object]:
        """Return the Nodes whose provider id names an instance: several where names repeat among zones."""
        if not instance:
            return []
        begun = self._begun
        async with self._one_at_a_time:
            if self._shared <= begun:
                self._begun += 1
                number = self._begun
                self._nodes = _by_name((await self._client.list(NODE)).items)
                self._shared = number
            found = self._nodes.get(_last_part(instance), [])
        return [node for node in found if matches(_provider_id(node), instance)]

    async def is_foreign(self, shard: str, provider_id: str) -> bool:
        """Tell whether an instance is recorded for another shard."""
        kinds = (SHARD_GROUP, NSTANCE_MACHINE, POOL)
        groups, machines, pools = [(await self._client.list(kind, self._namespace)).items for kind in kinds]
        return ShardRecords(groups, machines, pools).is_foreign(shard, provider_id)

    async def again(self, node: Object) -> Object | None:
        """Return a Node as it is now, None if it was deleted."""
        found = await self._client.find(NODE, node.name)
        return found if found is not None and found.metadata.uid == node.metadata.uid else None


def _provider_id(node: Object) -> str:
    return str(node.get("spec", "providerID", default="") or "")


def _last_part(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _by_name(nodes: tuple[Object, ...] | list[Object]) -> dict[str, list[Object]]:
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for node in nodes:
        if _provider_id(node):
            found[_last_part(_provider_id(node))].append(node)
    return dict(found)
