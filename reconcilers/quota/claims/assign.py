"""Assigns a pool to a claim that names none: the first by name that serves its namespace and has room for every resource now.

Guarantees (docs/reference/capsule.md#assignment): pure and deterministic; webhook and claim controller call the same function. If no
pool has room, the claim waits in the queue of a pool: the only pool that has every resource, else the first by name whose hard is large
enough. If no pool could ever take it, the reasons name each candidate's shortage.

Caveats: the room of a pool is read from its status, and only the pool controller allocates, so a claim that was assigned may still wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from konverge.quantities import Format
from konverge.reconcilers.quota.amounts import show
from konverge.reconcilers.quota.claims.queue import blocked_by_older, queue_to_join
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, Offer
from konverge.reconcilers.quota.words import join, not_claimable, queued, shortage

__all__ = ["PoolChoice", "choose"]


class PoolChoice(msgspec.Struct, frozen=True):
    """The pool that has room, and the pool to queue at; if there is neither, `reasons` holds each candidate's reason, by name."""

    offer: Offer | None
    queue: Offer | None = None
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> ClaimPlace:
        """The place of the claim: the queue, and with it the pool that has room, if that is another pool."""
        queue = NOWHERE.queue if self.queue is None else self.queue.place
        if self.offer is None or self.offer == self.queue:
            return ClaimPlace(queue=queue)
        return ClaimPlace(self.offer.place, queue)


def choose(
    amounts: Mapping[str, int], offers: Iterable[Offer], formats: Mapping[str, Format] = MappingProxyType({})
) -> PoolChoice:
    """Return the first offer, by name, that has room for these amounts, and the offer to queue at.

    `formats` are the formats of the request; the reasons use them.

    >>> from konverge.quantities import Quantity
    >>> pool = Offer(name="solar", hard={"pods": Quantity.of(7)}, available={"pods": Quantity.of(1).billionths})
    >>> waits = choose({"pods": Quantity.of(3).billionths}, [pool])
    >>> waits.offer is None, waits.queue is pool, waits.reasons
    (True, True, (('solar', 'requested: pods=3, available: pods=1'),))
    """
    reasons = []
    candidates = sorted(offers, key=lambda offer: offer.name)
    for offer in candidates:
        reason = _rejection(amounts, offer, formats)
        if not reason:
            return PoolChoice(offer, queue_to_join(amounts, candidates))
        reasons.append((offer.name, reason))
    return PoolChoice(None, queue_to_join(amounts, candidates), tuple(reasons))


def _rejection(amounts: Mapping[str, int], offer: Offer, formats: Mapping[str, Format]) -> str:
    lacking = [resource for resource in sorted(amounts) if resource not in offer.hard]
    if lacking:
        return join(not_claimable(resource, offer.name) for resource in lacking)
    requested = [resource for resource in sorted(amounts) if amounts[resource]]

    def formatted(resource: str, amount: int) -> str:
        return show(resource, amount, offer.hard, formats.get(resource))

    ahead = blocked_by_older(amounts, offer.waiting)
    if ahead:
        return join(
            queued(resource, formatted(resource, amounts[resource]), formatted(resource, offer.waiting[resource]))
            for resource in ahead
        )
    short = [resource for resource in requested if amounts[resource] > offer.available.get(resource, 0)]
    return join(
        shortage(
            resource, formatted(resource, amounts[resource]), formatted(resource, offer.available.get(resource, 0))
        )
        for resource in short
    )
