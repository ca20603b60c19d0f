"""Two replicas of an operator: a leader and a standby, which never write at the same time."""

import asyncio
from typing import Any

import pytest
from copy_operator import build, copied, copy_of, source
from replicas import NAMESPACE, Replicas
from scripted_leadership import ScriptedLeadership
from widgets import CONFIG_MAP, SECRET, By, Widget

import konverge as kv
from konverge.errors import Forbidden
from konverge.metrics import Metrics
from konverge.runtime import State
from konverge.runtime.election.elector import LeaseElection
from konverge.runtime.election.record import LEASE
from konverge.runtime.http.health import checks_of
from konverge.runtime.observability.failures import Failure
from konverge_testing.apiserver.faults.rules import Hang, Match, Refuse, Rule
from konverge_testing.loop import SUSPENDED


async def test_one_replica_leads_and_the_other_writes_nothing() -> None:
    async with Replicas(build) as replicas:
        await source(replicas)
        await replicas.start("a")
        await copy_of(replicas)
        b = await replicas.start("b")
        await source(replicas, "source-2")
        await copy_of(replicas, "source-2")
        assert not b.leads
        assert replicas.writes("b") == []


async def test_standby_takes_over_at_once_on_release_without_another_list() -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        await asyncio.sleep(30)
        lists = {one["selection"]: one["lists"] for one in b.manager.debug()["informers"]()}
        await source(replicas)
        await copy_of(replicas)
        began = asyncio.get_running_loop().time()
        await replicas.stop("a")
        assert await replicas.leader() == "b"
        await source(replicas, "source-2")
        await copy_of(replicas, "source-2", within=2.0)
        assert asyncio.get_running_loop().time() - began < 2.0
        assert {one["selection"]: one["lists"] for one in b.manager.debug()["informers"]()} == lists
        assert replicas.violations() == []


