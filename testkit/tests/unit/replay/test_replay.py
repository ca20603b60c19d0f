"""A recorded reconcile, run again: the same program repeats it, and another program shows where it diverges."""

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded import Taped, taped
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.errors import Conflict, UsageError
from konverge.recording import RecordedReconcile, Recording
from konverge.recording.entries import KeyName
from konverge_testing import Lab
from konverge_testing.replay.cluster import RecordedCluster
from konverge_testing.replay.comparison import ReplayReport, compare, text_of
from konverge_testing.replay.runs import replay

Reconcile = Callable[[Widget, kv.Context[Widget]], Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tape"


def controller(reconcile: Reconcile, finalize: Any = None) -> kv.Controller[Widget]:
    described = kv.Controller.of(Widget).owns(CONFIG_MAP).watches(SECRET, to=lambda *_: ()).reads_live(SECRET)
    if finalize is not None:
        described = described.finalizer("tests.konverge.dev/held")
    return described.reconciled_by(By(reconcile, finalize))


async def recorded(lab: Lab, file: Path, reconcile: Reconcile, finalize: Any = None) -> Taped:
    """Record the life of a widget: created beside a Secret, then with another mode."""
    await lab.create(SECRET.new("target", stringData={"password": "correct horse"}))
    tape = await taped(lab, file, controller(reconcile, finalize))
    await lab.create(widget(parts=1))
    await lab.settled()
    await lab.patch(Widget, "one", {"spec": {"mode": "odd"}})
    await lab.settled()
    if finalize is not None:
        await lab.delete(Widget, "one")
        await lab.settled()
    await lab.stop()
    return tape


def odd(recording: Recording) -> int:
    """Return the number of the first reconcile after the patch."""
    return next(
        each.number for each in recording.reconciles if recording.data(each.object)["spec"].get("mode") == "odd"
    )


async def replayed(
    recording: Recording, number: int, reconcile: Reconcile, finalize: Any = None, *, stop: bool = False
) -> ReplayReport:
    entry = next(each for each in recording.reconciles if each.number == number)

    def build(manager: kv.Manager) -> None:
        manager.add(controller(reconcile, finalize))

    return compare(recording, entry, await replay(recording, entry, build, stop=stop))


async def parts(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Read everything, own a part with the time, and write a status."""
    secret = await ctx.live(SECRET).get(found.namespace, "target")
    names = sorted(child.name for child in ctx.cache(CONFIG_MAP).list(found.namespace))
    password = secret.get("data", "password", default="")
    await ctx.apply_children([part(0, mode=found.spec.mode, password=password, at=ctx.now().isoformat())])
    ctx.status.draft.note = ", ".join(names)
    ctx.status.set_condition("Ready", True, "Built", found.spec.mode)
    return kv.RequeueAfter(3600)


async def nothing(_found: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
    return kv.Done()


async def fails(_found: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
    raise ValueError("no such mode")


@pytest.mark.parametrize("reconcile", [parts, fails], ids=lambda function: function.__name__)
async def test_the_same_program_repeats_each_recorded_reconcile(lab: Lab, file: Path, reconcile: Reconcile) -> None:
    if reconcile is fails:
        lab.expects(ValueError)
    recording = (await recorded(lab, file, reconcile, nothing)).read()
    assert len(recording.reconciles) >= 4
    for entry in recording.reconciles:
        report = await replayed(recording, entry.number, reconcile, nothing)
        assert not report, text_of(report)
        assert report.same_outcome
        assert report.replayed.unknown_reads == ()
        assert len(report.replayed.sent) == len(entry.exchanges)


async def test_a_changed_value_is_shown_by_object_and_field(lab: Lab, file: Path) -> None:
    recording = (await recorded(lab, file, parts)).read()

    async def changed(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        found.spec.mode = "fixed"
        return await parts(found, ctx)

    report = await replayed(recording, odd(recording), changed)
    text = text_of(report)
    assert "~ PATCH configmaps" in text
    assert '~ .data.mode: "odd" -> "fixed"' in text
    assert '~ .status.conditions[Ready].message: "odd" -> "fixed"' in text
    assert "2 writes differ, the first at request 2: PATCH configmaps" in text
    assert (report.same_outcome, report.exit_code) == (True, 2)


async def test_writes_that_only_one_side_sends_are_shown(lab: Lab, file: Path) -> None:
    recording = (await recorded(lab, file, parts)).read()

    async def other(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(part(1))
        await ctx.delete(CONFIG_MAP, "part-0", found.namespace)
        return kv.Done()

    report = await replayed(recording, odd(recording), other)
    assert [(each.what, each.title.partition(" ")[0], each.path.rpartition("/")[2]) for each in report.divergences] == [
        ("new", "PATCH", "part-1"),
        ("new", "DELETE", "part-0"),
        ("changed", "PATCH", "status"),
        ("absent", "PATCH", "part-0"),
    ]
    assert (report.reconcile.outcome, report.replayed.outcome) == ("RequeueAfter", "Done")


async def test_a_recorded_refusal_of_the_server_is_repeated(lab: Lab, file: Path) -> None:
    """The cluster of today would accept the write."""

    async def collides(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.patch(CONFIG_MAP, "part-9", found.namespace, patch={"metadata": {"resourceVersion": "1"}})
        return kv.Done()

    lab.expects(Conflict)
    await lab.create(part(9))
    recording = (await recorded(lab, file, collides)).read()
    report = await replayed(recording, 1, collides)
    assert (report.replayed.outcome, bool(report)) == ("Conflict", False)


async def test_cache_reads_that_the_record_lacks_are_named(lab: Lab, file: Path) -> None:
    recording = (await recorded(lab, file, parts)).read()

    async def curious(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.cache(SECRET).find(found.namespace, "other")
        return await parts(found, ctx)

    report = await replayed(recording, odd(recording), curious)
    assert report.replayed.unknown_reads == (f"get Secret {lab.namespace}/other",)


async def test_the_debugger_stops_right_before_the_reconciler(
    lab: Lab, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = (await recorded(lab, file, parts)).read()
    seen: list[str] = []

    def hook() -> None:
        frame = sys._getframe(1)
        seen.append(f"{frame.f_locals['method'].__name__} {frame.f_locals['object_'].name}")

    monkeypatch.setattr(builtins, "breakpoint", hook)
    await replayed(recording, 1, parts, stop=True)
    assert seen == ["reconcile one"]


async def test_a_replay_without_its_controller_is_an_error(lab: Lab, file: Path) -> None:
    recording = (await recorded(lab, file, parts)).read()

    def other(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).named("other").reconciled_by(By(nothing)))

    def calling(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).calls("a bank").reconciled_by(By(nothing)))

    for build, match in ((other, "'widget' is not among .*: other"), (calling, "calls a bank")):
        with pytest.raises(UsageError, match=match):
            await replay(recording, recording.reconciles[0], build)
    recording.reconciles[0].dropped = 5
    with pytest.raises(UsageError, match="greater size"):
        await replay(recording, recording.reconciles[0], other)


async def test_a_replay_names_a_command_that_is_not_recorded() -> None:
    key = KeyName("v1", "Widget", "web", "one")
    reconcile = RecordedReconcile(number=1, controller="w", key=key, reasons=(), began="", duration=0.0, object="")
    header: Any = None
    cluster = RecordedCluster(Recording(header), reconcile, lambda: True)
    async with kv.Client(cluster.config(), name="test") as client:
        with pytest.raises(
            UsageError, match="connect pods/exec web/shop: the websocket of a reconcile is not recorded"
        ):
            await client.run("shop", "web", ["ls"])
