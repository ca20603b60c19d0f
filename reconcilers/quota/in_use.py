"""Which allocated claims pods use, in the semantics of v0.14.

Promises: pure and deterministic. Of what a ResourceQuota counts as used, as far as the pool names it, claims are taken off by turns: the
one that covers most of what is left, the older of two that cover as much, until nothing is left or nothing more is covered. Those are
in use. How much a claim covers is summed over its resources, bytes beside cores, as Capsule does (docs/reference/capsule.md#use).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from konverge.reconcilers.quota.amounts import Amounts

__all__ = ["covering"]


def covering(used: Mapping[str, int], claims: Sequence[tuple[str, Mapping[str, int]]], hard: Iterable[str]) -> set[str]:
    """Return the uids of the claims that cover what is used; `claims` are uids and amounts by priority.

    >>> claims = [("small", {"pods": 1}), ("large", {"pods": 2}), ("spare", {"pods": 1})]
    >>> covering({"pods": 3}, claims, ["pods"]) == {"small", "large"}
    True
    """
    left: Amounts = {resource: used[resource] for resource in hard if used.get(resource, 0) > 0}
    # What a claim covers only falls, so what was reckoned before is the most that it can be.
    turns = [(-_covers(amounts, left), place) for place, (_, amounts) in enumerate(claims)]
    heapify(turns)
    found: set[str] = set()
    while turns and left:
        before, place = heappop(turns)
        uid, amounts = claims[place]
        now = -_covers(amounts, left)
        if not now:
            continue
        if now != before:
            heappush(turns, (now, place))
            continue
        found.add(uid)
        left = {resource: rest for resource, amount in left.items() if (rest := amount - amounts.get(resource, 0)) > 0}
    return found


def _covers(amounts: Mapping[str, int], left: Mapping[str, int]) -> int:
    return sum(min(amount, left[resource]) for resource, amount in amounts.items() if resource in left)
