"""Effects of a deletion that no plan holds: the uninstall of a release in two guarded writes, and the content of object storage."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.errors import ObjectChanged
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure, BucketProvider, BucketReason, S3Folders
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.instances.names import bucket_name
from konverge.reconcilers.pools.instances.observe import bucket_request
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.teardown.decide import copies_to_delete, waiting
from konverge.reconcilers.pools.instances.teardown.observe import copies_account
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.shared.delays import END_OF_OBJECT
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ObjectStorage", "delete_job", "uninstall"]


async def uninstall(release: Object, ctx: Context[NextcloudInstance], retry: timedelta) -> StepState:
    """Delete the HelmRelease; a suspended HelmRelease is resumed first, or Flux would leave its objects behind."""
    stored = release
    try:
        if not stored.metadata.deleting:
            if stored.get("spec", "suspend"):
                stored = await ctx.patch(HELM_RELEASE, expect=stored, patch={"spec": {"suspend": False}})
            await ctx.delete(HELM_RELEASE, expect=stored)
    except ObjectChanged:
        pass  # the next reconcile reads the release again
    return waiting(TeardownReason.RELEASE, f"HelmRelease {release.name} is being uninstalled", retry)


async def delete_job(job: Object, ctx: Context[NextcloudInstance]) -> StepState:
    """Delete the CronJob with its pods, which still write copies."""
    if not job.metadata.deleting:
        await ctx.delete(CRON_JOB, job.name, job.namespace, uid=job.metadata.uid, propagation="Foreground")
    return waiting(TeardownReason.BACKUPS, f"CronJob {job.name} is being deleted", END_OF_OBJECT)


class ObjectStorage:
    """Deletes the bucket and the copies of the files of an instance."""

    def __init__(self, settings: MaterialSettings, buckets: BucketProvider, folders: S3Folders) -> None:
        self._settings = settings
        self._buckets = buckets
        self._folders = folders
        self._retry = timedelta(seconds=settings.retry)

    async def delete_bucket(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Delete the bucket that the operator created; None if it does not exist any more."""
        applied = instance.status.applied_s3_config
        if applied is None or not applied.auto_created:
            return None
        try:
            state = await self._buckets.remove(await bucket_request(instance, applied, self._settings, ctx), ctx)
        except BucketFailure as failure:
            return waiting(failure.reason, str(failure), self._retry)
        return None if state is None else waiting(state.reason, state.message, self._retry)

    async def delete_copies(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Delete the copies of the files, if deleteOnCleanup is true; None if none exists any more."""
        target = copies_to_delete(instance)
        if target is None or not (target.bucket and target.credentials_secret):
            return None
        try:
            access = await copies_account(instance, target, self._settings, ctx)
            if access is None:
                message = (
                    f"the copies of the files cannot be deleted without the keys in Secret {target.credentials_secret} and an endpoint: "
                    "restore them, or set backups.data.deleteOnCleanup to false"
                )
                return waiting(BucketReason.CREDENTIALS, message, self._retry)
            state = await self._folders.remove(access, target.bucket, bucket_name(instance.name, instance.uid))
        except BucketFailure as failure:
            return waiting(failure.reason, str(failure), self._retry)
        return None if state is None else waiting(state.reason, state.message, self._retry)
