from random import Random
from typing import Any

import pytest

from konverge import errors
from konverge.client import ClientSettings
from konverge.client.requests import Request
from konverge.client.retry import backoff_delay, may_repeat

SAFE = Request(method="GET", path="/", repeatable=True)
UNSAFE = Request(method="POST", path="/", repeatable=False)
SETTINGS = ClientSettings(backoff_start=0.2, backoff_limit=5.0)


def failure(kind: type[errors.ApiError], **options: Any) -> errors.ApiError:
    return kind("no", **options)


@pytest.mark.parametrize(
    ("error", "safe", "unsafe"),
    [
        (errors.Unreachable("refused"), True, True),
        (errors.Unreachable("cut", maybe_done=True), True, False),
        (failure(errors.TooManyRequests, status=429), True, True),
        (failure(errors.TooManyRequests, status=429, retry_after=1.0), True, True),
        (failure(errors.ServerFailure, status=503, retry_after=1.0), True, True),
        (failure(errors.ServerFailure, status=503), True, False),
        (failure(errors.ServerFailure, status=500, retry_after=1.0), True, False),
        (failure(errors.ServerFailure, status=504), True, False),
        (failure(errors.Unauthorized, status=401), True, True),
        (failure(errors.Forbidden, status=403), False, False),
        (failure(errors.NotFound, status=404), False, False),
        (failure(errors.Conflict, status=409), False, False),
        (failure(errors.Expired, status=410), False, False),
        (failure(errors.Invalid, status=422), False, False),
        (errors.ConfigError("x"), False, False),
        (KeyboardInterrupt(), False, False),
    ],
)
def test_each_error_is_retried_only_if_that_is_safe_for_the_request(
    error: BaseException, safe: bool, unsafe: bool
) -> None:
    assert may_repeat(SAFE, error, 1) is safe
    assert may_repeat(UNSAFE, error, 1) is unsafe


def test_refused_credentials_are_looked_up_afresh_once() -> None:
    error = failure(errors.Unauthorized, status=401)
    assert may_repeat(UNSAFE, error, 1)
    assert not may_repeat(SAFE, error, 2)
    assert backoff_delay(error, 1, SETTINGS, Random(1)) == 0.0


@pytest.mark.parametrize("attempt", range(1, 12))
def test_backoff_doubles_to_its_limit_with_jitter_below(attempt: int) -> None:
    ceiling = min(5.0, 0.2 * 2 ** (attempt - 1))
    error = errors.Unreachable("x")
    delays = {backoff_delay(error, attempt, SETTINGS, Random(seed)) for seed in range(50)}
    assert len(delays) == 50
    assert all(ceiling / 2 <= delay <= ceiling for delay in delays)


@pytest.mark.parametrize("seed", range(20))
def test_the_servers_delay_is_never_cut_short(seed: int) -> None:
    error = failure(errors.TooManyRequests, status=429, retry_after=7.0)
    assert 7.0 <= backoff_delay(error, 1, SETTINGS, Random(seed)) <= 7.7


def test_the_same_seed_gives_the_same_waits() -> None:
    error = errors.Unreachable("x")
    once, again = (
        [backoff_delay(error, n, SETTINGS, random) for n in range(1, 6)] for random in (Random(3), Random(3))
    )
    assert once == again
