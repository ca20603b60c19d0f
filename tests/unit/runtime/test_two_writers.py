"""Two writers of one object that undo each other: any running manager reports both writers, the object and the fields."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

import pytest
import structlog
from plain_runs import played
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.client import Client
from konverge.errors import Contested, NotOurs
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.findings import Mistakes
from konverge_testing.lab.runs import run
from konverge_testing.loop import Livelock

Scenario = Callable[[Lab], Awaitable[None]]


def applying(*, force: bool = False, name: str = "shared", **data: str) -> By:
    """A reconciler that applies one ConfigMap with this content, again each minute."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        content = {key: value.replace("NAME", w.name) for key, value in data.items()}
        await ctx.apply(CONFIG_MAP.new(name, w.namespace, data=content), force=force)
        return kv.RequeueAfter(60)

    return By(reconcile)


@kv.resource("tests.konverge.dev/v1", conditions=("Ready",))
class Gear(kv.CustomResource[kv.Model, kv.Status]):
    """The kind of the second controller."""


def left(by: By, *, cached: bool = False, woken: bool = False, suffix: str = "") -> kv.Controller[Any]:
    return _declared(kv.Controller.of(Widget).named("left"), by, cached, woken, suffix)


def right(by: By, *, cached: bool = False, woken: bool = False, suffix: str = "") -> kv.Controller[Any]:
    return _declared(kv.Controller.of(Gear).named("right"), by, cached, woken, suffix)


def _declared(made: kv.Controller[Any], by: By, cached: bool, woken: bool, suffix: str) -> kv.Controller[Any]:
    if cached or woken:
        keys = [kv.Key("", made.kind, "lab", "one")] * woken
        made = made.watches(CONFIG_MAP, to=lambda _, __: keys)
    if suffix:
        made = made.writes_status_as(suffix)
    return made.needs(kv.Rule("", ("configmaps",), ("get", "create", "patch"))).reconciled_by(by)


def played_by(*controllers: kv.Controller[Any]) -> Scenario:
    """A scenario with these controllers, for half an hour."""

    async def scenario(lab: Lab) -> None:
        def build(manager: kv.Manager) -> None:
            for controller in controllers:
                manager.add(controller)

        await lab.start(build)
        await lab.create(widget())
        if len(controllers) > 1:
            await lab.create(Gear.new("one"))
        await asyncio.sleep(1800)

    return scenario


def pair(*, suffixes: tuple[str, str] = ("", ""), force: bool = False, **how: bool) -> Scenario:
    """Two controllers that apply one object with different fields."""
    return played_by(
        left(applying(by="left", force=force), **how, suffix=suffixes[0]),
        right(applying(by="right", also="x", force=force), **how, suffix=suffixes[1]),
    )


async def one_controller_for_two_objects(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(left(applying(by="NAME"))))
    await lab.create(widget("one"))
    await lab.create(widget("two"))
    await asyncio.sleep(1800)


async def two_managers_of_one_process(lab: Lab) -> None:
    def build(by: By) -> Callable[[kv.Manager], None]:
        return lambda manager: manager.add(left(by, cached=True))

    for name in ("lab", "other"):
        await lab.start(build(applying(by=name, force=True)), name=name)
    await lab.create(widget())
    await asyncio.sleep(1800)


class Meddler:
    """Another program, which writes the shared ConfigMap every ten seconds, so many times."""

    def __init__(self, lab: Lab, name: str, *, times: int = 100, every: float = 10.0, patch: bool = False) -> None:
        self._lab = lab
        self._name = name
        self._times = times
        self._every = every
        self._patch = patch

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._meddle())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _meddle(self) -> None:
        async with Client(self._lab.config, name=self._name) as client:
            for _ in range(self._times):
                await asyncio.sleep(self._every)
                changed = {"data": {"by": "me"}}
                if self._patch:
                    await client.patch(CONFIG_MAP, "shared", "lab", patch=changed, style="merge")
                else:
                    body = CONFIG_MAP.new("shared", "lab", **changed).to_dict()
                    await client.apply(CONFIG_MAP, body, manager=self._name, force=True)


