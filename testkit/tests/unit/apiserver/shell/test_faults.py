"""The effect of each fault on watches, and its orders to the server; on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from toy_server import Toy, config_map, names

from konverge_testing.apiserver.faults import NOTHING, Dropped, Faults
from konverge_testing.apiserver.faults import rules as kinds
from konverge_testing.apiserver.faults.rules import Bookmarks, Cut, Expire, Freeze, Hit, Lines, Match, Rule, about_call
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.apiserver.statuses import StatusError

WATCH = Match(verbs=("watch",))
LIST = Call.of("GET", "/api/v1/configmaps")


class Reader:
    """Reads a watch in the background; `lines` has the received lines, `end` the end of the stream."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self.lines = lines
        self.read = b""
        self.end = ""
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async for line in self.lines:
                self.read += line
            self.end = "over"
        except Dropped:
            self.end = "dropped"

    @property
    def names(self) -> list[str]:
        return names(self.read[: self.read.rfind(b"\n") + 1])


@asynccontextmanager
async def watching(toy: Toy) -> AsyncIterator[Reader]:
    answer = await toy.handle(Call.of("GET", "/api/v1/configmaps?watch=1&resourceVersion=1"))
    assert answer.stream is not None
    reader = Reader(answer.stream)
    await asyncio.sleep(1)
    yield reader
    reader.task.cancel()
    await asyncio.wait({reader.task})
    await answer.stream.aclose()  # type: ignore[attr-defined]  # a watch can be closed
    assert toy.faults.watches == ()
    assert toy.watchers == []


async def happen(toy: Toy, *what: str) -> None:
    for name in what:
        if name == "bookmark":
            toy.bookmark()
        else:
            toy.store(config_map(name))
    await asyncio.sleep(0.001)


async def test_without_rules_lines_are_unchanged(toy: Toy) -> None:
    async with watching(toy) as reader:
        await happen(toy, "a", "bookmark", "b")
        toy.end()
        await asyncio.sleep(1)
        assert (reader.names, reader.end) == (["ADDED a", "BOOKMARK 2", "ADDED b"], "over")


@pytest.mark.parametrize("early", [True, False], ids=["rule before the watch", "rule while the watch is open"])
async def test_a_watch_is_cut_in_the_middle_of_a_line(toy: Toy, early: bool) -> None:
    rule = Rule(WATCH, Cut(lines=1))
    if early:
        toy.faults.add(rule)
    async with watching(toy) as reader:
        if not early:
            toy.faults.add(rule)
        await happen(toy, "a", "b", "c")
        assert (reader.names, reader.end) == (["ADDED a"], "dropped")
        assert reader.read.rpartition(b"\n")[2].startswith(b'{"type":"ADDED"')
        assert [hit.number for hit in rule.hits] == [1]
    async with watching(toy) as reader:
        assert reader.end == ""


@pytest.mark.parametrize(
    ("cut", "end"), [(Cut(bytes=0), "dropped"), (Cut(clean=True), "over")], ids=["broken off", "in good order"]
)
async def test_a_cut_between_lines_does_not_wait_for_the_next(toy: Toy, cut: Cut, end: str) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(WATCH, cut))
        await asyncio.sleep(1)
        assert (reader.names, reader.end) == ([], end)
        assert toy.watchers == []


@pytest.mark.parametrize("lines", [0, 1])
async def test_history_can_be_forgotten_in_the_middle_of_a_watch(toy: Toy, lines: int) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(WATCH, Expire(lines=lines)))
        await happen(toy, "a", "b")
        assert reader.names == [*["ADDED a"][:lines], "ERROR"]
        assert b'"code":410' in reader.read
        assert b'"reason":"Expired"' in reader.read
        assert reader.end == "over"


async def test_a_frozen_watch_loses_nothing_and_thaws_with_its_rule(toy: Toy) -> None:
    async with watching(toy) as reader:
        rule = toy.faults.add(Rule(WATCH, Freeze(lines=1)))
        await happen(toy, "a", "b", "c")
        await asyncio.sleep(3600)
        assert reader.names == ["ADDED a"]
        toy.faults.remove(rule)
        await asyncio.sleep(1)
        assert reader.names == ["ADDED a", "ADDED b", "ADDED c"]


