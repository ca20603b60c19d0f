import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from konverge.client import Write, WriteState
from konverge.client.ledger import Ledger
from konverge.informers import Selection
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.consistency.own_writes import (
    LONGEST_WAIT,
    BarrierWaits,
    OwnVersions,
    StalenessBarrier,
    View,
    look,
    pause,
)
from konverge.tasks import cancel_and_wait

JOB = kind("batch/v1", "Job")


def informer(*, synced: bool = True, shows: bool | None = True, has_uid: bool = False) -> Any:
    store = SimpleNamespace(synced=synced, shows=lambda *_: shows, has_uid=lambda *_: has_uid)
    return SimpleNamespace(store=store, selection=Selection(JOB))


def write(state: WriteState) -> Write:
    return Write(JOB, "web", "a", state, "7", "uid")


@pytest.mark.parametrize(
    ("reason", "state", "cache", "view"),
    [
        ("nobody caches the kind", WriteState.DONE, None, View.UNWATCHED),
        ("a cache that is not complete tells nothing", WriteState.DONE, informer(synced=False), View.UNWATCHED),
        ("the cache shows it", WriteState.DONE, informer(shows=True), View.SHOWN),
        ("the cache is behind", WriteState.DONE, informer(shows=False), View.BEHIND),
        ("versions that cannot be compared fail open", WriteState.DONE, informer(shows=None), View.UNWATCHED),
        ("a write on its way", WriteState.IN_FLIGHT, informer(), View.BEHIND),
        ("possibly done", WriteState.UNKNOWN, informer(), View.UNCERTAIN),
        ("deleted and still cached", WriteState.DELETED, informer(has_uid=True), View.BEHIND),
        ("deleted and gone", WriteState.DELETED, informer(has_uid=False), View.SHOWN),
    ],
)
def test_a_cache_is_judged_by_the_write(reason: str, state: WriteState, cache: Any, view: View) -> None:
    assert look(write(state), cache) is view, reason


def test_waits_double_and_have_a_limit() -> None:
    waited, pauses = 0.0, []
    while waited < 5:
        pauses.append(pause(waited))
        waited += pauses[-1]
    assert pauses[:4] == [0.005, 0.005, 0.01, 0.02]
    assert max(pauses) == LONGEST_WAIT


def test_key_waits_up_to_the_limit_and_keeps_every_reason_once() -> None:
    waits, key = BarrierWaits(limit=10), Key("", JOB, "web", "a")
    assert [waits.pause(key, ("created",), 0.0), waits.pause(key, ("changed",), 0.125), waits.pause(key, (), 10.0)] == [
        0.005,
        0.125,
        None,
    ]
    assert (key in waits, len(waits)) == (True, 1)
    assert waits.take(key, ("changed", "resync")) == ("created", "changed", "resync")
    assert waits.take(key, ("resync",)) == ("resync",)
    assert (key in waits, len(waits)) == (False, 0)


async def test_other_tasks_run_while_thousands_of_writes_are_compared() -> None:
    ledger, key, turns = Ledger(), Key("", JOB, "web", "a"), 0
    client: Any = SimpleNamespace(ledger=ledger)
    barrier = StalenessBarrier("jobs", client, {JOB: informer()}, OwnVersions())
    for number in range(5000):
        ledger.begin(barrier.writer(key), JOB, "web", f"job-{number}").settle("7", "uid")

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(count())
    assert await barrier.behind(key) == ""
    assert ledger.pending(barrier.writer(key)) == ()
    assert turns >= 9
    await cancel_and_wait(other)
