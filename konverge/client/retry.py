"""Retries of failed attempts and their exponential backoff: pure decisions, and the tenacity objects that execute them.

| Failure                                               | Read or repeatable write | Any other write |
|---|---|---|
| nothing was sent (refused, DNS, TLS, connect timeout) | again                    | again           |
| sent, and no response                                 | again                    | never           |
| 429, with or without Retry-After                      | again                    | again           |
| 429 of a PodDisruptionBudget                          | never                    | never           |
| 503 with Retry-After                                  | again                    | again           |
| other 5xx                                             | again                    | never           |
| 401, once                                             | again, with credentials looked up afresh   ||
| anything else                                         | never                    | never           |

With a 429, or a 503 with Retry-After, the server did not process the request; after any other 5xx the write may have been done.
"storage is (re)initializing", the response for a CRD that was just created, is such a 429. The wait is never shorter than Retry-After; if
it would pass the deadline of the call, the error is raised at once. Waits have jitter.

Meaning of a 429: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tenacity import AsyncRetrying, RetryCallState
from tenacity.retry import retry_if_exception
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from konverge.client.requests import Request
from konverge.client.settings import ClientSettings
from konverge.errors import ApiError, EvictionRefused, ServerFailure, TooManyRequests, Unauthorized, Unreachable

__all__ = ["backoff_delay", "may_repeat", "retrying"]


def may_repeat(request: Request, error: BaseException, attempt: int) -> bool:
    """Whether a request may be sent again after this attempt (1 is the first) failed with this error."""
    if isinstance(error, Unreachable):
        return request.repeatable or not error.maybe_done
    if isinstance(error, TooManyRequests):
        return not isinstance(error, EvictionRefused)
    if isinstance(error, Unauthorized):
        return attempt == 1
    if isinstance(error, ServerFailure):
        return request.repeatable or (error.status == 503 and error.retry_after is not None)
    return False


def backoff_delay(error: BaseException, attempt: int, settings: ClientSettings, random: Random) -> float:
    """Return the seconds to wait after this attempt (1 is the first): Retry-After plus up to a tenth, or exponential backoff."""
    if isinstance(error, Unauthorized):
        return 0.0
    if isinstance(error, ApiError) and error.retry_after is not None:
        return error.retry_after * (1 + random.random() / 10)
    ceiling = min(settings.backoff_limit, settings.backoff_start * 2.0 ** (attempt - 1))
    return ceiling * (0.5 + random.random() / 2)


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome is not None else None
    assert error is not None
    return error


class _Wait(wait_base):
    def __init__(self, settings: ClientSettings, random: Random) -> None:
        self._settings = settings
        self._random = random

    def __call__(self, retry_state: RetryCallState) -> float:
        return backoff_delay(_error(retry_state), retry_state.attempt_number, self._settings, self._random)


class _Stop(stop_base):
    """Stops after the last attempt, and before a wait that would end after the deadline."""

    def __init__(self, attempts: int, deadline: float) -> None:
        self._attempts = attempts
        self._deadline = deadline

    def __call__(self, retry_state: RetryCallState) -> bool:
        if retry_state.attempt_number >= self._attempts:
            return True
        return asyncio.get_running_loop().time() + retry_state.upcoming_sleep >= self._deadline


def retrying(
    request: Request,
    *,
    settings: ClientSettings,
    random: Random,
    deadline: float,
    before_retry: Callable[[BaseException], None],
) -> AsyncRetrying:
    """Return the retry loop of one call, which ends at its deadline (a time of the running loop) and raises the last error."""
    attempt = 0

    def repeat(error: BaseException) -> bool:
        nonlocal attempt
        attempt += 1
        return may_repeat(request, error, attempt)

    return AsyncRetrying(
        sleep=asyncio.sleep,
        retry=retry_if_exception(repeat),
        wait=_Wait(settings, random),
        stop=_Stop(settings.attempts, deadline),
        before_sleep=lambda state: before_retry(_error(state)),
        reraise=True,
    )
