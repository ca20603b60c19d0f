"""Errors of S3 -> BucketFailure: by code first, by HTTP status where a server has a code of its own.

Guarantees: pure. A message consists of our own words and the error code; the text of the server is dropped, because servers quote access
keys and the signed request in it.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from __future__ import annotations

import re
from typing import Final

from konverge.errors import KonvergeError
from konverge.reconcilers.pools.buckets.words import BucketReason

__all__ = ["BucketFailure", "failure_of"]

_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]{0,63}")

_CREDENTIALS: Final = frozenset(
    {
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "Forbidden",
        "InvalidAccessKeyId",
        "InvalidSecurity",
        "InvalidToken",
        "NotSignedUp",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnauthorizedAccess",
    }
)
_BUSY: Final = frozenset(
    {
        "InternalError",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "TooManyRequests",
        "XMinioServerNotInitialized",
    }
)
_TAKEN: Final = frozenset({"BucketAlreadyExists"})
_ABSENT: Final = frozenset({"NoSuchBucket", "NotFound"})

_REMEDIES: Final = {
    BucketReason.CREDENTIALS: "check the keys in the Secret of the object storage, and their rights",
    BucketReason.TAKEN: "the bucket belongs to another account: it is neither used nor deleted",
    BucketReason.BUSY: "the server is busy; it is tried again",
    BucketReason.REFUSED: "the object storage refused the request",
}


class BucketFailure(KonvergeError):
    """A bucket could not be created, checked, emptied or deleted.

    `reason` is a BucketReason; `code` and `status` are from the server's response, if it sent one.
    """

    def __init__(self, reason: str, message: str, *, code: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
        self.status = status

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed in a moment.

        >>> BucketFailure(BucketReason.BUSY, "busy").transient, BucketFailure(BucketReason.TAKEN, "taken").transient
        (True, False)
        """
        return self.reason in {BucketReason.BUSY, BucketReason.UNREACHABLE}

    @property
    def absent(self) -> bool:
        """Whether the bucket does not exist; the response to a HEAD has a status and no code."""
        return self.code in _ABSENT or (self.status == 404 and not self.code)


def failure_of(operation: str, code: str, status: int) -> BucketFailure:
    """Return the failure for an error response.

    >>> str(failure_of("CreateBucket", "SlowDown", 503))
    'CreateBucket: SlowDown (503): the server is busy; it is tried again'
    """
    known = code if _CODE.fullmatch(code) else ""
    reason = _reason(known, status)
    error = f"{known} ({status})" if known else f"status {status}"
    return BucketFailure(reason, f"{operation}: {error}: {_REMEDIES[reason]}", code=known, status=status)


def _reason(code: str, status: int) -> str:
    if code in _TAKEN:
        return BucketReason.TAKEN
    if code in _CREDENTIALS:
        return BucketReason.CREDENTIALS
    if code in _BUSY or status == 429 or status in {500, 502, 503, 504}:
        return BucketReason.BUSY
    if status in {401, 403}:
        return BucketReason.CREDENTIALS
    return BucketReason.REFUSED
