"""The reconciler of instances: the async shell around the pure decisions of this folder.

`reconcile`: Secrets, database, bucket, backups, release; the first step that is not done ends the reconcile, with its reason in Ready.
Ready does not wait for backups.
`finalize`: release, backups of files, bucket, database, Secrets, volumes, namespace; each is waited for. An
instance that its Nextcloud released with Retain is not deleted: its Helm release is uninstalled, and all else stays.

Guarantees: every step reads the existing objects and continues from them, so a process may end between any two writes. An object is used,
changed or deleted only if its label has the UID of the instance; a bucket only if the status recorded before its creation that we create
it. Nothing that holds data has an owner reference.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.buckets import BucketProvider, S3Folders
from konverge.reconcilers.pools.instances import teardown
from konverge.reconcilers.pools.instances.backup_step import BackupKeeper
from konverge.reconcilers.pools.instances.dismantle import Dismantler
from konverge.reconcilers.pools.instances.materialise import Materialiser
from konverge.reconcilers.pools.instances.render import url_of
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState, outcome_of, phase_of
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.pools.namespaces import InstanceNamespaces
from konverge.reconcilers.pools.words import InstancePhase, PoolsAnnotation, PoolsCondition, PoolsEvent, StepReason
from konverge.words import EventType

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
        self._make = Materialiser(settings, buckets, rng)
        self._keep_backups = BackupKeeper(settings)
        self._dismantle = Dismantler(settings, buckets, folders)
        self._again = timedelta(seconds=settings.retry)
        self._namespaces = namespaces

    async def reconcile(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Take the steps in order, up to the first that is not done."""
        if refusal := self._namespaces.refusal(instance.namespace):
            ctx.status.set_condition(PoolsCondition.READY, False, StepReason.NAMESPACE_NOT_LISTED, refusal)
            return Done()
        draft = ctx.status.draft
        if instance.spec.claim_ref is not None:
            draft.claim_ref = instance.spec.claim_ref
            draft.assigned_at = instance.status.assigned_at or rfc3339(ctx.now())
        if teardown.is_released(instance):
            return await self._release_of_a_retained(instance, ctx)
        _refuse_maintenance(instance, ctx)
        draft.url = url_of(instance.spec)
        make = self._make
        state = StepState(ready=False, reason=TeardownReason.RELEASED)
        for type_, step in (
            (PoolsCondition.SECRETS_READY, make.secrets),
            (PoolsCondition.DATABASE_READY, make.database),
            (PoolsCondition.BUCKET_READY, make.bucket),
            (PoolsCondition.BACKUPS_READY, self._keep_backups.step),
            (PoolsCondition.RELEASE_READY, make.release),
        ):
            state = await step(instance, ctx)
            ctx.status.set_condition(type_, state.ready, state.reason, state.message)
            if not state.ready and type_ != PoolsCondition.BACKUPS_READY:
                break
        ctx.status.set_condition(PoolsCondition.READY, state.ready, state.reason, state.message)
        draft.phase = phase_of(state, was_ready=bool(instance.status.ready_at))
        if state.ready and not instance.status.ready_at:
            draft.ready_at = rfc3339(ctx.now())
        return outcome_of(state, ctx.now(), None)

    async def _release_of_a_retained(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Uninstall the release of an instance that its Nextcloud released; with Delete its deletion follows."""
        if not teardown.keeps_data(instance):
            return Done()
        state = await self._dismantle.release(instance, ctx)
        ctx.status.draft.phase = InstancePhase.RELEASED
        message = "bucket, database, volumes, Secrets and namespace are kept; delete the instance when they are not needed by it"
        if state is not None:
            message = state.message
        ctx.status.set_condition(PoolsCondition.READY, False, TeardownReason.RELEASED, message)
        return Done() if state is None else RequeueAfter(self._again)

    async def finalize(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Take the next step of the deletion; Done once all parts that are deleted with the instance do not exist any more."""
        if refusal := self._namespaces.refusal(instance.namespace):
            message = f"nothing of the instance is deleted: {refusal}"
            ctx.status.set_condition(PoolsCondition.READY, False, StepReason.NAMESPACE_NOT_LISTED, message)
            return RequeueAfter(self._again)
        if teardown.is_protected(instance):
            message = teardown.refusal(instance)
            before = ctx.status.find(PoolsCondition.READY)
            if before is None or before.reason != TeardownReason.PROTECTED:
                ctx.event(TeardownReason.PROTECTED, message, type_=EventType.WARNING)
            ctx.status.set_condition(PoolsCondition.READY, False, TeardownReason.PROTECTED, message)
            return RequeueAfter(self._again)
        state = await self._dismantle.next_step(instance, ctx)
        if state is None:
            kept = await self._dismantle.kept_database(instance, ctx)
            if kept:
                message = f"Cluster {kept} is kept, as database.deleteOnCleanup is not true; delete it when it is not needed any more"
                ctx.event(PoolsEvent.DATABASE_KEPT, message)
            return Done()
        ctx.status.draft.phase = InstancePhase.DELETING
        ctx.status.set_condition(PoolsCondition.READY, False, state.reason, state.message)
        return RequeueAfter(state.again or self._again)


def _refuse_maintenance(instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> None:
    """Report that the annotation run-maintenance has no effect: it would need the right to run commands in all pods."""
    if not instance.metadata.annotation(PoolsAnnotation.RUN_MAINTENANCE):
        ctx.status.remove_condition(PoolsCondition.MAINTENANCE_RUN)
        return
    message = (
        f"nothing was run: run occ with kubectl exec in a pod of the release {instance.name}, "
        f"and remove the annotation {PoolsAnnotation.RUN_MAINTENANCE}"
    )
    if ctx.status.find(PoolsCondition.MAINTENANCE_RUN) is None:
        ctx.event(StepReason.NOT_SUPPORTED, message, type_=EventType.WARNING)
    ctx.status.set_condition(PoolsCondition.MAINTENANCE_RUN, False, StepReason.NOT_SUPPORTED, message)
