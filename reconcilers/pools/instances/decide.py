"""The steps that create an instance: each decision maps the observed objects to the state of a step. Pure.

After a decision that returns None, `act.py` writes, and the next decision depends on the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339
from konverge.conditions import Condition
from konverge.crds.pools_v1alpha1 import AppliedS3Config, NextcloudInstance, NextcloudInstanceStatus, TemplateSettings
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketInProgress, BucketReady, BucketReason
from konverge.reconcilers.pools.instances.access import NamedBy, bucket_named_by, server_problem
from konverge.reconcilers.pools.instances.databases import engine_of, unused_by_sqlite
from konverge.reconcilers.pools.instances.names import bucket_name, cluster_name
from konverge.reconcilers.pools.instances.observe import ObservedSecrets, tenant_of
from konverge.reconcilers.pools.instances.ownership import is_ours
from konverge.reconcilers.pools.instances.postgres import members_of, translate
from konverge.reconcilers.pools.instances.secrets import NeededSecret, external_database
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import BucketState, DatabaseReason, ReleaseReason, SecretReason
from konverge.reconcilers.pools.words import PoolsCondition, PoolsLabel, StepReason
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.reconcilers.shared.endpoints import is_host_name

__all__ = [
    "SecretsPlan",
    "bucket_failed",
    "cluster_problem",
    "database_state",
    "decide_bucket",
    "decide_secrets",
    "ensured_bucket",
    "release_problem",
    "unknown_version",
    "unmanaged_database",
]

# --- Secrets -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SecretsPlan:
    """The Secrets to generate, and the state of the step after that."""

    create: tuple[NeededSecret, ...]
    state: StepState


def decide_secrets(instance: NextcloudInstance, observed: ObservedSecrets, retry: timedelta) -> SecretsPlan:
    """Generate missing Secrets up to the first Secret with a problem."""
    if observed.ungranted:
        return SecretsPlan((), _ungranted(instance, observed.ungranted, retry))
    create: list[NeededSecret] = []
    for needed, secret in observed.stored:
        if secret is not None:
            problem = _foreign_secret(instance, needed, secret, retry)
        else:
            problem = _missing_secret(instance, needed, retry, was_ready=observed.was_ready)
            if problem is None:
                create.append(needed)
        if problem is not None:
            return SecretsPlan(tuple(create), problem)
    return SecretsPlan(tuple(create), StepState(ready=True, reason=SecretReason.READY))


def _ungranted(instance: NextcloudInstance, name: str, retry: timedelta) -> StepState:
    """A missing Secret has the same message, so that a tenant does not learn which Secrets the namespace has."""
    message = (
        f"the Nextcloud names the Secret {name}: create it in the namespace {instance.namespace} with the label "
        f"{PoolsLabel.TENANT}={tenant_of(instance)}, or remove the field"
    )
    return StepState(ready=False, reason=SecretReason.NOT_GRANTED, message=message, again=retry)


def _foreign_secret(
    instance: NextcloudInstance, needed: NeededSecret, secret: Object, retry: timedelta
) -> StepState | None:
    if not needed.generated or is_ours(instance, secret):
        return None
    message = f"Secret {needed.name} exists and was not made for this instance: delete it, or name it in the spec"
    return StepState(ready=False, reason=SecretReason.TAKEN, message=message, lasting=True, again=retry)


def _missing_secret(
    instance: NextcloudInstance, needed: NeededSecret, retry: timedelta, *, was_ready: bool
) -> StepState | None:
    if not needed.generated:
        message = f"create the Secret {needed.name} ({needed.purpose}) in the namespace {instance.namespace}"
        return StepState(ready=False, reason=SecretReason.MISSING, message=message, again=retry)
    if not was_ready:
        return None
    message = (
        f"the generated Secret {needed.name} is gone, and the release was installed with it: "
        "restore it, or create it with the password that Nextcloud knows"
    )
    return StepState(ready=False, reason=SecretReason.LOST, message=message, again=retry)


# --- database ------------------------------------------------------------------------------------------------------------------


def unmanaged_database(instance: NextcloudInstance) -> StepState | None:
    """Return the state of a database without a Cluster, None if the database is managed."""
    engine = engine_of(instance.spec)
    if engine == "sqlite":
        return StepState(ready=True, reason=StepReason.NOT_WANTED, message=unused_by_sqlite(instance.spec))
    if external_database(instance.spec):
        return StepState(ready=True, reason=DatabaseReason.EXTERNAL)
    if engine == "mysql":  # stored before the definition refused it
        message = "only PostgreSQL can be managed: set database.type to postgresql, or database.managed to false"
        return StepState(ready=False, reason=DatabaseReason.UNSUPPORTED, message=message, lasting=True)
    return None


def cluster_problem(instance: NextcloudInstance, cluster: Object | None, retry: timedelta) -> StepState | None:
    """Return why the Cluster is not applied: it was lost, or it has another owner."""
    name = cluster_name(instance.name)
    if cluster is None and instance.status.ready_at:
        message = f"Cluster {name} is gone: restore it from a backup, because an empty one would hide the loss"
        return StepState(ready=False, reason=DatabaseReason.LOST, message=message, again=retry)
    if cluster is not None and not is_ours(instance, cluster):
        message = f"Cluster {name} exists and was not made for this instance: it is neither used nor deleted"
        return StepState(ready=False, reason=DatabaseReason.TAKEN, message=message, lasting=True, again=retry)
    return None


def database_state(
    instance: NextcloudInstance,
    cluster: Object | None,
    settings: MaterialSettings,
    now: datetime,
    *,
    secret_exists: bool,
) -> StepState:
    """Return the state of a managed database from its Cluster and its Secret."""
    state = translate(
        cluster,
        members=members_of(instance.spec),
        secret_exists=secret_exists,
        now=now,
        deadline=timedelta(seconds=settings.database_deadline),
        since=_unready_since(instance.find_condition(PoolsCondition.DATABASE_READY), now),
    )
    # No watch reports the Secret, and its creation must not be missed for ever.
    retry = timedelta(seconds=settings.retry)
    return StepState(ready=state.ready, reason=state.reason, message=state.message, lasting=state.lasting, again=retry)


def _unready_since(condition: Condition | None, now: datetime) -> datetime | None:
    """Return since when DatabaseReady has not been True; None if it was never set."""
    if condition is None or not condition.last_transition_time:
        return None
    try:
        return now if condition.is_true else from_rfc3339(condition.last_transition_time)
    except ValueError:
        return None


# --- bucket --------------------------------------------------------------------------------------------------------------------


def decide_bucket(instance: NextcloudInstance, settings: MaterialSettings) -> StepState | None:
    """Return the state of the bucket; None if the provider has to ensure the bucket that the status records.

    The status records the bucket first, in a separate write, so that a crash leaves no bucket behind.
    """
    wanted, applied = instance.spec.s3, instance.status.applied_s3_config
    if applied is not None and applied.auto_created:
        return _created_bucket(instance, applied, settings)  # for good: it has the files
    if wanted is None or not wanted.enabled:
        draft = NextcloudInstanceStatus(applied_s3_config=None)
        return StepState(ready=True, reason=StepReason.NOT_WANTED, draft=draft)
    bucket = AppliedS3Config(
        auto_created=not wanted.bucket,
        bucket=wanted.bucket or bucket_name(instance.name, instance.uid),
        endpoint=wanted.endpoint or settings.s3_endpoint or None,
        region=wanted.region or settings.s3_region,
    )
    named_by = bucket_named_by(instance.spec, bucket, settings)
    bucket.named_by_tenant = named_by.server
    draft = NextcloudInstanceStatus(applied_s3_config=bucket)
    if bucket.auto_created:
        return StepState(ready=False, reason=BucketState.RECORDED, again=NEXT_STEP, draft=draft)
    given = StepState(ready=True, reason=BucketState.GIVEN, message=f"bucket {bucket.bucket}", draft=draft)
    return _refused_server(named_by, settings, draft) or given


def ensured_bucket(
    instance: NextcloudInstance,
    applied: AppliedS3Config,
    bucket: BucketReady | BucketInProgress,
    settings: MaterialSettings,
) -> StepState:
    """Return the state of a bucket after the provider's work."""
    named_by = bucket_named_by(instance.spec, applied, settings)
    if isinstance(bucket, BucketInProgress):
        return bucket_failed(instance, applied, bucket.reason, bucket.message, settings)
    created = AppliedS3Config(
        auto_created=True,
        bucket=bucket.bucket,
        endpoint=bucket.endpoint or None,
        region=bucket.region or None,
        named_by_tenant=named_by.server,
    )
    draft = NextcloudInstanceStatus(applied_s3_config=created)
    return StepState(ready=True, reason=BucketState.READY, message=f"bucket {bucket.bucket}", draft=draft)


