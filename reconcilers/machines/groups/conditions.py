"""The conditions of a shard group. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from konverge.crds.machines_v1beta1 import NstanceShardGroup
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.words import GroupReason, MachinesCondition
from konverge.runtime import ConditionUpdate

__all__ = ["conditions_of_failure", "in_sync", "not_of_pool", "unreachable"]

_VALIDATION = re.compile(
    r"cannot override|is required for new group|has no subnet pool|template .*not found|\binvalid\b"
)
"""The texts of a server's refusal of settings: its code is the same as for transient failures."""


def not_of_pool(group: NstanceShardGroup) -> ConditionUpdate:
    """Return the condition of a shard group without a pool."""
    message = (
        f"no pool of this namespace has group {group.spec.group} on shard {group.spec.shard} and controls this object: "
        "nothing is sent. Create an NstanceMachinePool, which creates its shard groups, and delete this one"
    )
    return ConditionUpdate(MachinesCondition.READY, False, GroupReason.NOT_OF_POOL, message)


def conditions_of_failure(failure: ShardFailure, *, ready_reason: str) -> tuple[ConditionUpdate, ...]:
    """Return the conditions after a call that failed; `ready_reason` is the reason of Ready if the shard responded."""
    if failure.kind is FailureKind.UNREACHABLE:
        return unreachable(failure.text, pending=True)
    conditions = [
        ConditionUpdate(MachinesCondition.READY, False, ready_reason, failure.text),
        ConditionUpdate(MachinesCondition.SHARD_REACHABLE, True, GroupReason.CONNECTED, "the shard answers"),
    ]
    if failure.kind is FailureKind.INVALID or _VALIDATION.search(failure.text):
        conditions.append(
            ConditionUpdate(MachinesCondition.CONFIG_VALID, False, GroupReason.VALIDATION_FAILED, failure.text)
        )
    return tuple(conditions)


def unreachable(problem: str, *, pending: bool) -> tuple[ConditionUpdate, ...]:
    """Return the conditions of a group whose shard is unreachable; `pending` if the shard lacks present settings."""
    conditions = [ConditionUpdate(MachinesCondition.SHARD_REACHABLE, False, GroupReason.SHARD_UNREACHABLE, problem)]
    if pending:
        message = f"the shard does not have the present settings: {problem}"
        conditions.append(ConditionUpdate(MachinesCondition.READY, False, GroupReason.SYNCING, message))
    return tuple(conditions)


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
