"""Reviews, by the API server, whether a caller may read metrics; the decisions are remembered.

Guarantees: access takes an authenticated token and the right to this verb on this path; every failure is a refusal. At most a few reviews
are in progress at once, each for 10 s at most, and a bounded number of decisions is remembered; refused tokens displace no accepted
tokens. Tokens are kept only as keyed digests and are in no log line, response or exception. Reviews that fail are logged once a
minute.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from konverge.errors import KonvergeError
from konverge.logs import get_logger
from konverge.runtime.http.access import (
    ALLOWED,
    ALLOWED_SECONDS,
    DENIED_SECONDS,
    KNOWN_SECONDS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    UNKNOWN,
    Access,
    Caller,
    Remembered,
    access_review,
    bearer_token,
    caller_in,
    is_allowed,
    refusal,
    token_review,
)
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["AccessReviewer"]

_AT_ONCE: Final = 4
_TIMEOUT: Final = 10.0
_QUIET: Final = 60.0
_FAILED: Final = Access(
    500, "The API server could not be asked who may read this; the log of this process has the cause\n"
)


class AccessReviewer:
    """Decides about requests. `client` returns the client of the API server, and raises a KonvergeError while there is none."""

    def __init__(self, client: Callable[[], Client], *, remembered: int = 1024, key: bytes = b"") -> None:
        self._client = client
        self._key = key or os.urandom(32)
        self._callers = Remembered[Caller](remembered)
        self._refused = Remembered[bool](remembered)
        self._decisions = Remembered[Access](remembered)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._logged_at: float | None = None
        self._log = get_logger("konverge.runtime")

    async def check(self, authorization: Sequence[str], verb: str, path: str) -> Access:
        """Decide about a request with these values of the header Authorization."""
        token = bearer_token(authorization)
        if not token:
            return UNKNOWN
        try:
            async with asyncio.timeout(_TIMEOUT):
                caller = await self._authenticated(token)
                return UNKNOWN if caller is None else await self._authorized(caller, verb, path)
        except (KonvergeError, TimeoutError, msgspec.DecodeError) as error:
            self._failed(str(error).replace(token, "...") or type(error).__name__)
            return _FAILED

    async def _authenticated(self, token: str) -> Caller | None:
        digest = hmac.digest(self._key, token.encode(), hashlib.sha256)
        async with self._slots:  # after the wait an earlier request may have reviewed the token
            known = self._callers.get(digest, now=_now())
            if known is not None or self._refused.get(digest, now=_now()):
                return known
            caller = caller_in(await self._review(TOKEN_REVIEWS, token_review(token)))
            if caller is None:
                self._refused.put(digest, value=True, now=_now(), seconds=DENIED_SECONDS)
            else:
                self._callers.put(digest, caller, now=_now(), seconds=KNOWN_SECONDS)
        return caller

    async def _authorized(self, caller: Caller, verb: str, path: str) -> Access:
        request = (caller, verb, path)
        async with self._slots:
            decision = self._decisions.get(request, now=_now())
            if decision is None:
                allowed = is_allowed(await self._review(SUBJECT_ACCESS_REVIEWS, access_review(caller, verb, path)))
                decision = ALLOWED if allowed else refusal(caller, verb, path)
                seconds = ALLOWED_SECONDS if allowed else DENIED_SECONDS
                self._decisions.put(request, decision, now=_now(), seconds=seconds)
        return decision

    async def _review(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        # A review changes nothing, so a retry is safe.
        return msgspec.json.decode(await self._client().raw("POST", path, body=body, repeatable=True), type=dict)

    def _failed(self, cause: str) -> None:
        now = _now()
        if self._logged_at is None or now - self._logged_at >= _QUIET:
            self._logged_at = now
            self._log.error("a request for metrics could not be authorized", **{LogKey.ERROR: cause})


def _now() -> float:
    return asyncio.get_running_loop().time()
