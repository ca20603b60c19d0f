"""The order of the claims that wait for a pool, and the rule that lets an older claim block a younger claim.

Guarantees: pure, and total: two claims never share a position, so the order does not depend on the order of the cache
(docs/reference/capsule.md#allocation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from konverge.reconcilers.quota.observation import ClaimView

__all__ = ["blocked_by_older", "in_queue_order", "position"]


def position(claim: ClaimView) -> tuple[str, str, str]:
    """Return the sort key of a claim: creation time, then name, then namespace; timestamps of the API sort as text."""
    return (claim.created, claim.name, claim.namespace)


def in_queue_order(claims: Iterable[ClaimView]) -> list[ClaimView]:
    """Return the claims, the oldest first."""
    return sorted(claims, key=position)


def blocked_by_older(amounts: Mapping[str, int], waiting: Collection[str]) -> list[str]:
    """Return the requested resources that older claims wait for, sorted: with orderedQueue each of them blocks the claim.

    >>> blocked_by_older({"pods": 1, "cpu": 2, "memory": 0}, {"cpu", "memory"})
    ['cpu']
    """
    return [resource for resource in sorted(amounts) if amounts[resource] and resource in waiting]
