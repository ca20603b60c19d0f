"""Which pods may request an instance of their own. Pure.

The creator of a pod writes its annotations, so an annotation permits nothing. The settings of the operator permit: by namespace,
group and instance type, with a limit for each namespace. A pod of the operator's own namespace needs no permission.
"""

from __future__ import annotations

from collections.abc import Collection

from konverge.reconcilers.machines.ondemand.demand import Demand
from konverge.reconcilers.machines.settings import EVERY, OnDemandAllowance
from konverge.reconcilers.machines.shards.addresses import is_identifier

__all__ = ["demand_problem", "over_limit", "unknown_group"]

_ASK = "ask an administrator for an entry of the setting machines.on_demand_allowances"
_LONGEST_TYPE = 128
"""Characters of an instance type; the longest names of clouds have about 30."""


def demand_problem(demand: Demand, allowances: Collection[OnDemandAllowance], *, home: str) -> str:
    """Return why a pod gets no instance, "" if it may have one; `home` is the operator's namespace."""
    if not is_identifier(demand.group):
        return f"{demand.group[:64]!r} is not the name of a group: use at most 32 lower-case letters and digits, with single hyphens inside"
    if len(demand.instance_type) > _LONGEST_TYPE:
        return f"the instance type has {len(demand.instance_type)} characters: use at most {_LONGEST_TYPE}"
    if demand.pod.namespace == home:
        return ""
    permitted = _of_namespace(demand, allowances)
    if not permitted:
        return f"pods of this namespace may not ask for instances: {_ASK}"
    permitted = [allowance for allowance in permitted if _has(allowance.groups, demand.group)]
    if not permitted:
        return f"pods of this namespace may not ask for instances of group {demand.group}: {_ASK}"
    if demand.instance_type and not any(
        _has(allowance.instance_types, demand.instance_type) for allowance in permitted
    ):
        return f"pods of this namespace may not ask for the instance type {demand.instance_type!r}: leave it out, or {_ASK}"
    return ""


def unknown_group(demand: Demand) -> str:
    """Return why a pod of a group that no shard has gets no instance."""
    return f"no shard has the group {demand.group}: correct the annotation, or create the group; then the pod gets its instance"


def over_limit(demand: Demand, allowances: Collection[OnDemandAllowance], *, home: str, used: int) -> str:
    """Return why the pod has to wait, "" if it has not; `used` is the number of pods of the namespace that have a Machine."""
    if demand.pod.namespace == home:
        return ""
    permitted = _of_namespace(demand, allowances)
    most = max((allowance.machines for allowance in permitted if _has(allowance.groups, demand.group)), default=0)
    if used < most:
        return ""
    return f"{used} pods of this namespace have an instance, and {most} may: the pod waits until another ends"


def _of_namespace(demand: Demand, allowances: Collection[OnDemandAllowance]) -> list[OnDemandAllowance]:
    return [allowance for allowance in allowances if _has(allowance.namespaces, demand.pod.namespace)]


def _has(names: Collection[str], name: str) -> bool:
    return name in names or EVERY in names
