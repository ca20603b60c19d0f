"""Rendered output: statuses, conditions, events, metrics, the tenants' role. Pure functions, no server."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest
from quota.world import CPU, DryWorld, pool

from konverge.conditions import Condition
from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.metrics import Metrics
from konverge.objects import Metadata, Object, OwnerReference
from konverge.quantities import Quantity
from konverge.reconcilers.quota import install, rules, tenant_role
from konverge.reconcilers.quota.claims.assign import choose
from konverge.reconcilers.quota.claims.decision import (
    ASSIGNED,
    BOUND,
    QUEUED,
    ClaimDecision,
    exhausted,
    failed,
    queue_exhausted,
    refused,
    released,
    too_many,
)
from konverge.reconcilers.quota.claims.status import claim_condition, claim_event, claim_status
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.metrics import QuotaMetrics, claim_series, pool_series
from konverge.reconcilers.quota.parse import claim_view, pool_references, pool_view, pools_of, quota_view, record_in
from konverge.reconcilers.quota.pools.concurrency import finished
from konverge.reconcilers.quota.pools.render import (
    pool_conditions,
    pool_status,
    resource_quota,
)
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView, Offer
from konverge.runtime import Manager

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MEMORY = "requests.memory"


def settled() -> DryWorld:
    """The pool in the metrics on Capsule's page."""
    here = DryWorld(pool({"limits.cpu": 2, MEMORY: "2Gi"}), "solar-prod", "solar-test")
    here.claim("solar-test", "skip-the-line", {MEMORY: "512Mi"}, at=2)
    here.claim("solar-prod", "large", {MEMORY: "10Gi"}, at=1)
    here.settle()
    return here


def stored_pool() -> ResourcePool:
    spec = {
        "quota": {"hard": {CPU: 2}, "scopes": ["BestEffort"]},
        "defaults": {"pods": "1"},
        "config": {"defaultsZero": True, "orderedQueue": True},
    }
    return ResourcePool.decode({"metadata": {"name": "p", "uid": "p-1"}, "spec": spec})


# --- statuses ----------------------------------------------------------------------------------------------------------------------


def test_pool_status_is_written_in_the_format_of_hard_and_read_back() -> None:
    here = settled()
    assert here.last is not None
    status = pool_status(here.pool, here.last, ("solar-prod", "solar-test"))
    assert status.wire() == {
        "namespaceCount": 2,
        "claimCount": 1,
        "namespaces": ["solar-prod", "solar-test"],
        "claims": {
            "solar-test": [
                {"name": "skip-the-line", "namespace": "solar-test", "uid": "u1", "claims": {MEMORY: "512Mi"}}
            ]
        },
        "allocation": {
            "hard": {"limits.cpu": "2", MEMORY: "2Gi"},
            "used": {"limits.cpu": "0", MEMORY: "512Mi"},
            "available": {"limits.cpu": "2", MEMORY: "1536Mi"},
        },
        "exhaustions": {MEMORY: {"available": "1536Mi", "requesting": "10Gi"}},
        "releasing": {},
    }
    assert record_in(status) == here.record


def test_the_conditions_of_a_pool_report_waiting_claims_rejections_and_overallocation() -> None:
    here = settled()
    assert here.last is not None
    said = {mark.type: (mark.status, mark.reason, mark.message) for mark in pool_conditions(here.pool, here.last, {})}
    assert said == {
        "Ready": (True, "Succeeded", "reconciled"),
        "Exhausted": (True, "PoolExhausted", "Pool has exhaustions"),
    }
    refused, _ = pool_conditions(here.pool, here.last, {"b": "no", "a": "never"})
    assert (refused.status, refused.reason, refused.message) == (False, "Failed", "a: never; b: no")
    over = replace(here.last, excess={MEMORY: 1})
    assert pool_conditions(here.pool, over, {})[1].reason == "Overallocated"
    crowded = replace(here.last, status_full=True)
    assert pool_conditions(here.pool, crowded, {})[0].reason == "TooManyClaims"


def test_the_time_of_a_claims_condition_moves_with_type_and_status_alone() -> None:
    before = Condition(
        type="Bound", status="False", reason="PoolExhausted", message="m", last_transition_time="2020-01-01T00:00:00Z"
    )
    view = ClaimView(namespace="a", name="c", uid="u", generation=3, condition=before)
    assert claim_condition(view, exhausted(["other words"]), NOW).last_transition_time == "2020-01-01T00:00:00Z"
    assert claim_condition(view, BOUND, NOW).last_transition_time == "2030-01-01T00:00:00Z"
    assert claim_condition(view, ASSIGNED, NOW).last_transition_time == "2030-01-01T00:00:00Z"
    assert claim_status(view, BOUND, ClaimPlace(("p", "p-1")), NOW)["pool"] == {"name": "p", "uid": "p-1"}
    assert "pool" not in claim_status(view, BOUND, NOWHERE, NOW)
    assert claim_status(view, QUEUED, ClaimPlace(queue=("p", "p-1")), NOW)["queue"] == {"name": "p", "uid": "p-1"}


