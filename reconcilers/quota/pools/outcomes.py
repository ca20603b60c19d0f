"""The outcome of a reconcile's writes: which failed, whether the API server rejected them, and whether another reconcile has work.

Guarantees: no I/O. Transient errors are not rejections: one of them is raised at the end, so that the reconcile is retried.
"""

from __future__ import annotations

import msgspec

from konverge.client import missing_rule, namespace_is_ending
from konverge.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Contested,
    Forbidden,
    Invalid,
    KonvergeError,
    NotFound,
    NotOurs,
)

__all__ = ["WriteOutcomes", "is_ending", "is_refusal", "server_message"]

_REFUSALS = (BadRequest, Forbidden, Invalid, NotOurs)


def is_ending(error: KonvergeError) -> bool:
    """Whether a write failed because its namespace is terminating or deleted."""
    return isinstance(error, NotFound) or namespace_is_ending(error)


def is_refusal(error: KonvergeError) -> bool:
    """Whether the API server rejected the object itself; a temporary failure or a missing RBAC rule does not count."""
    return isinstance(error, _REFUSALS) and not is_ending(error) and missing_rule(error) is None


def server_message(error: KonvergeError) -> str:
    """Return the API server's message without the request, which the reader of the status knows."""
    return error.message if isinstance(error, ApiError) else str(error)


class WriteOutcomes(msgspec.Struct):
    """The results of the writes: rejections by namespace, a transient error, and whether another reconcile has work."""

    refused: dict[str, str] = msgspec.field(default_factory=dict)
    unsure: set[str] = msgspec.field(default_factory=set)
    """Uids of claims whose status is not written in this reconcile, because their ResourceQuota was not."""
    culprits: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """By namespace the claims that invalidate its ResourceQuota, with the reason of each, by uid."""
    failed: set[str] = msgspec.field(default_factory=set)
    """Namespaces whose ResourceQuota was not written."""
    error: KonvergeError | None = None
    again: bool = False

    def record(self, namespace: str, error: KonvergeError) -> None:
        """Record a failed write of a namespace's ResourceQuota."""
        self.failed.add(namespace)
        if is_ending(error) or isinstance(error, (Conflict, Contested)):
            self.again = True  # its watch event is on its way, or another daemon lags behind
        elif is_refusal(error):
            self.refused[namespace] = server_message(error)
        else:
            self.error = error
