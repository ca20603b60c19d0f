"""The decision about one claim: the condition of its status, and whether the pool is responsible for it.

Guarantees: pure; equal decisions have equal messages. Type, reason and texts are from `words`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from konverge.conditions import MAX_MESSAGE
from konverge.reconcilers.quota.words import (
    Message,
    QuotaCondition,
    QuotaReason,
    fit,
    in_pool,
    join,
    no_candidate,
    released_message,
)

__all__ = [
    "ASSIGNED",
    "BOUND",
    "IN_USE",
    "QUEUED",
    "ClaimDecision",
    "exhausted",
    "failed",
    "queue_exhausted",
    "refused",
    "released",
    "too_many",
    "too_many_in_namespace",
    "unassigned",
]


class ClaimDecision(msgspec.Struct, frozen=True):
    """A condition: type, status, reason, and a message that is cut to the limit of the API.

    `kept`: the pool is responsible for the claim. `in_use`: pods use the allocated amounts.
    """

    type: str
    status: bool
    reason: str
    message: str
    kept: bool = True
    in_use: bool = False

    def __post_init__(self) -> None:
        if len(self.message) > MAX_MESSAGE:
            msgspec.structs.force_setattr(self, "message", fit(self.message))

    @property
    def bound(self) -> bool:
        """Whether the claim is allocated."""
        return self.type == QuotaCondition.BOUND and self.status


BOUND: Final = ClaimDecision(QuotaCondition.BOUND, True, QuotaReason.SUCCEEDED, Message.CLAIMED)
IN_USE: Final = replace(BOUND, in_use=True)
"""An allocated claim that pods use, in the semantics of v0.14."""
ASSIGNED: Final = ClaimDecision(QuotaCondition.ASSIGNED, True, QuotaReason.SUCCEEDED, Message.ASSIGNED)
QUEUED: Final = ClaimDecision(QuotaCondition.ASSIGNED, True, QuotaReason.SUCCEEDED, Message.QUEUED)
"""A claim without a pool was assigned to a pool with room, or to the queue of a pool; that pool's controller writes the next status."""


def exhausted(parts: Iterable[str]) -> ClaimDecision:
    """Return the decision of a claim if too little is left; one part for each resource."""
    return ClaimDecision(QuotaCondition.BOUND, False, QuotaReason.POOL_EXHAUSTED, join(parts))


def queue_exhausted(parts: Iterable[str]) -> ClaimDecision:
    """Return the decision of a claim that an older claim blocks."""
    return ClaimDecision(QuotaCondition.BOUND, False, QuotaReason.QUEUE_EXHAUSTED, join(parts))


def released(pool: str) -> ClaimDecision:
    """Return the decision of a claim that was released by its annotation."""
    return ClaimDecision(QuotaCondition.BOUND, False, QuotaReason.RELEASED, released_message(pool))


def too_many(ceiling: int) -> ClaimDecision:
    """Return the decision of a claim that would fit, but that the pool's status cannot list."""
    return ClaimDecision(QuotaCondition.BOUND, False, QuotaReason.TOO_MANY_CLAIMS, too_many_claims(ceiling))


def too_many_in_namespace(namespace: str, listed: int) -> ClaimDecision:
    """Return the decision of a claim whose namespace has used up its part of the pool's list."""
    return ClaimDecision(
        QuotaCondition.BOUND,
        False,
        QuotaReason.TOO_MANY_CLAIMS,
        f"the pool lists {listed} claims of namespace {namespace} and leaves the rest of its list to others; merge claims",
    )


def too_many_claims(ceiling: int) -> str:
    """Return the message of a pool that cannot list more claims."""
    return f"the pool lists {ceiling} claims and has no room for more; use another pool, or merge claims of a namespace"


def refused(why: str) -> ClaimDecision:
    """Return the decision of a claim whose ResourceQuota the API server rejected."""
    return ClaimDecision(QuotaCondition.BOUND, False, QuotaReason.FAILED, why)


def failed(why: str, *, kept: bool = False) -> ClaimDecision:
    """Return the decision of a claim that cannot be assigned."""
    return ClaimDecision(QuotaCondition.ASSIGNED, False, QuotaReason.FAILED, why, kept)


def unassigned(namespace: str, reasons: Iterable[tuple[str, str]]) -> ClaimDecision:
    """Return the decision of a claim that no pool could ever take; `reasons` pairs each pool with its reason, sorted."""
    parts = [in_pool(pool, why) for pool, why in reasons]
    return ClaimDecision(
        QuotaCondition.ASSIGNED, False, QuotaReason.UNASSIGNED, join(parts) or no_candidate(namespace), kept=False
    )
