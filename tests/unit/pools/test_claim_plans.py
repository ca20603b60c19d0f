"""The decisions about a Nextcloud and about the claim of an instance as plans: choice, status, orphans."""

from datetime import timedelta
from typing import Any, Final

import pytest

from konverge.clock import from_rfc3339, rfc3339
from konverge.crds.pools_v1alpha1 import BoundInstance, Nextcloud, NominatedInstance
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.claims.act import FollowedInstance
from konverge.reconcilers.pools.claims.decide import BlockedClaim, choose_named
from konverge.reconcilers.pools.claims.observe import NamedInstance
from konverge.reconcilers.pools.claims.status import plan_assigned, plan_blocked, plan_lost, plan_releasing
from konverge.reconcilers.pools.orphans.decide import is_due, plan_claim
from konverge.reconcilers.pools.orphans.observe import ObservedOrphan
from konverge.reconcilers.pools.words import InstanceReason, PoolsAnnotation, PoolsCondition, PoolsLabel
from konverge.runtime import Plan

NOW: Final = from_rfc3339("2030-01-01T00:00:00Z")
RETRY: Final = timedelta(minutes=1)
BLOCKED: Final = BlockedClaim(InstanceReason.POOL_EXHAUSTED, "none is ready")


def condition(type_: str, status: str, reason: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": rfc3339(NOW)}


def nextcloud(*conditions: dict[str, Any], **status: Any) -> Nextcloud:
    return Nextcloud.decode(
        {
            "metadata": {"name": "main", "namespace": "acme", "uid": "u", "generation": 1},
            "spec": {"poolSelector": {"matchLabels": {"tier": "small"}}},
            "status": {"conditions": list(conditions), **status},
        }
    )


def instance(*conditions: dict[str, Any], **metadata: Any) -> Object:
    return Object(
        {
            "metadata": {"name": "i", "namespace": "clouds", "uid": "i-1", **metadata},
            "spec": {},
            "status": {"phase": "Ready", "conditions": list(conditions)},
        }
    )


def statuses(plan: Plan[Any]) -> dict[str, tuple[bool | None, str]]:
    return {update.type: (update.status, update.reason) for update in plan.set_conditions}


@pytest.mark.parametrize(
    ("before", "events"),
    [
        ([], 1),
        ([condition("InstanceAssigned", "False", "ProfileNotFound")], 1),
        ([condition("InstanceAssigned", "False", "PoolExhausted")], 0),
    ],
)
def test_a_blocked_nextcloud_reports_each_new_reason_once(before: list[dict[str, Any]], events: int) -> None:
    plan = plan_blocked(nextcloud(*before), BLOCKED, RETRY)
    assert len(plan.events) == events
    assert statuses(plan) == {"InstanceAssigned": (False, "PoolExhausted")}
    assert plan.outcome == RequeueAfter(RETRY)


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (InstanceReason.INVALID, True),
        (InstanceReason.FIELDS_REFUSED, True),
        (InstanceReason.POOL_EXHAUSTED, False),
        (InstanceReason.PROFILE_NOT_FOUND, False),
    ],
)
def test_only_a_refused_instance_keeps_its_record(reason: str, kept: bool) -> None:
    draft = plan_blocked(nextcloud(), BlockedClaim(reason, ""), RETRY).draft
    assert draft is not None
    assert ("nominated_instance" not in draft.model_fields_set) is kept


@pytest.mark.parametrize(
    ("uid", "reason", "outcome"),
    [
        ("i-1", InstanceReason.INSTANCE_LOST, Done()),
        (None, InstanceReason.INSTANCE_NOT_FOUND, RequeueAfter(RETRY)),
    ],
)
def test_a_lost_instance_sets_each_condition_once(uid: str | None, reason: str, outcome: Outcome) -> None:
    before = nextcloud(condition("Ready", "False", reason), condition("SecretsReady", "True", "SecretsReady"))
    plan = plan_lost(before, BoundInstance(name="i", namespace="clouds", uid=uid), RETRY)
    assert [update.type for update in plan.set_conditions] == ["InstanceAssigned", "SecretsReady", "Ready"]
    assert statuses(plan)["SecretsReady"] == (None, "NotReported")
    assert statuses(plan)["Ready"] == (False, reason)
    assert plan.outcome == outcome


def test_a_condition_that_the_instance_no_longer_reports_is_unknown() -> None:
    before = nextcloud(condition("Ready", "True", "ReleaseReady"), condition("BucketReady", "True", "BucketReady"))
    followed = FollowedInstance(instance(condition("Ready", "True", "ReleaseReady")), drift="")
    plan = plan_assigned(before, followed, NOW)
    assert statuses(plan) == {
        "InstanceAssigned": (True, "Assigned"),
        "BucketReady": (None, "NotReported"),
        "Ready": (True, "ReleaseReady"),
    }
    assert plan.remove_conditions == (PoolsCondition.DRIFT_FIGHT,)


