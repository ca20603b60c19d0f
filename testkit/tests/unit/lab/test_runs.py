"""One run of a scenario: the same seed gives the same bytes, for any hash seed of the interpreter."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest
from widgets import CONFIG_MAP, By, Widget, make_parts, part, widget

import konverge as kv
from konverge.clock import cpu_time
from konverge.runtime.election.candidate import Candidate
from konverge.runtime.election.settings import ElectionSettings
from konverge_testing import Lab
from konverge_testing.lab import Crash, Foreign, Plan, Timed, replay
from konverge_testing.lab.owned import is_owned
from konverge_testing.lab.plans import Lease, LeaseFault
from konverge_testing.lab.runs import STEADY, rest_until_steady, run

SUPPORT = Path(By.__init__.__code__.co_filename).parent


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts)))


async def scenario(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(widget(parts=2))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"spec": {"parts": 3}})
    await lab.until(Widget, "one", lambda found: found.status.parts == 3)


REFERENCE = Plan(name="reference")


def test_remaining_rest_until_convergence_is_one_sleep_at_any_time() -> None:
    """A remainder from the rounding of floats is lost in the sum with the clock: the run would wait without end."""
    for milliseconds in range(0, 4_000_000, 997):
        last_write = milliseconds / 1000.0 / 3.0
        began = last_write + 0.1
        woken = began + rest_until_steady(last_write, began)
        assert rest_until_steady(last_write, woken) == 0.0
        assert woken - last_write == pytest.approx(STEADY, abs=2e-3)


def test_a_run_without_faults_has_no_problems_and_a_timeline() -> None:
    done = run(scenario, REFERENCE)
    assert done.problems == []
    assert [entry.text for entry in done.timeline.writes() if entry.effect] == [
        "apply configmaps lab/part-0",
        "apply configmaps lab/part-1",
        "apply widgets.tests.konverge.dev/status lab/one",
        "apply configmaps lab/part-2",
        "apply widgets.tests.konverge.dev/status lab/one",
    ]
    assert done.created == {"configmaps lab/part-0": 1, "configmaps lab/part-1": 1, "configmaps lab/part-2": 1} | {
        where: times for where, times in done.created.items() if "configmaps lab" not in where
    }
    assert done.definitions == ("widgets.tests.konverge.dev",)
    assert set(done.watched) >= {"configmaps", "widgets.tests.konverge.dev"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_seed_gives_the_same_timeline_to_the_byte(seed: int) -> None:
    plan = Plan(name="again", seed=seed, crashes=(Crash(write=2),))
    first, second = run(scenario, plan), run(scenario, plan)
    assert first.timeline.text() == second.timeline.text()
    assert first.state == second.state


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib.util
spec = importlib.util.spec_from_file_location("a_test_of_runs", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from konverge_testing.lab import Plan
for plan in sys.argv[3:]:
    sys.stdout.write(module.run(module.scenario, Plan.from_json(plan)).timeline.text())
"""


