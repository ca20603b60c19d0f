"""The library's cost of a thousand objects has not grown: requests, Python calls and bytes are counted, so other load does not matter."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from guard.count import ALLOWED, BASELINE, VERSION, Figures, count, figures_of, grown, rooms_of

pytestmark = pytest.mark.timeout(600)

_FEW = ("--objects", "200")
"""Enough where two counts are compared with each other and not with the baseline."""

RUNS = {
    "bytes": ("--bytes",),
    "calls": (),
    "children": ("--children",),
    "first": _FEW,
    "second": _FEW,
    "planted": (*_FEW, "--planted"),
    "first children": (*_FEW, "--children"),
    "second children": (*_FEW, "--children"),
}


@pytest.fixture(scope="module")
def counted() -> Iterator[dict[str, Future[dict[str, Any]]]]:
    """All runs, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(count, *arguments) for name, arguments in RUNS.items()}


@pytest.fixture(scope="module")
def known() -> Figures:
    baseline: dict[str, dict[str, Figures]] = json.loads(BASELINE.read_text())
    if VERSION not in baseline:
        pytest.skip(f"no figures of Python {VERSION} yet: make guard writes them")
    return baseline[VERSION]["figures"]


def test_no_figure_grew_by_more_than_is_allowed(counted: dict[str, Future[dict[str, Any]]], known: Figures) -> None:
    runs = [counted[name].result() for name in ("calls", "bytes", "children")]
    found = grown(known, figures_of(*runs))
    rooms = [f"  {room}: {number:,g}" for room, number in rooms_of(*runs).items()]
    assert not found, "\n".join(
        [
            "where this is worth it, `make guard` takes the new figures; what grew:",
            *found,
            "calls per object by room (the baseline has those from before):",
            *rooms,
        ]
    )


def test_two_counts_of_equal_code_differ_far_less_than_allowed(counted: dict[str, Future[dict[str, Any]]]) -> None:
    first, second = (
        figures_of(*(counted[name].result() for name in names))
        for names in (("first", "first children"), ("second", "second children"))
    )
    assert first.keys() == second.keys()
    assert {
        metric: (number, second[metric])
        for metric, number in first.items()
        if abs(second[metric] - number) > ALLOWED[metric] / 5
    } == {}


def test_a_second_decode_of_each_object_is_found(counted: dict[str, Future[dict[str, Any]]]) -> None:
    first, planted = (figures_of(counted[name].result()) for name in ("first", "planted"))
    assert [line.partition(":")[0] for line in grown(first, planted)] == ["calls per object"]


def test_a_baseline_names_metrics_and_no_file() -> None:
    for version, kept in json.loads(BASELINE.read_text()).items():
        assert kept["figures"].keys() == ALLOWED.keys(), version
        assert not [room for room in kept["rooms"] if "/" in room or "." in room], version


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"calls per object": 1600}, {"calls per object": 1610}, []),
        ({"calls per object": 1600}, {"calls per object": 1610.01}, ["calls per object: 1,610.01, and 1,600 before"]),
        ({"calls per child": 100}, {"calls per child": 106}, ["calls per child: 106, and 100 before"]),
        ({"bytes per object": 7000}, {"bytes per object": 7500}, []),
        ({"bytes per object": 7000}, {"bytes per object": 7501}, ["bytes per object: 7,501, and 7,000 before"]),
        ({"requests": 1000}, {"requests": 1001}, ["requests: 1,001, and 1,000 before"]),
        ({}, {"requests": 1000}, ["requests: 1,000, and not known before"]),
        ({"calls per object": 1600, "requests": 1000}, {"calls per object": 800}, []),
    ],
)
def test_growth_is_named_by_metric_and_number(
    before: dict[str, float], now: dict[str, float], found: list[str]
) -> None:
    assert grown(before, now) == found
