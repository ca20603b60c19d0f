"""The settings of a group: the settings to send, and their differences from the settings that a server has. Pure.

A server merges the settings that it receives: an empty setting keeps the old value, and no call removes a key of vars. So only settings of
the spec are compared.
"""

from __future__ import annotations

from konverge.crds.machines_v1beta1 import NstanceShardGroupSpec, ShardGroupConfig
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig

__all__ = ["drift", "leftover_vars", "shown_config", "static_differences", "wanted_config"]

_TEXTS = ("template", "instance_type", "subnet_pool")


def wanted_config(spec: NstanceShardGroupSpec) -> GroupConfig:
    """Return the settings of a spec."""
    return GroupConfig(
        size=spec.size,
        template=spec.template or "",
        instance_type=spec.instance_type or "",
        subnet_pool=next(iter(spec.subnets or ()), ""),
        vars=dict(spec.vars or {}),
    )


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


def shown_config(shown: Group) -> ShardGroupConfig:
    """Return the settings of a group for a status."""
    return ShardGroupConfig(
        template=shown.template or None,
        subnets=(shown.subnet_pool,) if shown.subnet_pool else (),
        instance_type=shown.instance_type or None,
        vars=dict(shown.vars) or None,
    )


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