def test_with_a_refused_spec_the_nextcloud_is_not_ready() -> None:
    refused = BlockedClaim(InstanceReason.INVALID, "no")
    followed = FollowedInstance(instance(condition("Ready", "True", "ReleaseReady")), refused)
    plan = plan_assigned(nextcloud(), followed, NOW)
    assert (plan.set_conditions[-1].type, plan.set_conditions[-1].reason) == ("Ready", InstanceReason.INVALID)
    assert plan.remove_conditions == ()


def test_a_drift_loop_is_a_condition_and_ends_with_its_wait() -> None:
    plan = plan_assigned(nextcloud(), FollowedInstance(instance(), drift="set back .spec.apps", wait=RETRY), NOW)
    assert statuses(plan)["DriftFight"] == (True, "AnotherManager")
    assert plan.outcome == RequeueAfter(RETRY)


def test_a_released_instance_shows_its_own_step_while_it_is_being_deleted() -> None:
    step = condition("Ready", "False", "DeletingDatabase")
    deleting = instance(step, deletionTimestamp=rfc3339(NOW))
    assert statuses(plan_releasing(instance(step), RETRY)) == {"Ready": (False, "Releasing")}
    assert statuses(plan_releasing(deleting, RETRY)) == {"Ready": (False, "DeletingDatabase")}


CHOICE: Final = NominatedInstance(name="i", namespace="clouds", uid="i-1", pool=None)
OF_ANOTHER: Final = {"labels": {PoolsLabel.CLAIM_UID: "another"}}


@pytest.mark.parametrize(
    ("stored", "allowed", "reason"),
    [
        (None, False, InstanceReason.INSTANCE_NOT_FOUND),
        (instance(), False, InstanceReason.INSTANCE_NOT_FOUND),
        (instance(**OF_ANOTHER), False, InstanceReason.INSTANCE_NOT_FOUND),
        (instance(**OF_ANOTHER), True, InstanceReason.INSTANCE_TAKEN),
        (instance(deletionTimestamp=rfc3339(NOW)), True, InstanceReason.INSTANCE_NOT_FOUND),
        (instance(), True, ""),
    ],
)
def test_a_named_instance_is_chosen_if_it_is_free_and_allowed(
    stored: Object | None, allowed: bool, reason: str
) -> None:
    choice = choose_named(nextcloud(), NamedInstance("clouds", "i", stored, allowed=allowed), None)
    assert (choice.reason if isinstance(choice, BlockedClaim) else "") == reason
    assert reason or choice == CHOICE


GRACE: Final = timedelta(minutes=10)


def claim(mark: str = "", **state: bool) -> ObservedOrphan:
    annotations = {PoolsAnnotation.ORPHANED_SINCE: mark} if mark else {}
    return ObservedOrphan(
        Metadata(name="i", namespace="clouds", uid="i-1", annotations=annotations), "u", "a/b", **state
    )


def marks(plan: Plan[Any]) -> list[str | None]:
    return [patch.patch["metadata"]["annotations"][PoolsAnnotation.ORPHANED_SINCE] for patch in plan.patches]


@pytest.mark.parametrize(
    ("observed", "mark", "events", "outcome"),
    [
        (claim(settled=True), [], 0, Done()),
        (claim("2029-12-31T23:00:00Z", settled=True), [], 0, Done()),
        (claim(exists=True), [], 0, RequeueAfter(GRACE)),
        (claim("2029-12-31T23:59:00Z", exists=True), [None], 0, RequeueAfter(GRACE)),
        (claim(), [rfc3339(NOW)], 1, RequeueAfter(GRACE)),
        (claim(exists=True, unconfirmed=True), [rfc3339(NOW)], 1, RequeueAfter(GRACE)),
        (claim("no time"), [rfc3339(NOW)], 0, RequeueAfter(GRACE)),
        (claim("2030-01-01T00:00:01Z"), [rfc3339(NOW)], 0, RequeueAfter(GRACE)),
        (claim("2029-12-31T23:51:00Z"), [], 0, RequeueAfter(timedelta(minutes=1))),
    ],
)
def test_an_orphan_is_marked_and_waits_for_its_grace_time(
    observed: ObservedOrphan, mark: list[str | None], events: int, outcome: Outcome
) -> None:
    assert not is_due(observed, NOW, GRACE)
    plan = plan_claim(observed, NOW, GRACE)
    assert (marks(plan), len(plan.events), plan.outcome) == (mark, events, outcome)


@pytest.mark.parametrize(
    ("observed", "due"),
    [
        (claim("2029-12-31T23:50:00Z"), True),
        (claim("2029-12-31T23:50:01Z"), False),
        (claim("2029-12-31T23:50:00Z", exists=True), False),
        (claim("2029-12-31T23:50:00Z", exists=True, unconfirmed=True), True),
        (claim("2029-12-31T23:50:00Z", settled=True), False),
    ],
)
def test_an_orphan_is_released_when_its_grace_time_ends(observed: ObservedOrphan, due: bool) -> None:
    assert is_due(observed, NOW, GRACE) is due
