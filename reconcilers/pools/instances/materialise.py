"""The steps that create an instance, each from the state that it finds. The shell: it reads and writes; other modules decide."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from konverge.clock import from_rfc3339
from konverge.conditions import Condition
from konverge.crds.pools_v1alpha1 import AppliedS3Config, NextcloudInstance, NextcloudVersionMap, ReleaseRef
from konverge.errors import AlreadyExists, BadRequest, Invalid, NotFound, NotOurs, NotServed
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import (
    BucketFailure,
    BucketProvider,
    BucketReady,
    BucketReason,
    BucketRequest,
)
from konverge.reconcilers.pools.instances.access import (
    access_from,
    bucket_named_by,
    keys_secret,
    server_problem,
    uses_path_style,
)
from konverge.reconcilers.pools.instances.backups import (
    backup_section,
    backup_target,
)
from konverge.reconcilers.pools.instances.databases import engine_of, unused_by_sqlite
from konverge.reconcilers.pools.instances.granted import granted_secret, tenant_of
from konverge.reconcilers.pools.instances.names import bucket_name, claim_name, cluster_name
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER, application_secret, cluster_spec, translate
from konverge.reconcilers.pools.instances.release import release_status
from konverge.reconcilers.pools.instances.render import release_of, release_problem, values_of
from konverge.reconcilers.pools.instances.secrets import (
    SECRET,
    NeededSecret,
    content_of,
    external_database,
    needed_secrets,
)
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.teardown import controls, is_ours
from konverge.reconcilers.pools.instances.versions import ResolvedChart, VersionTable, resolve
from konverge.reconcilers.pools.instances.words import (
    BucketState,
    DatabaseReason,
    ReleaseReason,
    SecretReason,
)
from konverge.reconcilers.pools.tenant_fields import grants, secrets_of_tenant
from konverge.reconcilers.pools.words import PoolsCondition, PoolsLabel, StepReason
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE
from konverge.reconcilers.shared.helm_release.rollout import rollout_annotations
from konverge.runtime import FieldsHeld, back_reference

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Materialiser", "bucket_request"]

_NOT_WANTED: Final = StepState(ready=True, reason=StepReason.NOT_WANTED)


async def bucket_request(
    instance: NextcloudInstance, applied: AppliedS3Config, settings: MaterialSettings, ctx: Context[NextcloudInstance]
) -> BucketRequest:
    """Return the request for the bucket that the status names, with the account from the Secret of the spec."""
    access, spec = None, instance.spec
    if settings.bucket_provider == "s3" and spec.s3 is not None and spec.s3.credentials_secret:
        secret = await granted_secret(instance, "s3.credentialsSecret", spec.s3.credentials_secret, ctx)
        style, named_by = uses_path_style(spec, settings), bucket_named_by(spec, applied, settings)
        access = access_from(secret, applied, settings, path_style=style, named_by=named_by)
    return BucketRequest(
        name=applied.bucket or bucket_name(instance.name, instance.uid),
        owner=instance.uid,
        namespace=instance.namespace,
        object_name=claim_name(instance.name),
        access=access,
    )


class Materialiser:
    """Creates the objects of an instance, step by step."""

    def __init__(self, settings: MaterialSettings, buckets: BucketProvider, rng: Random) -> None:
        self._settings = settings
        self._buckets = buckets
        self._rng = rng
        self._again = timedelta(seconds=settings.retry)

    # --- Secrets -------------------------------------------------------------------------------------------------------------

    async def secrets(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Generate the missing Secrets, and wait for the Secrets that their author creates."""
        state = await self._ungranted(instance, ctx)
        if state is not None:
            return state
        for needed in needed_secrets(instance.name, instance.spec):
            found = await ctx.live(SECRET).find(instance.namespace, needed.name)
            if found is None:
                state = await self._missing_secret(instance, needed, ctx)
                if state is not None:
                    return state
            elif needed.generated and not is_ours(instance, found):
                message = (
                    f"Secret {needed.name} exists and was not made for this instance: delete it, or name it in the spec"
                )
                return StepState(
                    ready=False, reason=SecretReason.TAKEN, message=message, lasting=True, again=self._again
                )
        return StepState(ready=True, reason=SecretReason.READY)

    async def _ungranted(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Return the state if a Secret that the tenant named does not name the tenant.

        A missing Secret has the same message, so that a tenant does not learn which Secrets the namespace has.
        """
        tenant = tenant_of(instance)
        for name in secrets_of_tenant(instance.spec):
            if grants(await ctx.live(SECRET).find(instance.namespace, name), tenant):
                continue
            message = (
                f"the Nextcloud names the Secret {name}: create it in the namespace {instance.namespace} with the label "
                f"{PoolsLabel.TENANT}={tenant}, or remove the field"
            )
            return StepState(ready=False, reason=SecretReason.NOT_GRANTED, message=message, again=self._again)
        return None

    async def _missing_secret(
        self, instance: NextcloudInstance, needed: NeededSecret, ctx: Context[NextcloudInstance]
    ) -> StepState | None:
        if not needed.generated:
            message = f"create the Secret {needed.name} ({needed.purpose}) in the namespace {instance.namespace}"
            return StepState(ready=False, reason=SecretReason.MISSING, message=message, again=self._again)
        if instance.status.ready_at or await self._has_release(instance, ctx):
            message = (
                f"the generated Secret {needed.name} is gone, and the release was installed with it: "
                "restore it, or create it with the password that Nextcloud knows"
            )
            return StepState(ready=False, reason=SecretReason.LOST, message=message, again=self._again)
        labels, annotations = back_reference(instance)
        made = SECRET.new(
            needed.name,
            instance.namespace,
            labels=labels,
            annotations=annotations,
            type="Opaque",
            data=content_of(needed.purpose, self._rng),
        )
        try:
            await ctx.client.create(made)
        except AlreadyExists:
            return StepState(ready=False, reason=StepReason.NOT_READY, again=READ_AGAIN)
        return None

    async def _has_release(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> bool:
        try:
            found = await ctx.live(HELM_RELEASE).find(instance.namespace, instance.name)
        except NotServed:
            return False
        return found is not None and controls(instance, found)

    # --- database ------------------------------------------------------------------------------------------------------------

    async def database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Apply the CloudNativePG Cluster of a managed database, and wait until it is ready."""
        engine = engine_of(instance.spec)
        if engine == "sqlite":
            return StepState(ready=True, reason=StepReason.NOT_WANTED, message=unused_by_sqlite(instance.spec))
        if external_database(instance.spec):
            return StepState(ready=True, reason=DatabaseReason.EXTERNAL)
        if engine == "mysql":  # stored before the definition refused it
            message = "only PostgreSQL can be managed: set database.type to postgresql, or database.managed to false"
            return StepState(ready=False, reason=DatabaseReason.UNSUPPORTED, message=message, lasting=True)
        try:
            return await self._managed(instance, ctx)
        except NotServed:
            message = "the cluster has no CloudNativePG (postgresql.cnpg.io/v1): install it"
            return StepState(ready=False, reason=DatabaseReason.NOT_SERVED, message=message, again=self._again)
        except (BadRequest, Invalid) as error:
            message = f"the Cluster is refused: {error.message}; change database.postgres"
            return StepState(ready=False, reason=DatabaseReason.REFUSED, message=message, lasting=True)

    async def _managed(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        name = cluster_name(instance.name)
        found = await ctx.live(CNPG_CLUSTER).find(instance.namespace, name)
        if found is None and instance.status.ready_at:
            message = f"Cluster {name} is gone: restore it from a backup, because an empty one would hide the loss"
            return StepState(ready=False, reason=DatabaseReason.LOST, message=message, again=self._again)
        if found is not None and not is_ours(instance, found):
            message = f"Cluster {name} exists and was not made for this instance: it is neither used nor deleted"
            return StepState(ready=False, reason=DatabaseReason.TAKEN, message=message, lasting=True, again=self._again)
        if found is None or not found.metadata.deleting:
            found = await self._apply_cluster(instance, name, found, ctx)
        secret = await ctx.live(SECRET).find(instance.namespace, application_secret(name))
        state = translate(
            found,
            members=_members(instance),
            secret_exists=secret is not None,
            now=ctx.now(),
            deadline=timedelta(seconds=self._settings.database_deadline),
            since=_unready_since(instance.find_condition(PoolsCondition.DATABASE_READY), ctx.now()),
        )
        # No watch reports the Secret, and its creation must not be missed for ever.
        return StepState(
            ready=state.ready, reason=state.reason, message=state.message, lasting=state.lasting, again=self._again
        )

    async def _apply_cluster(
        self, instance: NextcloudInstance, name: str, found: Object | None, ctx: Context[NextcloudInstance]
    ) -> Object | None:
        postgres = instance.spec.database.postgres if instance.spec.database else None
        storage = postgres.storage if postgres else None
        labels, annotations = back_reference(instance)
        wanted = CNPG_CLUSTER.new(
            name,
            instance.namespace,
            labels=labels,
            annotations=annotations,
            spec=cluster_spec(
                members=_members(instance),
                size=storage.size if storage else None,
                storage_class=(storage.storage_class if storage else None) or "",
                backup=backup_section(backup_target(instance.spec), bucket_name(instance.name, instance.uid)),
            ),
        )
        try:
            return await ctx.apply(wanted)
        except FieldsHeld:
            return found  # another manager tunes the Cluster, and its values stay

    # --- bucket --------------------------------------------------------------------------------------------------------------

    async def bucket(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Create the bucket if none is given. The status records it first, in a separate write, so that a crash leaves no bucket behind."""
        wanted, applied = instance.spec.s3, instance.status.applied_s3_config
        if applied is not None and applied.auto_created:
            return await self._created_bucket(instance, applied, ctx)  # for good: it has the files
        if wanted is None or not wanted.enabled:
            ctx.status.draft.applied_s3_config = None
            return _NOT_WANTED
        bucket = AppliedS3Config(
            auto_created=not wanted.bucket,
            bucket=wanted.bucket or bucket_name(instance.name, instance.uid),
            endpoint=wanted.endpoint or self._settings.s3_endpoint or None,
            region=wanted.region or self._settings.s3_region,
        )
        named_by = bucket_named_by(instance.spec, bucket, self._settings)
        bucket.named_by_tenant = named_by.server
        ctx.status.draft.applied_s3_config = bucket
        if bucket.auto_created:
            return StepState(ready=False, reason=BucketState.RECORDED, again=NEXT_STEP)
        problem = server_problem(named_by)
        if problem:
            return StepState(ready=False, reason=BucketReason.ENDPOINT, message=problem, again=self._again)
        return StepState(ready=True, reason=BucketState.GIVEN, message=f"bucket {bucket.bucket}")

    async def _created_bucket(
        self, instance: NextcloudInstance, applied: AppliedS3Config, ctx: Context[NextcloudInstance]
    ) -> StepState:
        named_by = bucket_named_by(instance.spec, applied, self._settings)
        if named_by.server and applied.named_by_tenant is None:  # recorded by a version without this field
            ctx.status.draft.applied_s3_config = applied.model_copy(update={"named_by_tenant": True})
        problem = server_problem(named_by)
        if problem:
            return StepState(ready=False, reason=BucketReason.ENDPOINT, message=problem, again=self._again)
        before = instance.find_condition(PoolsCondition.BUCKET_READY)
        if before is not None and before.is_true:
            return StepState(ready=True, reason=before.reason, message=before.message)
        try:
            found = await self._buckets.ensure(await bucket_request(instance, applied, self._settings, ctx), ctx)
        except BucketFailure as failure:
            return StepState(ready=False, reason=failure.reason, message=str(failure), again=self._again)
        if not isinstance(found, BucketReady):
            return StepState(ready=False, reason=found.reason, message=found.message, again=self._again)
        ctx.status.draft.applied_s3_config = AppliedS3Config(
            auto_created=True,
            bucket=found.bucket,
            endpoint=found.endpoint or None,
            region=found.region or None,
            named_by_tenant=named_by.server,
        )
        return StepState(ready=True, reason=BucketState.READY, message=f"bucket {found.bucket}")

    # --- release -------------------------------------------------------------------------------------------------------------

    async def release(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Apply the source and the HelmRelease, and read their state from Flux."""
        problem = release_problem(instance.spec, self._settings)
        if problem is not None:
            return problem
        chart = resolve(
            instance.spec.version or "",
            (instance.spec.helm.version if instance.spec.helm else None) or "",
            self._table(ctx),
        )
        if chart is None:
            message = f"no chart is known for version {instance.spec.version}: name an exact version, or add it to a NextcloudVersionMap"
            return StepState(
                ready=False, reason=ReleaseReason.VERSION_UNKNOWN, message=message, lasting=True, again=self._again
            )
        try:
            return await self._rolled_out(instance, chart, ctx)
        except NotServed:
            message = "the cluster has no HelmRelease (helm.toolkit.fluxcd.io/v2): install Flux"
            return StepState(ready=False, reason=ReleaseReason.FLUX_MISSING, message=message, again=self._again)
        except NotOurs as error:
            return StepState(
                ready=False, reason=ReleaseReason.TAKEN, message=str(error), lasting=True, again=self._again
            )

    async def _rolled_out(
        self, instance: NextcloudInstance, chart: ResolvedChart, ctx: Context[NextcloudInstance]
    ) -> StepState:
        applied = ctx.status.draft.applied_s3_config
        secret = "" if applied is None else keys_secret(instance.name, instance.spec, applied, self._settings)
        style = uses_path_style(instance.spec, self._settings)
        values = values_of(instance.name, instance.spec, chart, applied, secret, path_style=style)
        account = instance.spec.service_account_name or self._settings.service_account
        rendered = release_of(instance.name, instance.namespace, values, chart, self._settings, account=account)
        source = await ctx.own(rendered.source)
        release = await ctx.own(rendered.release)
        draft = ctx.status.draft
        draft.helm_release = ReleaseRef(name=instance.name, namespace=instance.namespace)
        draft.version = chart.version or None
        status = release_status(
            release,
            source,
            _chart_of(release, ctx),
            rendered.desired,
            instance.find_condition(PoolsCondition.RELEASE_READY),
            self._settings,
            ctx.now(),
            first=not instance.status.ready_at,
        )
        record = rollout_annotations(status.facts, status.translation, instance.generation)
        if record:
            patch = {"metadata": {"uid": release.metadata.uid, "annotations": dict(record)}}
            try:
                await ctx.patch(HELM_RELEASE, release.name, release.namespace, patch=patch)
            except NotFound:
                return StepState(ready=False, reason=ReleaseReason.STARTING, again=READ_AGAIN)
        return status.state

    def _table(self, ctx: Context[NextcloudInstance]) -> VersionTable:
        built_in = VersionTable(
            charts=self._settings.versions,
            images={},
            aliases=self._settings.aliases,
            fallback=self._settings.chart_version,
        )
        if not ctx.serves(NextcloudVersionMap):
            return built_in
        found = sorted(ctx.cache(NextcloudVersionMap).list(), key=lambda one: one.name)
        if not found:
            return built_in
        spec = found[0].spec
        return VersionTable(
            charts={one.version: one.chart_version for one in spec.versions},
            images={one.version: one.image for one in spec.versions if one.image},
            aliases=spec.aliases,
            fallback=self._settings.chart_version,
        )


def _chart_of(release: Object, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the HelmChart that Flux created for the release; its status names it."""
    named = release.get("status", "helmChart")
    namespace, _, name = named.rpartition("/") if isinstance(named, str) else ("", "", "")
    return ctx.cache(HELM_CHART).find(namespace, name) if namespace and ctx.serves(HELM_CHART) else None


def _unready_since(condition: Condition | None, now: datetime) -> datetime | None:
    """Return since when DatabaseReady has not been True; None if it was never set."""
    if condition is None or not condition.last_transition_time:
        return None
    try:
        return now if condition.is_true else from_rfc3339(condition.last_transition_time)
    except ValueError:
        return None


def _members(instance: NextcloudInstance) -> int:
    postgres = instance.spec.database.postgres if instance.spec.database else None
    return (postgres.replicas if postgres else None) or 1