def meddled(name: str, **how: Any) -> Scenario:
    async def scenario(lab: Lab) -> None:
        by = applying(by="us", own="x", force=True)
        await lab.start(lambda manager: manager.add(left(by, woken=True)))
        await lab.create(widget())
        await lab.until(CONFIG_MAP, "shared", lambda _: True)
        await lab.enter(Meddler(lab, name, **how))
        await asyncio.sleep(1800)

    return scenario


LEFT, RIGHT_ONE = "controller 'left' for Widget lab/one", "controller 'right' for Gear lab/one"
OF_ONE_MANAGER = (
    rf"Contested in (left|right) lab/one: ConfigMap lab/shared has two writers: ({LEFT} and {RIGHT_ONE}|{RIGHT_ONE} and {LEFT}) "
    r"undo each other's applies over .*\.data\.by.*; nothing was sent"
)
PLANTED: dict[str, tuple[Scenario, str]] = {
    "two controllers that watch the object": (pair(woken=True), OF_ONE_MANAGER),
    "two controllers that only read the object": (pair(cached=True), OF_ONE_MANAGER),
    "two controllers that do not cache the object": (pair(), OF_ONE_MANAGER),
    "two controllers with a field manager each": (
        pair(woken=True, suffixes=("left", "right"), force=True),
        OF_ONE_MANAGER,
    ),
    "one controller for two objects": (
        one_controller_for_two_objects,
        r"has two writers: controller 'left' for Widget lab/(one|two) and controller 'left' for Widget lab/(one|two) undo",
    ),
    "two managers of one process": (
        two_managers_of_one_process,
        r"3 applies of controller 'left' for Widget lab/one were undone within 600 s by the field managers of \.data\.by \((lab|other)",
    ),
    "another program that applies by force": (
        meddled("meddler"),
        r"has two writers: 3 applies of controller 'left' for Widget lab/one were undone .* by the field managers of \.data\.by \(meddler\)",
    ),
    "another program that patches": (meddled("meddler", patch=True), r"by the field managers of \.data\.by \(meddler"),
    "another process under the same name": (
        meddled("lab"),
        r"by a writer of \.data\.by, \.data\.own that owns none of it now: .* applies as 'lab', too",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_two_writers_that_undo_each_other_fail_an_ordinary_run(planted: str) -> None:
    scenario, words = PLANTED[planted]
    with pytest.raises((Mistakes, Livelock), match=words):
        played(scenario)


@pytest.mark.parametrize("planted", ["two controllers that do not cache the object", "another program that patches"])
def test_two_writers_that_undo_each_other_are_a_lab_finding(planted: str) -> None:
    scenario, words = PLANTED[planted]
    assert re.search(words, "\n".join(run(scenario, Plan(name="reference")).problems))


async def one_that_changes_its_mind(lab: Lab) -> None:
    turns = iter(range(1000))

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.apply(CONFIG_MAP.new("shared", w.namespace, data={"odd": str(next(turns) % 2)}))
        return kv.RequeueAfter(60)

    await played_by(left(By(reconcile), cached=True))(lab)


async def one_that_hands_over(lab: Lab) -> None:
    """The first widget leaves the object to the second widget, and takes it back once."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.spec.mode == "holds":
            await ctx.apply(CONFIG_MAP.new("shared", w.namespace, data={"by": w.name}))
        return kv.RequeueAfter(60)

    await lab.start(lambda manager: manager.add(left(By(reconcile))))
    for name in ("one", "two"):
        await lab.create(widget(name))
    for holder, other in (("one", "two"), ("two", "one"), ("one", "two")):
        await lab.patch(Widget, other, {"spec": {"mode": "plain"}})
        await lab.patch(Widget, holder, {"spec": {"mode": "holds"}})
        await asyncio.sleep(120)


RIGHT: dict[str, Scenario] = {
    "two controllers apply the same": played_by(left(applying(by="both")), right(applying(by="both"))),
    "two field managers apply disjoint fields": played_by(
        left(applying(left="x"), suffix="left"), right(applying(right="x"), suffix="right")
    ),
    "one controller changes its intent again and again": one_that_changes_its_mind,
    "one object is handed over and back": one_that_hands_over,
    "a person edits twice": meddled("kubectl", times=2, patch=True),
    "another program writes every ten minutes": meddled("kubectl", times=3, every=400.0, patch=True),
}


@pytest.mark.parametrize("right", RIGHT)
def test_writers_that_do_not_undo_each_other_again_and_again_are_green(right: str) -> None:
    played(RIGHT[right])
    assert run(RIGHT[right], Plan(name="a run")).problems in (
        [],
        ["not converged 7200 s after the last fault: writes go on"],
    )


async def test_last_writer_of_a_manager_wins_and_the_other_reports_why(lab: Lab) -> None:
    lab.expects(Contested, "has two writers")
    await pair(cached=True)(lab)
    objects = (await lab.get(Widget, "one"), await lab.get(Gear, "one"))
    [ready] = [found for one in objects if (found := one.find_condition("Ready")) is not None]
    assert (ready.status, ready.reason) == ("False", "ReconcileFailed")
    assert ready.message.startswith("ConfigMap lab/shared has two writers: controller '")
    sample = lab.metrics.registry.get_sample_value
    labels = {"kind": "ConfigMap", "result": "sent"}
    sent = [sample("konverge_applies_total", {"controller": name, **labels}) for name in ("left", "right")]
    assert (
        4 <= sum(number or 0 for number in sent) <= 2 + 3 * 3
    )  # the first two, and three reverts per ten minutes for half an hour


async def test_writer_outside_the_manager_is_counted_and_logged_every_ten_minutes(lab: Lab) -> None:
    lab.expects(Contested)
    with structlog.testing.capture_logs() as logs:
        await meddled("meddler")(lab)
    lines = [line for line in logs if line["event"] == "another writer undoes the applies of this controller"]
    assert [(line["controller"], line["kind"], line["namespace"], line["name"]) for line in lines] == [
        ("left", "ConfigMap", "lab", "shared")
    ] * len(lines)
    assert 2 <= len(lines) <= 3
    assert "'me'" not in str(lines)
    counted = lab.metrics.applies_undone.labels(controller="left", kind="ConfigMap")
    assert counted._value.get() == 100


async def test_undone_applies_of_owned_kinds_are_counted_from_0(lab: Lab) -> None:
    async def rests(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    controller = kv.Controller.of(Widget).named("left").owns(CONFIG_MAP).owns(SECRET).reconciled_by(By(rests))
    await lab.start(lambda manager: manager.add(controller))
    [family] = lab.metrics.applies_undone.collect()
    assert {sample.labels["kind"]: sample.value for sample in family.samples if sample.name.endswith("_total")} == {
        "ConfigMap": 0,
        "Secret": 0,
    }


@pytest.mark.parametrize(("suffix", "refused"), [("", True), ("right", False)])
async def test_apply_of_another_controllers_child_is_refused_without_own_field_manager(
    suffix: str, refused: bool, lab: Lab
) -> None:
    async def owns(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new("shared", w.namespace, data={"by": "left"}))
        return kv.RequeueAfter(60)

    async def labels(gear: Gear, ctx: kv.Context[Gear]) -> kv.Outcome:
        shared = CONFIG_MAP.new("shared", gear.namespace, labels={"by": "right"})
        try:
            await ctx.apply(shared)
        except NotOurs as error:
            refusals.append(str(error))
        return kv.RequeueAfter(60)

    refusals = list[str]()
    child = kv.Controller.of(Widget).named("left").owns(CONFIG_MAP).reconciled_by(By(owns))

    def build(manager: kv.Manager) -> None:
        manager.add(child)
        manager.add(right(By(labels), suffix=suffix))

    await lab.start(build)
    await lab.create(widget())
    await lab.until(CONFIG_MAP, "shared", lambda _: True)
    await lab.create(Gear.new("one"))
    await asyncio.sleep(300)
    words = "ConfigMap lab/shared is written by controller 'left'; controller 'right' does not write it too"
    assert (len(refusals) >= 5) == refused
    assert [refusal for refusal in refusals if not refusal.startswith(words)] == []
    found = await lab.get(CONFIG_MAP, "shared")
    assert (found.metadata.labels or {}) == ({} if refused else {"by": "right"})
    assert found.metadata.controller is not None
