"""The panels of deploy/dashboards/daemon.json, apps.json, clusters.json, machines.json and workspaces.json: their values after ten minutes
of a scenario, computed by promtool.

A manager runs on the server in memory, in virtual time; its registry is scraped every 15 seconds, and each query is evaluated over these
scrapes. The expected values follow from the scenario: rates cover the last five minutes.
"""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from apps.lab import READY, Apps, says
from apps.operations import Operations
from machines_lab import Farm
from promql import Scrapes, evaluate, filled
from promtool import promtool
from pull_kit import ensure
from pull_lab import Plane
from pull_lab import phase as cluster_phase
from widgets import By, Widget, widget
from workspaces_lab import Workspaces
from workspaces_lab import phase as workspace_phase

import konverge as kv
from konverge.clock import rfc3339, wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.metrics import RESULTS
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime.controller.metrics import BARRIER_RESULTS
from konverge.runtime.observability.record import ReconcileRecord
from konverge.words import Why
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Delay, Drop, Freeze, Match, Rule
from konverge_testing.nstance import Network

DEPLOY = Path(__file__).parents[3] / "deploy"
if not DEPLOY.exists():
    pytest.skip("deploy/ is not part of the wheel", allow_module_level=True)
if promtool() is None:
    pytest.skip("no promtool in PATH or in the cache: python tools/promtool.py", allow_module_level=True)

EVERY = 15
MINUTES = 10
WINDOW = timedelta(minutes=5)
PER_MINUTE = pytest.approx(1 / 60, rel=0.01)
AT_MOST_A_BOOKMARK = pytest.approx(30, abs=31)
"""The server sends a bookmark about once a minute."""
CONDITIONS = ("Ready", "Reconciling", "Degraded", "Suspended", "Blocked", "Deleting", "Stalled")
REASONS = (Why.CREATED, Why.CHANGED, Why.OWNED, Why.WATCHED, Why.REQUEUE_AFTER, Why.HELD)
CONFIG_MAP = kv.kind("v1", "ConfigMap")
OF_OPERATIONS = "konverge_operation"
"""In each query about Operations, which have a scenario of their own."""
WITHOUT_ELECTION = (
    *("Leaders", "Who leads", "Leases lost", "How long a renewal takes", "Renewals that read the lease first"),
    *("Caches compared at the begin of leading", "Objects of each replica", "Members of the ring", "Stamps written"),
    *("How long a hand-over takes", "Oldest object that waits for its owner", "Objects without an owner"),
    *("Oldest object without an owner", "Double owners", "Changes of the ring"),
)
"""Panels that are empty without leader election or sharding."""
OF_THE_PROCESS = ("CPU", "Memory")
"""Panels that are empty for a registry without the collector of the process."""


