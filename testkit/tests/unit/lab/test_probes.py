"""Rules that call a probe before the fault: they count like any other rule, and a refusal of the probe leaves no trace."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from konverge_testing.apiserver.faults import Dropped, Faults
from konverge_testing.apiserver.faults.rules import About, Fault, Match, Rule, about_call
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.loop import VirtualTimeLoop

WATCH = About("watch", resource="secrets")
LINES = [
    msgspec.json.encode({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"
    for version, kind in enumerate(("ADDED", "MODIFIED", "BOOKMARK", "DELETED"), start=1)
]


class Asked:
    """Returns the same result each time, and counts the calls."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.times = 0

    def __call__(self) -> bool:
        self.times += 1
        return self.answer


def fault_of(fault: dict[str, Any]) -> Fault:
    found: Fault = msgspec.convert(fault, Fault)
    return found


async def source() -> AsyncIterator[bytes]:
    for line in LINES:
        yield line


def read(faults: Faults) -> list[bytes | str]:
    """Read a watch to its end."""

    async def reading() -> list[bytes | str]:
        got: list[bytes | str] = []
        try:
            async for line in faults.stream(Call.of("GET", "/"), WATCH, source()):
                got.append(line)
        except Dropped:
            got.append("dropped")
        return got

    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(reading())
    finally:
        loop.close()


STREAMS = [
    {"type": "cut", "lines": 1},
    {"type": "cut", "lines": 1, "clean": True},
    {"type": "cut", "clean": True},
    {"type": "expire", "lines": 2},
    {"type": "freeze", "lines": 1, "seconds": 3.0},
    {"type": "lines", "do": "duplicate"},
    {"type": "lines", "do": "omit"},
    {"type": "bookmarks", "do": "duplicate"},
    {"type": "bookmarks", "do": "delay", "seconds": 3.0},
]


@pytest.mark.parametrize("fault", STREAMS, ids=str)
def test_a_watch_is_unchanged_if_its_rule_may_not_strike(fault: dict[str, Any]) -> None:
    faults, asked, hits = Faults(), Asked(False), list[Any]()
    rule = faults.add(Rule(Match(), fault_of(fault)), hits.append, may_strike=asked)
    assert read(faults) == LINES
    assert (asked.times, hits, rule.hits) == (1, [], [])


@pytest.mark.parametrize("fault", STREAMS, ids=str)
def test_a_rule_that_may_strike_acts_as_without_a_probe(fault: dict[str, Any]) -> None:
    plain, asking, asked = Faults(), Faults(), Asked(True)
    one = plain.add(Rule(Match(), fault_of(fault)))
    other = asking.add(Rule(Match(), fault_of(fault)), may_strike=asked)
    assert read(asking) == read(plain)
    assert asked.times == 1
    assert other.hits == one.hits != []


def test_rule_removed_by_another_rules_probe_does_not_affect_the_line() -> None:
    faults = Faults()
    handled = Rule(Match(), fault_of({"type": "lines", "do": "omit"}))

    def alone() -> bool:
        faults.remove(handled)
        return True

    faults.add(Rule(Match(), fault_of({"type": "cut", "lines": 0})), may_strike=alone)
    faults.add(handled)
    half = LINES[0][: len(LINES[0]) // 2]
    assert read(faults) == [half, "dropped"]  # half a line is not JSON: decoding it would fail


@pytest.mark.parametrize("may", [True, False])
def test_a_request_is_refused_only_if_the_probe_allows_it(may: bool) -> None:
    asked = Asked(may)

    async def thrice() -> list[int]:
        faults, refused = Faults(), list[int]()
        faults.add(Rule(Match(), fault_of({"type": "refuse", "status": 503}), nth=2), may_strike=asked)
        call = Call.of("GET", "/api/v1/namespaces/lab/secrets")
        for number in (1, 2, 3):
            try:
                await faults.before(call, about_call(call))
                await faults.after(call, about_call(call), Response(200))
            except StatusError:
                refused.append(number)
        return refused

    assert asyncio.run(thrice()) == ([2, 3] if may else [])
    assert asked.times == 1
