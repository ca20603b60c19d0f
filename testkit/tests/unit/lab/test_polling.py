"""The waits of the lab: they see what is stored at each moment, and ask the server only if that may have changed."""

import asyncio
from itertools import pairwise

import pytest
from widgets import Widget, widget

from konverge.crds import crd
from konverge.errors import ServerFailure
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Rule
from konverge_testing.lab import Unmet, install_crds


@pytest.fixture
async def reads(lab: Lab) -> list[str]:
    """The reads of the Widget that reached the server."""
    await install_crds(lab.client, [crd(Widget)])
    await lab.create(widget())
    asked = list[str]()
    lab.server.on_call.append(lambda _, about, __: asked.append(str(about)) if about.verb == "get" else None)
    return asked


def grown(one: Widget) -> bool:
    return one.spec.parts == 9


async def grow_later(lab: Lab) -> None:
    await asyncio.sleep(10)
    await lab.patch(Widget, "one", {"spec": {"parts": 9}})


async def test_a_wait_asks_the_server_only_after_something_was_stored(lab: Lab, reads: list[str]) -> None:
    change = asyncio.create_task(grow_later(lab))
    assert grown(await lab.until(Widget, "one", grown))
    assert len(reads) == 2
    await change
    await lab.delete(Widget, "one")
    await lab.until_gone(Widget, "one")
    with pytest.raises(Unmet, match="does not exist"):
        await lab.until(Widget, "one", grown)
    assert len(reads) == 4


async def test_a_wait_ends_when_a_test_of_something_else_passes_or_fails(lab: Lab, reads: list[str]) -> None:
    loop = asyncio.get_running_loop()

    def late(_: Widget) -> bool:
        assert loop.time() < 60, "too late"
        return loop.time() > 30

    await lab.until(Widget, "one", late, timeout=100)
    assert 30 < loop.time() < 31
    await asyncio.sleep(20)
    with pytest.raises(AssertionError, match="too late"):
        await lab.until(Widget, "one", lambda one: late(one) and loop.time() > 70, timeout=100)
    assert 60 <= loop.time() < 61
    assert len(reads) == 2


async def test_the_pauses_of_a_wait_grow_with_the_wait(lab: Lab, reads: list[str]) -> None:
    looks = list[float]()

    def never(_: Widget) -> bool:
        looks.append(asyncio.get_running_loop().time())
        return False

    with pytest.raises(Unmet):
        await lab.until(Widget, "one", never, timeout=100)
    pauses = [later - sooner for sooner, later in pairwise(looks)]
    assert pauses[:50] == pytest.approx([0.02] * 50)
    assert pauses == pytest.approx(sorted(pauses))
    assert 1.9 < pauses[-1] < 2


@pytest.mark.parametrize(("agent", "met"), [("another *", False), ("lab* *", True), ("*", True)])
async def test_a_wait_asks_the_server_while_a_fault_may_meet_its_reads(
    agent: str, met: bool, lab: Lab, reads: list[str]
) -> None:
    match = {"verbs": ["get"], "resources": ["widgets.*"], "user_agent": agent}
    lab.server.faults.add(Rule.from_json({"match": match, "fault": {"type": "delay", "seconds": 0.5}}))
    with pytest.raises(Unmet):
        await lab.until(Widget, "one", grown, timeout=5)
    assert (len(reads) > 5) is met
    lab.server.faults.add(Rule.from_json({"match": match, "fault": {"type": "refuse", "status": 500}}))
    with pytest.raises(ServerFailure if met else Unmet):
        await lab.until(Widget, "one", grown)