def test_event_is_emitted_for_a_transition_and_not_for_new_messages() -> None:
    view = ClaimView(namespace="a", name="c", uid="u", generation=3)
    assert claim_event(view, BOUND) == ("Succeeded", "Normal", "Reconciled")
    assert claim_event(view, exhausted(["x"])) == ("PoolExhausted", "Warning", "Reconciled")
    assert claim_event(view, released("p")) == ("Disassociated", "Normal", "Disassociating")
    waits = replace(view, condition=Condition(type="Bound", status="False", reason="PoolExhausted", message="x"))
    assert claim_event(waits, exhausted(["y"])) is None


def test_a_resource_quota_bears_the_pools_label_and_scopes() -> None:
    made = resource_quota(stored_pool(), pool_view(stored_pool()), "web", {CPU: Quantity.of(1).billionths, "pods": 0})
    assert made.to_dict() == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "capsule-pool-p",
            "namespace": "web",
            "labels": {"projectcapsule.dev/pool": "p"},
            "annotations": {"konverge.dev/quota-defaults": "{}"},
        },
        "spec": {"hard": {"pods": "0", CPU: "1"}, "scopes": ["BestEffort"]},
    }


# --- views -------------------------------------------------------------------------------------------------------------------------


def test_a_stored_claim_is_parsed_whatever_it_contains() -> None:
    metadata = {"name": "c", "namespace": "a", "annotations": {"projectcapsule.dev/release": "TRUE"}}
    view = claim_view(
        CLAIM.decode(
            {"metadata": metadata, "spec": {"pool": 7, "claim": {CPU: "much", "pods": 1}}, "status": {"condition": 3}}
        )
    )
    assert (view.pool, view.release, view.condition) == ("", True, None)
    assert view.problem.startswith("requests.cpu: quantities must match the regular expression")
    assert pools_of(CLAIM.decode({"spec": {"pool": "p"}, "status": {"pool": {"name": "q"}}})) == ("p", "q")


def test_a_quota_is_intact_if_owner_label_and_scopes_are_ours() -> None:
    made = resource_quota(stored_pool(), pool_view(stored_pool()), "web", {CPU: 0}).to_dict()
    owner = {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "ResourcePool",
        "name": "p",
        "uid": "p-1",
        "controller": True,
    }
    made["metadata"]["ownerReferences"] = [owner]
    assert quota_view(RESOURCE_QUOTA.decode(made), stored_pool()).intact
    for path, value in (("labels", {}), ("ownerReferences", [{**owner, "uid": "older"}])):
        assert not quota_view(
            RESOURCE_QUOTA.decode({**made, "metadata": {**made["metadata"], path: value}}), stored_pool()
        ).intact
    assert not quota_view(RESOURCE_QUOTA.decode({**made, "spec": {"hard": {}}}), stored_pool()).intact


def test_defaults_zero_adds_zeros_to_the_written_defaults_of_a_pool() -> None:
    view = pool_view(stored_pool())
    assert [view.default(name) for name in (CPU, "pods", "secrets")] == [0, Quantity.of(1).billionths, None]
    assert view.ordered


def test_owner_references_that_capsule_left_are_found_and_others_are_not() -> None:
    def owner(group: str, kind: str) -> OwnerReference:
        return OwnerReference(api_version=f"{group}/v1", kind=kind, name="x", uid="u")

    owners = (
        owner("example.com", "ResourcePool"),
        owner("capsule.clastix.io", "ResourcePool"),
        owner("apps", "Deployment"),
    )
    assert pool_references(Metadata(owner_references=owners), "capsule.clastix.io") == (1,)


# --- metrics -----------------------------------------------------------------------------------------------------------------------


def test_the_metrics_of_the_requirement_are_shown_as_it_prints_them() -> None:
    here = settled()
    assert here.last is not None
    metrics = Metrics()
    shown = QuotaMetrics.within(metrics)
    assert QuotaMetrics.within(metrics) is shown
    conditions = pool_conditions(here.pool, here.last, {})
    finished(shown.set_pool(replace(here.pool, name="sampler"), here.last, conditions))
    for claim in here.claims.values():
        shown.set_claim(claim, here.last.decisions[claim.uid], "sampler")
    text = generate_latest(metrics.registry).decode()
    for line in (
        'capsule_pool_available{pool="sampler",resource="requests.memory"} 1.610612736e+09',
        'capsule_pool_limit{pool="sampler",resource="limits.cpu"} 2.0',
        'capsule_pool_resource{pool="sampler",resource="requests.memory"} 1.0',
        'capsule_pool_usage{pool="sampler",resource="requests.memory"} 5.36870912e+08',
        'capsule_pool_usage{pool="sampler",resource="limits.cpu"} 0.0',
        'capsule_pool_namespace_usage{pool="sampler",resource="requests.memory",target_namespace="solar-test"} 5.36870912e+08',
        'capsule_pool_exhaustion{pool="sampler",resource="requests.memory"} 1.073741824e+10',
        'capsule_pool_condition{condition="Exhausted",pool="sampler"} 1.0',
    ):
        assert line in text
    for name, where, reason, status, on in (
        ("large", "solar-prod", "PoolExhausted", "False", "Assigned"),
        ("skip-the-line", "solar-test", "Succeeded", "True", "Bound"),
    ):
        for condition in ("Assigned", "Bound"):
            value = "1.0" if condition == on else "0.0"
            labels = f'condition="{condition}",name="{name}",pool="sampler",reason="{reason}",status="{status}",target_namespace="{where}"'
            assert f"capsule_claim_condition{{{labels}}} {value}" in text