def by(label: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by one label, as promtool writes it."""
    return {f'{{{label}="{word}"}}': value for word, value in values.items()}


async def scraped(lab: Lab, each_minute: Callable[[int], Awaitable[None]]) -> Scrapes:
    """Scrape for ten minutes; `each_minute` is called 15 seconds after the begin of each minute."""
    scrapes = Scrapes(lab.metrics.registry, job="konverge", instance="konverge-0")
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in range(MINUTES * 60 // EVERY + 1):
        await asyncio.sleep(start + number * EVERY - loop.time())
        scrapes.take()
        minute, rest = divmod(number * EVERY, 60)
        if rest == EVERY:
            await each_minute(minute)
    return scrapes


def values_of(queries: Mapping[str, str], scrapes: Scrapes, folder: Path) -> dict[str, dict[str, float]]:
    """The result of each query after the ten minutes; NaN (a quantile of nothing) is not drawn, so it is left out."""
    found = evaluate(list(queries.values()), scrapes.series, at=f"{MINUTES}m", interval=f"{EVERY}s", folder=folder)
    return {
        title: {labels: value for labels, value in values.items() if not math.isnan(value)}
        for title, values in zip(queries, found, strict=True)
    }


def panels(name: str) -> dict[str, str]:
    """Each query by the title of its panel (and its letter from the second query on), as Grafana sends it with all values of its variables
    chosen.
    """
    found = json.loads((DEPLOY / "dashboards" / f"{name}.json").read_text())["panels"]
    return {
        panel["title"] + (f" {target['refId']}" if number else ""): filled(target["expr"])
        for panel in found
        for number, target in enumerate(panel.get("targets", ()))
    }


def alerts(name: str) -> dict[str, str]:
    groups = yaml.safe_load((DEPLOY / "alerts" / f"{name}.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"] if "alert" in rule}


def passed(lab: Lab, controller: str) -> list[ReconcileRecord]:
    """The reconciles of the last five minutes in the controller's own history."""
    since = wall_clock() - WINDOW
    return [record for record in lab.manager.runner(controller).history.recent() if record.started > since]


def per_second(counts: Counter[str]) -> dict[str, Any]:
    return {word: pytest.approx(count / WINDOW.total_seconds()) for word, count in counts.items()}


async def test_the_panels_of_the_apps_dashboard_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start()
        scrapes = await an_app_changes_every_minute(apps)
        instances = [await lab.get(ApplicationInstance, name) for name in ("shop", "broken", "refused", "held")]
        records = passed(lab, "applicationinstance")
    true = Counter(one.type for found in instances for one in found.status.conditions if one.is_true)
    assert (true["Ready"], true["Blocked"], true["Degraded"]) == (2, 1, 2)
    results = Counter({"Done": "success", "RequeueAfter": "requeue_after"}[record.outcome] for record in records)
    reasons = Counter(word for record in records for word in REASONS if any(r.startswith(word) for r in record.reasons))

    queries = {title: query for title, query in panels("apps").items() if OF_OPERATIONS not in query}
    shown = await asyncio.to_thread(values_of, queries, scrapes, tmp_path)
    applies = shown.pop("What is written")
    assert shown == {
        "Instances": {"{}": 4},
        "Not ready": {"{}": 2},
        "Blocked": {"{}": 1},
        "Degraded": {"{}": 2},
        "Waiting": {"{}": 0},
        "Releases": {"{}": 3},
        "Instances by condition": by("condition", dict.fromkeys(CONDITIONS, 0) | true),
        "Reconciles by result": by("result", dict.fromkeys(RESULTS, 0) | per_second(results)),
        "How long a reconcile takes": {"{}": pytest.approx(1, abs=0.1)},
        "Why instances are reconciled": by("reason", dict.fromkeys(REASONS, 0) | per_second(reasons)),
        "How old the news of Flux is": {
            '{kind="HelmRelease"}': AT_MOST_A_BOOKMARK,
            '{kind="HelmRepository"}': pytest.approx(45, abs=1),
            '{kind="OCIRepository"}': AT_MOST_A_BOOKMARK,
            '{kind="HelmChart"}': AT_MOST_A_BOOKMARK,
        },
        "Watches of Flux's kinds begun again": shown["Watches of Flux's kinds begun again"]
        | {'{cause="Unreachable", kind="HelmChart"}': PER_MINUTE},
    }
    assert reasons["changed"] == 5
    assert applies['{kind="HelmRelease", result="sent"}'] == PER_MINUTE
    assert applies['{kind="ApplicationInstance", result="sent"}'] == pytest.approx(2 / 60, rel=0.01)
    skipped = sum(value for labels, value in applies.items() if 'result="skipped"' in labels and "Helm" in labels)
    assert skipped == pytest.approx(sum(record.skipped for record in records) / WINDOW.total_seconds())
    rules = {alert: rule for alert, rule in alerts("apps").items() if OF_OPERATIONS not in rule}
    assert await asyncio.to_thread(values_of, rules, scrapes, tmp_path) == {
        "AppsInstancesNotReady": {'{controller="applicationinstance"}': 2},
        "AppsInstancesDegraded": {'{controller="applicationinstance"}': 2},
    }


async def an_app_changes_every_minute(apps: Apps) -> Scrapes:
    """Four instances: a changing instance, a rejected chart, a Blocked instance, and a field that another manager owns."""
    lab = apps.lab
    for name, parts in {
        "shop": {},
        "broken": {"chart": {"version": "1.2.0"}, "release": {"name": "broken"}},
        "refused": {"release": {"name": "refused", "namespace": "elsewhere"}},
        "held": {"release": {"name": "held"}},
    }.items():
        await apps.create(name, **parts)
    await apps.until(READY)
    await apps.until(READY, name="held")
    await apps.until(says("Blocked", "True"), name="refused")
    await apps.until(says("Degraded", "True"), name="broken")
    await lab.patch(HELM_RELEASE, "held", {"spec": {"interval": "1m"}})
    await apps.until(says("Degraded", "True"), name="held")

    faults = lab.server.faults
    faults.add(Rule(Match(verbs=("apply",), resources=("helmreleases.*",), subresource=""), Delay(seconds=1.0)))

    async def each_minute(minute: int) -> None:
        await apps.change(values={"source": "inline", "inline": {"replicas": minute + 2}})
        cut_watches(lab, "helmcharts.*")
        if minute == MINUTES - 1:
            await lab.create(HELM_REPOSITORY.new("last-event", spec={"url": "https://charts.example.com"}))
            faults.add(Rule(Match(verbs=("watch",), resources=("helmrepositories.*",)), Freeze()))

    return await scraped(lab, each_minute)


def cut_watches(lab: Lab, resource: str) -> None:
    """Cut the open watches of a resource; they are reopened at once."""
    faults = lab.server.faults
    faults.remove(faults.add(Rule(Match(verbs=("watch",), resources=(resource,)), Drop(watches=True))))


async def test_the_panels_of_operations_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    here = await Operations(lab).start(OperationSettings())
    await here.target()
    await here.create("long")
    await here.run_job("long")
    await here.create("unapproved", "Restore", "velero", parameters={"backupName": "b"})

    async def each_minute(minute: int) -> None:
        await here.create(f"run-{minute}")
        await asyncio.sleep(10)
        await (here.fail if minute == 5 else here.complete)(f"run-{minute}")

    scrapes = await scraped(lab, each_minute)
    queries = {title: query for title, query in panels("apps").items() if OF_OPERATIONS in query}
    shown = await asyncio.to_thread(values_of, queries, scrapes, tmp_path)
    ended, kept = shown.pop("Operations that ended"), shown.pop("Operations kept")
    blocked = shown.pop("Why Operations are blocked")
    duration = shown.pop("How long an Operation runs")
    failed = shown.pop("Operations that failed in a day")
    assert shown == {
        "Operations at work": {"{}": 1},
        "Operations that wait": {"{}": 1},
        "Operations blocked": {"{}": 1},
        "Operations by phase": by("phase", {"Running": 1, "Pending": 1}),
        "How long an Operation waits for its turn": {'{type="RunCommand"}': pytest.approx(0.9, abs=0.1)},
    }
    assert {reason: count for reason, count in blocked.items() if count} == {'{reason="AwaitingApproval"}': 1}
    assert {type_: count for type_, count in kept.items() if count} == by("type", {"RunCommand": 11, "Restore": 1})
    assert duration == {'{type="RunCommand"}': pytest.approx(14, abs=1.1)}
    assert failed == {"{}": pytest.approx(1, rel=0.1)}
    assert {one: round(count) for one, count in ended.items() if count} == {
        '{engine="job", phase="Succeeded"}': 9,
        '{engine="job", phase="Failed"}': 1,
    }
    rules = {alert: rule for alert, rule in alerts("apps").items() if OF_OPERATIONS in rule}
    assert await asyncio.to_thread(values_of, rules, scrapes, tmp_path) == {
        "OperationsFailed": {'{engine="job", type="RunCommand"}': pytest.approx(1, rel=0.1)},
        "OperationsBlocked": {},
        "OperationsRunWithoutEnd": {},
        "OperationsAwaitPerson": {'{reason="AwaitingApproval"}': 1},
    }


async def test_the_panels_of_the_clusters_dashboard_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    here = Plane(lab, event_buffer=10)
    await here.start()
    await here.until(cluster_phase("Connected"))

    async def each_minute(minute: int) -> None:
        if minute == MINUTES - 1:
            return
        payload = ensure(f"shop-{minute}")
        if minute == 5:
            payload["namespace"] = "kube-system"
        await here.plane.result(here.plane.submit("intent", payload))
        if minute == MINUTES - 2:
            here.plane.faults.add(status=503, times=1_000)
            more = {"status": "True", "reason": "Said", "message": "", "lastTransitionTime": rfc3339(wall_clock())}
            said = [{"type": type_, **more} for type_ in ("Ready", "Reconciling")]
            await lab.client.patch(
                ApplicationInstance,
                "shop-1",
                "web",
                patch={"status": {"conditions": said}},
                style="merge",
                subresource="status",
            )

    await lab.client.create(kv.kind("v1", "Namespace", namespaced=False).new("web"))
    scrapes = await scraped(lab, each_minute)
    shown = await asyncio.to_thread(values_of, panels("clusters"), scrapes, tmp_path)
    jobs, results = shown.pop("Jobs that ended"), shown.pop("Reconciles by result")
    assert shown == {
        "State of the connection": {"{}": 0},
        "Event buffer now": {"{}": 0.2},
        "Age of the credential": {"{}": pytest.approx(MINUTES * 60, abs=62)},
        "Jobs that failed in a day": {"{}": pytest.approx(1, rel=0.1)},
        "Connection": {'{mode="pull"}': 0},
        "Conditions of the Cluster": by(
            "condition",
            {"Authenticated": 1, "BufferOverflow": 0, "Connected": 0, "ControllersHealthy": 1, "Disconnected": 0},
        ),
        "How long a job takes": {"{}": pytest.approx(0.5, abs=0.5)},
        "Event buffer": {'{instance="konverge-0"}': 0.2},
    }
    # In the last five minutes one job was rejected, and three were executed.
    assert {one: rate * 300 for one, rate in jobs.items() if rate} == {
        '{kind="intent", outcome="succeeded"}': pytest.approx(3, rel=0.1),
        '{kind="unknown", outcome="failed"}': pytest.approx(1, rel=0.1),
    }
    assert results['{result="requeue_after"}'] > 0
    assert await asyncio.to_thread(values_of, alerts("clusters"), scrapes, tmp_path) == {
        "ClusterDisconnected": {'{mode="pull"}': 0},
        "ClusterNotAuthenticated": {},
        "ClusterEventBufferFull": {},
        "ClusterJobsFailed": {'{kind="unknown"}': pytest.approx(1, rel=0.1)},
    }


async def test_the_panels_of_the_workspaces_dashboard_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    here = Workspaces(lab)
    await here.start()
    for name in ("one", "two"):
        await here.claim(name)
        await here.until(name, workspace_phase("Ready"))

    async def each_minute(minute: int) -> None:
        if minute == 5:
            await here.claim("no.workspace")  # no workspace can have this name
        if minute == 1:
            here.memory.break_down("two", "its shard is away")

    scrapes = await scraped(lab, each_minute)
    shown = await asyncio.to_thread(values_of, panels("workspaces"), scrapes, tmp_path)
    assert shown.pop("How long a reconcile takes") == {"{}": pytest.approx(0.0, abs=0.1)}
    results = shown.pop("Reconciles by result")
    assert results['{result="requeue_after"}'] > 0
    assert shown == {
        "Available": {"{}": 1},
        "Progressing": {"{}": 1},
        "Degraded": {"{}": 2},
        "Claims by condition": by("condition", {"Available": 1, "Degraded": 2, "Progressing": 1}),
        "Claims that wait for a worker": {'{instance="konverge-0"}': 0},
    }
    assert await asyncio.to_thread(values_of, alerts("workspaces"), scrapes, tmp_path) == {
        "WorkspaceClaimsDegraded": {'{controller="workspaceclaim"}': 2},
        "WorkspaceClaimsWait": {'{controller="workspaceclaim"}': 1},
    }


async def test_the_panels_of_the_machines_dashboard_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    """Two shards of three are reachable at the end; one drain is blocked, one ended; a shard rejects a pool's changes."""
    async with Farm(lab) as farm:
        farm.settings = farm.settings.model_copy(update={"poll": 30.0})
        await farm.start()
        await farm.start_core()
        await farm.create_pool(replicas=3)
        await farm.pool()
        await farm.create_machine("m1", failure_domain="a")
        await farm.machine("m1")
        blocked = await farm.add_instance("a", node="n1")
        await farm.add_pod("web", "n1", labels={"app": "web"})
        await farm.add_budget("web", allowed=0, app="web")

        async def each_minute(minute: int) -> None:
            if minute == 6:
                farm.drain("b", await farm.add_instance("b"))  # it has no Node
            if minute == 7:
                await farm.create_pool("gpu", replicas=3, template="no-such-template")
                await farm.scale("workers", 6)
            if minute == 8:
                farm["c"].faults.network = Network.REFUSED
                farm["c"].reset()
            if minute == MINUTES - 1:
                farm.drain("a", blocked)

        scrapes = await scraped(lab, each_minute)
        ended = f"{wall_clock().timestamp():.0f}"  # promtool's own time begins at 0
        await lab.stop()
    asked = (
        {title: query.replace("time()", ended) for title, query in one.items()}
        for one in (panels("machines"), alerts("machines"))
    )
    shown, rules = [await asyncio.to_thread(values_of, one, scrapes, tmp_path) for one in asked]
    per_shard = {name: shown.pop(name) for name in ("Age of the last listing", "How long a change of a group takes")}
    assert {shard: age <= 31 for shard, age in per_shard["Age of the last listing"].items()} == by(
        "shard", {"a": True, "b": True, "c": False}
    )
    assert set(per_shard["How long a change of a group takes"]) <= set(by("shard", dict.fromkeys("abc")))
    failed, results = shown.pop("Changes of groups that failed"), shown.pop("Reconciles by result")
    assert all(failed[f'{{shard="{shard}"}}'] > 0 for shard in "abc")
    assert results['{result="success"}'] > 0
    assert shown == {
        "Shards that answer": {"{}": 2},
        "Shards away": {"{}": 1},
        "Open drains": {"{}": 1},
        "Pools not ready": {"{}": 1},
        "Machines not ready": {"{}": 0},
        "Machines ready": {"{}": 1},
        "Shards": by("shard", {"a": 1, "b": 1, "c": 0}),
        "Connections lost": by("shard", {"a": 0, "b": 0, "c": pytest.approx(1 / 300, rel=0.1)}),
        "Changes of groups": shown["Changes of groups"],
        "Drains that are open": by("shard", {"a": 1, "b": 0, "c": 0}),
        "Drains that ended": by(
            "result", {"drained": 0, "no_node": pytest.approx(1 / 300, rel=0.1), "timed_out": 0, "unacknowledged": 0}
        ),
        "Objects that are not ready": shown["Objects that are not ready"]
        | by("controller", {"nstancemachinepool": 1, "nstanceshardgroup": 3, "nstancemachine": 0}),
    }
    assert shown["Changes of groups"]['{shard="a"}'] > 0
    assert set(rules.pop("NstanceChangesRefused")) == set(by("shard", dict.fromkeys("abc")))
    assert rules == {
        "NstanceShardAway": by("shard", {"c": 0}),
        "NstanceShardListingOld": {},
        "NstanceDrainsCutShort": {},
        "NstanceObjectsNotReady": by("controller", {"nstancemachinepool": 1}),
    }


async def test_the_panels_of_the_daemon_dashboard_show_what_happened(lab: Lab, tmp_path: Path) -> None:
    stuck = asyncio.Event()

    async def steady(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await asyncio.sleep(2)
        if found.spec.mode == "bad":
            raise kv.RetryAfter(57.2, "not yet")
        ctx.status.draft.parts = (found.status.parts or 0) + 1
        return kv.RequeueAfter(27.7)

    async def hangs(_found: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
        await stuck.wait()
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).reconciled_by(By(steady)))
        manager.add(kv.Controller.of(CONFIG_MAP).named("hanging").with_(timeout=3600).reconciled_by(By(hangs)))

    async def each_minute(minute: int) -> None:
        lab.metrics.loop_lag.observe(0.2)  # on a loop with virtual time nothing is late
        if minute == 5:
            for name in ("one", "two", "three"):
                await lab.create(CONFIG_MAP.new(name))
        else:
            cut_watches(lab, "configmaps")

    await lab.start(build)
    lab.server.faults.add(Rule(Match(verbs=("apply",), resources=("widgets.*",)), Delay(seconds=0.3)))
    await lab.create(widget("good"))  # reconciled every 30 s, for 2.3 s
    await asyncio.sleep(1.5)
    await lab.create(widget("bad", mode="bad"))  # fails every 60 s, after it waited 0.8 s for the only worker
    await asyncio.sleep(0.3)  # so the last scrape happens while it waits
    scrapes = await scraped(lab, each_minute)
    cached = sum(informer["bytes"] for informer in lab.manager.debug()["informers"]())
    stuck.set()

    shown = await asyncio.to_thread(values_of, panels("daemon"), scrapes, tmp_path)
    requests = shown.pop("Requests by code")
    assert shown == {
        "Reconciles per second": {"{}": pytest.approx(3 / 60, rel=0.01)},
        "Errors per second": {"{}": PER_MINUTE},
        "Keys that wait": {"{}": 3},
        "Cached": {"{}": cached},
        "Reconciles by result": {
            **{
                f'{{controller="{name}", result="{result}"}}': 0 for name in ("hanging", "widget") for result in RESULTS
            },
            '{controller="widget", result="error"}': PER_MINUTE,
            '{controller="widget", result="requeue_after"}': pytest.approx(2 / 60, rel=0.01),
        },
        "How long a reconcile takes": {'{controller="widget"}': pytest.approx(2.25, abs=0.25)},
        "How long a key waits": {
            '{controller="hanging"}': pytest.approx(0, abs=0.001),
            '{controller="widget"}': pytest.approx(0.55, abs=0.45),
        },
        "How long a key waits on each replica": {'{instance="konverge-0"}': pytest.approx(0.55, abs=0.45)},
        "Longest reconcile in progress": {
            '{controller="hanging"}': pytest.approx(285, abs=0.1),
            '{controller="widget"}': pytest.approx(1.8, abs=0.1),
        },
        "How long a request takes": {
            '{verb="GET"}': pytest.approx(0, abs=0.005),
            '{verb="PATCH"}': pytest.approx(0.375, abs=0.125),
        },
        "Watches begun again": shown["Watches begun again"]
        | {'{cause="Unreachable", kind="ConfigMap"}': pytest.approx(4 / 300, rel=0.01)},
        "How late the event loop is": {'{instance="konverge-0"}': pytest.approx(0.175, abs=0.075)},
        "Reconciles in progress": {"{}": 2},
        "Busy workers": {'{controller="hanging"}': 1, '{controller="widget"}': 1},
        "Failures": {'{controller="hanging"}': 0, '{controller="widget"}': PER_MINUTE},
        **{f"Failures {which}": {'{controller="hanging"}': 0, '{controller="widget"}': 0} for which in "BCD"},
        "Why objects are reconciled": by(
            "reason", {Why.CREATED: 0, Why.REQUEUE_AFTER: pytest.approx(2 / 60, rel=0.01), Why.RETRY: PER_MINUTE}
        ),
        "Applies": {'{kind="Widget", result="sent"}': pytest.approx(2 / 60, rel=0.01)},
        "Keys that wait, by controller": {'{controller="hanging"}': 2, '{controller="widget"}': 1},
        "Keys enqueued": {
            '{controller="hanging"}': pytest.approx(3 / 300),
            '{controller="widget"}': pytest.approx(3 / 60, rel=0.01),
        },
        "Keys enqueued B": {'{controller="hanging"}': 0, '{controller="widget"}': pytest.approx(3 / 60, rel=0.01)},
        "Cached objects": by("kind", {"ConfigMap": 3, "Widget": 2}),
        "Cached bytes": shown["Cached bytes"],
        "How old the news of a kind is": by(
            "kind", {"ConfigMap": pytest.approx(60, abs=1), "Widget": AT_MOST_A_BOOKMARK}
        ),
        "How long an event takes": by(
            "resource", dict.fromkeys(("configmaps", "widgets"), pytest.approx(0, abs=0.001))
        ),
        "Reconciles that block the event loop": by("controller", {"hanging": 0, "widget": 0}),
        "Waits for own writes": {
            f'{{controller="{name}", result="{result}"}}': 0
            for name in ("hanging", "widget")
            for result in BARRIER_RESULTS
        },
        **{title: {} for title in (*WITHOUT_ELECTION, *OF_THE_PROCESS)},
    }
    assert sum(shown["Cached bytes"].values()) == cached
    assert requests['{code="200", method="PATCH"}'] == pytest.approx(2 / 60, rel=0.01)
    assert requests['{code="200", method="GET"}'] >= 4 / 300
    assert {value for labels, value in requests.items() if 'code="200"' not in labels} <= {0}
    assert not any((await asyncio.to_thread(values_of, alerts("daemon"), scrapes, tmp_path)).values())
