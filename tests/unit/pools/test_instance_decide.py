"""The decisions about an instance as data: the steps that create it, the end of its parts, and its status."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import AppliedS3Config, NextcloudInstance
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.buckets import BucketInProgress, BucketReady, BucketReason
from konverge.reconcilers.pools.instances.decide import (
    cluster_problem,
    decide_bucket,
    decide_secrets,
    ensured_bucket,
    unmanaged_database,
)
from konverge.reconcilers.pools.instances.observe import ObservedSecrets
from konverge.reconcilers.pools.instances.secrets import NeededSecret
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.status import (
    plan_deleted,
    plan_deleting,
    plan_protected,
    plan_released,
    plan_result,
    plan_started,
)
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.teardown.decide import (
    database_end,
    keeps_namespace,
    namespace_end,
    secrets_end,
    volumes_end,
)
from konverge.reconcilers.pools.instances.words import BucketState, DatabaseReason, SecretReason, TeardownReason
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsCondition, PoolsEvent
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.words import Label

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
RETRY: Final = timedelta(seconds=30)
SETTINGS: Final = MaterialSettings(s3_endpoint="https://s3.example.com")
ADMIN: Final = NeededSecret("admin", "i-admin", generated=True)
REDIS: Final = NeededSecret("redis", "i-redis", generated=True)
MAIL: Final = NeededSecret("mail", "smtp")


def instance(spec: dict[str, Any] | None = None, *, annotations: dict[str, str] | None = None, **status: Any) -> Any:
    metadata = {
        "name": "i",
        "namespace": "clouds",
        "uid": "u",
        "creationTimestamp": rfc3339(NOW),
        "annotations": annotations or {},
    }
    return NextcloudInstance.decode({"metadata": metadata, "spec": spec or {}, "status": status})


def part(name: str, owner: str = "u", **metadata: Any) -> Object:
    return Object(
        {"metadata": {"name": name, "namespace": "clouds", "uid": name, "labels": {Label.OWNER_UID: owner}, **metadata}}
    )


def condition(type_: str, status: str, reason: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": rfc3339(NOW)}


OURS: Final = part("s")
FOREIGN: Final = part("s", "another")


@pytest.mark.parametrize(
    ("observed", "created", "reason"),
    [
        (ObservedSecrets(ungranted="keys"), [], SecretReason.NOT_GRANTED),
        (ObservedSecrets(stored=((ADMIN, OURS), (MAIL, FOREIGN))), [], SecretReason.READY),
        (ObservedSecrets(stored=((ADMIN, None), (REDIS, None))), ["admin", "redis"], SecretReason.READY),
        (ObservedSecrets(stored=((ADMIN, FOREIGN), (REDIS, None))), [], SecretReason.TAKEN),
        (ObservedSecrets(stored=((ADMIN, None), (REDIS, FOREIGN))), ["admin"], SecretReason.TAKEN),
        (ObservedSecrets(stored=((ADMIN, None), (MAIL, None))), ["admin"], SecretReason.MISSING),
        (ObservedSecrets(stored=((ADMIN, None), (MAIL, None)), was_ready=True), [], SecretReason.LOST),
        (ObservedSecrets(stored=((ADMIN, OURS), (MAIL, None)), was_ready=True), [], SecretReason.MISSING),
    ],
)
def test_secrets_are_generated_up_to_the_first_problem(
    observed: ObservedSecrets, created: list[str], reason: str
) -> None:
    plan = decide_secrets(instance(), observed, RETRY)
    assert [needed.purpose for needed in plan.create] == created
    assert (plan.state.reason, plan.state.ready) == (reason, reason == SecretReason.READY)


@pytest.mark.parametrize(
    ("database", "reason"),
    [
        (None, "NotWanted"),
        ({"type": "postgresql", "managed": False, "credentialsSecret": "db"}, DatabaseReason.EXTERNAL),
        ({"type": "mysql", "managed": True}, DatabaseReason.UNSUPPORTED),
        ({"managed": True}, None),
    ],
)
def test_only_a_managed_database_has_a_cluster(database: dict[str, Any] | None, reason: str | None) -> None:
    state = unmanaged_database(instance({} if database is None else {"database": database}))
    assert (None if state is None else state.reason) == reason


@pytest.mark.parametrize(
    ("cluster", "ready_at", "reason"),
    [
        (None, None, None),
        (None, rfc3339(NOW), DatabaseReason.LOST),
        (OURS, rfc3339(NOW), None),
        (FOREIGN, None, DatabaseReason.TAKEN),
        (FOREIGN, rfc3339(NOW), DatabaseReason.TAKEN),
    ],
)
def test_a_lost_or_foreign_cluster_is_not_applied(
    cluster: Object | None, ready_at: str | None, reason: str | None
) -> None:
    state = cluster_problem(instance(readyAt=ready_at), cluster, RETRY)
    assert (None if state is None else state.reason) == reason


CREATED: Final = {"autoCreated": True, "bucket": "b", "endpoint": "https://s3.example.com"}
BY_TENANT: Final[dict[str, Any]] = {
    "s3": {"enabled": True, "endpoint": "https://evil.example.com"},
    "tenantFields": ["s3.endpoint"],
}
READY: Final = [condition("BucketReady", "True", "BucketReady")]


@pytest.mark.parametrize(
    ("spec", "status", "reason"),
    [
        ({}, {}, "NotWanted"),
        ({"s3": {"enabled": False}}, {}, "NotWanted"),
        ({"s3": {"enabled": True}}, {}, BucketState.RECORDED),
        ({"s3": {"enabled": True, "bucket": "mine"}}, {}, BucketState.GIVEN),
        ({**BY_TENANT, "s3": {**BY_TENANT["s3"], "bucket": "mine"}}, {}, BucketReason.ENDPOINT),
        ({"s3": {"enabled": True}}, {"appliedS3Config": CREATED}, None),
        ({"s3": {"enabled": True}}, {"appliedS3Config": CREATED, "conditions": READY}, BucketState.READY),
        ({}, {"appliedS3Config": CREATED, "conditions": READY}, BucketState.READY),
        (BY_TENANT, {"appliedS3Config": CREATED, "conditions": READY}, BucketReason.ENDPOINT),
    ],
)
def test_a_bucket_is_recorded_before_it_is_created(
    spec: dict[str, Any], status: dict[str, Any], reason: str | None
) -> None:
    state = decide_bucket(instance(spec, **status), SETTINGS)
    assert (None if state is None else state.reason) == reason
    if reason == BucketState.RECORDED:
        assert state is not None
        assert state.draft is not None
        assert state.draft.applied_s3_config == AppliedS3Config(
            auto_created=True,
            bucket="i-0bfe935e70",
            endpoint=SETTINGS.s3_endpoint,
            region=SETTINGS.s3_region,
            named_by_tenant=False,
        )
        assert state.again == NEXT_STEP


def test_the_status_records_the_address_of_the_created_bucket() -> None:
    applied = AppliedS3Config.model_validate(CREATED)
    ready = ensured_bucket(instance(), applied, BucketReady(bucket="b2", endpoint="https://rook"), SETTINGS)
    assert ready.ready
    assert ready.draft is not None
    assert ready.draft.applied_s3_config == AppliedS3Config(
        auto_created=True, bucket="b2", endpoint="https://rook", named_by_tenant=False
    )
    late = ensured_bucket(instance(), applied, BucketInProgress(message="later"), SETTINGS)
    assert (late.ready, late.reason, late.again) == (False, BucketReason.PROVISIONING, RETRY)


# --- the end of the parts ------------------------------------------------------------------------------------------------------

DELETING: Final = {"deletionTimestamp": rfc3339(NOW)}


def test_schedule_is_deleted_before_its_cluster_and_cluster_deletion_is_awaited() -> None:
    end = database_end(instance(), part("db"), part("db"), RETRY)
    assert [(delete.kind.kind, delete.uid) for delete in end.deletes] == [("ScheduledBackup", "db"), ("Cluster", "db")]
    assert end.waits is not None
    assert (end.waits.reason, end.waits.again) == (TeardownReason.DATABASE, RETRY)
    assert database_end(instance(), part("db", **DELETING), part("db", "another"), RETRY).deletes == ()


@pytest.mark.parametrize(
    ("secret", "deleted", "waits"),
    [
        (part("s"), True, False),
        (part("s", "another"), False, False),
        (part("s", creationTimestamp="2029-12-31T00:00:00Z"), False, False),
        (part("s", finalizers=["a/b"]), True, True),
        (part("s", finalizers=["a/b"], **DELETING), False, True),
    ],
)
def test_only_own_secrets_are_deleted_and_held_secrets_are_waited_for(
    secret: Object, deleted: bool, waits: bool
) -> None:
    end = secrets_end(instance(), [secret])
    assert (bool(end.deletes), end.waits is not None) == (deleted, waits)


@pytest.mark.parametrize(
    ("claim", "deleted"),
    [
        (part("v", "nobody"), True),
        (part("v", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}]), False),
        (part("v", creationTimestamp="2029-12-31T00:00:00Z"), False),
    ],
)
def test_volumes_with_an_owner_and_older_volumes_stay(claim: Object, deleted: bool) -> None:
    assert bool(volumes_end(instance(), [claim]).deletes) is deleted


@pytest.mark.parametrize(
    ("database", "others", "kept"),
    [({}, [], False), ({}, [part("other")], True), ({"deleteOnCleanup": False}, [], True)],
)
def test_a_namespace_stays_for_other_instances_and_kept_databases(
    database: dict[str, Any], others: list[Object], kept: bool
) -> None:
    assert keeps_namespace(instance({"database": database}), others) is kept


def test_an_instance_does_not_wait_for_its_namespace() -> None:
    assert namespace_end(part("clouds")).waits is None
    assert len(namespace_end(part("clouds")).deletes) == 1
    assert namespace_end(part("clouds", **DELETING)).deletes == ()


# --- the status --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "events"), [([], 1), ([condition("Ready", "False", "DeletionRefused")], 0)])
def test_a_refused_deletion_is_one_event(before: list[dict[str, Any]], events: int) -> None:
    plan = plan_protected(instance(conditions=before), "assigned", RETRY)
    assert (len(plan.events), plan.outcome) == (events, RequeueAfter(RETRY))


@pytest.mark.parametrize(
    ("last", "ready_at", "phase", "outcome"),
    [
        (StepState(ready=True, reason="Ready"), None, "Ready", Done()),
        (StepState(ready=False, reason="Waiting", again=RETRY), None, "Provisioning", RequeueAfter(RETRY)),
        (StepState(ready=False, reason="Waiting", lasting=True), None, "Failed", Done()),
        (StepState(ready=False, reason="Waiting", lasting=True), rfc3339(NOW), "Degraded", Done()),
    ],
)
def test_the_last_step_decides_phase_and_outcome(
    last: StepState, ready_at: str | None, phase: str, outcome: Outcome
) -> None:
    plan = plan_result(instance(readyAt=ready_at), last, NOW + RETRY)
    assert plan.draft is not None
    assert (plan.draft.phase, plan.outcome) == (phase, outcome)
    assert plan.draft.ready_at == (rfc3339(NOW + RETRY) if last.ready else None)


def test_the_annotation_run_maintenance_causes_a_condition_and_an_event() -> None:
    wanted = {PoolsAnnotation.RUN_MAINTENANCE: "now"}
    first = plan_started(instance(annotations=wanted))
    assert (len(first.events), [update.type for update in first.set_conditions]) == (1, ["MaintenanceRun"])
    known = [condition("MaintenanceRun", "False", "NotSupported")]
    assert plan_started(instance(annotations=wanted, conditions=known)).events == ()
    assert plan_started(instance(conditions=known)).remove_conditions == (PoolsCondition.MAINTENANCE_RUN,)


def test_a_step_of_a_deletion_chooses_its_own_delay() -> None:
    state = StepState(ready=False, reason="Waiting")
    assert plan_deleting(state, RETRY).outcome == RequeueAfter(RETRY)
    quick = StepState(ready=False, reason="Waiting", again=NEXT_STEP)
    assert plan_deleting(quick, RETRY).outcome == RequeueAfter(NEXT_STEP)


def test_a_released_instance_rests_once_its_release_is_uninstalled() -> None:
    uninstall = StepState(ready=False, reason=TeardownReason.RELEASE, message="HelmRelease i is being uninstalled")
    assert plan_released(uninstall, RETRY).outcome == RequeueAfter(RETRY)
    assert plan_released(None, RETRY).outcome == Done()
    assert {plan_released(state, RETRY).set_conditions[0].reason for state in (uninstall, None)} == {"Released"}


def test_a_kept_database_is_named_by_an_event() -> None:
    assert [event.reason for event in plan_deleted("i-db").events] == [PoolsEvent.DATABASE_KEPT]
    assert plan_deleted("").events == ()