def test_the_hash_seed_of_the_interpreter_changes_nothing() -> None:
    plans = (REFERENCE, Plan(name="seeded", seed=5, crashes=(Crash(write=2),)))
    arguments = [sys.executable, "-c", SCRIPT, str(SUPPORT), __file__, *(plan.to_json() for plan in plans)]
    processes = [
        subprocess.Popen(arguments, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2")
    ]
    one, other = (process.communicate()[0] for process in processes)
    assert one == other == "".join(run(scenario, plan).timeline.text() for plan in plans)


def test_a_crash_after_a_write_leaves_the_write_and_nothing_after_it() -> None:
    plan = Plan(name="crash", crashes=(Crash(write=1),))
    done, problems = replay(scenario, plan)
    assert problems == []
    lines = list(done.timeline.lines())
    death = next(place for place, line in enumerate(lines) if "dies after its write #1" in line)
    assert any("added configmaps lab/part-0" in line for line in lines[:death])
    assert not any("part-1" in line for line in lines[:death])


def test_a_crash_before_a_write_keeps_it_from_the_server() -> None:
    done, problems = replay(scenario, Plan(name="crash", crashes=(Crash(write=1, moment="before"),)))
    assert problems == []
    lines = list(done.timeline.lines())
    death = next(place for place, line in enumerate(lines) if "dies before its write #1" in line)
    assert not any("commit" in line and "part-0" in line for line in lines[:death])


def test_a_rule_strikes_where_the_plan_says_and_its_end_is_noted() -> None:
    rule: dict[str, Any] = {
        "match": {"verbs": ["write"], "user_agent": "lab *"},
        "fault": {"type": "refuse", "status": 500},
    }
    done, problems = replay(scenario, Plan(name="500", rules=(Timed(rule=rule | {"count": 1}, after=1),)))
    assert problems == []
    assert "apply configmaps lab/part-1 -> 500" in done.timeline.text()
    assert "Refuse strikes" in done.timeline.text()


def test_foreign_write_happens_before_the_process_gets_its_own_response() -> None:
    act = Foreign(after=1, do="delete", resource="configmaps", namespace="lab", name="part-0")
    done, problems = replay(scenario, Plan(name="delete", foreign=(act,)))
    assert problems == []
    lines = [line.split(maxsplit=2)[2] for line in done.timeline.lines()]
    write = next(place for place, line in enumerate(lines) if line.endswith("apply configmaps lab/part-0 #1"))
    assert lines[write + 1].endswith("delete configmaps lab/part-0 #1")
    assert lines[write + 2].endswith("deleted configmaps lab/part-0")
    assert done.touched == {"configmaps lab/part-0"}


@pytest.mark.parametrize("do", get_args(LeaseFault))
def test_lease_faults_run_two_replicas_that_finish_the_work(do: LeaseFault) -> None:
    done, problems = replay(scenario, Plan(name=do, leases=(Lease(after=2, do=do),)))
    assert problems == []
    assert f"the lease: {do}" in done.timeline.text()


async def test_settled_does_not_wait_for_the_queue_of_a_standby(lab: Lab) -> None:
    for instance in ("first", "second"):
        election = kv.ElectionSettings(enabled=True, name="one", namespace="default")
        settings = kv.ManagerSettings(namespace=lab.namespace, instance=instance, election=election)
        await lab.start(build, name=instance, settings=settings)
    await lab.create(widget(parts=2))
    await lab.settled()
    assert (await lab.get(Widget, "one")).status.parts == 2


@pytest.mark.parametrize("do", get_args(LeaseFault))
@pytest.mark.parametrize("after", [1, 4])
def test_settled_waits_for_the_replica_that_leads_and_no_other(do: LeaseFault, after: int) -> None:
    waited, parts = list[float](), list[int]()

    async def settles(lab: Lab) -> None:
        await lab.start(build)
        await lab.create(widget(parts=2))
        began = asyncio.get_running_loop().time()
        await lab.settled()
        waited.append(asyncio.get_running_loop().time() - began)
        parts.append((await lab.get(Widget, "one")).status.parts or 0)

    done = run(settles, Plan(name=do, leases=(Lease(after=after, do=do),)))
    assert done.problems == []
    assert waited[0] < 400, "a lease runs out after 120 s, and a pause lasts 240 s"
    assert parts == [2]


@pytest.mark.parametrize(("do", "identities"), [("pause", 2), ("twins", 1)])
def test_only_the_plan_of_twins_gives_both_replicas_one_identity(
    do: LeaseFault, identities: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates = list[str]()
    begin = Candidate.__init__

    def noted(self: Candidate, identity: str, settings: ElectionSettings) -> None:
        candidates.append(identity)
        begin(self, identity, settings)

    monkeypatch.setattr(Candidate, "__init__", noted)
    replay(scenario, Plan(name=do, leases=(Lease(after=2, do=do),)))
    assert len(candidates) >= 2
    assert len(set(candidates)) == identities


def test_two_replicas_that_both_lead_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Candidate, "_free_at", lambda self: self._changed_at + 25.0)
    done = run(scenario, Plan(name="both", leases=(Lease(after=2, do="pause"),)))
    assert any("two replicas write" in problem for problem in done.problems), done.problems


def refused_in(replica: int) -> Callable[[Lab], Awaitable[None]]:
    """The scenario; the requests of this replica, from 0 on, are rejected again and again."""

    async def plays(lab: Lab) -> None:
        replicas, attempts = count(), count()

        def build_one(manager: kv.Manager) -> None:
            number = next(replicas)

            async def reconcile(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
                if number != replica:
                    return await make_parts(owner, ctx)
                if (attempt := next(attempts)) < 12:  # a fault of the lease follows a write
                    await ctx.own(part(attempt, owner.namespace))
                await ctx.own(CONFIG_MAP.new("Not A Name", owner.namespace))
                return kv.Done()

            manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile)))

        await lab.start(build_one)
        await lab.create(widget(parts=2))
        if replica == 0:
            await lab.until(Widget, "one", kv.is_true("Ready"))

    return plays