async def test_a_frozen_watch_thaws_by_time_or_after_so_many_writes(toy: Toy) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(WATCH, Freeze(seconds=60)))
        await happen(toy, "a")
        await asyncio.sleep(59)
        assert reader.names == []
        await asyncio.sleep(2)
        assert reader.names == ["ADDED a"]
        toy.faults.add(Rule(WATCH, Freeze(steps=2)))
        await happen(toy, "b")
        write = Call.of("POST", "/api/v1/namespaces/web/configmaps", b'{"metadata":{"name":"c"}}')
        await toy.handle(write)
        await asyncio.sleep(1)
        assert reader.names == ["ADDED a"]
        await toy.handle(write)
        await asyncio.sleep(1)
        assert reader.names == ["ADDED a", "ADDED b", "ADDED c", "MODIFIED c"]


async def test_only_the_matching_kind_freezes(toy: Toy) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(Match(verbs=("watch",), resources=("secrets",)), Freeze()))
        await happen(toy, "a")
        assert reader.names == ["ADDED a"]


async def test_lines_are_lost_doubled_or_late_as_the_rule_says(toy: Toy) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(WATCH, Lines(do="omit", types=("MODIFIED",), count=1)))
        toy.faults.add(Rule(WATCH, Lines(do="duplicate", types=("ADDED",), first=2)))
        await happen(toy, "a", "a", "a", "b")
        assert reader.names == ["ADDED a", "MODIFIED a", "ADDED b", "ADDED b"]
        toy.faults.clear()
        toy.faults.add(Rule(WATCH, Lines(do="delay", count=1, seconds=10)))
        await happen(toy, "c", "d")
        assert reader.names[4:] == []
        await asyncio.sleep(11)
        assert reader.names[4:] == ["ADDED c", "ADDED d"]


@pytest.mark.parametrize(("do", "seen"), [("omit", []), ("duplicate", ["BOOKMARK 1", "BOOKMARK 1"])])
async def test_bookmarks_can_be_left_out_or_doubled(toy: Toy, do: str, seen: list[str]) -> None:
    async with watching(toy) as reader:
        toy.faults.add(Rule(WATCH, Bookmarks(do=do)))  # type: ignore[arg-type]  # a table of literals
        toy.bookmark()
        toy.bookmark(**{"k8s.io/initial-events-end": "true"})
        await happen(toy, "a")
        assert reader.names == [*seen, "BOOKMARK 2", "ADDED a"]


async def test_a_late_bookmark_comes_late_unless_an_event_overtakes_it(toy: Toy) -> None:
    async with watching(toy) as reader:
        rule = toy.faults.add(Rule(WATCH, Bookmarks(do="delay", seconds=60)))
        await happen(toy, "bookmark")
        await asyncio.sleep(59)
        assert reader.names == []
        await asyncio.sleep(2)
        assert reader.names == ["BOOKMARK 1"]
        await happen(toy, "bookmark", "a")
        await asyncio.sleep(100)
        assert reader.names == ["BOOKMARK 1", "ADDED a"]
        await happen(toy, "bookmark")
        assert len(rule.hits) == 1
        toy.end()
        await asyncio.sleep(100)
        assert (reader.names, reader.end) == (["BOOKMARK 1", "ADDED a"], "over")


async def test_a_watch_may_be_left_while_a_bookmark_is_late(toy: Toy) -> None:
    async with watching(toy):
        toy.faults.add(Rule(WATCH, Bookmarks(do="delay", seconds=60)))
        await happen(toy, "bookmark")


async def test_a_partition_cuts_open_watches_and_refuses_calls_until_it_ends(toy: Toy) -> None:
    async with watching(toy) as reader:
        rule = toy.faults.add(Rule(Match(), kinds.Drop(refused=True, watches=True)))
        await asyncio.sleep(0.001)
        assert reader.end == "dropped"
        with pytest.raises(Dropped):
            await toy.handle(LIST)
        toy.faults.remove(rule)
        assert (await toy.handle(LIST)).status == 200


async def test_watches_are_disconnected_by_what_they_are_about(toy: Toy) -> None:
    async with watching(toy) as reader:
        assert toy.faults.disconnect(Match(resources=("secrets",))) == 0
        assert toy.faults.disconnect() == 1
        await asyncio.sleep(0.001)
        assert (reader.end, toy.faults.watches) == ("dropped", ())


