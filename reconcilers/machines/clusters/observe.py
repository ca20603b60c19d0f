"""The document of shards, read live, and the state of the operator's NstanceCluster, from the caches and the connections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceCluster
from konverge.errors import ConfigError
from konverge.objects import Object
from konverge.reconcilers.machines.clusters.imports import ImportPlan, plan_imports
from konverge.reconcilers.machines.kinds import CONFIG_MAP, POOL
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.document import ShardMap, parse_shard_map

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.reconcilers.machines.shards.states import ShardStates
    from konverge.runtime import Context

__all__ = ["ObservedDocument", "authority_version", "document_of", "observe_document", "observe_imports"]


@dataclass(frozen=True, slots=True)
class ObservedDocument:
    """The document of shards; without it the shards in use stay."""

    shards: ShardMap | None
    problem: str = ""


async def observe_document(
    cluster: NstanceCluster, ctx: Context[NstanceCluster], settings: MachineSettings
) -> ObservedDocument:
    """Read the document of shards from the API server."""
    return document_of(await ctx.live(CONFIG_MAP).find(cluster.namespace, settings.shards_configmap), settings)


def document_of(stored: Object | None, settings: MachineSettings) -> ObservedDocument:
    """Return the document in a ConfigMap, or its problem: the ConfigMap is missing, malformed, or of another cluster or tenant."""
    name = settings.shards_configmap
    if stored is None:
        message = f"there is no ConfigMap {name}: create it, with a shard as key and the address of its server as value"
        return ObservedDocument(None, message)
    try:
        shards = parse_shard_map(stored.get("data", default={}) or {})
    except ConfigError as error:
        return ObservedDocument(None, f"ConfigMap {name}: {error}")
    for what, named, ours in (
        ("cluster_id", shards.cluster_id, settings.cluster_id),
        ("tenant", shards.tenant, settings.tenant),
    ):
        if named not in ("", ours):
            return ObservedDocument(None, f"ConfigMap {name}: its {what} is {named!r}, the settings say {ours!r}")
    return ObservedDocument(shards)


def authority_version(cluster: NstanceCluster, ctx: Context[NstanceCluster], settings: MachineSettings) -> str:
    """Return the version of the ConfigMap with the authority, "" if it does not exist."""
    authority = ctx.cache(CONFIG_MAP).metadata(cluster.namespace, settings.ca_configmap)
    return "" if authority is None else authority.resource_version


async def observe_imports(cluster: NstanceCluster, ctx: Context[NstanceCluster], service: NstanceService) -> ImportPlan:
    """Return the pools to create. The pools are read live before a pool is created, so a stale cache creates no second pool."""
    plan = _imports(ctx.cache(POOL).list(namespace=cluster.namespace), service.states)
    return _imports(await ctx.live(POOL).list(cluster.namespace), service.states) if plan.pools else plan


def _imports(pools: Iterable[Object], states: ShardStates) -> ImportPlan:
    existing = [str(pool.get("spec", "group", default="")) for pool in pools]
    return plan_imports(states.expected or (), states.listings, {*existing, *states.unsettled})