def test_repeated_failure_before_lease_loss_is_forgiven_if_other_replica_succeeds() -> None:
    done = run(refused_in(0), Plan(name="lost", leases=(Lease(after=24, do="lose"),)))
    assert done.problems == []


def test_repeated_failure_in_the_replica_that_took_over_is_a_finding() -> None:
    done = run(refused_in(1), Plan(name="taken over", leases=(Lease(after=2, do="pause"),)))
    assert any("lab/one fails again and again" in problem for problem in done.problems), done.problems


def test_a_failed_expectation_is_a_finding_and_not_an_error() -> None:
    async def disappointed(lab: Lab) -> None:
        await scenario(lab)
        raise AssertionError("there should be four")

    assert run(disappointed, REFERENCE).problems == ["the scenario's own expectation failed: there should be four"]


def test_an_unexpected_error_of_a_reconciler_is_a_finding() -> None:
    async def stumble(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if owner.status.parts is None:
            ctx.status.draft.parts = 0
            raise KeyError("nothing")
        return kv.Done()

    async def stumbling(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(stumble))))
        await lab.create(widget())

    found = run(stumbling, REFERENCE).problems
    assert len(found) >= 1
    assert found[0].startswith("unhandled KeyError in widget lab/one")


def test_a_controller_that_never_stops_writing_is_a_finding() -> None:
    async def restless(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.draft.parts = (owner.status.parts or 0) + 1
        return kv.RequeueAfter(60)

    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(restless))))
        await lab.create(widget())

    assert run(scenario, REFERENCE).problems[0].startswith("not converged 7200 s after the last fault")


def test_a_process_is_stopped_after_a_thousand_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("konverge_testing.lab.fault_injector.MOST_WRITES", 50)

    async def breeding(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await asyncio.sleep(0.01)
        await ctx.own(part(len(ctx.cache(CONFIG_MAP).keys(owner.namespace)), owner.namespace))
        return kv.Done()

    async def scenario(lab: Lab) -> None:
        await lab.start(
            lambda manager: manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(breeding)))
        )
        await lab.create(widget())

    found = run(scenario, REFERENCE).problems
    assert any(
        one.startswith("50 writes and no end: the process was stopped at apply configmaps lab/part-") for one in found
    )


def test_a_predicate_of_the_user_runs_after_every_write() -> None:
    async def watched(lab: Lab) -> None:
        def no_second_part() -> None:
            assert lab.server.store.get(("", "configmaps"), "lab", "part-1") is None, "part-1 is there"

        lab.always.append(no_second_part)
        await scenario(lab)

    found = run(watched, REFERENCE).problems
    assert found[0].startswith("a predicate does not hold after added configmaps lab/part-1: part-1 is there")


def test_masked_parts_of_an_object_are_not_compared() -> None:
    async def masked(lab: Lab) -> None:
        lab.may_differ(None, "status.parts", why="a test")
        await scenario(lab)

    seen = run(masked, REFERENCE).state["widgets.tests.konverge.dev lab/one"]
    assert "parts" not in seen["status"]
    assert "parts" in seen["spec"]


def test_process_that_is_down_for_hours_starts_again_on_time() -> None:
    plan = Plan(name="down", crashes=(Crash(write=1, down=7200.0),))
    result = run(scenario, plan)
    assert result.problems == []
    later = [entry.at for entry in result.timeline.writes() if entry.number > 1]
    assert later
    assert min(later) == pytest.approx(7200.0, abs=5.0)
    assert "is down for 7200 s" in result.timeline.text()


def test_run_with_a_clock_end_is_compared_then_without_rest() -> None:
    async def tick(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.draft.parts = (owner.status.parts or 0) + 1
        ctx.status.set_condition("Ready", True, "Ticking")
        return kv.RequeueAfter(60)

    async def ticking(lab: Lab) -> None:
        lab.clock_ends(after=3630.0)
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(tick))))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    result = run(ticking, REFERENCE)
    assert result.problems == []
    assert result.seconds == pytest.approx(3691.5, abs=1.0)


