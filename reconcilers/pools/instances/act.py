"""The writes that create the parts of an instance. The next decision needs their results, so no plan holds them.

Guarantees: an object is used or changed only if `ownership.py` shows that it belongs to the instance, and a bucket is created only if the
status recorded it before.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance, NextcloudInstanceStatus, ReleaseRef
from konverge.errors import AlreadyExists, BadRequest, Invalid, NotFound, NotOurs, NotServed
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure, BucketProvider
from konverge.reconcilers.pools.instances.access import keys_secret, uses_path_style
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP, backup_state, backup_target, schedule_of
from konverge.reconcilers.pools.instances.decide import (
    bucket_failed,
    cluster_problem,
    database_state,
    decide_bucket,
    decide_secrets,
    ensured_bucket,
    release_problem,
    unknown_version,
    unmanaged_database,
)
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB, copy_job, copy_state, copy_target
from konverge.reconcilers.pools.instances.names import copy_name
from konverge.reconcilers.pools.instances.observe import (
    bucket_request,
    chart_of,
    has_application_secret,
    observe_secrets,
    stored_cluster,
    version_table,
)
from konverge.reconcilers.pools.instances.ownership import controls, is_ours
from konverge.reconcilers.pools.instances.postgres import cluster_of
from konverge.reconcilers.pools.instances.release import release_status
from konverge.reconcilers.pools.instances.render import release_of, values_of
from konverge.reconcilers.pools.instances.secrets import generated_secret
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState, summary_of
from konverge.reconcilers.pools.instances.versions import ResolvedChart, resolve
from konverge.reconcilers.pools.instances.words import BackupReason, DatabaseReason, ReleaseReason
from konverge.reconcilers.pools.words import PoolsCondition, StepReason
from konverge.reconcilers.shared.delays import READ_AGAIN
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge.reconcilers.shared.helm_release.rollout import rollout_annotations
from konverge.runtime import FieldsHeld

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["InstanceParts"]


class InstanceParts:
    """Creates the parts of an instance, a step for each."""

    def __init__(self, settings: MaterialSettings, buckets: BucketProvider, rng: Random) -> None:
        self._settings = settings
        self._buckets = buckets
        self._rng = rng
        self._retry = timedelta(seconds=settings.retry)

    async def secrets(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Generate the missing Secrets, and wait for the Secrets that their author creates."""
        plan = decide_secrets(instance, await observe_secrets(instance, ctx), self._retry)
        for needed in plan.create:
            try:
                await ctx.client.create(generated_secret(instance, needed, self._rng))
            except AlreadyExists:
                return StepState(ready=False, reason=StepReason.NOT_READY, again=READ_AGAIN)
        return plan.state

    # --- database ------------------------------------------------------------------------------------------------------------

    async def database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Apply the CloudNativePG Cluster of a managed database, and wait until it is ready."""
        state = unmanaged_database(instance)
        if state is not None:
            return state
        try:
            return await self._managed_database(instance, ctx)
        except NotServed:
            message = "the cluster has no CloudNativePG (postgresql.cnpg.io/v1): install it"
            return StepState(ready=False, reason=DatabaseReason.NOT_SERVED, message=message, again=self._retry)
        except (BadRequest, Invalid) as error:
            message = f"the Cluster is refused: {error.message}; change database.postgres"
            return StepState(ready=False, reason=DatabaseReason.REFUSED, message=message, lasting=True)

    async def _managed_database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        cluster: Object | None = await stored_cluster(instance, ctx)
        problem = cluster_problem(instance, cluster, self._retry)
        if problem is not None:
            return problem
        if cluster is None or not cluster.metadata.deleting:
            try:
                cluster = await ctx.apply(cluster_of(instance))
            except FieldsHeld:
                pass  # another manager tunes the Cluster, and its values stay
        secret_exists = await has_application_secret(instance, ctx)
        return database_state(instance, cluster, self._settings, ctx.now(), secret_exists=secret_exists)

    # --- bucket --------------------------------------------------------------------------------------------------------------

    async def bucket(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Record the bucket, and in the next reconcile create it, if the spec names none."""
        state, applied = decide_bucket(instance, self._settings), instance.status.applied_s3_config
        if state is not None:
            return state
        assert applied is not None, "otherwise the decision is a state"
        try:
            bucket = await self._buckets.ensure(await bucket_request(instance, applied, self._settings, ctx), ctx)
        except BucketFailure as failure:
            return bucket_failed(instance, applied, failure.reason, str(failure), self._settings)
        return ensured_bucket(instance, applied, bucket, self._settings)

    # --- backups -------------------------------------------------------------------------------------------------------------

    async def backups(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Keep the schedules that the spec requests, end the others, and report the results of the last backups."""
        return summary_of([await self._database_backups(instance, ctx), await self._file_backups(instance, ctx)])

    async def _database_backups(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        schedule = schedule_of(instance, self._settings)
        if backup_target(instance.spec) is None:
            await self._end_database_backups(instance, schedule, ctx)
            return backup_state(instance.spec, None)
        try:
            await ctx.apply(schedule)
            return backup_state(instance.spec, await stored_cluster(instance, ctx))
        except FieldsHeld:  # another manager has a schedule of its own
            return StepState(ready=True, reason=BackupReason.SCHEDULED)
        except NotServed:
            message = "the cluster has no ScheduledBackup (postgresql.cnpg.io/v1): update CloudNativePG"
            return StepState(ready=False, reason=BackupReason.NOT_SERVED, message=message)

    async def _end_database_backups(
        self, instance: NextcloudInstance, schedule: Object, ctx: Context[NextcloudInstance]
    ) -> None:
        before = instance.find_condition(PoolsCondition.BACKUPS_READY)
        if before is None or before.reason == StepReason.NOT_WANTED:
            return  # none was scheduled: an instance at rest costs no read
        try:
            stored = await ctx.live(SCHEDULED_BACKUP).find(instance.namespace, schedule.name)
        except NotServed:
            return
        if stored is not None and is_ours(instance, stored) and not stored.metadata.deleting:
            await ctx.delete(SCHEDULED_BACKUP, stored.name, stored.namespace, uid=stored.metadata.uid)

    async def _file_backups(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        target, source = copy_target(instance.spec), ctx.status.draft.applied_s3_config
        if target is None or source is None or not source.bucket:
            stored = ctx.cache(CRON_JOB).find(instance.namespace, copy_name(instance.name))
            if stored is not None and controls(instance, stored) and not stored.metadata.deleting:
                await ctx.delete(CRON_JOB, stored.name, stored.namespace, uid=stored.metadata.uid)
            return copy_state(instance.spec, None)
        try:
            job = await ctx.own(copy_job(instance, source, target, self._settings))
        except NotOurs as error:
            return StepState(ready=False, reason=BackupReason.TAKEN, message=str(error))
        except (BadRequest, Invalid) as error:
            message = f"the CronJob is refused: {error.message}; change backups.data.schedule"
            return StepState(ready=False, reason=BackupReason.REFUSED, message=message)
        return copy_state(instance.spec, job)

    # --- release -------------------------------------------------------------------------------------------------------------

    async def release(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Apply the source and the HelmRelease, and read their state from Flux."""
        problem, spec = release_problem(instance.spec, self._settings), instance.spec
        if problem is not None:
            return problem
        version = (spec.helm.version if spec.helm else None) or ""
        chart = resolve(spec.version or "", version, version_table(self._settings, ctx))
        if chart is None:
            return unknown_version(instance, self._retry)
        try:
            return await self._roll_out(instance, chart, ctx)
        except NotServed:
            message = "the cluster has no HelmRelease (helm.toolkit.fluxcd.io/v2): install Flux"
            return StepState(ready=False, reason=ReleaseReason.FLUX_MISSING, message=message, again=self._retry)
        except NotOurs as error:
            message = str(error)
            return StepState(ready=False, reason=ReleaseReason.TAKEN, message=message, lasting=True, again=self._retry)

    async def _roll_out(
        self, instance: NextcloudInstance, chart: ResolvedChart, ctx: Context[NextcloudInstance]
    ) -> StepState:
        applied, settings = ctx.status.draft.applied_s3_config, self._settings
        secret = "" if applied is None else keys_secret(instance.name, instance.spec, applied, settings)
        style = uses_path_style(instance.spec, settings)
        values = values_of(instance.name, instance.spec, chart, applied, secret, path_style=style)
        account = instance.spec.service_account_name or settings.service_account
        rendered = release_of(instance.name, instance.namespace, values, chart, settings, account=account)
        source = await ctx.own(rendered.source)
        release = await ctx.own(rendered.release)
        draft = NextcloudInstanceStatus(
            helm_release=ReleaseRef(name=instance.name, namespace=instance.namespace), version=chart.version or None
        )
        status = release_status(
            release,
            source,
            chart_of(release, ctx),
            rendered.desired,
            instance.find_condition(PoolsCondition.RELEASE_READY),
            settings,
            ctx.now(),
            first=not instance.status.ready_at,
        )
        record = rollout_annotations(status.facts, status.translation, instance.generation)
        if record:
            patch = {"metadata": {"uid": release.metadata.uid, "annotations": dict(record)}}
            try:
                await ctx.patch(HELM_RELEASE, release.name, release.namespace, patch=patch)
            except NotFound:
                return StepState(ready=False, reason=ReleaseReason.STARTING, again=READ_AGAIN, draft=draft)
        return replace(status.state, draft=draft)
