"""Reasons why a list or watch was restarted or an informer is not up to date.

Errors are classified once, here; the state machine, the metrics (label `cause`) and `Problem` use the same values.

410 and a version that is too large for the server: https://kubernetes.io/docs/reference/using-api/api-concepts/#unavailable-resource-versions
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

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

__all__ = ["RestartCause", "Problem", "cause_of", "refuses_streaming"]

_TOO_LARGE = "too large resource version"


class RestartCause:
    """Restart and failure reasons, also values of the metric label `cause`."""

    ENDED: Final = "Ended"
    """The server ended the watch without an error, at its timeout."""
    ENDED_EARLY: Final = "EndedEarly"
    """The stream ended before its first event, or before the end of its initial objects."""
    IDLE: Final = "Idle"
    """No byte for `InformerSettings.watch_idle` seconds: a dead watch, which is restarted at once."""
    NO_PROGRESS: Final = "NoProgress"
    """A streaming list stopped before the bookmark that ends its initial objects."""
    EXPIRED: Final = "Expired"
    VERSION_TOO_LARGE: Final = "VersionTooLarge"
    REFUSED: Final = "Refused"
    """No connection; no request was sent."""
    UNREACHABLE: Final = "Unreachable"
    """The connection was cut or timed out after the request was sent."""
    TOO_MANY_REQUESTS: Final = "TooManyRequests"
    SERVER_FAILURE: Final = "ServerFailure"
    UNAUTHORIZED: Final = "Unauthorized"
    FORBIDDEN: Final = "Forbidden"
    NOT_FOUND: Final = "NotFound"
    """404 to a list or watch: the kind may no longer be served."""
    NOT_SERVED: Final = "NotServed"
    UNSUPPORTED: Final = "Unsupported"
    """The server does not know the parameters of a streaming list."""
    REJECTED: Final = "Rejected"
    """Any other error response."""
    BROKEN: Final = "Broken"
    """Any other failure of this process: credentials, or a defect of this library."""


class Problem(msgspec.Struct, frozen=True):
    """The reason why an informer is not up to date.

    `cause` is a value of `RestartCause`. `rule` is the missing RBAC rule as in a Role or ClusterRole, if it is known. `since` is the
    first failure with this cause.

    >>> from datetime import UTC
    >>> Problem("Forbidden", "secrets is forbidden", None, datetime(2030, 1, 1, tzinfo=UTC)).cause
    'Forbidden'
    """

    cause: str
    message: str
    rule: dict[str, Any] | None
    since: datetime


# A class precedes its bases.
_BY_CLASS: tuple[tuple[type[KonvergeError], str], ...] = (
    (Expired, RestartCause.EXPIRED),
    (TooManyRequests, RestartCause.TOO_MANY_REQUESTS),
    (Forbidden, RestartCause.FORBIDDEN),
    (Unauthorized, RestartCause.UNAUTHORIZED),
    (NotFound, RestartCause.NOT_FOUND),
    (NotServed, RestartCause.NOT_SERVED),
    (ServerFailure, RestartCause.SERVER_FAILURE),
    (ApiError, RestartCause.REJECTED),
)


def cause_of(error: Exception) -> str:
    """Return the cause for an error of discovery, a list or a watch.

    >>> cause_of(Expired("too old resource version", status=410))
    'Expired'
    """
    if isinstance(error, ApiError) and _too_large(error):
        return RestartCause.VERSION_TOO_LARGE
    if isinstance(error, WatchIdle):
        return RestartCause.IDLE
    if isinstance(error, Unreachable):
        return RestartCause.UNREACHABLE if error.maybe_done else RestartCause.REFUSED
    return next((cause for kind, cause in _BY_CLASS if isinstance(error, kind)), RestartCause.BROKEN)


def _too_large(error: ApiError) -> bool:
    """Report whether the requested resourceVersion is ahead of this server (another replica, a restored etcd): 504, formerly 500."""
    words = (error.message, *(message for _, message in error.causes))
    return any(_TOO_LARGE in text.lower() for text in words)


def refuses_streaming(error: Exception) -> bool:
    """Report whether this error response to a streaming list means that the server does not support such lists.

    Servers without the feature respond with 422 (the parameter is forbidden), other implementations of the API with 400, 405 or 501.
    """
    return isinstance(error, BadRequest | Invalid) or (isinstance(error, ApiError) and error.status in {405, 406, 501})
