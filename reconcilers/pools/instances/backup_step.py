"""The step that keeps the schedules of backups: of the database by CloudNativePG, of the files by a CronJob. The shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.errors import BadRequest, Invalid, NotOurs, NotServed
from konverge.reconcilers.pools.instances.access import keys_secret, uses_path_style
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP, backup_state, backup_target, schedule_spec
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB, copy_spec, copy_state, copy_target
from konverge.reconcilers.pools.instances.names import bucket_name, cluster_name, copy_name
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState, summary_of
from konverge.reconcilers.pools.instances.teardown import controls, is_ours
from konverge.reconcilers.pools.instances.words import BackupReason
from konverge.reconcilers.pools.words import PoolsCondition, StepReason
from konverge.runtime import FieldsHeld, back_reference

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["BackupKeeper"]


class BackupKeeper:
    """Schedules the backups that the spec requests, and ends the backups that it requests no more."""

    def __init__(self, settings: MaterialSettings) -> None:
        self._settings = settings

    async def step(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        """Keep both schedules, and report the results of the last backups."""
        return summary_of([await self._database(instance, ctx), await self._files(instance, ctx)])

    async def _database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        name = cluster_name(instance.name)
        if backup_target(instance.spec) is None:
            await self._end_of_database_backups(instance, name, ctx)
            return backup_state(instance.spec, None)
        labels, annotations = back_reference(instance)
        spec = schedule_spec(name, self._settings.database_backup_schedule)
        try:
            await ctx.apply(
                SCHEDULED_BACKUP.new(name, instance.namespace, labels=labels, annotations=annotations, spec=spec)
            )
            return backup_state(instance.spec, await ctx.live(CNPG_CLUSTER).find(instance.namespace, name))
        except FieldsHeld:  # another manager has a schedule of its own
            return StepState(ready=True, reason=BackupReason.SCHEDULED)
        except NotServed:
            message = "the cluster has no ScheduledBackup (postgresql.cnpg.io/v1): update CloudNativePG"
            return StepState(ready=False, reason=BackupReason.NOT_SERVED, message=message)

    async def _end_of_database_backups(
        self, instance: NextcloudInstance, name: str, ctx: Context[NextcloudInstance]
    ) -> None:
        before = instance.find_condition(PoolsCondition.BACKUPS_READY)
        if before is None or before.reason == StepReason.NOT_WANTED:
            return  # none was scheduled: an instance at rest costs no read
        try:
            found = await ctx.live(SCHEDULED_BACKUP).find(instance.namespace, name)
        except NotServed:
            return
        if found is not None and is_ours(instance, found) and not found.metadata.deleting:
            await ctx.delete(SCHEDULED_BACKUP, name, instance.namespace, uid=found.metadata.uid)

    async def _files(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState:
        target, source = copy_target(instance.spec), ctx.status.draft.applied_s3_config
        name = copy_name(instance.name)
        if target is None or source is None or not source.bucket:
            found = ctx.cache(CRON_JOB).find(instance.namespace, name)
            if found is not None and controls(instance, found) and not found.metadata.deleting:
                await ctx.delete(CRON_JOB, name, instance.namespace, uid=found.metadata.uid)
            return copy_state(instance.spec, None)
        keys = keys_secret(instance.name, instance.spec, source, self._settings)
        folder = bucket_name(instance.name, instance.uid)
        style = uses_path_style(instance.spec, self._settings)
        spec = copy_spec(source, keys, target, folder, self._settings, path_style=style)
        try:
            job = await ctx.own(CRON_JOB.new(name, instance.namespace, spec=spec))
        except NotOurs as error:
            return StepState(ready=False, reason=BackupReason.TAKEN, message=str(error))
        except (BadRequest, Invalid) as error:
            message = f"the CronJob is refused: {error.message}; change backups.data.schedule"
            return StepState(ready=False, reason=BackupReason.REFUSED, message=message)
        return copy_state(instance.spec, job)
