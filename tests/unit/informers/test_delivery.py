"""Delivery to one handler: merging, order, replaced objects, initial objects, raising handlers."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from konverge.informers.delivery import HandlerQueue, Registration
from konverge.informers.messages import Change
from konverge.informers.store import Cached, Table
from konverge.objects import Metadata
from konverge.tasks import Slice


def cached(name: str, version: int, uid: str = "") -> Cached:
    return Cached(Metadata(name=name, namespace="web", uid=uid or name, resource_version=str(version)), b"{}")


A1, A2, A3 = cached("a", 1), cached("a", 2), cached("a", 3)
B1 = cached("b", 1)
OTHER = cached("a", 9, uid="another")


def step(old: Cached | None, new: Cached | None) -> Change:
    one = new or old
    assert one is not None
    return Change("web", one.metadata.name, old, new)


def queue(*steps: Change, initial: tuple[Cached, ...] | None = None) -> HandlerQueue:
    made = HandlerQueue()
    if initial is not None:
        made.load(table(*initial))
    for one in steps:
        made.add(one, 0.0)
    return made


def table(*objects: Cached) -> Table:
    return {"web": {one.metadata.name: one for one in objects}}


def told(waiting: HandlerQueue) -> list[tuple[Cached | None, Cached | None, bool]]:
    found = []
    while changes := waiting.take():
        found += [(change.old, change.new, change.initial) for change in changes]
    return found


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([step(None, A1)], [(None, A1)], id="an addition"),
        pytest.param([step(None, A1), step(A1, A2), step(A2, A3)], [(None, A3)], id="an addition and changes are one addition of the last"),
        pytest.param([step(A1, A2), step(A2, A3)], [(A1, A3)], id="changes keep the first old and the last new"),
        pytest.param([step(A1, A2), step(A2, None)], [(A1, None)], id="a change and a deletion are a deletion of the first old"),
        pytest.param([step(None, A1), step(A1, A2), step(A2, None)], [(None, A2), (A2, None)], id="an object that came and went arrives as both"),
        pytest.param([step(None, A1), step(A1, None), step(None, OTHER)], [(None, A1), (A1, None), (None, OTHER)], id="... and before the next one of its name"),
        pytest.param([step(None, A1), step(A1, None), step(None, OTHER), step(OTHER, None)], [(None, OTHER), (OTHER, None)], id="of two that came and went the last one arrives"),
        pytest.param([step(A1, None), step(None, A3)], [(A1, A3)], id="gone and back as the same object is a change"),
        pytest.param([step(A1, None), step(None, OTHER)], [(A1, None), (None, OTHER)], id="gone and replaced is two changes"),
        pytest.param([step(A1, OTHER)], [(A1, None), (None, OTHER)], id="replaced unseen is two changes"),
        pytest.param([step(A1, OTHER), step(OTHER, None)], [(A1, None), (None, OTHER), (OTHER, None)], id="replaced and gone is three changes"),
        pytest.param([step(A1, A2), step(A2, A1)], [(A1, A1)], id="back at an older version is a change: a reconcile may have read the newer one"),
        pytest.param([step(None, A1), step(None, B1), step(A1, A2)], [(None, A2), (None, B1)], id="keys come in the order in which they first waited"),
    ],
)  # fmt: skip
def test_merged_changes_keep_the_first_old_and_the_last_new_object(
    steps: list[Change], expected: list[tuple[Cached | None, Cached | None]]
) -> None:
    assert [(old, new) for old, new, _ in told(queue(*steps))] == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([], [(None, A1, True), (None, B1, True)], id="what exists is initial"),
        pytest.param([step(A1, A2)], [(None, A2, True), (None, B1, True)], id="a change of what was not told yet is the addition of the new"),
        pytest.param([step(A1, None)], [(None, A1, False), (A1, None, False), (None, B1, True)], id="an object that is gone before it was delivered arrives with its deletion"),
        pytest.param([step(A1, None), step(None, A3)], [(None, A1, False), (A1, None, False), (None, A3, False), (None, B1, True)], id="gone and back is a later addition"),
        pytest.param([step(A1, OTHER)], [(None, A1, False), (A1, None, False), (None, OTHER, False), (None, B1, True)], id="an object that replaced an initial one is not initial"),
        pytest.param([step(None, cached("c", 5))], [(None, cached("c", 5), False), (None, A1, True), (None, B1, True)], id="what is new is not initial"),
    ],
)  # fmt: skip
def test_changes_before_the_initial_delivery_are_merged_into_it_or_follow_it(
    steps: list[Change], expected: list[Any]
) -> None:
    assert told(queue(*steps, initial=(A1, B1))) == expected


def test_changes_during_the_initial_delivery_keep_their_order_per_key() -> None:
    waiting = queue(initial=(A1, B1))
    assert waiting.take() == (Change("web", "a", None, A1, True),)
    waiting.add(step(A1, A2), 1.0)
    waiting.add(step(B1, None), 1.0)
    assert told(waiting) == [(A1, A2, False), (None, B1, False), (B1, None, False)]
    assert waiting.caught_up
    assert waiting.empty


def test_kind_that_returned_before_delivered_deletions_is_one_change_per_object() -> None:
    waiting = queue(initial=(A1,))
    told(waiting)
    waiting.unload()
    waiting.add(step(A1, None), 0.0)
    waiting.load(table(OTHER, B1))
    assert not waiting.caught_up
    assert told(waiting) == [(A1, None, False), (None, OTHER, False), (None, B1, True)]
    assert waiting.caught_up


def test_the_handler_queue_counts_waiting_keys_and_merged_changes() -> None:
    waiting = queue(step(A1, A2), step(None, cached("c", 1)), initial=(A1, B1))
    assert (len(waiting), waiting.merged) == (3, 1)


def test_the_age_of_a_change_is_that_of_its_first_event() -> None:
    waiting = HandlerQueue()
    waiting.add(step(None, A1), 5.0)
    waiting.add(step(A1, A2), 9.0)
    waiting.take()
    assert waiting.since == 5.0
    waiting.load(table(B1))
    waiting.take()
    assert waiting.since is None


@pytest.fixture
def registered() -> Callable[..., Registration]:
    def make(handler: Callable[[Change], None], failures: list[str] | None = None) -> Registration:
        def failed() -> None:
            if failures is not None:
                failures.append("failed")

        meters: Any = SimpleNamespace(latency=None, handler_failed=failed)
        return Registration(
            "h",
            handler,
            selection="Thing",
            share=Slice(0.005),
            meters=meters,
            removed=lambda registration: None,
        )

    return make


async def run_until_idle(registration: Registration) -> None:
    task = asyncio.create_task(registration.run())
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])


async def test_a_handler_that_raises_loses_that_change_only(registered: Any) -> None:
    heard: list[str] = []
    failures: list[str] = []

    def handler(change: Change) -> None:
        if change.name == "a":
            raise ZeroDivisionError("no")
        heard.append(change.name)

    registration = registered(handler, failures)
    registration.load(table(A1, B1))
    with capture_logs() as logs:
        await run_until_idle(registration)
    assert heard == ["b"]
    assert registration.has_synced, "what was tried is not tried again"
    assert failures == ["failed"]
    statistics = registration.statistics()
    assert (statistics.errors, statistics.delivered, statistics.waiting) == (1, 1, 0)
    assert [(line["event"], line["handler"], line["name"]) for line in logs] == [
        ("a handler raised; it does not receive this change again", "h", "a")
    ]


async def test_a_handler_that_always_raises_does_not_flood_the_log(registered: Any) -> None:
    def handler(change: Change) -> None:
        raise ZeroDivisionError("no")

    registration = registered(handler)
    registration.load({"web": {f"n{number}": cached(f"n{number}", 1) for number in range(1000)}})
    with capture_logs() as logs:
        await run_until_idle(registration)
        await asyncio.sleep(11)
        registration.add([step(None, A1)], 0.0)
        await run_until_idle(registration)
    assert [line["count"] for line in logs] == [1, 1000]
    assert registration.statistics().errors == 1001


async def test_a_handler_may_remove_itself(registered: Any) -> None:
    heard = []

    def handler(change: Change) -> None:
        heard.append(change.name)
        registration.remove()

    registration = registered(handler)
    registration.load(table(A1, B1))
    await asyncio.wait_for(registration.run(), 1)
    assert heard == ["a"]
    registration.add([step(B1, None)], 0.0)
    registration.load(table(B1))
    assert registration.waiting == 0


async def test_an_empty_store_syncs_its_handlers_too(registered: Any) -> None:
    registration = registered(lambda change: None)
    task = asyncio.create_task(registration.run())
    await asyncio.sleep(1)
    assert not registration.has_synced
    registration.load({})
    await asyncio.wait_for(registration.synced(), 1)
    registration.unload()
    assert not registration.has_synced
    task.cancel()


async def test_delivery_yields_to_the_loop(registered: Any) -> None:
    loop: Any = asyncio.get_running_loop()
    turns = 0

    def handler(change: Change) -> None:
        loop.advance(0.002)  # each change takes two milliseconds of work

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    registration = registered(handler)
    registration.load({"web": {f"n{number}": cached(f"n{number}", 1) for number in range(300)}})
    tasks = [asyncio.create_task(registration.run()), asyncio.create_task(other())]
    await registration.synced()
    for task in tasks:
        task.cancel()
    assert turns >= 70, "600 ms of work, in slices of 5 ms and one change"
