"""What is said of one claim: the one condition of its status, as the rules conclude it.

Promises: pure; the same verdict gives the same words. Type, reason and texts are those of `words`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from konverge.conditions import MAX_MESSAGE
from konverge.reconcilers.quota.words import Message, Reason, Type, fit, in_pool, join, no_candidate, released

__all__ = [
    "BOUND",
    "FOUND",
    "IN_USE",
    "QUEUED",
    "Verdict",
    "exhausted",
    "failed",
    "let_go",
    "queue_exhausted",
    "refused",
    "too_many",
    "too_many_here",
    "unassigned",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition: its type, status, reason and message, which is cut to what the API takes.

    `kept`: the pool looks after the claim. `in_use`: pods use what is allocated.
    """

    type: str
    status: bool
    reason: str
    message: str
    kept: bool = True
    in_use: bool = False

    def __post_init__(self) -> None:
        if len(self.message) > MAX_MESSAGE:
            object.__setattr__(self, "message", fit(self.message))

    @property
    def bound(self) -> bool:
        """Whether the claim is allocated."""
        return self.type == Type.BOUND and self.status


BOUND: Final = Verdict(Type.BOUND, True, Reason.SUCCEEDED, Message.CLAIMED)
IN_USE: Final = replace(BOUND, in_use=True)
"""Of an allocated claim that pods use, in the semantics of v0.14."""
FOUND: Final = Verdict(Type.ASSIGNED, True, Reason.SUCCEEDED, Message.ASSIGNED)
QUEUED: Final = Verdict(Type.ASSIGNED, True, Reason.SUCCEEDED, Message.QUEUED)
"""Of a claim without a pool: one that has room for it, one in whose queue it waits. What comes of it the pool says."""


def exhausted(parts: Iterable[str]) -> Verdict:
    """Return the verdict of a claim for which too little is left; each part speaks of one resource."""
    return Verdict(Type.BOUND, False, Reason.POOL_EXHAUSTED, join(parts))


def queue_exhausted(parts: Iterable[str]) -> Verdict:
    """Return the verdict of a claim that waits for an older one."""
    return Verdict(Type.BOUND, False, Reason.QUEUE_EXHAUSTED, join(parts))


def let_go(pool: str) -> Verdict:
    """Return the verdict of a claim that was released by its annotation."""
    return Verdict(Type.BOUND, False, Reason.RELEASED, released(pool))


def too_many(ceiling: int) -> Verdict:
    """Return the verdict of a claim that would fit, but that the status of the pool has no room to list."""
    return Verdict(Type.BOUND, False, Reason.TOO_MANY_CLAIMS, too_many_claims(ceiling))


def too_many_here(namespace: str, listed: int) -> Verdict:
    """Return the verdict of a claim whose namespace has all of the pool's list that one namespace may have."""
    return Verdict(
        Type.BOUND,
        False,
        Reason.TOO_MANY_CLAIMS,
        f"the pool lists {listed} claims of namespace {namespace} and leaves the rest of its list to others; merge claims",
    )


def too_many_claims(ceiling: int) -> str:
    """Return the text for a pool that lists as many claims as it can."""
    return f"the pool lists {ceiling} claims and has no room for more; use another pool, or merge claims of a namespace"


def refused(why: str) -> Verdict:
    """Return the verdict of a claim whose ResourceQuota the API server would not take."""
    return Verdict(Type.BOUND, False, Reason.FAILED, why)


def failed(why: str, *, kept: bool = False) -> Verdict:
    """Return the verdict of a claim that cannot be assigned."""
    return Verdict(Type.ASSIGNED, False, Reason.FAILED, why, kept)


def unassigned(namespace: str, reasons: Iterable[tuple[str, str]]) -> Verdict:
    """Return the verdict of a claim without a pool that no pool could ever take; `reasons` are pools and why not, sorted by pool."""
    parts = [in_pool(pool, why) for pool, why in reasons]
    return Verdict(Type.ASSIGNED, False, Reason.UNASSIGNED, join(parts) or no_candidate(namespace), kept=False)
