"""Copies of a running run: each has the same result as its plan's separate run, and none disturbs another."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from receipts import INTERRUPTIONS, repeatable
from widgets import CONFIG_MAP, By, Widget, make_parts, numbered, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Crash, Foreign, Plan, Timed, explore
from konverge_testing.lab.branching import Batch
from konverge_testing.lab.forking import run_shared
from konverge_testing.lab.runs import Run, Scenario, run
from konverge_testing.lab.workers import Link, WorkFailed, possible, spread

pytestmark = pytest.mark.skipif(not possible(), reason="processes cannot be forked here")


async def scenario(lab: Lab) -> None:
    await lab.start(
        lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts)))
    )
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"spec": {"parts": 3}})
    await lab.until(Widget, "one", lambda found: found.status.parts == 3)


def rule(fault: dict[str, Any], verb: str = "write", **more: Any) -> dict[str, Any]:
    return {"match": {"verbs": [verb], "user_agent": "lab *"}, "fault": fault, "count": 1, **more}


def on_watch(fault: dict[str, Any]) -> dict[str, Any]:
    match = {"verbs": ["watch"], "resources": ["configmaps"], "user_agent": "lab *"}
    return {"match": match, "fault": fault, "count": 1}


CUT = {"match": {"user_agent": "lab *"}, "fault": {"type": "drop", "refused": True, "watches": True}}
LATE = Timed(rule=rule({"type": "refuse", "status": 409}), after=4)
PLANS = (
    Plan(name="crash before", crashes=(Crash(write=2, moment="before"),)),
    Plan(name="crash after", crashes=(Crash(write=4),)),
    Plan(name="crash before a server that lags", crashes=(Crash(write=2, behind=3),)),
    Plan(name="two crashes", crashes=(Crash(write=1), Crash(write=3))),
    Plan(name="refused", rules=(Timed(rule=rule({"type": "refuse", "status": 503}), after=2),)),
    Plan(name="late answer", rules=(Timed(rule=rule({"type": "delay", "seconds": 20.0, "moment": "after"}), after=1),)),
    Plan(name="partition", rules=(Timed(rule=CUT, after=2, seconds=30.0),)),
    Plan(name="cut", rules=(Timed(rule=on_watch({"type": "cut", "lines": 1})),)),
    Plan(name="cut at once", rules=(Timed(rule=on_watch({"type": "cut", "clean": True})),)),
    Plan(name="cut at once while it is open", rules=(Timed(rule=on_watch({"type": "cut", "clean": True}), after=2),)),
    Plan(name="frozen", rules=(Timed(rule=on_watch({"type": "freeze", "lines": 1, "steps": 2})),)),
    Plan(name="twice", rules=(Timed(rule=on_watch({"type": "lines", "do": "duplicate", "first": 2, "count": 1})),)),
    Plan(name="stale", rules=(Timed(rule=rule({"type": "stale", "behind": 2, "honest": True}, "read"), seconds=10.0),)),
    Plan(name="bookmarks", rules=(Timed(rule=on_watch({"type": "bookmarks", "do": "omit"})),)),
    Plan(
        name="foreign", foreign=(Foreign(after=1, do="delete", resource="configmaps", namespace="lab", name="part-0"),)
    ),
    Plan(name="never", crashes=(Crash(write=99),), rules=(Timed(rule=rule({"type": "drop"}), after=98),)),
    Plan(name="never a line", rules=(Timed(rule=on_watch({"type": "expire", "lines": 99})),)),
    Plan(name="several", rules=(Timed(rule=on_watch({"type": "expire", "lines": 1})), LATE), crashes=(Crash(write=5),)),
    Plan(name="two rules", rules=(Timed(rule=on_watch({"type": "forget"})), LATE)),
)


def always() -> bool:
    return True


def together(
    judge: Callable[[Run], Any],
    *,
    of: Scenario = scenario,
    plans: tuple[Plan, ...] = PLANS,
    more: Callable[[], bool] = always,
) -> dict[int, Any]:
    """Let plans share their beginning; returns the verdict on each plan."""

    def work(batch: Batch, link: Link) -> None:
        if batch.shared:
            run_shared(of, {place: plans[place] for place in batch.places}, link, more, judge)
            return
        for place in batch.places:
            link.done(place, ("alone", judge(run(of, plans[place]))))

    return dict(spread(work, [Batch(tuple(range(len(plans))), shared=True)], 1, always))


def whole(done: Run) -> Run:
    return done


@pytest.mark.parametrize("seed", [0, 3])
def test_a_branched_run_equals_the_run_of_its_plan_to_the_byte(seed: int) -> None:
    plans = tuple(msgspec.structs.replace(plan, seed=seed) for plan in PLANS)
    branched = together(whole, plans=plans)
    for place, plan in enumerate(plans):
        alone = run(scenario, plan)
        assert branched[place].timeline.text() == alone.timeline.text(), plan.name
        assert branched[place] == alone, plan.name


def test_interrupted_run_with_a_shared_beginning_equals_the_full_run() -> None:
    branched = together(whole, of=repeatable, plans=INTERRUPTIONS)
    for place, plan in enumerate(INTERRUPTIONS):
        alone = run(repeatable, plan)
        assert branched[place].timeline.text() == alone.timeline.text(), plan.name
        assert branched[place] == alone, plan.name


def test_a_plan_whose_faults_never_strike_is_not_forked() -> None:
    processes = together(lambda _: os.getpid())
    names = {PLANS[place].name: process for place, process in processes.items()}
    along = {name for name, process in names.items() if process == names["never"]}
    assert along >= {"never", "never a line"}
    assert len(set(processes.values())) == 1 + len(PLANS) - len(along)


@pytest.mark.parametrize(("code", "words"), [(3, "exit code 3"), (-signal.SIGKILL, "signal 9")])
def test_the_death_of_a_copy_names_its_plan(code: int, words: str) -> None:
    def judge(done: Run) -> None:
        if done.plan.name == "foreign":
            os._exit(code) if code > 0 else os.kill(os.getpid(), -code)

    with pytest.raises(WorkFailed, match=f"the process died .{words}") as failed:
        together(judge)
    assert PLANS[failed.value.place].name == "foreign"


def test_an_error_in_a_copy_names_its_plan() -> None:
    def judge(done: Run) -> None:
        assert done.plan.name != "cut", "no cuts"

    with pytest.raises(WorkFailed, match="AssertionError: no cuts") as failed:
        together(judge)
    assert PLANS[failed.value.place].name == "cut"


def test_outcome_that_cannot_be_pickled_is_an_error_without_a_hang() -> None:
    with pytest.raises(WorkFailed, match="pickle"):
        together(lambda _: threading.Lock())


def test_plans_are_left_when_the_time_is_up() -> None:
    left = iter([True] * 3)
    assert len(together(lambda _: None, more=lambda: next(left, False))) == 3


def test_a_run_with_threads_is_not_copied_and_its_plans_run_alone() -> None:
    async def threaded(lab: Lab) -> None:
        await asyncio.to_thread(lambda: None)
        await scenario(lab)

    early = Plan(name="at the start", rules=(Timed(rule=CUT, seconds=30.0),))
    told = together(lambda done: done.plan.name, of=threaded, plans=(early, *PLANS[:3]))
    assert told == {0: early.name} | {place: ("alone", PLANS[place - 1].name) for place in (1, 2, 3)}


@pytest.mark.linux
def test_descriptors_do_not_pile_up_from_copy_to_copy() -> None:
    counts = together(lambda _: len(list(Path("/proc/self/fd").iterdir())), plans=PLANS[:12])
    assert max(counts.values()) - min(counts.values()) <= 1


def test_copies_do_not_flush_inherited_buffers(tmp_path: Path) -> None:
    with (tmp_path / "told").open("w", buffering=1 << 16) as told:
        told.write("once")
        together(lambda _: None, plans=PLANS[:3])
    assert (tmp_path / "told").read_text() == "once"


# --- within an exploration --------------------------------------------------------------------------------------------------------


async def faulty(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(numbered))))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exploration_finds_the_same_with_and_without_sharing(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    noisy = Plan(name="noisy", crashes=(Crash(write=1), Crash(write=40)))
    plans = [*PLANS[:8], noisy, Plan(name="plain", crashes=(Crash(write=1),))]
    module = import_module("konverge_testing.lab.explore")
    reports = []
    for worth in (0.0, 3600.0):
        monkeypatch.setattr(module, "WORTH", worth)
        lines = list[str]()
        report = explore(faulty, only=plans, workers=workers, progress=lines.append)
        assert (report.ran, report.left, len(lines)) == (len(plans), 0, len(plans))
        reports.append(report)
    shared, alone = reports
    assert [one.text() for one in shared.failures] == [one.text() for one in alone.failures]
    assert {one.plan.name for one in shared.failures} >= {"noisy", "plain", "two crashes"}


def test_the_plan_whose_process_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("konverge_testing.lab.explore")
    monkeypatch.setattr(module, "WORTH", 0.0)
    monkeypatch.setattr(module, "_failure_of", lambda *_: os._exit(5))
    with pytest.raises(RuntimeError, match=r"crash before: the process died .exit code 5"):
        explore(faulty, only=PLANS[:2])
