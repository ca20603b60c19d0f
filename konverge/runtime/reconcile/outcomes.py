"""The check of what a reconciler returned."""

from __future__ import annotations

from typing import Any

from konverge.errors import NotAnOutcome
from konverge.outcome import Done, Outcome, RequeueAfter

__all__ = ["checked"]


def checked(controller: str, verb: str, returned: Any) -> Outcome:
    """Return what `reconcile` or `finalize` returned; raises NotAnOutcome that names the legal ways to end."""
    if isinstance(returned, Done | RequeueAfter):
        return returned
    raise NotAnOutcome(
        f"{verb} of controller {controller!r} returned {returned!r}, which is no Outcome; end with return Done() or "
        "return RequeueAfter(seconds), or raise: RetryAfter(seconds), Terminal(message), or any exception to back off"
    )