async def test_standby_exposes_cache_comparison_counts_from_0_before_the_first_increase() -> None:
    def counts(name: str) -> dict[tuple[str, str], float]:
        found = replicas.replicas[name].metrics.caught_up.collect()
        return {
            (sample.labels["kind"], sample.labels["result"]): sample.value
            for family in found
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await replicas.start("b")
        await asyncio.sleep(30)
        before = counts("b")
        await replicas.stop("a")
        assert await replicas.leader() == "b"
        await asyncio.sleep(30)
        kinds = {kind for kind, _ in before}
        assert kinds
        assert before == {(kind, result): 0 for kind in kinds for result in ("shown", "timeout")}
        assert counts("b") == {
            (kind, result): int(result == "shown") for kind in kinds for result in ("shown", "timeout")
        }


async def test_standby_takes_over_within_20_seconds_of_the_leader_death() -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await replicas.start("b")
        await asyncio.sleep(30)
        replicas.kill("a")
        await source(replicas)
        await copy_of(replicas, within=20.0)
        assert await replicas.leader() == "b"
        assert replicas.violations() == []


@pytest.mark.parametrize(
    ("spec", "gap"),
    [
        pytest.param({"holderIdentity": "another"}, 20.0, id="another holder is written"),
        pytest.param({"holderIdentity": ""}, 20.0, id="the holder is emptied"),
        pytest.param({"renewTime": "2000-01-01T00:00:00.000000Z"}, 0.0, id="the time of renewal is set back"),
        pytest.param({"leaseDurationSeconds": 3600}, 0.0, id="the duration is set to an hour"),
    ],
)
async def test_a_lease_that_is_edited_by_hand_never_lets_two_replicas_write(spec: dict[str, Any], gap: float) -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await replicas.start("b")
        await asyncio.sleep(30)
        await replicas.client.patch(LEASE, "operator", NAMESPACE, patch={"spec": spec}, style="merge")
        edited = asyncio.get_running_loop().time()
        await source(replicas)
        await copy_of(replicas, within=gap + 2.0)
        assert (
            all(one.time >= edited + gap - 5 for one in replicas.audit if one.replica and one.time > edited) or not gap
        )
        assert replicas.violations() == []


async def test_a_leader_whose_lease_is_deleted_creates_it_again_and_goes_on() -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await replicas.start("b")
        await asyncio.sleep(30)
        await replicas.client.delete(LEASE, "operator", NAMESPACE)
        await asyncio.sleep(5)
        assert (await replicas.lease()).data["spec"]["holderIdentity"].startswith("a_")
        await source(replicas)
        await copy_of(replicas, within=1.0)
        assert replicas.replicas["a"].leads
        assert replicas.violations() == []


async def test_leader_that_cannot_renew_stops_writing_before_takeover_and_becomes_standby() -> None:
    async with Replicas(build) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        await replicas.start("b")
        await asyncio.sleep(30)
        replicas.delays["a"] = lambda request: 40.0 if "/leases/" in request.path else 0.0
        assert await replicas.leader(other_than="a") == "b"
        assert not a.leads
        await source(replicas)
        await copy_of(replicas, within=3.0)
        replicas.delays.clear()
        await replicas.stop("b")
        await source(replicas, "source-2")
        await copy_of(replicas, "source-2", within=30.0)
        assert [holder for _, holder in replicas.holders] == ["a", "b", "", "a"]
        assert replicas.violations() == []


async def test_a_write_that_is_held_up_beyond_the_lease_is_not_sent() -> None:
    arrived = asyncio.Event()

    async def slow(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        if object_.name != "source":
            return kv.Done()
        arrived.set()
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            await ctx.own(SECRET.new("too-late", NAMESPACE))  # a reconcile that resists its cancellation
            raise
        return kv.Done()

    async with Replicas(
        lambda manager: manager.add(
            kv.Controller.of(CONFIG_MAP).owns(SECRET).with_(timeout=900).reconciled_by(By(slow))
        )
    ) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        await source(replicas)
        await arrived.wait()
        replicas.delays["a"] = lambda request: 3600.0 if "/leases" in request.path else 0.0
        await asyncio.sleep(30)
        assert not a.leads
        assert replicas.writes("a") == []
        replicas.delays.clear()


@pytest.mark.parametrize("seconds", [11.0, 60.0, 86_400.0])
async def test_leader_suspended_beyond_the_lease_writes_nothing_on_waking(seconds: float) -> None:
    suspended = 0.0
    async with Replicas(build) as replicas:
        token = SUSPENDED.set(lambda: suspended)
        try:
            a = await replicas.start("a")
        finally:
            SUSPENDED.reset(token)
        await source(replicas)
        await copy_of(replicas)
        await replicas.start("b")
        await asyncio.sleep(30)
        assert await replicas.leader() == "a"
        await source(replicas, "source-2")  # the change that the reconcile after the suspension would write for
        suspended, before = seconds, len(replicas.writes("a"))
        async with asyncio.timeout(30):
            while a.leads:
                await asyncio.sleep(0.1)
        assert len(replicas.writes("a")) == before
        await copy_of(replicas, "source-2", within=60.0)
        assert replicas.violations() == []


async def test_leader_suspended_for_less_than_the_lease_continues() -> None:
    suspended = 0.0
    async with Replicas(build) as replicas:
        token = SUSPENDED.set(lambda: suspended)
        try:
            a = await replicas.start("a")
        finally:
            SUSPENDED.reset(token)
        assert await replicas.leader() == "a"
        for _ in range(10):
            await asyncio.sleep(20)
            suspended += 3.0
            await asyncio.sleep(6)
            assert a.leads


async def test_reconcile_interrupted_by_lease_loss_runs_again_in_the_next_term() -> None:
    runs: list[tuple[str, ...]] = []

    async def noted(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        if object_.name == "source":
            runs.append(tuple(ctx.reasons))
            if len(runs) == 1:
                await asyncio.sleep(300)
        return kv.Done()

    async with Replicas(
        lambda manager: manager.add(kv.Controller.of(CONFIG_MAP).with_(timeout=900).reconciled_by(By(noted)))
    ) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await source(replicas)
        await asyncio.sleep(1)
        await replicas.client.patch(
            LEASE, "operator", NAMESPACE, patch={"spec": {"holderIdentity": "x"}}, style="merge"
        )
        await asyncio.sleep(40)
        assert len(runs) == 2
        assert any("lease" in reason for reason in runs[1])


async def test_requests_that_a_leader_had_put_off_are_reconciled_by_its_successor() -> None:
    runs: list[str] = []

    def build_later(manager: kv.Manager) -> None:
        async def later(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
            if object_.name != "source":
                return kv.Done()
            runs.append(object_.name)
            return kv.RequeueAfter(3600)

        manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(later)))

    async with Replicas(build_later) as replicas:
        await replicas.start("a")
        await replicas.leader()
        await source(replicas)
        await asyncio.sleep(5)
        await replicas.client.patch(
            LEASE, "operator", NAMESPACE, patch={"spec": {"holderIdentity": "x"}}, style="merge"
        )
        await asyncio.sleep(40)
        assert await replicas.leader() == "a"
        assert len(runs) == 2


async def test_standby_queue_does_not_grow_with_object_churn() -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        before = b.manager.runner("configmap").queue.statistics()
        for number in range(50):
            await source(replicas, f"source-{number}")
            await copy_of(replicas, f"source-{number}")
            await replicas.client.delete(CONFIG_MAP, f"source-{number}", NAMESPACE)
        await asyncio.sleep(5)
        after = b.manager.runner("configmap").queue.statistics()
        assert after.ready == before.ready


async def test_nothing_is_kept_of_an_object_deleted_before_the_next_term() -> None:
    leadership = ScriptedLeadership()
    async with Replicas(build) as replicas:
        settings = kv.ManagerSettings(namespace=NAMESPACE)
        config = replicas.server.config(namespace=NAMESPACE)
        async with kv.Manager("scripted", config, settings=settings, leadership=leadership) as manager:
            build(manager)
            writes = Match(verbs=("write",), resources=("secrets",))
            replicas.server.faults.add(Rule(writes, Hang(), count=1))
            await source(replicas, "source-brief")
            await asyncio.sleep(5)
            leadership.lose()
            await asyncio.sleep(1)
            await replicas.client.delete(CONFIG_MAP, "source-brief", NAMESPACE)
            await asyncio.sleep(1)
            leadership.win()
            await asyncio.sleep(60)
            statistics = manager.client.ledger.statistics()
            assert (statistics.writers, statistics.pending) == (0, 0)


async def test_a_controller_on_every_replica_works_on_a_standby_too() -> None:
    worked: set[str] = set()

    def build_both(manager: kv.Manager) -> None:
        async def noted(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
            worked.add(manager.settings.instance)
            return kv.Done()

        manager.add(kv.Controller.of(CONFIG_MAP).on_every_replica().reconciled_by(By(noted)))

    async with Replicas(build_both) as replicas:
        await replicas.start("a")
        await replicas.start("b")
        await source(replicas)
        await asyncio.sleep(5)
        assert worked == {"a", "b"}


async def test_readiness_says_which_replica_leads() -> None:
    async with Replicas(build) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        assert "leader-election: this process leads" in str(a.manager.report())
        assert "leader-election: stands by: a_" in str(b.manager.report())
        assert [
            one.metrics.registry.get_sample_value("leader_election_master_status", {"name": "operator"})
            for one in (a, b)
        ] == [
            1.0,
            0.0,
        ]


async def test_leader_that_cannot_renew_stays_ready_and_reports_the_reason() -> None:
    async with Replicas(build) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        fault = replicas.server.faults.add(
            Rule(Match(verbs=("patch",), resources=("leases.coordination.k8s.io",)), Refuse(403))
        )
        await asyncio.sleep(5)
        report = a.manager.report()
        assert report.ready
        assert a.leads
        assert "leader-election: this process leads, but cannot renew its lease: " in str(report)
        assert "leases.coordination.k8s.io" in str(report)
        [check] = [one for one in checks_of(report) if one.name == "leader-election"]
        assert check.ok
        assert "\n" not in check.line()
        replicas.server.faults.remove(fault)
        await asyncio.sleep(5)
        assert "leader-election: this process leads" in str(a.manager.report())
        assert "cannot renew" not in str(a.manager.report())


async def test_two_replicas_with_one_identity_do_not_both_lead() -> None:
    async with Replicas(build) as replicas:
        await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        for replica in replicas.replicas.values():
            election = replica.manager._core.plugged.leadership
            assert isinstance(election, LeaseElection)
            election.identity = election._candidate.identity = "both"
        await replicas.client.patch(
            LEASE, "operator", NAMESPACE, patch={"spec": {"holderIdentity": "x"}}, style="merge"
        )
        for _ in range(100):
            await asyncio.sleep(1)
            assert sum(one.leads for one in (replicas.replicas["a"], b)) <= 1
        assert sum(one.leads for one in (replicas.replicas["a"], b)) == 1


async def test_standby_is_ready_although_its_controller_gates_were_never_called() -> None:
    async def gate(client: kv.Client) -> str:
        return ""

    def gated(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(CONFIG_MAP).owns(SECRET).starts_when(gate).reconciled_by(By(copied)))

    async with Replicas(gated) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        await asyncio.sleep(30)
        assert a.manager.report().ready
        assert b.manager.report().ready


async def test_a_leader_that_lacked_a_right_is_ready_once_it_stands_by() -> None:
    """The right may be granted while the object is deleted: only the leader reconciles, so only the leader would notice."""
    lacks = True

    async def denied(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        if lacks and object_.name == "source":
            raise Forbidden(
                'secrets "x" is forbidden: User "u" cannot create resource "secrets" in API group "" in the namespace "web"',
                status=403,
            )
        return kv.Done()

    def build_denied(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(denied)))

    async with Replicas(build_denied) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        await source(replicas)
        await asyncio.sleep(1)
        assert not a.manager.report().ready
        await replicas.start("b")
        await asyncio.sleep(30)
        replicas.delays["a"] = lambda request: 40.0 if "/leases/" in request.path else 0.0
        assert await replicas.leader(other_than="a") == "b"
        lacks = False
        replicas.delays.clear()
        await asyncio.sleep(120)
        assert a.manager.report().ready


async def test_new_leader_waits_for_its_cache_to_show_its_predecessors_writes() -> None:
    async with Replicas(build) as replicas:
        await source(replicas, value="1")
        await replicas.start("a")
        await copy_of(replicas)
        b = await replicas.start("b")
        flow = replicas.stall("b", "/configmaps")
        await source(replicas, value="2")
        await asyncio.sleep(5)
        await replicas.stop("a")
        while not b.manager.leads:
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)
        flow()
        await asyncio.sleep(30)
        assert replicas.writes("b") == []
        await source(replicas, value="3")
        await asyncio.sleep(5)
        assert len(replicas.writes("b")) == 1


async def test_leader_writes_are_limited_by_the_send_time_of_the_renewal() -> None:
    async with Replicas(build) as replicas:
        a = await replicas.start("a")
        await replicas.leader()
        await asyncio.sleep(10)
        election = a.manager._core.plugged.leadership
        assert isinstance(election, LeaseElection)
        replicas.delays["a"] = lambda request: 4.0 if "/leases" in request.path else 0.0
        before = election.fence.until
        while election.fence.until == before:
            await asyncio.sleep(0.01)
        assert election.fence.until - asyncio.get_running_loop().time() <= election.settings.renew_seconds - 4.0


async def test_replica_with_election_in_a_missing_namespace_is_unready_with_reason() -> None:
    elsewhere = kv.ElectionSettings(enabled=True, name="operator", namespace="absent")
    async with Replicas(build, election=elsewhere) as replicas:
        with pytest.raises(kv.errors.NotReady, match=r'leader-election: .*namespaces "absent" not found'):
            await replicas.start("a", patience=5.0)


async def test_long_holder_with_control_characters_is_shown_on_one_line_and_awaited() -> None:
    async with Replicas(build) as replicas:
        await replicas.client.create(
            LEASE.new(
                "operator", NAMESPACE, spec={"holderIdentity": "a\n\x1b[31m" + "b" * 5000, "leaseDurationSeconds": 15}
            )
        )
        a = await replicas.start("a")
        shown = str(a.manager.report())
        assert "stands by: a??[31mbbb" in shown
        assert len(shown) < 1000
        await replicas.leader(within=40.0)


async def test_replica_without_the_right_to_lease_reads_is_unready_with_reason() -> None:
    async with Replicas(build) as replicas:
        replicas.server.faults.add(Rule(Match(resources=("leases.coordination.k8s.io",)), Refuse(403)))
        with pytest.raises(
            kv.errors.NotReady, match=r"leader-election: .*get leases\.coordination\.k8s\.io lab/operator"
        ):
            await replicas.start("a", patience=5.0)


async def test_term_that_ends_and_begins_at_once_ends_no_controller() -> None:
    leadership, runs = ScriptedLeadership(), list[str]()

    async def noted(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        runs.append(object_.name)
        return kv.Done()

    async with Replicas(build) as replicas:
        settings = kv.ManagerSettings(namespace=NAMESPACE)
        config = replicas.server.config(namespace=NAMESPACE)
        async with kv.Manager("scripted", config, settings=settings, leadership=leadership) as manager:
            manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(noted)))
            await asyncio.sleep(20)
            assert manager.report().of("configmap").state is State.RUNNING
            leadership.lose()
            leadership.win()
            await asyncio.sleep(20)
            await source(replicas, "source-late")
            await asyncio.sleep(5)
        assert "source-late" in runs


async def test_webhooks_are_served_by_a_standby_too() -> None:
    async def allow(request: kv.AdmissionRequest[Widget]) -> kv.Allow:
        return kv.Allow()

    def build_with_webhook(manager: kv.Manager) -> None:
        build(manager)
        manager.add(kv.Webhook.validating(Widget).on("CREATE").handled_by(allow))

    async with Replicas(build_with_webhook) as replicas:
        await replicas.start("a")
        await replicas.leader()
        b = await replicas.start("b")
        assert not b.leads
        assert b.manager.admission.state is State.RUNNING


async def test_reconcile_at_a_closed_fence_is_not_an_error_and_runs_again() -> None:
    leadership, failures = ScriptedLeadership(), list[Failure]()

    class Observer:
        def check_reconcile(self) -> None: ...

        def reconciling(self, controller: str, key: kv.Key, reasons: tuple[str, ...]) -> None: ...

        def reconciled(self, controller: str, record: object) -> None: ...

        def failed(self, failure: Failure) -> None:
            failures.append(failure)

    async def copy_it(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        if len(ran) == 0:
            leadership.fence.close()  # the deadline passes; the term ends a moment later
        ran.append(object_.name)
        await ctx.apply(SECRET.new(object_.name, NAMESPACE, type="Opaque"))
        return kv.Done()

    ran = list[str]()
    async with Replicas(build) as replicas:
        settings = kv.ManagerSettings(namespace=NAMESPACE)
        metrics = Metrics()
        config = replicas.server.config(namespace=NAMESPACE)
        manager = kv.Manager("scripted", config, settings=settings, leadership=leadership, metrics=metrics)
        manager.observer = Observer()
        async with manager:
            manager.add(kv.Controller.of(CONFIG_MAP).owns(SECRET).reconciled_by(By(copy_it)))
            await source(replicas, "late")
            await asyncio.sleep(20)
            leadership.lose()
            leadership.win()
            await asyncio.sleep(20)
            assert (await replicas.client.get(SECRET, "late", NAMESPACE)).name == "late"
        assert len(ran) > 1
        assert failures == []
        assert (
            metrics.registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "configmap"})
            == 0
        )


async def test_no_reconcile_begins_behind_the_closed_fence_before_the_term_ends() -> None:
    leadership, runs = ScriptedLeadership(), list[str]()

    async def noted(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        runs.append(object_.name)
        return kv.Done()

    async with Replicas(build) as replicas:
        settings = kv.ManagerSettings(namespace=NAMESPACE)
        config = replicas.server.config(namespace=NAMESPACE)
        async with kv.Manager("scripted", config, settings=settings, leadership=leadership) as manager:
            manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(noted)))
            await asyncio.sleep(20)
            leadership.fence.close()  # as in a process that was paused for longer than its lease and has just woken
            await source(replicas, "source-late")
            await asyncio.sleep(20)
            assert "source-late" not in runs
            leadership.lose()
            leadership.win()
            await asyncio.sleep(20)
        assert runs.count("source-late") == 1
