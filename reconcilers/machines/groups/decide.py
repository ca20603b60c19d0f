"""Whether a group is sent to its shard, and which settings are sent. Pure.

A server merges the settings that it receives: an empty setting keeps the old value, and no call removes a key of vars. So only settings of
the spec are compared. A static group is sent without template and subnet pool, which the server refuses.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

from konverge.crds.machines_v1beta1 import NstanceShardGroup, NstanceShardGroupSpec, ShardGroupConfig
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import POOL
from konverge.reconcilers.machines.pools.render import group_name
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.states import GroupView
from konverge.reconcilers.machines.words import GroupReason, MachinesCondition
from konverge.runtime import ConditionUpdate

__all__ = [
    "GroupStep",
    "InSync",
    "SendGroup",
    "WaitForShard",
    "conditions_of_failure",
    "drift",
    "has_share_name",
    "in_sync",
    "is_named_share",
    "leftover_vars",
    "next_step",
    "not_of_pool",
    "pool_share",
    "shown_config",
    "static_differences",
    "unreachable",
    "wanted_config",
]

_VALIDATION = re.compile(
    r"cannot override|is required for new group|has no subnet pool|template .*not found|\binvalid\b"
)
"""The texts of a server's refusal of settings: its code is the same as for transient failures."""


@dataclass(frozen=True, slots=True)
class SendGroup:
    """Send these settings."""

    config: GroupConfig


@dataclass(frozen=True, slots=True)
class InSync:
    """The server has the settings already."""

    shown: Group


@dataclass(frozen=True, slots=True)
class WaitForShard:
    """The shard is unreachable."""

    problem: str


GroupStep: TypeAlias = SendGroup | InSync | WaitForShard


def is_named_share(group: NstanceShardGroup, pool: Object | None) -> bool:
    """Tell whether a pool of the same namespace controls a shard group, which has the name and the group of a share of the pool."""
    owner = group.metadata.controller
    return (
        pool is not None
        and owner is not None
        and (owner.kind, owner.group, owner.uid) == (POOL.kind, POOL.group, pool.metadata.uid)
        and pool.namespace == group.namespace
        and pool.get("spec", "group", default="") == group.spec.group
        and has_share_name(group)
    )


def has_share_name(group: NstanceShardGroup) -> bool:
    """Tell whether a shard group has the name of its group and shard: no two objects of a namespace have one name."""
    return group.name == group_name(group.spec.group, group.spec.shard)


def pool_share(group: NstanceShardGroup, pool: Object | None) -> NstanceShardGroupSpec | None:
    """Return the settings to send for a shard group: its size with the settings of the pool, None if the pool has no such share.

    The settings of the shard group are a copy, and another writer can add a key of vars to it: only the pool's own vars count.
    """
    if pool is None or not is_named_share(group, pool):
        return None
    spec = pool.get("spec", default={}) or {}
    if group.spec.shard not in (spec.get("shards") or ()):
        return None
    settings = {
        "template": spec.get("template"),
        "instance_type": spec.get("instanceType"),
        "subnets": tuple(spec.get("subnets") or ()) or None,
        "vars": dict(spec.get("vars") or {}) or None,
    }
    return group.spec.model_copy(update=settings)


def not_of_pool(group: NstanceShardGroup) -> ConditionUpdate:
    """Return the condition of a shard group without a pool."""
    message = (
        f"no pool of this namespace has group {group.spec.group} on shard {group.spec.shard} and controls this object: "
        "nothing is sent. Create an NstanceMachinePool, which creates its shard groups, and delete this one"
    )
    return ConditionUpdate(MachinesCondition.READY, False, GroupReason.NOT_OF_POOL, message)


def wanted_config(spec: NstanceShardGroupSpec) -> GroupConfig:
    """Return the settings of a spec."""
    return GroupConfig(
        size=spec.size,
        template=spec.template or "",
        instance_type=spec.instance_type or "",
        subnet_pool=next(iter(spec.subnets or ()), ""),
        vars=dict(spec.vars or {}),
    )


def next_step(wanted: GroupConfig, view: GroupView, *, accepted: bool, static: bool) -> GroupStep:
    """Return the next step: `accepted` if the shard accepted this generation, `static` as in the status."""
    if not view.known or view.problem:
        return WaitForShard(view.problem)
    shown = view.listed
    if shown.is_static if shown is not None else static:
        wanted = replace(wanted, template="", subnet_pool="")
    if accepted and shown is not None and not drift(wanted, shown):
        return InSync(shown)
    return SendGroup(wanted)


def drift(wanted: GroupConfig, shown: Group) -> tuple[str, ...]:
    """Return the names of the settings that differ between a group and the wanted group, sorted.

    >>> drift(GroupConfig(2, vars={"a": "1"}), Group("workers", size=3, vars={"a": "1", "b": "2"}))
    ('size',)
    """
    differs = {name for name in _TEXTS if getattr(wanted, name) not in ("", getattr(shown, name))}
    if wanted.size != shown.size:
        differs.add("size")
    if any(shown.vars.get(name) != value for name, value in wanted.vars.items()):
        differs.add("vars")
    return tuple(sorted(differs))


