"""Which allocated claims pods use, in the semantics of v0.14.

Guarantees: pure and deterministic. A greedy cover of the amounts that a ResourceQuota counts as used, for the resources of the pool: each
step takes the claim that covers most of the rest (the older claim on a tie), until nothing is left or no claim covers more. The claims
taken are in use. The cover of a claim is summed over its resources, bytes and cores alike, as Capsule does (docs/reference/capsule.md#use).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from konverge.reconcilers.quota.amounts import Amounts

__all__ = ["covering"]


def covering(used: Mapping[str, int], claims: Sequence[tuple[str, Mapping[str, int]]], hard: Iterable[str]) -> set[str]:
    """Return the uids of the claims that cover `used`; `claims` are uids and amounts in queue order.

    >>> claims = [("small", {"pods": 1}), ("large", {"pods": 2}), ("spare", {"pods": 1})]
    >>> covering({"pods": 3}, claims, ["pods"]) == {"small", "large"}
    True
    """
    left: Amounts = {resource: used[resource] for resource in hard if used.get(resource, 0) > 0}
    # The cover of a claim only decreases, so its earlier value is an upper bound.
    heap = [(-_covers(amounts, left), index) for index, (_, amounts) in enumerate(claims)]
    heapify(heap)
    covering_claims: set[str] = set()
    while heap and left:
        bound, index = heappop(heap)
        uid, amounts = claims[index]
        cover = -_covers(amounts, left)
        if not cover:
            continue
        if cover != bound:
            heappush(heap, (cover, index))
            continue
        covering_claims.add(uid)
        left = {resource: rest for resource, amount in left.items() if (rest := amount - amounts.get(resource, 0)) > 0}
    return covering_claims


def _covers(amounts: Mapping[str, int], left: Mapping[str, int]) -> int:
    return sum(min(amount, left[resource]) for resource, amount in amounts.items() if resource in left)
