"""Reads of the parts of an instance that is being deleted: each part is read live, after the parts before it are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from konverge.crds.pools_v1alpha1 import AppliedS3Config, DataBackup, NextcloudInstance
from konverge.errors import NotServed
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import S3Access
from konverge.reconcilers.pools.instances.access import NamedBy, access_from
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.instances.names import copy_name, secret_name
from konverge.reconcilers.pools.instances.observe import granted_secret, stored_cluster
from konverge.reconcilers.pools.instances.ownership import controls
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.kinds import INSTANCE, NAMESPACE, SECRET, VOLUME_CLAIM

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "cluster_if_served",
    "copies_account",
    "copy_job_of",
    "generated_secrets",
    "namespace_of",
    "other_instances",
    "schedule_of_cluster",
    "volumes_of_release",
]

_GENERATED: Final = ("admin", "redis")
_COPY_KEYS: Final = "backups.data.credentialsSecret"
_RELEASE_LABEL: Final = "app.kubernetes.io/instance"
"""The label that charts put on the volumes of a release."""


async def cluster_if_served(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the Cluster with the name of the database, None if it does not exist or the cluster has no CloudNativePG."""
    try:
        return await stored_cluster(instance, ctx)
    except NotServed:
        return None


async def schedule_of_cluster(cluster: Object, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the ScheduledBackup with the name of a Cluster."""
    return await ctx.live(SCHEDULED_BACKUP).find(cluster.namespace, cluster.name)


async def copy_job_of(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the CronJob of the instance."""
    job = await ctx.live(CRON_JOB).find(instance.namespace, copy_name(instance.name))
    return job if job is not None and controls(instance, job) else None


async def copies_account(
    instance: NextcloudInstance, target: DataBackup, settings: MaterialSettings, ctx: Context[NextcloudInstance]
) -> S3Access | None:
    """Return the account of the bucket with the copies; raises BucketFailure if its server must not get these credentials."""
    fields = instance.spec.tenant_fields or ()
    named_by = NamedBy(credentials=_COPY_KEYS in fields, server="backups.data.endpoint" in fields)
    secret = await granted_secret(instance, _COPY_KEYS, target.credentials_secret or "", ctx)
    server = AppliedS3Config(endpoint=target.endpoint, region=target.region)
    return access_from(secret, server, settings, path_style=settings.s3_path_style, named_by=named_by)


async def generated_secrets(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> list[Object]:
    """Return the Secrets with the names of generated Secrets, of any owner."""
    names = [secret_name(instance.name, purpose) for purpose in _GENERATED]
    secrets = [await ctx.live(SECRET).find(instance.namespace, name) for name in names]
    return [secret for secret in secrets if secret is not None]


async def volumes_of_release(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> list[Object]:
    """Return the volume claims with the label of the release.

    Without a release of this instance, such volumes belong to another release of its name, and none is returned.
    """
    if instance.status.helm_release is None:
        return []
    return list(await ctx.live(VOLUME_CLAIM).list(instance.namespace, labels=f"{_RELEASE_LABEL}={instance.name}"))


async def namespace_of(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Object | None:
    """Return the namespace of the instance."""
    return await ctx.live(NAMESPACE).find("", instance.namespace)


async def other_instances(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> list[Object]:
    """Return the other instances of the namespace."""
    stored = await ctx.live(INSTANCE).list(instance.namespace)
    return [other for other in stored if other.metadata.uid != instance.uid]
