"""The semantics of v0.14 (`quota.semantics: v0.14`), a test for each visible behaviour of the newer Capsule. Pure, no server."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from quota.world import CPU, DryWorld, pool

from konverge.conditions import Condition
from konverge.crds import all_manifests
from konverge.crds.quota_v1beta2 import ResourcePoolClaim
from konverge.daemon.main import program
from konverge.quantities import WHOLE
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota import definitions
from konverge.reconcilers.quota.claims.conditions import claim_conditions, condition_fields, read
from konverge.reconcilers.quota.claims.decision import (
    ASSIGNED,
    BOUND,
    IN_USE,
    QUEUED,
    ClaimDecision,
    exhausted,
    failed,
    queue_exhausted,
    refused,
    released,
    too_many,
    unassigned,
)
from konverge.reconcilers.quota.claims.status import claim_status, status_is_current
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.metrics import claim_series
from konverge.reconcilers.quota.parse import claim_view
from konverge.reconcilers.quota.pools.in_use import covering
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView
from konverge.reconcilers.quota.words import Semantics

NOW = datetime(2030, 1, 1, tzinfo=UTC)
VIEW = ClaimView(namespace="a", name="c", uid="u", generation=3, pool="p", amounts={CPU: WHOLE})
RECONCILED = ("Ready", True, "Succeeded", "reconciled")
NO_EXHAUSTIONS = ("Exhausted", False, "NoExhaustions", "resource claimable from pool")


def world(cpu: int = 4, **more: Any) -> DryWorld:
    here = DryWorld(pool({CPU: cpu}, **more), "a", "b")
    here.semantics = Semantics.V014
    return here


# --- claims ------------------------------------------------------------------------------------------------------------------------


CAUSES_EXHAUSTIONS = ("Bound", False, "Failed", "claim causes exhaustions")


@pytest.mark.parametrize(
    ("decision", "conditions"),
    [
        pytest.param(
            BOUND, [RECONCILED, NO_EXHAUSTIONS, ("Bound", False, "Unused", "claim is unused")], id="allocated"
        ),
        pytest.param(
            IN_USE, [RECONCILED, NO_EXHAUSTIONS, ("Bound", True, "InUse", "claim is used")], id="used by pods"
        ),
        pytest.param(
            exhausted(["x"]), [RECONCILED, ("Exhausted", True, "PoolExhausted", "x"), CAUSES_EXHAUSTIONS], id="short"
        ),
        pytest.param(
            queue_exhausted(["x"]),
            [RECONCILED, ("Exhausted", True, "QueueExhausted", "x"), CAUSES_EXHAUSTIONS],
            id="behind an older one",
        ),
        pytest.param(failed("x"), [("Ready", False, "Failed", "x")], id="no such pool"),
        pytest.param(
            unassigned("a", []),
            [("Ready", False, "Unassigned", "no ResourcePool selects namespace a")],
            id="no pool at all",
        ),
        pytest.param(ASSIGNED, [RECONCILED], id="assigned"),
        pytest.param(QUEUED, [RECONCILED], id="queued"),
        pytest.param(
            released("p"),
            [RECONCILED, NO_EXHAUSTIONS, ("Bound", False, "Released", "Released from pool p")],
            id="released",
        ),
        pytest.param(
            refused("x"), [RECONCILED, NO_EXHAUSTIONS, ("Bound", False, "Failed", "x")], id="its quota is refused"
        ),
    ],
)
def test_a_claim_has_the_conditions_that_capsule_gives_it(decision: ClaimDecision, conditions: list[Any]) -> None:
    assert list(condition_fields(decision)) == conditions


VERDICTS = [
    *(BOUND, IN_USE, ASSIGNED, QUEUED, exhausted(["x"]), queue_exhausted(["x"]), failed("x"), failed("x", kept=True)),
    *(unassigned("a", []), released("p"), refused("x"), too_many(5)),
]


@pytest.mark.parametrize(
    "decision", VERDICTS, ids=lambda decision: f"{decision.type}-{decision.status}-{decision.reason}"
)
def test_conditions_of_v014_are_read_back_as_the_decision_that_wrote_them(decision: ClaimDecision) -> None:
    said, in_use = read(claim_conditions(VIEW, decision, NOW))
    assert said is not None
    assert in_use == decision.in_use
    assert said.observed_generation == VIEW.generation
    if decision not in (ASSIGNED, QUEUED):  # these last only for a moment, and no decision depends on them
        assert (said.type, said.is_true, said.reason, said.message) == (
            decision.type,
            decision.status,
            decision.reason,
            decision.message,
        )
    assert (said.type == "Bound" and said.is_true) == decision.bound


@pytest.mark.parametrize("before", VERDICTS, ids=lambda decision: f"{decision.type}-{decision.reason}")
def test_no_condition_of_the_decision_before_stays(before: ClaimDecision) -> None:
    view = replace(VIEW, conditions=claim_conditions(VIEW, before, NOW), semantics=Semantics.V014)
    for after in VERDICTS:
        stored = claim_conditions(view, after, NOW)
        assert {condition.type for condition in stored} == {type_ for type_, *_ in condition_fields(after)}
        condition, in_use = read(stored)
        shown = replace(view, conditions=stored, condition=condition, in_use=in_use)
        assert after in (ASSIGNED, QUEUED) or status_is_current(shown, after, NOWHERE, Semantics.V014)


@pytest.mark.parametrize("type_", ["Exhausted", "Bound", "Synced"])
def test_a_rejected_claim_with_another_condition_is_written_again(type_: str) -> None:
    rejected = failed("x")
    stored = (*claim_conditions(VIEW, rejected, NOW), Condition(type=type_, status="False", reason="Failed"))
    condition, _ = read(stored)
    view = replace(VIEW, conditions=stored, condition=condition, semantics=Semantics.V014)
    assert not status_is_current(view, rejected, NOWHERE, Semantics.V014)
    assert [each.type for each in claim_conditions(view, rejected, NOW)] == ["Ready"]


def test_the_single_condition_is_not_written_and_the_form_is_named() -> None:
    status = claim_status(VIEW, BOUND, ClaimPlace(("p", "p-1")), NOW, Semantics.V014)
    assert set(status) == {"observedGeneration", "semantics", "conditions", "pool"}
    assert status["semantics"] == "v0.14"
    assert [one["type"] for one in status["conditions"]] == ["Ready", "Exhausted", "Bound"]
    before = claim_status(VIEW, BOUND, ClaimPlace(("p", "p-1")), NOW)
    assert set(before) == {"observedGeneration", "condition", "pool"}


def test_the_time_of_each_condition_moves_with_its_own_status() -> None:
    then = datetime(2020, 1, 1, tzinfo=UTC)
    view = replace(VIEW, conditions=claim_conditions(VIEW, BOUND, then))
    times = {one.type: one.last_transition_time for one in claim_conditions(view, IN_USE, NOW)}
    assert times == {
        "Ready": "2020-01-01T00:00:00Z",
        "Exhausted": "2020-01-01T00:00:00Z",
        "Bound": "2030-01-01T00:00:00Z",
    }


@pytest.mark.parametrize("now", [Semantics.V012, Semantics.V014])
def test_status_of_the_other_form_is_rewritten_and_keeps_its_allocation(now: str) -> None:
    then = Semantics.V014 if now == Semantics.V012 else Semantics.V012
    place = ClaimPlace(("p", "p-1"))
    stored = {
        "metadata": {"name": "c", "namespace": "a", "uid": "u", "generation": 3},
        "spec": {"pool": "p", "claim": {CPU: 1}},
        "status": claim_status(VIEW, BOUND, place, NOW, then),
    }
    view = claim_view(CLAIM.decode(stored))
    assert view.is_bound_to("p", pool({CPU: 4}).uid)
    assert status_is_current(view, BOUND, place, then)
    assert not status_is_current(view, BOUND, place, now)


def test_a_model_of_a_claim_shows_the_conditions_of_its_form() -> None:
    stored = {"metadata": {"name": "c", "namespace": "a"}, "spec": {"claim": {CPU: 1}}}
    for semantics, types in ((Semantics.V012, ["Bound"]), (Semantics.V014, ["Ready", "Exhausted", "Bound"])):
        status = claim_status(VIEW, BOUND, NOWHERE, NOW, semantics)
        claim = ResourcePoolClaim.decode({**stored, "status": status})
        assert [condition.type for condition in claim.conditions] == types


def test_conditions_that_another_capsule_left_are_not_taken_for_ours() -> None:
    left = [{"type": "Bound", "status": "True", "reason": "InUse"}, {"type": "Ready", "status": "True"}]
    view = claim_view(CLAIM.decode({"metadata": {"name": "c"}, "spec": {}, "status": {"conditions": left}}))
    assert (view.condition, view.in_use) == (None, False)
    assert read([Condition(type="Bound", status="True")]) == (None, False)


# --- used and unused ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "in_use"),
    [
        pytest.param({}, set(), id="nothing runs"),
        pytest.param({"cpu": 1}, {"old"}, id="of two that cover as much, the older"),
        pytest.param({"cpu": 3}, {"large"}, id="the one that covers most"),
        pytest.param({"cpu": 5}, {"large", "old"}, id="as many as it takes"),
        pytest.param({"cpu": 99}, {"large", "old", "young"}, id="more than is claimed"),
        pytest.param({"memory": 2}, {"bytes"}, id="each resource"),
        pytest.param({"pods": 7}, set(), id="what the pool does not name"),
    ],
)
def test_claims_that_cover_the_use_of_pods_are_in_use(used: dict[str, int], in_use: set[str]) -> None:
    if used == {"cpu": 1}:
        claims: list[tuple[str, dict[str, int]]] = [("old", {"cpu": 1}), ("young", {"cpu": 1})]
    else:
        claims = [("old", {"cpu": 2}), ("young", {"cpu": 2}), ("large", {"cpu": 3}), ("bytes", {"memory": 4})]
    assert covering(used, claims, ["cpu", "memory"]) == in_use


def _plain(used: dict[str, int], claims: list[tuple[str, dict[str, int]]]) -> set[str]:
    """The documented algorithm, without a heap: each round checks all claims."""
    left, found = dict(used), set[str]()
    while True:
        covers = {
            uid: sum(min(amount, left.get(name, 0)) for name, amount in amounts.items())
            for uid, amounts in claims
            if uid not in found
        }
        best = max(covers.values(), default=0)
        if not best:
            return found
        uid = next(uid for uid, _ in claims if covers.get(uid) == best)
        found.add(uid)
        left = {name: max(0, amount - dict(claims)[uid].get(name, 0)) for name, amount in left.items()}


_SOME = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 6))


@given(_SOME, st.lists(_SOME, max_size=6))
def test_the_fast_cover_finds_the_claims_of_the_documented_algorithm(
    used: dict[str, int], amounts: list[dict[str, int]]
) -> None:
    claims = [(f"u{number}", each) for number, each in enumerate(amounts)]
    assert covering(used, claims, ["cpu", "memory"]) == _plain(used, claims)


def _in_use(here: DryWorld) -> bool:
    return here.claims["a", "c"].in_use


def test_claim_is_unused_before_pods_use_it_and_after_they_end() -> None:
    here = world()
    here.claim("a", "c", cpu=3)
    here.settle()
    assert not _in_use(here)
    assert here.use("a", cpu=2)
    here.settle()
    assert _in_use(here)
    here.use("a", cpu=-2)
    here.observe("a")
    here.settle()
    assert not _in_use(here)
    assert here.once() == []


# --- resize ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "said", "granted"),
    [
        pytest.param(4, "Bound Succeeded", 4, id="up to what is free"),
        pytest.param(1, "Bound Succeeded", 1, id="smaller"),
        pytest.param(5, "Bound PoolExhausted", None, id="beyond the pool: its allocation is dropped"),
    ],
)
def test_an_allocated_claim_that_is_not_used_is_resized_in_place(to: int, said: str, granted: int | None) -> None:
    here = world()
    here.claim("a", "c", cpu=3)
    here.settle()
    here.claim("a", "c", cpu=to)
    here.settle()
    assert here.said("a", "c").startswith(said)
    assert here.cores("a") == granted
    assert here.held() == {CPU: (granted or 0) * WHOLE}


def test_growing_claim_may_use_only_its_own_old_amount() -> None:
    here = world(cpu=10)
    here.claim("a", "c", cpu=5)
    here.claim("b", "d", cpu=3)
    here.settle()
    here.claim("a", "c", cpu=7)
    here.settle()
    assert here.allocated() == {"a": ["c"], "b": ["d"]}
    here.claim("a", "c", cpu=55)
    here.settle()
    assert here.last is not None
    assert here.last.available == {CPU: 7 * WHOLE}, "never below 0, as it was in the original"


def test_amount_freed_by_a_resize_is_allocated_after_pods_release_it() -> None:
    """Pods started between the edit and the reconcile: the credit follows the shrink in these semantics too."""
    here = world()
    here.claim("a", "c", cpu=4)
    here.settle()
    here.use("a", cpu=3)
    here.claim("a", "c", cpu=1)
    here.claim("b", "waits", cpu=3, at=9)
    here.settle(check=lambda: _held_within(here))
    assert here.said("b", "waits") == "Bound PoolExhausted: requested: requests.cpu=3, available: requests.cpu=1"
    here.use("a", cpu=-2)
    here.settle(check=lambda: _held_within(here))
    assert here.said("b", "waits") == "Bound Succeeded: Claimed resources"


def _held_within(here: DryWorld) -> None:
    assert here.held()[CPU] <= here.hard()[CPU]


# --- columns and metrics -----------------------------------------------------------------------------------------------------------


def test_columns_depend_on_the_settings_and_the_schema_does_not() -> None:
    plain, newer = (
        {one["spec"]["names"]["kind"]: one["spec"]["versions"][0] for one in definitions(all_manifests(), settings)}
        for settings in (QuotaSettings(), QuotaSettings(semantics="v0.14"))
    )
    assert {kind: version["schema"] for kind, version in plain.items()} == {
        kind: version["schema"] for kind, version in newer.items()
    }
    assert plain["ApplicationInstance"] == newer["ApplicationInstance"]

    def columns(kind: str) -> list[tuple[str, str]]:
        return [(column["name"], column["jsonPath"]) for column in newer[kind]["additionalPrinterColumns"]]

    ready, bound = '.status.conditions[?(@.type=="Ready")]', '.status.conditions[?(@.type=="Bound")]'
    age = ("Age", ".metadata.creationTimestamp")
    assert columns("ResourcePool") == [
        ("Claims", ".status.claimCount"),
        ("Namespaces", ".status.namespaceCount"),
        ("Ready", f"{ready}.status"),
        ("Status", f"{ready}.message"),
        age,
    ]
    assert columns("ResourcePoolClaim") == [
        ("Pool", ".status.pool.name"),
        ("Ready", f"{ready}.status"),
        ("Message", f"{ready}.message"),
        ("Bound", f"{bound}.status"),
        ("Reason", f"{bound}.message"),
        age,
    ]


@pytest.mark.parametrize(("setting", "shown"), [("v0.12", ["Status", "Reason"]), ("v0.14", ["Ready", "Bound"])])
def test_the_command_prints_the_columns_of_the_semantics_that_are_set(setting: str, shown: list[str]) -> None:
    done = CliRunner().invoke(program, ["crds", "--set", f"quota.semantics={setting}"])
    assert done.exit_code == 0, done.output
    [claims] = [one for one in yaml.safe_load_all(done.stdout) if one["spec"]["names"]["kind"] == "ResourcePoolClaim"]
    columns = [column["name"] for column in claims["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert {"Status", "Ready", "Bound"} & set(columns) == set(shown) - {"Reason"}


@pytest.mark.parametrize(
    ("decision", "pool", "values"),
    [
        (IN_USE, "p", {"Ready": 1, "Exhausted": 0, "Bound": 1}),
        (BOUND, "p", {"Ready": 1, "Exhausted": 0, "Bound": 0}),
        (exhausted(["x"]), "p", {"Ready": 1, "Exhausted": 1, "Bound": 0}),
        (failed("x"), "", {"Ready": 0, "Exhausted": 0, "Bound": 0}),
    ],
    ids=("used", "unused", "exhausted", "failed"),
)
def test_claim_has_a_series_for_each_condition_and_for_its_pool(
    decision: ClaimDecision, pool: str, values: dict[str, int]
) -> None:
    series = claim_series(VIEW, decision, pool, Semantics.V014)
    told = {labels: value for (metric, labels), value in series.items() if metric.name == "capsule_claim_condition"}
    assert told == {("c", "a", type_): float(value) for type_, value in values.items()}
    pools = [labels for (metric, labels) in series if metric.name == "capsule_claim_pool"]
    assert pools == ([("c", "a", "p")] if pool else [])
