"""The rights that sharding needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from konverge.rbac import Rule, plural_of
from konverge.runtime.builder.builder import Controller
from konverge.runtime.election.record import LEASE
from konverge.runtime.events.recorder import EVENT_RULE
from konverge.runtime.sharding.ordinal import STATEFUL_SET
from konverge.runtime.sharding.settings import ShardingSettings

__all__ = ["rules_of_sharding"]


def rules_of_sharding(settings: ShardingSettings, controllers: Iterable[Controller[Any]]) -> tuple[Rule, ...]:
    """Return the rights on the members' Leases, whose names are new in each term, and on the stamped objects.

    >>> rules_of_sharding(ShardingSettings(mode="hash", namespace="web"), ())[0].resources
    ('leases',)
    """
    if not settings.enabled:
        return ()
    if settings.mode == "ordinal":
        return (Rule(STATEFUL_SET.group, (plural_of(STATEFUL_SET),), ("list", "watch"), namespace=settings.namespace),)
    verbs = ("create", "delete", "get", "list", "patch", "watch")
    return (
        Rule(LEASE.group, (plural_of(LEASE),), verbs, namespace=settings.namespace),
        replace(EVENT_RULE, namespace=settings.namespace),  # Events about the members' Leases
        *(
            Rule(controller.kind.group, (plural_of(controller.kind),), ("patch",))
            for controller in controllers
            if controller.family is not None
        ),
    )
