"""The delays of the limiters, with the time as an argument."""

import math
from collections.abc import Callable
from random import Random

import pytest

from konverge.workqueue import Bucket, ItemExponential, Jitter, Limiter, MaxOf, MaxWait


def test_the_default_delays_are_five_milliseconds_doubling_to_a_thousand_seconds() -> None:
    limiter = ItemExponential[str]()
    delays = [limiter.when("a", 0.0) for _ in range(20)]
    assert delays[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert delays[17] == pytest.approx(0.005 * 2**17)
    assert delays[18:] == [1000.0, 1000.0]


@pytest.mark.parametrize(("base", "cap"), [(0.005, 1000.0), (1.0, 1.0), (1.0, 8.0), (3.0, 10.0), (0.001, 0.0015)])
def test_the_exponential_delay_never_exceeds_its_cap_nor_overflows(base: float, cap: float) -> None:
    limiter = ItemExponential[str](base, cap)
    delays = [limiter.when("a", 0.0) for _ in range(2000)]
    assert delays[:12] == [min(base * 2**n, cap) for n in range(12)]
    assert delays[-1] == cap
    assert limiter.failures("a") == 2000


def test_failures_are_counted_per_key_and_forget_resets_them() -> None:
    limiter = ItemExponential[str](1.0, 100.0)
    assert [limiter.when("a", 0.0), limiter.when("a", 0.0), limiter.when("b", 0.0)] == [1.0, 2.0, 1.0]
    limiter.forget("a")
    assert (limiter.failures("a"), limiter.failures("b")) == (0, 1)
    assert limiter.when("a", 0.0) == 1.0


def test_a_forgotten_key_costs_no_memory() -> None:
    limiter = ItemExponential[int]()
    for key in range(1000):
        limiter.when(key, 0.0)
        limiter.forget(key)
    assert len(limiter) == 0


@pytest.mark.parametrize(
    ("asked_at", "delays", "why"),
    [
        ([0.0] * 5, [0, 0, 0, 0.5, 1.0], "three at once, then two per second"),
        ([0.0, 0.0, 0.0, 0.5, 0.5], [0, 0, 0, 0, 0.5], "half a second earns one"),
        ([0.0, 0.0, 0.0, 100.0, 100.0, 100.0, 100.0], [0, 0, 0, 0, 0, 0, 0.5], "what is earned is capped by the burst"),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0, 0, 0, 0.5, 1.0, 0.5], "credit is paid back first"),
        ([5.0, 5.0, 5.0, 4.0, 5.0], [0, 0, 0, 0.5, 1.0], "time that runs backwards earns nothing twice"),
    ],
)
def test_the_bucket_gives_a_burst_and_then_a_rate(asked_at: list[float], delays: list[float], why: str) -> None:
    bucket = Bucket[str](rate=2, burst=3)
    assert [bucket.when("any", now) for now in asked_at] == pytest.approx(delays), why


def test_the_default_bucket_is_a_hundred_and_then_ten_per_second() -> None:
    bucket = Bucket[int]()
    delays = [bucket.when(key, 0.0) for key in range(102)]
    assert delays[:100] == [0.0] * 100
    assert delays[100:] == pytest.approx([0.1, 0.2])


def test_the_longest_delay_wins_and_every_limiter_counts() -> None:
    items, bucket = ItemExponential[str](0.25, 100.0), Bucket[str](rate=1, burst=1)
    limiter = MaxOf(items, bucket)
    assert [limiter.when("a", 0.0), limiter.when("b", 0.0), limiter.when("a", 0.0)] == [0.25, 1.0, 2.0]
    assert (limiter.failures("a"), limiter.failures("b")) == (2, 1)
    limiter.forget("a")
    assert (items.failures("a"), limiter.failures("a")) == (0, 0)


def test_max_wait_limits_the_delay_but_not_the_count_of_failures() -> None:
    limiter = MaxWait(ItemExponential[str](1.0, 100.0), limit=3.0)
    assert [limiter.when("a", 0.0) for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
    assert limiter.failures("a") == 4
    limiter.forget("a")
    assert limiter.when("a", 0.0) == 1.0


def test_jitter_lengthens_by_at_most_its_fraction_and_repeats_with_its_seed() -> None:
    def delays(seed: int) -> list[float]:
        limiter = Jitter(ItemExponential[int](2.0, 100.0), Random(seed), fraction=0.5)
        return [limiter.when(key, 0.0) for key in range(100)]

    assert all(2.0 <= delay < 3.0 for delay in delays(1))
    assert max(delays(1)) - min(delays(1)) > 0.5
    assert delays(1) == delays(1) != delays(2)


def test_jitter_passes_failures_and_forgetting_on() -> None:
    limiter = Jitter(ItemExponential[str](), Random(0))
    limiter.when("a", 0.0)
    assert limiter.failures("a") == 1
    limiter.forget("a")
    assert limiter.failures("a") == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: ItemExponential[str](0.0, 1.0),
        lambda: ItemExponential[str](2.0, 1.0),
        lambda: ItemExponential[str](1.0, math.inf),
        lambda: ItemExponential[str](math.nan, 1.0),
        lambda: Bucket[str](rate=0),
        lambda: Bucket[str](burst=0),
        MaxOf[str],
        lambda: MaxWait(Bucket[str](), 0.0),
        lambda: Jitter(Bucket[str](), Random(0), fraction=-0.1),
    ],
)
def test_a_limiter_with_impossible_numbers_is_rejected(build: Callable[[], Limiter[str]]) -> None:
    with pytest.raises(ValueError, match="needs"):
        build()