def test_a_run_keeps_what_the_scenario_declared_with_the_reasons() -> None:
    async def declaring(lab: Lab) -> None:
        lab.may_differ(CONFIG_MAP, why="parts come and go")
        lab.may_stay_gone(Widget, "one", why="it was deleted for good")
        lab.skip_plans("crash *", why="it never crashes")
        await scenario(lab)

    result = run(declaring, REFERENCE)
    assert result.may_differ == {"configmaps"}
    assert result.may_be_gone == {"widgets.tests.konverge.dev lab/one"}
    assert result.skipped == (("crash *", "it never crashes"),)
    assert result.allowed == ("ConfigMap: parts come and go", "Widget: it was deleted for good")
    assert not [where for where in result.state if where.startswith("configmaps ")]


def test_run_has_not_converged_while_the_process_is_down_at_end() -> None:
    last = len(run(scenario, REFERENCE).timeline.writes())
    result = run(scenario, Plan(name="down", crashes=(Crash(write=last, down=10800.0),)))
    assert result.problems == []


async def makes_parts_later(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    """Is Ready with one part, and creates two more ten minutes later: after the end of a scenario that waits for Ready."""
    await ctx.own(part(0, owner.namespace))
    ctx.status.set_condition("Ready", True, "Made")
    made = owner.metadata.created
    if made is None or (ctx.now() - made).total_seconds() < 600:
        return kv.RequeueAfter(600)
    await ctx.own(part(1, owner.namespace))
    await ctx.own(part(2, owner.namespace))
    return kv.Done()


@pytest.mark.parametrize("clock", [None, 900.0])
def test_fault_at_a_write_after_the_scenario_end_is_awaited(clock: float | None) -> None:
    async def ends_early(lab: Lab) -> None:
        if clock is not None:
            lab.clock_ends(after=clock)
        controller = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(makes_parts_later))
        await lab.start(lambda manager: manager.add(controller))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    number = next(one.number for one in run(ends_early, REFERENCE).timeline.writes() if "part-1" in one.text)
    down = Plan(name="down", crashes=(Crash(write=number, down=10800.0),))
    result, problems = replay(ends_early, down)
    assert problems == []
    assert "configmaps lab/part-2" in result.state
    assert result.seconds > 10800.0


async def waits_for_its_peer(owner: Widget, ctx: kv.Context[Widget], never: threading.Event) -> kv.Outcome:
    """Hangs in a thread if its child exists without a status, as after a crash between the two writes."""
    if owner.status.parts is None and ctx.cache(CONFIG_MAP).find(owner.namespace, "part-0") is not None:
        await asyncio.to_thread(never.wait)
    return await make_parts(owner, ctx)


def test_plan_with_an_endless_thread_is_cut_off_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("konverge_testing.loop.MOST_WAITING", 0.05)
    never = threading.Event()

    async def peers(lab: Lab) -> None:
        controller = kv.Controller.of(Widget).owns(CONFIG_MAP)
        reconciler = By(lambda owner, ctx: waits_for_its_peer(owner, ctx, never))
        await lab.start(lambda manager: manager.add(controller.reconciled_by(reconciler)))
        await lab.create(widget(parts=1))
        await lab.until(Widget, "one", kv.is_true("Ready"))

    try:
        _, problems = replay(peers, Plan(name="crash", crashes=(Crash(write=1),)))
    finally:
        never.set()
    assert problems[0].startswith("the run hangs: threading.Event.wait did not return in ")


def test_endless_run_is_cut_off_when_its_cpu_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real time counts as CPU time here: on a busy machine the limit of real time could end the run first."""
    monkeypatch.setattr("konverge_testing.loop.monotonic", cpu_time)

    async def waits_for_ever(lab: Lab) -> None:
        await lab.start(build)
        await lab.create(widget(parts=1))
        await asyncio.Event().wait()

    began = cpu_time()
    problems = run(waits_for_ever, REFERENCE, seconds=0.5).problems
    assert cpu_time() - began < 2.5
    assert problems[0].startswith("the run hangs: the run goes on and on: ")
    assert re.search(r"waits at test_runs\.py:\d+", problems[0])


def test_a_run_of_the_lab_knows_the_fields_of_the_server() -> None:
    service = kv.kind("v1", "Service")

    async def scenario(lab: Lab) -> None:
        await lab.client.apply(service, service.new("web", lab.namespace, spec={"ports": [{"port": 80}]}).to_dict())

    owned = run(scenario, Plan(name="reference"), long=True).owned["services lab/web"]
    assert (is_owned(owned, "spec.ports.port"), is_owned(owned, "spec.clusterIP")) == (True, False)
