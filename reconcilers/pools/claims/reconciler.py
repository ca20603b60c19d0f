"""The reconciler of Nextclouds: the async shell around the pure decisions of this folder.

`reconcile`: find the own instance by the status; without one, get one (`acquire`); then apply the tenant's fields, and copy the status of
the instance. `finalize`: release or delete the instance.

Guarantees
- The instance of a Nextcloud is the instance that its status names, which tenants do not write. A claim in an instance proves nothing.
- Every step is repeated from stored state, so a crash neither loses an instance nor takes a second instance.
- A missing instance is reported and not replaced by another instance.
- No owner reference is written: an owner in another namespace counts as absent, and the garbage collector would delete the instance
  (docs/reference/pools.md#owner-references).
"""

from __future__ import annotations

from collections.abc import Container
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import BoundInstance, Nextcloud, NominatedInstance, ReleaseRef
from konverge.errors import ApiError, BadRequest, FieldConflict, Invalid, ObjectChanged, RetryAfter
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.claims.acquire import Acquirer, Created, is_own
from konverge.reconcilers.pools.claims.decide import ClaimMode, Hindrance, mode_of
from konverge.reconcilers.pools.claims.drift import Corrections, drift_message, drifted
from konverge.reconcilers.pools.claims.release import is_retained, release_step
from konverge.reconcilers.pools.claims.render import spec_before, spec_text, tenant_intent, tenant_spec
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.pools.kinds import INSTANCE, POOL, PROFILE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import FieldsRefused, check_tenant, policy_of
from konverge.reconcilers.pools.words import (
    DriftReason,
    InstancePhase,
    InstanceReason,
    PoolsAnnotation,
    PoolsCondition,
    PoolsEvent,
    PoolsLabel,
    StepReason,
)
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.runtime import FieldsHeld
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudReconciler"]

_REFUSED: Final = (InstanceReason.INVALID, InstanceReason.FIELDS_REFUSED)
_MARKS_OF_THE_END: Final = (PoolsAnnotation.RELEASED, PoolsAnnotation.ORPHANED_SINCE)
_COPIED: Final = (
    *(PoolsCondition.READY, PoolsCondition.SECRETS_READY, PoolsCondition.DATABASE_READY),
    *(PoolsCondition.BUCKET_READY, PoolsCondition.BACKUPS_READY, PoolsCondition.RELEASE_READY),
)
_REASONS: Final = {
    ClaimMode.REFERENCE: InstanceReason.BOUND,
    ClaimMode.POOL: InstanceReason.ASSIGNED,
    ClaimMode.PROFILE: InstanceReason.CREATED,
    ClaimMode.VANILLA: InstanceReason.CREATED,
}


