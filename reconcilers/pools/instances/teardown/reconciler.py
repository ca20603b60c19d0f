"""The order of a deletion: release, copies of the files, bucket, database, Secrets, then namespace or volumes. Each part is waited for.

Everything is read live and deleted by its UID. None means that nothing is left to wait for.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.reconcilers.pools.buckets import BucketProvider, S3Folders
from konverge.reconcilers.pools.instances.observe import stored_release
from konverge.reconcilers.pools.instances.ownership import is_ours
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.teardown.act import ObjectStorage, delete_job, uninstall
from konverge.reconcilers.pools.instances.teardown.decide import (
    PartEnd,
    database_end,
    deletes_database,
    keeps_data,
    keeps_namespace,
    namespace_end,
    owns_namespace,
    secrets_end,
    volumes_end,
)
from konverge.reconcilers.pools.instances.teardown.observe import (
    cluster_if_served,
    copy_job_of,
    generated_secrets,
    namespace_of,
    other_instances,
    schedule_of_cluster,
    volumes_of_release,
)
from konverge.runtime import Plan

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["InstanceTeardown"]


class InstanceTeardown:
    """Deletes the parts of an instance, a part at a time."""

    def __init__(self, settings: MaterialSettings, buckets: BucketProvider, folders: S3Folders) -> None:
        self._storage = ObjectStorage(settings, buckets, folders)
        self._retry = timedelta(seconds=settings.retry)

    async def next_step(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Take the next step; returns the reason to wait. With Retain only the release is deleted."""
        state = await self.release(instance, ctx)
        if state is not None or keeps_data(instance):
            return state
        namespace = await namespace_of(instance, ctx)
        owned = owns_namespace(instance, namespace)
        state = (
            await self._file_backups(instance, ctx)
            or await self._storage.delete_bucket(instance, ctx)
            or await self._database(instance, ctx, owned=owned)
            or await _end(secrets_end(instance, await generated_secrets(instance, ctx)), ctx)
        )
        if state is not None:
            return state
        if namespace is None or not owned or keeps_namespace(instance, await other_instances(instance, ctx)):
            return await _end(volumes_end(instance, await volumes_of_release(instance, ctx)), ctx)
        return await _end(namespace_end(namespace), ctx)

    async def release(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Uninstall the release of the instance."""
        release = await stored_release(instance, ctx)
        return None if release is None else await uninstall(release, ctx, self._retry)

    async def kept_database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> str:
        """Return the Cluster that outlives an instance without other remaining parts, "" if there is none, or if Retain keeps it."""
        if keeps_data(instance):
            return ""
        cluster = await cluster_if_served(instance, ctx)
        return cluster.name if cluster is not None and is_ours(instance, cluster) else ""

    async def _file_backups(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        job = await copy_job_of(instance, ctx)
        return await self._storage.delete_copies(instance, ctx) if job is None else await delete_job(job, ctx)

    async def _database(
        self, instance: NextcloudInstance, ctx: Context[NextcloudInstance], *, owned: bool
    ) -> StepState | None:
        cluster = await cluster_if_served(instance, ctx)
        if cluster is None or not is_ours(instance, cluster):
            return None
        if not deletes_database(instance, owns_the_namespace=owned):
            return None
        schedule = await schedule_of_cluster(cluster, ctx)
        return await _end(database_end(instance, cluster, schedule, self._retry), ctx)


async def _end(part: PartEnd, ctx: Context[NextcloudInstance]) -> StepState | None:
    await ctx.execute(Plan(deletes=part.deletes))
    return part.waits
