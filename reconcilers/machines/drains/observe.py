"""The Node of an instance and its pods, read live: a drain with a lagging cache would be acknowledged before the cache has its Node.

The shard of the instance is read live too, from the records of the operator in its namespace.

Guarantees: the Nodes are listed after the call. Calls during a list share the next list.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from konverge.client import Client
from konverge.objects import Object
from konverge.reconcilers.machines.correlation import matches
from konverge.reconcilers.machines.kinds import NODE, NSTANCE_MACHINE, POD, POOL, SHARD_GROUP
from konverge.reconcilers.machines.records import ShardRecords

__all__ = ["NodeReader", "ObservedNodes"]


@dataclass(frozen=True, slots=True)
class ObservedNodes:
    """The Nodes of an instance: several if its name repeats among zones."""

    nodes: tuple[Object, ...] = ()
    foreign: bool = False
    """Whether the instance is recorded for another shard; read only if it has exactly one Node."""


class NodeReader:
    """Reads the Nodes of instances; `namespace` is the operator's."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._begun = 0
        self._shared = 0
        """The number of the last list that succeeded."""
        self._one_at_a_time = asyncio.Lock()
        self._nodes: dict[str, list[Object]] = {}

    async def observe(self, shard: str, provider_id: str) -> ObservedNodes:
        """Return the Nodes of an instance of a shard."""
        nodes = await self._find(provider_id)
        return ObservedNodes(nodes, foreign=len(nodes) == 1 and await self._is_foreign(shard, provider_id))

    async def again(self, node: Object) -> Object | None:
        """Return a Node as it is now, None if it was deleted."""
        stored = await self._client.find(NODE, node.name)
        return stored if stored is not None and stored.metadata.uid == node.metadata.uid else None

    async def pods(self, node: str) -> tuple[Object, ...]:
        """Return the pods of a Node. A pod that is deleted after the list counts until the next check."""
        return tuple((await self._client.list(POD, fields=f"spec.nodeName={node}")).items)

    async def _find(self, instance: str) -> tuple[Object, ...]:
        if not instance:
            return ()
        begun = self._begun
        async with self._one_at_a_time:
            if self._shared <= begun:
                self._begun += 1
                number = self._begun
                self._nodes = _by_name((await self._client.list(NODE)).items)
                self._shared = number
            candidates = self._nodes.get(_last_part(instance), [])
        return tuple(node for node in candidates if matches(_provider_id(node), instance))

    async def _is_foreign(self, shard: str, provider_id: str) -> bool:
        kinds = (SHARD_GROUP, NSTANCE_MACHINE, POOL)
        groups, machines, pools = [(await self._client.list(kind, self._namespace)).items for kind in kinds]
        return ShardRecords(groups, machines, pools).is_foreign(shard, provider_id)


def _provider_id(node: Object) -> str:
    return str(node.get("spec", "providerID", default="") or "")


def _last_part(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _by_name(nodes: Iterable[Object]) -> dict[str, list[Object]]:
    named: defaultdict[str, list[Object]] = defaultdict(list)
    for node in nodes:
        if _provider_id(node):
            named[_last_part(_provider_id(node))].append(node)
    return dict(named)
