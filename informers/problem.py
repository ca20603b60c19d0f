"""Why a list or watch was begun again, and what keeps an informer from being up to date.

Errors are classified once, here; the state machine, the metrics (label `cause`) and the report to people use the same words.

410 and a version that is too large for the server: https://kubernetes.io/docs/reference/using-api/api-concepts/#unavailable-resource-versions
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from konverge.client import WatchIdle
from konverge.errors import (
    ApiError,
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    KonvergeError,
    NotFound,
    NotServed,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

__all__ = ["Cause", "Problem", "cause_of", "refuses_streaming"]

_TOO_LARGE = "too large resource version"


class Cause:
    """The words for why something was begun again or does not work."""

    ENDED: Final = "Ended"
    """The server ended the watch in good order."""
    ENDED_EARLY: Final = "EndedEarly"
    """The stream ended before it brought what was asked for."""
    IDLE: Final = "Idle"
    """No byte for longer than the read-idle limit: a dead connection."""
    NO_PROGRESS: Final = "NoProgress"
    """A streaming list that stopped bringing initial objects, and never said that it had brought all."""
    EXPIRED: Final = "Expired"
    VERSION_TOO_LARGE: Final = "VersionTooLarge"
    REFUSED: Final = "Refused"
    """No connection; nothing was sent."""
    UNREACHABLE: Final = "Unreachable"
    """Cut off or timed out with a request on its way."""
    TOO_MANY_REQUESTS: Final = "TooManyRequests"
    SERVER_FAILURE: Final = "ServerFailure"
    UNAUTHORIZED: Final = "Unauthorized"
    FORBIDDEN: Final = "Forbidden"
    NOT_FOUND: Final = "NotFound"
    """404 to a list or watch: the kind may be gone."""
    NOT_SERVED: Final = "NotServed"
    UNSUPPORTED: Final = "Unsupported"
    """The server does not know the parameters of a streaming list."""
    REJECTED: Final = "Rejected"
    """Any other answer that is no success."""
    BROKEN: Final = "Broken"
    """Anything else that failed on this side: credentials, or a defect of this library."""


@dataclass(frozen=True)
class Problem:
    """What keeps an informer from being up to date.

    `cause` is a word of `Cause`. `rule` is the RBAC rule that is missing, as it stands in a Role or ClusterRole, where that is
    known. `since` is when this cause began to hold.

    >>> from datetime import UTC
    >>> Problem("Forbidden", "secrets is forbidden", None, datetime(2030, 1, 1, tzinfo=UTC)).cause
    'Forbidden'
    """

    cause: str
    message: str
    rule: dict[str, Any] | None
    since: datetime


# A class comes before its bases.
_BY_CLASS: tuple[tuple[type[KonvergeError], str], ...] = (
    (Expired, Cause.EXPIRED),
    (TooManyRequests, Cause.TOO_MANY_REQUESTS),
    (Forbidden, Cause.FORBIDDEN),
    (Unauthorized, Cause.UNAUTHORIZED),
    (NotFound, Cause.NOT_FOUND),
    (NotServed, Cause.NOT_SERVED),
    (ServerFailure, Cause.SERVER_FAILURE),
    (ApiError, Cause.REJECTED),
)


def cause_of(error: Exception) -> str:
    """Return the word for an error out of discovery, a list or a watch.

    >>> cause_of(Expired("too old resource version", status=410))
    'Expired'
    """
    if isinstance(error, ApiError) and _too_large(error):
        return Cause.VERSION_TOO_LARGE
    if isinstance(error, WatchIdle):
        return Cause.IDLE
    if isinstance(error, Unreachable):
        return Cause.UNREACHABLE if error.maybe_done else Cause.REFUSED
    return next((cause for kind, cause in _BY_CLASS if isinstance(error, kind)), Cause.BROKEN)


def _too_large(error: ApiError) -> bool:
    """A version from the future of this server (another replica, a restored etcd); it says so in a 504 (or older: 500)."""
    words = (error.message, *(message for _, message in error.causes))
    return any(_TOO_LARGE in text.lower() for text in words)


def refuses_streaming(error: Exception) -> bool:
    """Tell whether this answer to a streaming list means that the server does not know such lists at all.

    Servers without the feature answer 422 (the parameter is forbidden), other implementations of the API 400, 405 or 501.
    """
    return isinstance(error, BadRequest | Invalid) or (isinstance(error, ApiError) and error.status in {405, 406, 501})