class NextcloudReconciler:
    """Gives each Nextcloud one instance, and keeps it as the tenant wants it."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._acquirer = Acquirer(settings, metrics, random)
        self._corrections = Corrections(
            settings.drift_limit,
            timedelta(seconds=settings.drift_window),
            timedelta(seconds=settings.drift_pause),
        )

    async def reconcile(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Outcome:
        """Take an instance if the Nextcloud has none, apply the tenant's fields, copy the status."""
        ref = nextcloud.status.instance_ref
        if ref is not None:
            mine = await self._own_instance(nextcloud, ref, ctx)
            return self._lost(ref, ctx) if mine is None else await self._follow(nextcloud, mine, ctx)
        step = await self._acquirer.next_step(nextcloud, ctx)
        if isinstance(step, Hindrance):
            if step.reason not in _REFUSED:  # of a refused instance the record stays, and serves the next try
                ctx.status.draft.nominated_instance = None
            return self._blocked(step, ctx)
        if isinstance(step, NominatedInstance):
            ctx.status.draft.nominated_instance = step
            return RequeueAfter(NEXT_STEP)
        self._acquirer.forget(nextcloud.uid)
        if isinstance(step, Created):  # the creation was the apply
            self._copy_status(nextcloud, step.instance, ctx)
            return Done()
        return await self._follow(nextcloud, step, ctx)

    async def finalize(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Outcome:
        """Delete or release the instance; Done once it does not exist any more, or is released for good."""
        instance = await self._instance_to_release(nextcloud, ctx)
        if instance is not None:
            if await release_step(instance, nextcloud.uid, ctx):
                ctx.status.draft.phase = InstancePhase.DELETING
                ctx.status.set_condition(PoolsCondition.READY, False, *_waits_for(instance))
                return RequeueAfter(timedelta(seconds=self._settings.retry))
            if is_retained(instance):
                ctx.event(
                    PoolsEvent.INSTANCE_RELEASED,
                    f"NextcloudInstance {instance.metadata.path} is kept: reclaimPolicy is Retain",
                )
        self._corrections.forget(nextcloud.uid)
        self._acquirer.forget(nextcloud.uid)
        return Done()

    async def _instance_to_release(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Object | None:
        """Return the instance in the status as the API server has it: the cache may lack the last write of a former leader."""
        stored = await ctx.live(Nextcloud).find(nextcloud.namespace, nextcloud.name)
        status = stored.status if stored is not None and stored.uid == nextcloud.uid else nextcloud.status
        ref = status.instance_ref
        if ref is not None:
            where = (ref.namespace or self._settings.instance_namespace, ref.name)
            instance = await ctx.live(INSTANCE).find(*where)
            return instance if instance is not None and _is_bound(instance, nextcloud.uid, ref) else None
        nominated = status.nominated_instance
        if nominated is None:
            return None
        instance = await ctx.live(INSTANCE).find(nominated.namespace, nominated.name)
        return instance if is_own(instance, nextcloud, nominated) else None

    # --- to an instance ------------------------------------------------------------------------------------------------------

    async def _own_instance(self, nextcloud: Nextcloud, ref: BoundInstance, ctx: Context[Nextcloud]) -> Object | None:
        """Return the instance that the status names, if it has the claim of the Nextcloud."""
        where = (ref.namespace or self._settings.instance_namespace, ref.name)
        cached = ctx.cache(INSTANCE).find(*where)
        if cached is not None and _is_bound(cached, nextcloud.uid, ref):
            return cached
        stored = await ctx.live(INSTANCE).find(*where)
        return stored if stored is not None and _is_bound(stored, nextcloud.uid, ref) else None

    def _lost(self, ref: BoundInstance, ctx: Context[Nextcloud]) -> Outcome:
        """Report that the instance in the status is not the Nextcloud's, or not any more."""
        path = f"{ref.namespace}/{ref.name}"
        if ref.uid is None:
            message = (
                f"NextcloudInstance {path} does not exist, or has no claim of this Nextcloud: have an administrator write spec.claimRef of "
                "the instance, or delete this Nextcloud and create it again"
            )
            why = Hindrance(InstanceReason.INSTANCE_NOT_FOUND, message)
        else:
            message = f"NextcloudInstance {path} was deleted; delete this Nextcloud and create it again"
            why = Hindrance(InstanceReason.INSTANCE_LOST, message)
        waits = self._blocked(why, ctx)
        ctx.status.draft.phase, ctx.status.draft.url = InstancePhase.FAILED, None
        _forget_steps(ctx)
        ctx.status.set_condition(PoolsCondition.READY, False, why.reason, message)
        return Done() if ref.uid is not None else waits

    def _blocked(self, why: Hindrance, ctx: Context[Nextcloud]) -> Outcome:
        before = ctx.status.find(PoolsCondition.INSTANCE_ASSIGNED)
        ctx.status.draft.phase = InstancePhase.PENDING
        # The runtime reports a change of the status. It reports neither a new reason with the same status, nor a first condition that is
        # False.
        if before is None or before.reason != why.reason:
            ctx.event(why.reason, why.message, type_=EventType.WARNING)
        ctx.status.set_condition(PoolsCondition.INSTANCE_ASSIGNED, False, why.reason, why.message)
        return RequeueAfter(timedelta(seconds=self._settings.retry))

    # --- with an instance ----------------------------------------------------------------------------------------------------

    async def _follow(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> Outcome:
        """Apply the tenant's fields, and copy the status up."""
        wait: timedelta | None = None
        reason = refused = ""
        if not instance.metadata.deleting:
            try:
                instance, wait = await self._apply(nextcloud, instance, ctx)
            except (BadRequest, Invalid) as error:  # of the merged spec: it holds the pool's fields too
                reason = InstanceReason.INVALID
                refused = (
                    f"the API server refuses this spec for the instance, which keeps its former one: {error.message}"
                )
            except FieldsRefused as problem:
                reason = InstanceReason.FIELDS_REFUSED
                refused = f"the instance keeps its former spec: {problem}"
        self._copy_status(nextcloud, instance, ctx)
        if refused:
            ctx.status.set_condition(PoolsCondition.READY, False, reason, refused)
        return Done() if wait is None else RequeueAfter(wait)

    async def _apply(
        self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]
    ) -> tuple[Object, timedelta | None]:
        self._check_fields(nextcloud, instance)
        instance = await self._recorded(nextcloud, await self._corrected(instance, ctx), ctx)
        metadata, now = instance.metadata, ctx.now()
        intent = tenant_intent(
            nextcloud,
            metadata.name,
            metadata.namespace,
            uid=metadata.uid,
            defaults=metadata.annotation(PoolsAnnotation.PROFILE_DEFAULTS),
            before=metadata.annotation(PoolsAnnotation.SPEC_BEFORE),
            replaced=metadata.annotation(PoolsAnnotation.REPLACED),
            nonce=metadata.annotation(PoolsAnnotation.CREATION_NONCE)
            if _how(nextcloud) == InstanceReason.CREATED
            else "",
            pool=_pool_of(nextcloud) or "",
            profile=str(instance.get("spec", "profile", default="") or "")
            if metadata.annotation(PoolsAnnotation.PROFILE_DEFAULTS)
            else "",
        )
        paths: list[str] = []
        said = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
        if said is not None and said.is_true and said.observed_generation == nextcloud.generation:
            data, stored = intent.to_dict(), instance.to_dict()
            paths = drifted(data["spec"], stored.get("spec", {}), ".spec")
            paths += drifted(data["metadata"]["labels"], stored["metadata"].get("labels", {}), ".metadata.labels")
        fight = self._corrections.fight(nextcloud.uid, now)
        if paths and fight is not None and fight.wait > timedelta(0):
            self._set_fight(fight.message, ctx)
            return instance, fight.wait
        message = ""
        if paths:
            message = drift_message(paths, await self._rivals(intent, ctx), ctx.client.name)
        stored_now = await ctx.apply(intent, force=True)
        if paths:
            self._metrics.drift.inc()
            self._corrections.note(nextcloud.uid, now, message)
            ctx.event(PoolsEvent.DRIFT_CORRECTED, message, type_=EventType.WARNING)
            fight = self._corrections.fight(nextcloud.uid, now)
        if fight is not None:
            self._set_fight(fight.message, ctx)
            return stored_now, timedelta(seconds=self._settings.drift_window)
        ctx.status.remove_condition(PoolsCondition.DRIFT_FIGHT)
        return stored_now, None

    def _check_fields(self, nextcloud: Nextcloud, instance: Object) -> None:
        """Raise FieldsRefused if the tenant sets fields that the administrators reserve for this instance."""
        check_tenant(tenant_spec(nextcloud), policy_of(instance.to_dict().get("spec") or {}, self._settings.instances))

    async def _corrected(self, instance: Object, ctx: Context[Nextcloud]) -> Object:
        """Take back marks of a release or of an orphan that another writer put on the instance: its release would be uninstalled."""
        metadata = instance.metadata
        marks = [mark for mark in _MARKS_OF_THE_END if mark in (metadata.annotations or {})]
        if not marks:
            return instance
        try:
            corrected = await ctx.patch(
                INSTANCE, expect=metadata, patch={"metadata": {"annotations": dict.fromkeys(marks)}}
            )
        except ObjectChanged as error:
            raise RetryAfter(READ_AGAIN, f"NextcloudInstance {metadata.path} changed; reading it again") from error
        message = f"set back {', '.join(marks)}: the Nextcloud has not let go of its instance"
        ctx.event(PoolsEvent.MARKS_CORRECTED, message, type_=EventType.WARNING)
        return corrected

    async def _recorded(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> Object:
        """Record the spec that an instance had before, if it was taken without that record: by an older version, or by hand."""
        metadata = instance.metadata
        if metadata.annotation(PoolsAnnotation.SPEC_BEFORE) or _how(nextcloud) == InstanceReason.CREATED:
            return instance
        pool = ctx.cache(POOL).find("", _pool_of(nextcloud) or metadata.label(PoolsLabel.POOL))
        named = "" if pool is None else str(pool.get("spec", "profileRef", "name", default="") or "")
        profile = ctx.cache(PROFILE).find("", named) if named else None
        text = spec_text(spec_before(nextcloud, instance, pool, profile))
        if not text:
            return instance
        patch = {"metadata": {"annotations": {PoolsAnnotation.SPEC_BEFORE: text}}}
        try:
            return await ctx.patch(INSTANCE, expect=metadata, patch=patch)
        except ObjectChanged as error:
            raise RetryAfter(READ_AGAIN, f"NextcloudInstance {metadata.path} changed; reading it again") from error

    async def _rivals(self, intent: Object, ctx: Context[Nextcloud]) -> tuple[FieldConflict, ...]:
        """Return who owns the fields that differ, from a dry run without force."""
        try:
            await ctx.apply(intent, dry_run=True)
        except FieldsHeld as held:
            return held.held.conflicts
        except ApiError:
            return ()
        return ()

    def _set_fight(self, message: str, ctx: Context[Nextcloud]) -> None:
        text = f"another manager edits fields of the tenant again and again; stop it. Last: {message}"
        ctx.status.set_condition(PoolsCondition.DRIFT_FIGHT, True, DriftReason.FIGHTING, text)

    def _copy_status(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> None:
        metadata, draft, status = instance.metadata, ctx.status.draft, instance.status
        draft.instance_ref = BoundInstance(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        draft.pool = _pool_of(nextcloud)
        draft.nominated_instance = None
        draft.applied_profile = nextcloud.status.applied_profile or nextcloud.spec.profile
        draft.assigned_at = nextcloud.status.assigned_at or rfc3339(ctx.now())
        draft.phase = InstancePhase.DELETING if metadata.deleting else status.get("phase") or InstancePhase.PENDING
        release = status.get("helmRelease")
        draft.helm_release = ReleaseRef.model_validate(release) if isinstance(release, dict) else None
        draft.url, draft.version = status.get("url"), status.get("version")
        message = f"the instance is {metadata.path}"
        ctx.status.set_condition(PoolsCondition.INSTANCE_ASSIGNED, True, _how(nextcloud), message)
        there = {condition.type: condition for condition in instance.conditions}
        _forget_steps(ctx, but=there)
        for type_ in _COPIED:
            copied = there.get(type_)
            if copied is not None:
                state = None if copied.status == "Unknown" else copied.is_true
                before = ctx.status.find(type_)
                if copied.reason == TeardownReason.PROTECTED and (before is None or before.reason != copied.reason):
                    ctx.event(copied.reason, copied.message, type_=EventType.WARNING)
                ctx.status.set_condition(type_, state, copied.reason, copied.message)


def _how(nextcloud: Nextcloud) -> str:
    """Return the reason of InstanceAssigned=True: how the Nextcloud got its instance, whatever its present spec is."""
    said = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
    return said.reason if said is not None and said.is_true else _REASONS[mode_of(nextcloud.spec)]


def _forget_steps(ctx: Context[Nextcloud], *, but: Container[str] = ()) -> None:
    """Set the conditions that were copied from an instance to Unknown: a removed condition would read as never reported."""
    for type_ in _COPIED:
        if type_ not in but and ctx.status.find(type_) is not None:
            ctx.status.set_condition(type_, None, StepReason.NOT_REPORTED, "the instance does not report it")


def _waits_for(instance: Object) -> tuple[str, str]:
    """Return reason and message of Ready=False while an instance is being deleted, from its present step."""
    said = instance.find_condition(PoolsCondition.READY)
    if said is not None and said.is_false and instance.metadata.deleting:
        return said.reason, said.message
    return InstanceReason.RELEASING, f"NextcloudInstance {instance.metadata.path} is being deleted"


def _is_bound(instance: Object, uid: str, ref: BoundInstance) -> bool:
    """Whether an instance has the claim of a Nextcloud, and is the very instance of its status."""
    return instance.get("spec", "claimRef", "uid", default="") == uid and ref.uid in (None, instance.metadata.uid)


def _pool_of(nextcloud: Nextcloud) -> str | None:
    """Return the recorded pool of the instance; the record was written before the instance was taken."""
    nominated = nextcloud.status.nominated_instance
    return nextcloud.status.pool or (None if nominated is None else nominated.pool)
