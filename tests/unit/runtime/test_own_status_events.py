"""The filter of our own status writes, in a running manager: only the events of own status writes do not enqueue the object."""

import asyncio
from typing import Any, Final

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Cut, Delay, Drop, Expire, Fault, Forget, Freeze, Lines, Match, Rule

pytestmark = pytest.mark.lab_on("memory")

WATCH: Final = Match(verbs=("watch",), resources=("widgets.tests.konverge.dev",), user_agent="lab *")
READS: Final = Match(verbs=("watch", "list"), resources=("widgets.tests.konverge.dev",), user_agent="lab *")
STATUS: Final = Match(verbs=("patch",), resources=("widgets.tests.konverge.dev",), subresource="status")
SECONDS: Final = 3.0
"""Less than the barrier waits for the cache to show a write."""

FAULTS: Final[dict[str, tuple[tuple[Match, Fault], ...]]] = {
    "nothing disturbs": (),
    "the event is late": ((WATCH, Freeze(lines=1, seconds=SECONDS)),),
    "the event comes twice": ((WATCH, Lines(do="duplicate")),),
    "the event comes before the response": ((STATUS, Delay(seconds=SECONDS, moment="after")),),
    "the watch breaks before the event": ((WATCH, Cut(lines=1)),),
    "the watch ends before the event": ((WATCH, Cut(lines=1, clean=True)),),
    "410 comes before the event": ((WATCH, Expire(lines=1)),),
}
"""The events of an object: the first is its creation, the second is that of our own status write."""

TOUCHES: Final[dict[str, dict[str, Any]]] = {
    "its status": {"status": {"note": "theirs"}},
    "its labels": {"metadata": {"labels": {"touched": "yes"}}},
    "its spec": {"spec": {"parts": 7}},
}


class Seen:
    """Reconciles of widgets: the reasons of each, and its object."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.objects: list[Widget] = []

    async def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.reasons.append("; ".join(ctx.reasons))
        self.objects.append(w)
        ctx.status.set_condition("Ready", True, "Counted", f"{w.spec.parts} parts")
        ctx.status.draft.parts = w.spec.parts
        ctx.status.draft.note = "ours"
        return kv.Done()


async def started(lab: Lab) -> Seen:
    seen = Seen()
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(seen.reconcile))))
    return seen


async def touch(lab: Lab, what: str) -> None:
    await lab.patch(Widget, "one", TOUCHES[what], subresource="status" if what == "its status" else "")


def shows(w: Widget, what: str) -> bool:
    """Whether a reconciled object has the change of this touch."""
    return {
        "its status": w.status.note == "theirs",
        "its labels": bool(w.metadata.labels),
        "its spec": w.spec.parts == 7,
    }[what]


async def quiet(lab: Lab) -> None:
    """Wait for all delayed events, and for their reconciles."""
    await lab.settled()
    await asyncio.sleep(10 * SECONDS)
    await lab.settled()


@pytest.mark.parametrize("fault", FAULTS)
async def test_our_own_status_write_enqueues_nothing(lab: Lab, fault: str) -> None:
    seen = await started(lab)
    rules = [lab.server.faults.add(Rule(match, what, count=1)) for match, what in FAULTS[fault]]
    await lab.create(widget("one", parts=1))
    await lab.until(Widget, "one", lambda w: w.status.parts == 1)
    await quiet(lab)
    assert all(rule.hits for rule in rules), "the fault did not strike"
    assert seen.reasons == ["created"]
    await lab.patch(Widget, "one", {"spec": {"parts": 2}})
    await lab.until(Widget, "one", lambda w: w.status.parts == 2)
    await quiet(lab)
    assert seen.reasons == ["created", "changed"]


@pytest.mark.parametrize("how", ["events", "a relist"])
async def test_own_status_write_enqueues_nothing_when_a_watch_restarts(lab: Lab, how: str) -> None:
    seen = await started(lab)
    held = lab.server.faults.add(Rule(STATUS, Delay(seconds=SECONDS), count=1))
    await lab.create(widget("one", parts=1))
    await asyncio.sleep(SECONDS / 2)  # the reconcile has begun, and its status write is in flight
    outage = lab.server.faults.add(Rule(READS, Drop(watches=True)))
    await lab.until(Widget, "one", lambda w: w.status.parts == 1)
    await asyncio.sleep(SECONDS)
    if how == "a relist":
        lab.server.faults.add(Rule(READS, Forget(), count=1))
    lab.server.faults.remove(outage)
    await quiet(lab)
    assert held.hits
    assert outage.hits
    assert seen.reasons == ["created"]


@pytest.mark.parametrize("what", TOUCHES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_foreign_write_enqueues_the_object_after_own_write_was_seen(lab: Lab, fault: str, what: str) -> None:
    seen = await started(lab)
    for match, fault_ in FAULTS[fault]:
        lab.server.faults.add(Rule(match, fault_, count=1))
    await lab.create(widget("one", parts=1))
    await quiet(lab)
    await touch(lab, what)
    await quiet(lab)
    assert seen.reasons == ["created", "changed"]
    assert shows(seen.objects[-1], what)


@pytest.mark.parametrize("what", TOUCHES)
@pytest.mark.parametrize("how", ["two events", "one event", "a watch that begins again", "a relist"])
async def test_foreign_write_between_own_write_and_its_event_enqueues_the_object(lab: Lab, how: str, what: str) -> None:
    """`one event`: the event of our own write is lost, so the other event covers both writes."""
    seen = await started(lab)
    if how == "one event":
        lab.server.faults.add(Rule(WATCH, Lines(do="omit", types=("MODIFIED",), count=1), count=1))
    frozen = lab.server.faults.add(Rule(WATCH, Freeze(lines=1), count=1))
    await lab.create(widget("one", parts=1))
    await lab.until(Widget, "one", lambda w: w.status.parts == 1)
    await touch(lab, what)
    if how in ("a watch that begins again", "a relist"):
        outage = lab.server.faults.add(Rule(READS, Drop(watches=True)))
        await asyncio.sleep(SECONDS / 2)
        if how == "a relist":
            lab.server.faults.add(Rule(READS, Forget(), count=1))
        lab.server.faults.remove(outage)
    assert seen.reasons == ["created"]
    lab.server.faults.remove(frozen)
    await quiet(lab)
    assert seen.reasons == ["created", "changed"]
    assert shows(seen.objects[-1], what)
    found = await lab.get(Widget, "one")
    assert (found.status.note, found.status.parts) == ("ours", found.spec.parts)