async def test_a_readers_own_cancellation_is_not_swallowed(toy: Toy) -> None:
    async with watching(toy) as reader:
        toy.faults.disconnect()
        reader.task.cancel()
        await asyncio.wait({reader.task})
        assert reader.task.cancelled()


async def test_rule_added_by_a_hit_may_end_the_hit_watch(toy: Toy) -> None:
    async with watching(toy) as reader:

        def on_hit(hit: Hit) -> None:
            toy.faults.disconnect()

        toy.faults.add(Rule(WATCH, Lines(do="duplicate")), on_hit)
        await happen(toy, "a")
        assert (reader.names, reader.end) == (["ADDED a", "ADDED a"], "dropped")


async def test_an_older_view_is_served_and_newer_events_wait_for_its_end(toy: Toy) -> None:
    await happen(toy, "a", "b", "c")
    faults = toy.faults
    rule = faults.add(Rule(Match(resources=("configmaps",)), kinds.Stale(behind=2, seconds=60)))
    orders = await faults.before(LIST, about_call(LIST))
    assert orders.view is not None
    assert orders.view.version == 1
    async with watching(toy) as reader:
        toy.tell("ADDED", toy.objects["a"])
        await happen(toy, "d")
        assert reader.names == ["ADDED a"]
        await asyncio.sleep(60)
        assert reader.names == ["ADDED a", "ADDED d"]
    assert [hit.about.verb for hit in rule.hits] == ["list", "watch"]
    assert await faults.before(LIST, about_call(LIST)) is NOTHING


async def test_a_view_stands_still_at_the_version_of_the_first_hit(toy: Toy) -> None:
    await happen(toy, "a")
    toy.faults.add(Rule(Match(verbs=("list",)), kinds.Stale(steps=1)))
    views = []
    for name in "bcd":
        orders = await toy.faults.before(LIST, about_call(LIST))
        views.append(orders.view and orders.view.version)
        if name == "c":
            body = b'{"metadata":{"name":"c"}}'
            await toy.handle(Call.of("POST", "/api/v1/namespaces/web/configmaps", body))
        else:
            await happen(toy, name)
    assert views == [1, 1, None]


async def test_an_honest_view_leaves_reads_of_the_newest_alone(toy: Toy) -> None:
    toy.faults.add(Rule(Match(verbs=("read",)), kinds.Stale(version=3, honest=True)))
    anything = Call.of("GET", "/api/v1/configmaps?resourceVersion=0")
    older = await toy.faults.before(anything, about_call(anything))
    assert await toy.faults.before(LIST, about_call(LIST)) is NOTHING
    assert older.view is not None
    assert older.view.version == 3


async def test_orders_for_the_server_add_up(toy: Toy) -> None:
    faults = Faults()
    for fault in (kinds.Jump(by=10), kinds.Jump(by=5), kinds.Forget()):
        faults.add(Rule(Match(verbs=("list",)), fault, count=1))
    orders = await faults.before(LIST, about_call(LIST))
    assert (orders.jump, orders.forget, orders.view) == (15, True, None)
    orders = await faults.before(LIST, about_call(LIST))
    assert (orders.jump, orders.forget) == (0, False)


async def test_rules_act_in_their_order_and_count_what_they_match(toy: Toy) -> None:
    faults = Faults()
    delay = faults.add(Rule(Match(), kinds.Delay(seconds=2)))
    refuse = faults.add(Rule(Match(verbs=("list",)), kinds.Refuse(status=503, retry_after=1), nth=2, count=1))
    await faults.before(LIST, about_call(LIST))
    with pytest.raises(StatusError) as caught:
        await faults.before(LIST, about_call(LIST))
    await faults.before(LIST, about_call(LIST))
    assert (caught.value.code, caught.value.reason, caught.value.retry_after) == (503, "ServiceUnavailable", 1)
    assert [hit.at for hit in delay.hits] == [0, 2, 4]
    assert [(hit.at, hit.number) for hit in refuse.hits] == [(4, 2)]


async def test_failed_write_does_not_trigger_a_fault_after_commits(toy: Toy) -> None:
    faults = Faults()
    rule = faults.add(Rule(Match(), kinds.Drop(moment="after"), count=1))
    await faults.after(LIST, about_call(LIST), Response(409))
    with pytest.raises(Dropped):
        await faults.after(LIST, about_call(LIST), Response(200))
    assert [hit.number for hit in rule.hits] == [1]
    assert faults.rules == (rule,)