def bucket_failed(
    instance: NextcloudInstance, applied: AppliedS3Config, reason: str, message: str, settings: MaterialSettings
) -> StepState:
    """Return the state of a bucket that is not ready yet."""
    draft = _with_server(applied, bucket_named_by(instance.spec, applied, settings))
    return StepState(ready=False, reason=reason, message=message, again=timedelta(seconds=settings.retry), draft=draft)


def _created_bucket(
    instance: NextcloudInstance, applied: AppliedS3Config, settings: MaterialSettings
) -> StepState | None:
    named_by = bucket_named_by(instance.spec, applied, settings)
    draft = _with_server(applied, named_by)
    before = instance.find_condition(PoolsCondition.BUCKET_READY)
    known = None
    if before is not None and before.is_true:
        known = StepState(ready=True, reason=before.reason, message=before.message, draft=draft)
    return _refused_server(named_by, settings, draft) or known


def _with_server(applied: AppliedS3Config, named_by: NamedBy) -> NextcloudInstanceStatus:
    """Record who named the server, in a status of a version without this field."""
    if named_by.server and applied.named_by_tenant is None:
        applied = applied.model_copy(update={"named_by_tenant": True})
    return NextcloudInstanceStatus(applied_s3_config=applied)


def _refused_server(named_by: NamedBy, settings: MaterialSettings, draft: NextcloudInstanceStatus) -> StepState | None:
    problem = server_problem(named_by)
    if not problem:
        return None
    retry = timedelta(seconds=settings.retry)
    return StepState(ready=False, reason=BucketReason.ENDPOINT, message=problem, again=retry, draft=draft)


