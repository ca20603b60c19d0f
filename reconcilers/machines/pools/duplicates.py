"""The pool that owns a group, if several pools name it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["SameGroupPool", "duplicate_of"]

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SameGroupPool:
    """A pool among the pools of one group."""

    uid: str
    path: str
    created: datetime | None
    has_groups: bool
    """Whether it has shard groups of the group."""


def duplicate_of(own: SameGroupPool, others: Iterable[SameGroupPool]) -> str:
    """Return the other pool that owns the group, "" if this pool does: the pool with shard groups, else the oldest.

    A pool that is being deleted owns the group until its deletion ends, since its shard groups delete the group on the servers.
    """
    first = min((own, *others), key=lambda pool: (not pool.has_groups, pool.created or _NEVER, pool.uid))
    return "" if first.uid == own.uid else first.path
