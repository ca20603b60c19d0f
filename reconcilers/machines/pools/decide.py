"""The sizes of a pool's shard groups, and its status. Pure.

Guarantees: only the MachinePool decides the sizes. A pool is Ready only if each shard has accepted the present settings. While a pool is
invalid, a duplicate, or without MachinePool, its shard groups stay as they are; in particular no shard group is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from konverge.crds.machines_v1beta1 import (
    Initialization,
    NstanceMachinePool,
    NstanceMachinePoolStatus,
    NstanceShardGroup,
)
from konverge.objects import Metadata
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.machines.correlation import pool_provider_ids
from konverge.reconcilers.machines.kinds import CAPI_GROUP, POOL
from konverge.reconcilers.machines.pools.distribution import distribute
from konverge.reconcilers.machines.pools.observe import ObservedPool
from konverge.reconcilers.machines.pools.render import shard_group
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.machines.words import MachinePoolReason, MachinesCondition
from konverge.runtime import Apply, ConditionUpdate, Delete, Plan

__all__ = ["MachinePoolPlan", "creation_problem", "plan_deletion", "plan_pool", "plan_writes"]


@dataclass(frozen=True, slots=True)
class MachinePoolPlan:
    """The sizes to distribute, and the content of the status."""

    sizes: Mapping[str, int] | None = None
    """The sizes by shard; None: the shard groups stay as they are."""
    ready: bool = False
    reason: str = MachinePoolReason.RECONCILING
    message: str = ""
    provider_ids: tuple[str, ...] = ()
    replicas: int = 0
    is_static: bool = False
    template: str | None = None
    subnets: tuple[str, ...] = field(default=())


def plan_pool(observed: ObservedPool) -> MachinePoolPlan:
    """Return the sizes and the status."""
    sizes, reason, message = _sizes(observed)
    instances = [listed for member in observed.members for listed in member.provider_ids]
    waiting = _waiting(observed, sizes) if sizes is not None else message
    shown = [member for member in observed.members if sizes is None or member.shard in sizes]
    ids = pool_provider_ids(instances, published=observed.published, node_ids=set(observed.node_ids))
    return MachinePoolPlan(
        sizes=sizes,
        ready=sizes is not None and not waiting,
        reason=MachinePoolReason.RECONCILED if sizes is not None and not waiting else reason,
        message=waiting or f"{sum((sizes or {}).values())} replicas on {len(sizes or {})} shards",
        provider_ids=tuple(sorted({*observed.kept, *ids})),
        replicas=sum(member.replicas for member in observed.members),
        is_static=any(member.is_static for member in shown),
        template=next((member.template for member in shown if member.template), None),
        subnets=tuple(sorted({subnet for member in shown for subnet in member.subnets})),
    )


def plan_writes(
    pool: NstanceMachinePool, observed: ObservedPool, settings: MachineSettings
) -> Plan[NstanceMachinePoolStatus]:
    """Return the shard groups, the provider ids and the status of a pool."""
    plan = plan_pool(observed)
    children = None
    if plan.sizes is not None:
        children = tuple(shard_group(pool, shard, size) for shard, size in plan.sizes.items())
    applies: tuple[Apply, ...] = ()
    if not observed.duplicate_of and plan.provider_ids != tuple(pool.spec.provider_id_list):
        spec = {"providerIDList": list(plan.provider_ids)}
        applies = (Apply(POOL.new(pool.name, pool.namespace, spec=spec), force=True),)
    outcome: Done | RequeueAfter = RequeueAfter(settings.retire_after / 3) if observed.kept else Done()
    if plan.reason == MachinePoolReason.INVALID:
        outcome = RequeueAfter(timedelta(seconds=settings.unreachable_retry))
    return Plan(
        children=children,
        applies=applies,
        set_conditions=(ConditionUpdate(MachinesCondition.READY, plan.ready, plan.reason, plan.message),),
        draft=None if observed.duplicate_of else _status(pool, observed, plan),
        outcome=outcome,
    )


def _status(pool: NstanceMachinePool, observed: ObservedPool, plan: MachinePoolPlan) -> NstanceMachinePoolStatus:
    before, nodes = pool.status, Counter(observed.node_ids)
    ready = plan.ready or bool(before.ready)  # once true it stays: Cluster API reverts a pool to not ready otherwise
    distributed = observed.owner_generation is not None and plan.sizes is not None
    return NstanceMachinePoolStatus(
        ready=ready,
        initialization=Initialization(provisioned=True) if ready else before.initialization,
        replicas=plan.replicas,
        # Cluster API watches no Node of a Cluster that is not initialized: a change of this status triggers a read of the Nodes.
        nodes=sum(nodes[provider_id] for provider_id in plan.provider_ids),
        is_static=plan.is_static,
        template=plan.template,
        subnets=plan.subnets,
        observed_owner_generation=observed.owner_generation if distributed else before.observed_owner_generation,
    )


def plan_deletion(groups: Collection[Metadata], settings: MachineSettings) -> Plan[NstanceMachinePoolStatus]:
    """Return the plan of a deleted pool, which waits for its shard groups."""
    if not groups:
        return Plan()
    message = f"waits for {', '.join(sorted(group.name for group in groups))}"
    return Plan(
        deletes=tuple(
            Delete(NstanceShardGroup, group.name, group.namespace, uid=group.uid)
            for group in groups
            if not group.deleting
        ),
        set_conditions=(ConditionUpdate(MachinesCondition.READY, False, MachinePoolReason.DELETING, message),),
        outcome=RequeueAfter(timedelta(seconds=settings.retry)),
    )


def creation_problem(pool: NstanceMachinePool, replicas: int | None, *, name_taken: bool) -> str:
    """Return why no MachinePool is created for a pool, "" if it is; `replicas` is the number of the servers, None before it is known."""
    owners = pool.metadata.owner_references or ()
    if pool.status.observed_owner_generation is not None or any(
        (owner.kind, owner.group) == ("MachinePool", CAPI_GROUP) for owner in owners
    ):
        return "its MachinePool is gone: delete the pool too, or create the MachinePool again"
    if name_taken:
        return f"MachinePool {pool.name} refers to other infrastructure: refer to this pool by another MachinePool"
    return (
        "waits for every shard, to make a MachinePool with as many replicas as the group has"
        if replicas is None
        else ""
    )


def _sizes(observed: ObservedPool) -> tuple[dict[str, int] | None, str, str]:
    if observed.duplicate_of:
        return (
            None,
            MachinePoolReason.DUPLICATE_GROUP,
            f"pool {observed.duplicate_of} has group {observed.group}: delete one of them",
        )
    if not is_identifier(observed.group):
        message = f"group {observed.group!r} is not an identifier: use at most 32 lower-case letters and digits, with single hyphens inside"
        return None, MachinePoolReason.INVALID, message
    if observed.document is None:
        return None, MachinePoolReason.RECONCILING, "waits for the document of shards"
    unknown = sorted(set(observed.shards) - set(observed.document))
    if unknown:
        return None, MachinePoolReason.INVALID, f"the document of shards does not name {', '.join(unknown)}"
    if observed.replicas is None:
        return None, MachinePoolReason.RECONCILING, observed.owner_problem or "waits for its MachinePool"
    return distribute(observed.replicas, observed.shards), MachinePoolReason.RECONCILING, ""


def _waiting(observed: ObservedPool, sizes: Mapping[str, int]) -> str:
    """Return what the pool waits for, "" if nothing."""
    members = {member.shard: member for member in observed.members}
    waits = []
    for shard, size in sizes.items():
        member = members.get(shard)
        if member is None or member.size != size:
            waits.append(f"{shard}: its shard group is being written")
        elif not member.copied:
            waits.append(
                f"{shard}: its shard group has other settings: delete it if that stays, and it is created again"
            )
        elif not member.accepted:
            waits.append(f"{shard}: {member.problem or 'the shard has not accepted it yet'}")
    waits += [f"{shard}: the shard group is being deleted" for shard in sorted(members.keys() - sizes.keys())]
    return "; ".join(waits)