def test_the_series_of_deleted_pools_and_claims_are_removed() -> None:
    here = settled()
    assert here.last is not None
    shown = QuotaMetrics()
    assert finished(shown.set_pool(here.pool, here.last, ())) == []
    claim = here.claims["solar-test", "skip-the-line"]
    shown.set_claim(claim, BOUND, "p")
    shown.remove_pool("p")
    for path in here.claims:
        shown.remove_claim(*path)
    assert not [sample for family in shown.collect() for sample in family.samples]
    assert claim_series(claim, BOUND, "p")


def test_a_pool_with_a_hard_of_zero_has_no_percentage_series() -> None:
    here = DryWorld(pool({CPU: 0}), "a")
    here.claim("a", "c", cpu=1)
    here.settle()
    assert here.last is not None
    names = {metric.name for metric, _ in pool_series(here.pool, here.last, ())}
    assert not [name for name in names if name.endswith("percentage")]
    assert "capsule_pool_exhaustion" in names


# --- rights ------------------------------------------------------------------------------------------------------------------------


def test_rules_name_every_right_and_the_tenant_role_manages_claims() -> None:
    allowed = {(rule.group, resource): set(rule.verbs) for rule in rules() for resource in rule.resources}
    assert allowed["capsule.clastix.io", "resourcepoolclaims"] >= {"get", "list", "watch", "patch", "delete"}
    assert allowed["capsule.clastix.io", "resourcepoolclaims/status"] == {"patch"}
    assert allowed["", "resourcequotas"] >= {"get", "list", "watch", "create", "patch", "delete"}
    assert allowed["", "namespaces"] == {"list", "watch"}
    assert allowed["coordination.k8s.io", "leases"] == {"list"}
    role = tenant_role("tenants")
    assert role["metadata"]["name"] == "tenants"
    assert "create" in role["rules"][0]["verbs"]
    assert role["rules"][0]["resources"] == ["resourcepoolclaims"]


def test_two_managers_that_share_metrics_share_one_collector() -> None:
    metrics = Metrics()
    for name in ("one", "other"):
        install(Manager(name, metrics=metrics))
    names = [family.name for family in metrics.registry.collect() if family.name.startswith("capsule_")]
    assert len(names) == len(set(names)) > 0


def test_the_view_of_a_quota_without_a_status_has_no_use() -> None:
    view = quota_view(Object({"metadata": {"name": "q"}, "spec": {"hard": {CPU: 1}}}), stored_pool())
    assert (view.hard, view.status_hard, view.used) == ({CPU: Quantity.of(1).billionths}, {}, {})


@pytest.mark.parametrize(
    "decision",
    [BOUND, ASSIGNED, exhausted(["x"]), queue_exhausted(["x"]), failed("x"), released("p"), too_many(1), refused("x")],
)
def test_claim_series_is_1_on_bound_if_bound_else_on_assigned(decision: ClaimDecision) -> None:
    claim = ClaimView(namespace="web", name="c", uid="u")
    shown = {labels[2]: value for (metric, labels), value in claim_series(claim, decision, "p").items()}
    assert shown == {"Bound": float(decision.bound), "Assigned": float(not decision.bound)}


@pytest.mark.parametrize("ordered", [True, False])
def test_messages_print_amounts_as_the_claim_writes_them(ordered: bool) -> None:
    asked = {MEMORY: "3Gi", "limits.cpu": "2500m"}
    views = [
        claim_view(
            Object({"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"pool": "p", "claim": asked}})
        )
        for name in ("c", "d")
    ]
    here = DryWorld(pool({MEMORY: "2147483648", "limits.cpu": "2"}, ordered=ordered), "a")
    here.claims = {(view.namespace, view.name): view for view in views}
    here.settle()
    first = f"requested: limits.cpu=2500m, available: limits.cpu=2; requested: {MEMORY}=3Gi, available: {MEMORY}=2Gi"
    assert here.said("a", "c") == f"Bound PoolExhausted: {first}"
    if ordered:
        assert here.said("a", "d").endswith(f"requested: {MEMORY}=3Gi, queued: {MEMORY}=3Gi")
    offer = Offer(name="p", hard=here.pool.hard, available=dict.fromkeys(asked, 0))
    [(_, why)] = choose(views[0].amounts, [offer], views[0].formats).reasons
    assert why.endswith(f"requested: {MEMORY}=3Gi, available: {MEMORY}=0")
