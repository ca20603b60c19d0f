"""The steps that take an instance down, each waited for: release, bucket, database, Secrets, volumes, namespace.

Everything is read live and deleted by its UID. None means that a step has nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from konverge.crds.pools_v1alpha1 import AppliedS3Config, DataBackup, NextcloudInstance
from konverge.errors import NotServed, ObjectChanged
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketFailure, BucketProvider, BucketReason, S3Access, S3Folders
from konverge.reconcilers.pools.instances import teardown
from konverge.reconcilers.pools.instances.access import NamedBy, access_from
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB, copy_target
from konverge.reconcilers.pools.instances.granted import granted_secret
from konverge.reconcilers.pools.instances.materialise import bucket_request
from konverge.reconcilers.pools.instances.names import bucket_name, cluster_name, copy_name, secret_name
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.instances.secrets import SECRET
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.shared.delays import END_OF_OBJECT
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NAMESPACE", "VOLUME_CLAIM", "Dismantler"]

NAMESPACE: Final[Kind[Object]] = kind("v1", "Namespace", namespaced=False, plural="namespaces")
VOLUME_CLAIM: Final[Kind[Object]] = kind(
    "v1", "PersistentVolumeClaim", namespaced=True, plural="persistentvolumeclaims"
)

_GENERATED: Final = ("admin", "redis")
_COPY_KEYS: Final = "backups.data.credentialsSecret"
_RELEASE_LABEL: Final = "app.kubernetes.io/instance"
"""The label that charts put on the volumes of a release."""


class Dismantler:
    """Deletes the objects of an instance, step by step."""

    def __init__(self, settings: MaterialSettings, buckets: BucketProvider, folders: S3Folders) -> None:
        self._settings = settings
        self._buckets = buckets
        self._folders = folders
        self._again = timedelta(seconds=settings.retry)

    async def next_step(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Take the next step; returns the reason to wait. With Retain only the release is deleted."""
        state = await self.release(instance, ctx)
        if state is not None or teardown.keeps_data(instance):
            return state
        namespace = await ctx.live(NAMESPACE).find("", instance.namespace)
        owned = teardown.owns_namespace(instance, namespace)
        state = (
            await self._file_backups(instance, ctx)
            or await self._bucket(instance, ctx)
            or await self._database(instance, ctx, owned=owned)
        )
        if state is not None:
            return state
        state = await self._secrets(instance, ctx)
        if state is not None:
            return state
        if owned and namespace is not None:
            return await self._namespace(instance, namespace, ctx)
        return await self._volumes(instance, ctx)

    async def release(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Delete the HelmRelease; a suspended HelmRelease is resumed, or Flux would leave its objects behind."""
        try:
            found = await ctx.live(HELM_RELEASE).find(instance.namespace, instance.name)
        except NotServed:
            return None
        if found is None or not teardown.controls(instance, found):
            return None
        if not found.metadata.deleting:
            await self._uninstall(found, ctx)
        return self._waiting(TeardownReason.RELEASE, f"HelmRelease {found.name} is being uninstalled")

    async def kept_database(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> str:
        """Return the Cluster that outlives an instance without other remaining parts, "" if there is none, or if Retain keeps it."""
        if teardown.keeps_data(instance):
            return ""
        try:
            found = await ctx.live(CNPG_CLUSTER).find(instance.namespace, cluster_name(instance.name))
        except NotServed:
            return ""
        return found.name if found is not None and teardown.is_ours(instance, found) else ""

    async def _uninstall(self, found: Object, ctx: Context[NextcloudInstance]) -> None:
        try:
            if found.get("spec", "suspend"):
                found = await ctx.patch(HELM_RELEASE, expect=found, patch={"spec": {"suspend": False}})
            await ctx.delete(HELM_RELEASE, expect=found)
        except ObjectChanged:
            return  # the next reconcile reads the release again

    async def _file_backups(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Delete the CronJob with its pods, and then the copies, if deleteOnCleanup is true."""
        found = await ctx.live(CRON_JOB).find(instance.namespace, copy_name(instance.name))
        if found is not None and teardown.controls(instance, found):
            if not found.metadata.deleting:
                uid = found.metadata.uid
                await ctx.delete(CRON_JOB, found.name, found.namespace, uid=uid, propagation="Foreground")
            return StepState(
                ready=False,
                reason=TeardownReason.BACKUPS,
                message=f"CronJob {found.name} is being deleted",
                again=END_OF_OBJECT,
            )
        target = copy_target(instance.spec)
        if target is None or not target.delete_on_cleanup or not (target.bucket and target.credentials_secret):
            return None
        try:
            access = await self._copies_account(instance, target, ctx)
        except BucketFailure as failure:
            return self._waiting(failure.reason, str(failure))
        if access is None:
            message = (
                f"the copies of the files cannot be deleted without the keys in Secret {target.credentials_secret} and an endpoint: "
                "restore them, or set backups.data.deleteOnCleanup to false"
            )
            return self._waiting(BucketReason.CREDENTIALS, message)
        try:
            state = await self._folders.remove(access, target.bucket, bucket_name(instance.name, instance.uid))
        except BucketFailure as failure:
            return self._waiting(failure.reason, str(failure))
        return None if state is None else self._waiting(state.reason, state.message)

    async def _copies_account(
        self, instance: NextcloudInstance, target: DataBackup, ctx: Context[NextcloudInstance]
    ) -> S3Access | None:
        """Return the account of the bucket with the copies; raises BucketFailure if its server must not get these credentials."""
        fields = instance.spec.tenant_fields or ()
        named_by = NamedBy(credentials=_COPY_KEYS in fields, server="backups.data.endpoint" in fields)
        secret = await granted_secret(instance, _COPY_KEYS, target.credentials_secret or "", ctx)
        server = AppliedS3Config(endpoint=target.endpoint, region=target.region)
        style = self._settings.s3_path_style
        return access_from(secret, server, self._settings, path_style=style, named_by=named_by)

    async def _bucket(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        applied = instance.status.applied_s3_config
        if applied is None or not applied.auto_created:
            return None
        try:
            state = await self._buckets.remove(await bucket_request(instance, applied, self._settings, ctx), ctx)
        except BucketFailure as failure:
            return self._waiting(failure.reason, str(failure))
        return None if state is None else self._waiting(state.reason, state.message)

    async def _database(
        self, instance: NextcloudInstance, ctx: Context[NextcloudInstance], *, owned: bool
    ) -> StepState | None:
        try:
            found = await ctx.live(CNPG_CLUSTER).find(instance.namespace, cluster_name(instance.name))
        except NotServed:
            return None
        if found is None or not teardown.is_ours(instance, found):
            return None
        if not teardown.deletes_database(instance, owns_the_namespace=owned):
            return None
        schedule = await ctx.live(SCHEDULED_BACKUP).find(instance.namespace, found.name)
        if schedule is not None and teardown.is_ours(instance, schedule):
            await ctx.delete(SCHEDULED_BACKUP, schedule.name, schedule.namespace, uid=schedule.metadata.uid)
        if not found.metadata.deleting:
            await ctx.delete(CNPG_CLUSTER, found.name, found.namespace, uid=found.metadata.uid)
        return self._waiting(TeardownReason.DATABASE, f"Cluster {found.name} is being deleted")

    async def _secrets(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        names = [secret_name(instance.name, purpose) for purpose in _GENERATED]
        found = [await ctx.live(SECRET).find(instance.namespace, name) for name in names]
        ours = [one for one in found if one is not None and teardown.is_ours(instance, one)]
        return await self._delete_all(SECRET, ours, TeardownReason.SECRETS, ctx)

    async def _volumes(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> StepState | None:
        """Delete the volumes that the chart left behind; the volumes of a database that stays have an owner.

        Without a release of this instance, volumes with its label belong to another release of its name, and stay. A volume that is
        older than the instance stays too.
        """
        if instance.status.helm_release is None:
            return None
        claims = await ctx.live(VOLUME_CLAIM).list(instance.namespace, labels=f"{_RELEASE_LABEL}={instance.name}")
        ours = [one for one in claims if not one.metadata.owner_references and teardown.is_younger(instance, one)]
        return await self._delete_all(VOLUME_CLAIM, ours, TeardownReason.VOLUMES, ctx)

    async def _delete_all(
        self, what: Kind[Object], found: Iterable[Object], reason: str, ctx: Context[NextcloudInstance]
    ) -> StepState | None:
        """Delete objects; objects with finalizers are waited for."""
        held: list[str] = []
        for one in found:
            if not one.metadata.deleting:
                await ctx.delete(what, one.name, one.namespace, uid=one.metadata.uid)
            if one.metadata.finalizers:
                held.append(one.name)
        if not held:
            return None
        message = f"{what.kind} {', '.join(held)}: being deleted, held by a finalizer"
        return StepState(ready=False, reason=reason, message=message, again=END_OF_OBJECT)

    async def _namespace(
        self, instance: NextcloudInstance, namespace: Object, ctx: Context[NextcloudInstance]
    ) -> StepState | None:
        """Delete the namespace that the instance owns, unless it holds another instance or a database that stays."""
        others = [one for one in await ctx.live(INSTANCE).list(namespace.name) if one.metadata.uid != instance.uid]
        database = instance.spec.database
        stays = database is not None and database.delete_on_cleanup is False
        if others or stays:
            return await self._volumes(instance, ctx)
        if not namespace.metadata.deleting:
            await ctx.delete(NAMESPACE, namespace.name, uid=namespace.metadata.uid)
        return None  # the namespace waits for the instance, so the instance does not wait for the namespace

    def _waiting(self, reason: str, message: str) -> StepState:
        return StepState(ready=False, reason=reason, message=message, again=self._again)
