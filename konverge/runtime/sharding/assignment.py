"""The decision of the coordinator on one object: which replica its label names, and whether its owner is to hand it over. Pure.

    no owner is alive                                 label: the replica that should have it
    the owner is alive and should have it             label: its own replica
    the owner is alive and another should have it     label: its own replica; drain mark: the other, until the owner has cleared its stamp
    the owner is alive and stops                      label: its own replica; it gives everything back when it releases its Lease
    the owner is of no replica that sees labels       label: the replica that should have it, which waits for the stamp
    no replica can take objects                       as it is

Guarantees: an object with a live owner stays in the owner's cache, because only the owner can end its reconcile and clear its stamp. A
label gives no right to reconcile: that takes the stamp, which is claimed by compare-and-swap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.stamp import Stamp
from konverge.words import Annotation, Label

__all__ = ["Assignment", "assign", "drain_mark_of", "label_of", "read_assignment", "replica_name"]

_NOT_IN_A_LABEL: Final = re.compile(r"[^a-z0-9-]+")
_HOST: Final = 50
"""Characters of a host in a label: with the bits behind them, at most the 63 characters of a label value."""


class Assignment(NamedTuple):
    """The words on an object: the replica with the object in its cache, and the next replica; "" for none."""

    replica: str = ""
    drain: str = ""


def label_of(ring: str) -> str:
    """Return the label that the replicas of a ring use to select their objects.

    >>> label_of("shop")
    'shard.konverge.dev/shop'
    """
    return f"{Label.SHARD}/{ring}"


def drain_mark_of(ring: str) -> str:
    """Return the annotation that requests an owner to hand an object over.

    >>> drain_mark_of("shop")
    'shard-drain.konverge.dev/shop'
    """
    return f"{Annotation.SHARD_DRAIN}/{ring}"


def replica_name(host: str, bits: int) -> str:
    """Return the name of a process as a value of a label; it is new with each process, and the same in all of the process's terms as a
    member.

    >>> replica_name("operator-6c9f-x2x", 0xC0FFEE)
    'operator-6c9f-x2x-0000c0ffee'
    """
    host = _NOT_IN_A_LABEL.sub("-", host.lower())[-_HOST:].strip("-") or "host"
    return f"{host}-{bits:010x}"


def read_assignment(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, label: str, mark: str
) -> Assignment:
    """Return the present assignment of an object."""
    return Assignment((labels or {}).get(label, ""), (annotations or {}).get(mark, ""))


def assign(
    present: Assignment,
    *,
    desired: str,
    stamp: Stamp | None,
    former: Stamp | None,
    state_of: Callable[[str], MemberState],
    replica_of: Callable[[str], str],
) -> Assignment:
    """Return the desired assignment of an object.

    `desired` is the member that should own the object. `former` is a replaced stamp whose owner may not know yet of the replacement.
    `replica_of` returns the replica of a member, "" for a member that sees no labels.

    >>> views = {"state_of": lambda member: MemberState.READY, "replica_of": lambda member: member[0]}
    >>> assign(Assignment("a"), desired="b1", stamp=Stamp("a1", 7), former=None, **views)
    Assignment(replica='a', drain='b')
    """
    target = replica_of(desired) if desired else ""
    if not target:
        return present
    for candidate in (former, stamp):
        if candidate is None or not candidate.owner:
            continue
        state, home = state_of(candidate.owner), replica_of(candidate.owner)
        if state.gone or not home:
            continue
        return Assignment(home, "" if home == target or state is MemberState.DRAINING else target)
    return Assignment(target)