_TEXTS = ("template", "instance_type", "subnet_pool")


def shown_config(shown: Group) -> ShardGroupConfig:
    """Return the settings of a group for a status."""
    return ShardGroupConfig(
        template=shown.template or None,
        subnets=(shown.subnet_pool,) if shown.subnet_pool else (),
        instance_type=shown.instance_type or None,
        vars=dict(shown.vars) or None,
    )


def conditions_of_failure(failure: ShardFailure, *, ready_reason: str) -> tuple[ConditionUpdate, ...]:
    """Return the conditions after a call that failed; `ready_reason` is the reason of Ready if the shard responded."""
    if failure.kind is FailureKind.UNREACHABLE:
        return unreachable(failure.said, pending=True)
    found = [
        ConditionUpdate(MachinesCondition.READY, False, ready_reason, failure.said),
        ConditionUpdate(MachinesCondition.SHARD_REACHABLE, True, GroupReason.CONNECTED, "the shard answers"),
    ]
    if failure.kind is FailureKind.INVALID or _VALIDATION.search(failure.said):
        found.append(
            ConditionUpdate(MachinesCondition.CONFIG_VALID, False, GroupReason.VALIDATION_FAILED, failure.said)
        )
    return tuple(found)


def unreachable(problem: str, *, pending: bool) -> tuple[ConditionUpdate, ...]:
    """Return the conditions of a group whose shard is unreachable; `pending` if the shard lacks present settings."""
    found = [ConditionUpdate(MachinesCondition.SHARD_REACHABLE, False, GroupReason.SHARD_UNREACHABLE, problem)]
    if pending:
        message = f"the shard does not have the present settings: {problem}"
        found.append(ConditionUpdate(MachinesCondition.READY, False, GroupReason.SYNCING, message))
    return tuple(found)


def leftover_vars(wanted: GroupConfig, shown: Group) -> tuple[str, ...]:
    """Return the variables that a server has and the spec does not, sorted: no call removes one.

    A static group keeps the variables of its configuration, which are not left over.

    >>> leftover_vars(GroupConfig(2, vars={"a": "1"}), Group("workers", size=2, vars={"a": "1", "b": "2"}))
    ('b',)
    """
    return () if shown.is_static else tuple(sorted(shown.vars.keys() - wanted.vars.keys()))


def static_differences(wanted: GroupConfig, shown: Group) -> tuple[str, ...]:
    """Return the settings of a spec that a static group does not have and that are never sent, as sentences.

    >>> static_differences(GroupConfig(2, template="gpu"), Group("workers", "std", is_static=True))
    ("template is 'gpu' here and 'std' on the shard",)
    """
    if not shown.is_static:
        return ()
    pairs = (("template", wanted.template, shown.template), ("subnets", wanted.subnet_pool, shown.subnet_pool))
    return tuple(
        f"{name} is {mine!r} here and {theirs!r} on the shard"
        for name, mine, theirs in pairs
        if mine not in ("", theirs)
    )


def in_sync(
    leftover: Collection[str] = (), *, static: Collection[str] = (), differing: Collection[str] = ()
) -> tuple[ConditionUpdate, ...]:
    """Return the conditions of a group that its shard has.

    `leftover` are variables that cannot be removed, `static` differences of a static group, `differing` the settings that were sent and
    that the shard has otherwise.
    """
    valid = ConditionUpdate(MachinesCondition.CONFIG_VALID, True, GroupReason.VALID, "the shard accepts the settings")
    ready = ConditionUpdate(
        MachinesCondition.READY, True, GroupReason.SYNC_SUCCEEDED, "the shard has the present settings"
    )
    if leftover:
        message = (
            f"the server keeps the vars {', '.join(leftover)}, which the spec does not name, and can remove none: "
            "name each, with an empty value if need be, or replace the group by one of another name"
        )
        valid = ConditionUpdate(MachinesCondition.CONFIG_VALID, False, GroupReason.VARS_NOT_REMOVABLE, message)
    if static:
        message = (
            f"the group is static, so the settings of the server count: {'; '.join(static)}. Take them out of the pool, set them to those "
            "of the server, or change the configuration of the server"
        )
        valid = ConditionUpdate(MachinesCondition.CONFIG_VALID, False, GroupReason.STATIC_SETTINGS, message)
        message = "the shard has the present settings, except for those that ConfigValid names"
        ready = ConditionUpdate(MachinesCondition.READY, True, GroupReason.SYNC_SUCCEEDED, message)
    if differing:
        message = f"the shard has another value than it was sent: {', '.join(differing)}"
        ready = ConditionUpdate(MachinesCondition.READY, False, GroupReason.PROVIDER_ERROR, message)
    return (
        ready,
        ConditionUpdate(MachinesCondition.SHARD_REACHABLE, True, GroupReason.CONNECTED, "the shard answers"),
        valid,
    )