# --- release -------------------------------------------------------------------------------------------------------------------


def release_problem(spec: TemplateSettings, settings: MaterialSettings) -> StepState | None:
    """Return the problem that keeps the release from being applied: a service account that is not allowed, or a malformed host."""
    account, allowed = spec.service_account_name, {settings.service_account, *settings.allowed_service_accounts}
    if account is not None and not {account, "*"} & allowed:
        message = f"serviceAccountName {account} is not allowed: add it to the setting pools.instances.allowed_service_accounts"
        return StepState(ready=False, reason=ReleaseReason.ACCOUNT_NOT_ALLOWED, message=message, lasting=True)
    host = spec.ingress.host if spec.ingress is not None else None
    if host is not None and not is_host_name(host):  # stored before the definition refused it
        message = "ingress.host is not a DNS name in lower case: change it"
        return StepState(ready=False, reason=ReleaseReason.HOST_INVALID, message=message, lasting=True)
    return None


def unknown_version(instance: NextcloudInstance, retry: timedelta) -> StepState:
    """Return that no chart installs the version."""
    message = f"no chart is known for version {instance.spec.version}: name an exact version, or add it to a NextcloudVersionMap"
    return StepState(ready=False, reason=ReleaseReason.VERSION_UNKNOWN, message=message, lasting=True, again=retry)
