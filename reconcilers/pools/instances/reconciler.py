"""The reconciler of instances: each step observes, decides, writes and reports before the next step begins.

`reconcile`: Secrets, database, bucket, backups, release; the first step that is not done ends the reconcile, with its reason in Ready.
Ready does not wait for backups.
`finalize`: release, backups of files, bucket, database, Secrets, volumes, namespace (`teardown`); each is waited for. An
instance that its Nextcloud released with Retain is not deleted: its Helm release is uninstalled, and all else stays.

Each step has its own plan: a step reads the results of the step before, and its condition is reported even if a later step raises an error.

Guarantees: every step reads the existing objects and continues from them, so a process may end between any two writes. An object is used,
changed or deleted only if its label has the UID of the instance; a bucket only if the status recorded before its creation that we create
it. Nothing that holds data has an owner reference.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.buckets import BucketProvider, S3Folders
from konverge.reconcilers.pools.instances.act import InstanceParts
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.status import (
    plan_claimed,
    plan_deleted,
    plan_deleting,
    plan_not_listed,
    plan_protected,
    plan_released,
    plan_result,
    plan_started,
    plan_step,
)
from konverge.reconcilers.pools.instances.teardown.decide import is_protected, is_released, keeps_data, refusal
from konverge.reconcilers.pools.instances.teardown.reconciler import InstanceTeardown
from konverge.reconcilers.pools.namespaces import InstanceNamespaces
from konverge.reconcilers.pools.words import PoolsCondition

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudInstanceReconciler"]


class NextcloudInstanceReconciler:
    """Materialises NextcloudInstances.

    `rng` generates passwords: pass `random.SystemRandom()`, or a seeded generator in tests.
    """

    def __init__(
        self,
        settings: MaterialSettings,
        buckets: BucketProvider,
        folders: S3Folders,
        rng: Random,
        namespaces: InstanceNamespaces,
    ) -> None:
        self._teardown = InstanceTeardown(settings, buckets, folders)
        self._retry = timedelta(seconds=settings.retry)
        self._namespaces = namespaces
        parts = InstanceParts(settings, buckets, rng)
        self._steps = (
            (PoolsCondition.SECRETS_READY, parts.secrets),
            (PoolsCondition.DATABASE_READY, parts.database),
            (PoolsCondition.BUCKET_READY, parts.bucket),
            (PoolsCondition.BACKUPS_READY, parts.backups),
            (PoolsCondition.RELEASE_READY, parts.release),
        )

    async def reconcile(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Take the steps in order, up to the first that is not done."""
        if unlisted := self._namespaces.refusal(instance.namespace):
            return await ctx.execute(plan_not_listed(unlisted))
        await ctx.execute(plan_claimed(instance, ctx.now()))
        if is_released(instance):
            return await self._release_of_a_retained(instance, ctx)
        await ctx.execute(plan_started(instance))
        for type_, step in self._steps:
            state = await step(instance, ctx)
            await ctx.execute(plan_step(type_, state))
            if not state.ready and type_ != PoolsCondition.BACKUPS_READY:
                break
        return await ctx.execute(plan_result(instance, state, ctx.now()))

    async def finalize(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Take the next step of the deletion; Done once all parts that are deleted with the instance do not exist any more."""
        if unlisted := self._namespaces.refusal(instance.namespace):
            return await ctx.execute(plan_not_listed(f"nothing of the instance is deleted: {unlisted}", self._retry))
        if is_protected(instance):
            return await ctx.execute(plan_protected(instance, refusal(instance), self._retry))
        state = await self._teardown.next_step(instance, ctx)
        if state is None:
            return await ctx.execute(plan_deleted(await self._teardown.kept_database(instance, ctx)))
        return await ctx.execute(plan_deleting(state, self._retry))

    async def _release_of_a_retained(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Uninstall the release of an instance that its Nextcloud released; with Delete its deletion follows."""
        if not keeps_data(instance):
            return Done()
        return await ctx.execute(plan_released(await self._teardown.release(instance, ctx), self._retry))
