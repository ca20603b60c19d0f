"""A thousand objects cost the library no more than they did: requests, Python calls and bytes are counted, so a busy machine changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from guard.count import BASELINE, VERSION, count, flat, grown

pytestmark = pytest.mark.timeout(300)

RUNS = {
    "first": (),
    "second": (),
    "bytes": ("--bytes",),
    "planted": ("--planted",),
    "children": ("--children",),
    "children again": ("--children",),
}


@pytest.fixture(scope="module")
def counted() -> Iterator[dict[str, Future[dict[str, Any]]]]:
    """All runs, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(count, *arguments) for name, arguments in RUNS.items()}


@pytest.fixture(scope="module")
def known() -> dict[str, int]:
    figures: dict[str, dict[str, int]] = json.loads(BASELINE.read_text())
    if VERSION not in figures:
        pytest.skip(f"no figures of Python {VERSION} yet: make guard writes them")
    return figures[VERSION]


def test_nothing_grew_by_over_a_tenth(counted: dict[str, Future[dict[str, Any]]], known: dict[str, int]) -> None:
    found = grown(known, flat(*(counted[name].result() for name in ("first", "bytes", "children"))))
    assert not found, "\n".join(["where this is worth it, `make guard` takes the new figures; what grew:", *found])


def test_two_counts_of_the_same_code_agree_within_a_hundredth(counted: dict[str, Future[dict[str, Any]]]) -> None:
    first, second = (
        flat(*(counted[name].result() for name in names))
        for names in (("first", "children"), ("second", "children again"))
    )
    assert first.keys() == second.keys()
    assert {
        name: (number, second[name]) for name, number in first.items() if abs(second[name] - number) > number / 100
    } == {}


def test_a_second_decode_of_each_object_is_found(
    counted: dict[str, Future[dict[str, Any]]], known: dict[str, int]
) -> None:
    found = grown(known, flat(counted["planted"].result()))
    assert any(line.startswith("calls in crds/resource.py") for line in found), found


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"calls": 100_000}, {"calls": 110_000}, []),
        ({"calls": 100_000}, {"calls": 110_001}, ["calls: 110,001, and 100,000 before (+10%)"]),
        ({"calls in a.py": 10}, {"calls in a.py": 510}, []),
        ({"calls in a.py": 10}, {"calls in a.py": 511}, ["calls in a.py: 511, and 10 before (+5010%)"]),
        ({}, {"calls in new.py": 1000}, ["calls in new.py: 1,000, and 0 before"]),
        ({"requests": 1000}, {"requests": 1001}, ["requests: 1,001, and 1,000 before (+0%)"]),
        ({"calls": 100_000, "calls in gone.py": 9000}, {"calls": 50_000}, []),
    ],
)
def test_growth_is_told_by_name_and_number(before: dict[str, int], now: dict[str, int], found: list[str]) -> None:
    assert grown(before, now) == found
