"""The reconciler of Nextclouds: the async shell around the pure decisions of this folder.

`reconcile`: find the own instance by the UID of the claim; without one, take one by the mode; then apply what the tenant set, and copy the
status of the instance. `finalize`: release or delete the instance.

Guarantees
- An instance is taken by one write that names the version that was read. Every later step is repeated from what is stored, so a crash after
  that write neither loses the instance nor takes a second one.
- Before an instance is taken the API server is asked whether there is one already: the cache of a new leader may be behind the last write
  of the old one.
- An instance that is gone is reported and not replaced by another one.
- No owner reference is written: an owner in another namespace counts as absent, and the garbage collector would delete the instance
  (docs/reference/pools.md#owner-references).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from konverge.clock import rfc3339
from konverge.crds.pools_v1alpha1 import InstanceRef, Nextcloud, ReleaseRef
from konverge.errors import ApiError, BadRequest, Conflict, FieldConflict, Forbidden, Invalid, NotFound, RetryAfter
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.claims.decide import ClaimMode, Hindrance, check_named, exhausted, mode_of
from konverge.reconcilers.pools.claims.drift import Corrections, drift_message, drifted
from konverge.reconcilers.pools.claims.indexes import BY_CLAIM, IDLE, READY_IDLE, competitors
from konverge.reconcilers.pools.claims.release import release_step
from konverge.reconcilers.pools.claims.render import lock_patch, spec_before, spec_text, tenant_intent, tenant_spec
from konverge.reconcilers.pools.claims.turns import WaitingClaim, ahead_of, candidates, matches, order_of, selector_key
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, POOL, PROFILE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.names import name_for
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import FieldsRefused, check_tenant, defaults_without_pool, policy_of
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
from konverge.runtime import FieldsHeld
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudReconciler"]

_TRIES: Final = 4
_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)
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


@dataclass(frozen=True, slots=True)
class _Created:
    """An instance that this reconcile created, with everything that the tenant set."""

    instance: Object


class NextcloudReconciler:
    """Gives each Nextcloud one instance, and keeps it as the tenant wants it."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._corrections = Corrections(
            settings.drift_limit,
            timedelta(seconds=settings.drift_window),
            timedelta(seconds=settings.drift_pause),
        )

    async def reconcile(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Outcome:
        """Take an instance if there is none yet, apply what the tenant set, copy the status."""
        mine = await self._own_instance(nextcloud, ctx)
        if mine is None and nextcloud.status.instance_ref is not None:
            ref = nextcloud.status.instance_ref
            message = (
                f"NextcloudInstance {ref.namespace}/{ref.name} was deleted; delete this Nextcloud and create it anew"
            )
            self._blocked(Hindrance(InstanceReason.INSTANCE_LOST, message), ctx)
            ctx.status.draft.phase, ctx.status.draft.url = InstancePhase.FAILED, None
            _forget_steps(ctx)
            ctx.status.set_condition(PoolsCondition.READY, False, InstanceReason.INSTANCE_LOST, message)
            return Done()
        if mine is None:
            found = await self._acquire(nextcloud, ctx)
            if isinstance(found, Hindrance):
                return self._blocked(found, ctx)
            if isinstance(found, _Created):  # its creation was the apply
                self._copy_status(nextcloud, found.instance, ctx)
                return Done()
            mine = found
        return await self._follow(nextcloud, mine, ctx)

    async def finalize(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Outcome:
        """Delete or release the instance; Done when it is gone, or released for good."""
        found = await ctx.live(INSTANCE).list(labels=f"{PoolsLabel.CLAIM_UID}={nextcloud.uid}")
        mine = [one for one in found if one.get("spec", "claimRef", "uid", default="") == nextcloud.uid]
        waits = [instance for instance in mine if await release_step(instance, nextcloud.uid, ctx)]
        if waits:
            ctx.status.draft.phase = InstancePhase.DELETING
            ctx.status.set_condition(PoolsCondition.READY, False, *_waits_for(waits[0]))
            return RequeueAfter(timedelta(seconds=self._settings.retry))
        for instance in mine:
            ctx.event(
                PoolsEvent.INSTANCE_RELEASED,
                f"NextcloudInstance {instance.metadata.path} is kept: reclaimPolicy is Retain",
            )
        self._corrections.forget(nextcloud.uid)
        return Done()

    # --- to an instance ------------------------------------------------------------------------------------------------------

    async def _own_instance(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Object | None:
        """Return the instance whose claim has this UID; once the status names one, that one or None."""
        ref = nextcloud.status.instance_ref
        found = list(ctx.cache(INSTANCE).by_index(BY_CLAIM, nextcloud.uid))
        if ref is not None:
            # A lock that arrives late, of a process that stopped to lead, must not move a tenant to another instance.
            where = (ref.namespace or self._settings.instance_namespace, ref.name)
            found = [one for one in found if (one.namespace, one.name) == where]
        cached = _claimed_by(nextcloud.uid, found)
        if cached is not None:
            return cached
        if ref is None:
            return None
        stored = await ctx.live(INSTANCE).find(ref.namespace or self._settings.instance_namespace, ref.name)
        return None if stored is None else _claimed_by(nextcloud.uid, [stored])

    async def _acquire(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Object | _Created | Hindrance:
        spec = nextcloud.spec
        defaults: dict[str, Any] = {}
        if spec.profile is not None:
            profile = ctx.cache(PROFILE).find("", spec.profile)
            if profile is None or profile.metadata.deleting:
                message = f"there is no NextcloudProfile {spec.profile}; create it, or name another one"
                return Hindrance(InstanceReason.PROFILE_NOT_FOUND, message)
            defaults = defaults_without_pool(profile.get("spec", "defaults", default={}) or {})
        try:
            match mode_of(spec):
                case ClaimMode.REFERENCE:
                    return await self._bind(nextcloud, ctx)
                case ClaimMode.POOL:
                    return await self._take_from_pool(nextcloud, ctx)
                case mode:
                    return await self._create(nextcloud, mode, defaults, ctx)
        except _REFUSALS as error:
            return Hindrance(InstanceReason.INVALID, f"the API server refuses the instance: {error.message}")
        except FieldsRefused as problem:
            return Hindrance(InstanceReason.FIELDS_REFUSED, str(problem))

    async def _taken_before(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Object | None:
        """Ask the API server for the instance of the claim."""
        found = await ctx.live(INSTANCE).list(labels=f"{PoolsLabel.CLAIM_UID}={nextcloud.uid}")
        return _claimed_by(nextcloud.uid, found)

    async def _bind(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Object | Hindrance:
        ref = nextcloud.spec.instance_ref
        assert ref is not None
        namespace = ref.namespace or self._settings.instance_namespace
        before = await self._taken_before(nextcloud, ctx)
        if before is not None:
            return before
        instance = await ctx.live(INSTANCE).find(namespace, ref.name)
        problem = check_named(f"{namespace}/{ref.name}", instance)
        if problem is not None:
            return problem
        assert instance is not None
        try:
            return await self._lock(nextcloud, instance, ctx)
        except Conflict:
            self._metrics.conflicts.inc()
            raise RetryAfter(1, f"NextcloudInstance {instance.metadata.path} changed; reading it again") from None

    async def _take_from_pool(self, nextcloud: Nextcloud, ctx: Context[Any]) -> Object | Hindrance:
        selector = nextcloud.spec.pool_selector
        assert selector is not None
        key = selector_key(selector.match_labels)
        instances = ctx.cache(INSTANCE)
        ready = _matching(key, instances.metadata_by_index(READY_IDLE, key.split(",")[0]))
        me = WaitingClaim(
            nextcloud.metadata.creation_timestamp or "", nextcloud.uid, nextcloud.namespace, nextcloud.name, key
        )
        line = competitors(ready, ctx.cache(NEXTCLOUD), instances, but=nextcloud.uid)
        free = candidates(me, line, ready)
        for candidate in free:
            # Before each write: the conflict with the last candidate may be the same claim's, by another process or by a write of
            # ours whose response was lost.
            before = await self._taken_before(nextcloud, ctx)
            if before is not None:
                return before
            chosen = instances.find(candidate.namespace, candidate.name)
            if chosen is None or chosen.metadata.resource_version != candidate.resource_version:
                continue
            try:
                return await self._lock(nextcloud, chosen, ctx)
            except (Conflict, NotFound):
                self._metrics.conflicts.inc()  # another claim, a trim or the instance itself was faster: never the same one again
        if free:
            raise RetryAfter(1, "the idle instances changed; reading them again")
        idle = _matching(key, instances.metadata_by_index(IDLE, key.split(",")[0]))
        return exhausted(key, len(ready), len(idle), len(ahead_of(me, line)))

    async def _lock(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Any]) -> Object:
        """Take exactly this version of an instance; raises Conflict if it changed, FieldsRefused for fields that its pool keeps."""
        self._check_fields(nextcloud, instance)
        metadata = instance.metadata
        name = metadata.label(PoolsLabel.POOL)
        pool = ctx.cache(POOL).find("", name) if name else None
        # Of a pool that is gone the instance has the policy since its creation.
        policy = "" if pool is None else str(pool.get("spec", "lifecycle", "reclaimPolicy", default="Delete"))
        patch = lock_patch(nextcloud, metadata, policy, spec_text(instance.to_dict().get("spec") or {}))
        taken = await ctx.patch(INSTANCE, metadata.name, metadata.namespace, patch=patch)
        self._served(nextcloud, ctx)
        return taken

    def _served(self, nextcloud: Nextcloud, ctx: Context[Any]) -> None:
        """Count the wait of a claim, at the one write that ends it: what follows may be repeated."""
        created = nextcloud.metadata.created
        if created is not None:
            self._metrics.wait.observe(max(0.0, (ctx.now() - created).total_seconds()))

    async def _create(
        self, nextcloud: Nextcloud, mode: ClaimMode, defaults: dict[str, Any], ctx: Context[Any]
    ) -> Object | _Created:
        """Create a new instance; its name follows from the claim, so a second try meets the first one's."""
        before = await self._taken_before(nextcloud, ctx)
        if before is not None:
            return before
        settings = self._settings
        check_tenant(tenant_spec(nextcloud), policy_of(defaults, settings.instances))
        for attempt in range(_TRIES):
            name = name_for(nextcloud.uid, attempt, settings.adjectives, settings.nouns)
            if await ctx.live(INSTANCE).find(settings.instance_namespace, name) is not None:
                continue
            text = msgspec.json.encode(defaults, order="deterministic").decode() if defaults else ""
            intent = tenant_intent(
                nextcloud,
                name,
                settings.instance_namespace,
                creates=True,
                defaults=text,
                profile=nextcloud.spec.profile or "",
            )
            try:
                made = await ctx.apply(intent, force=True)
            except Conflict:  # one was created since the read: another one's, or this claim's by another process
                before = await self._taken_before(nextcloud, ctx)
                if before is not None:
                    return before
                continue
            self._served(nextcloud, ctx)
            if mode is ClaimMode.VANILLA:
                message = f"created {made.metadata.path} without pool and profile: SQLite and no S3, unless the spec says otherwise"
                ctx.event(PoolsEvent.BARE_FRESH_CREATION, message)
            return _Created(made)
        raise RetryAfter(60, "no free name for a new instance; trying again")

    def _blocked(self, why: Hindrance, ctx: Context[Any]) -> Outcome:
        before = ctx.status.find(PoolsCondition.INSTANCE_ASSIGNED)
        ctx.status.draft.phase = InstancePhase.PENDING
        # The runtime reports a change of the status, not one of the reason alone, nor a first condition that is False.
        if before is None or (before.is_false and before.reason != why.reason):
            ctx.event(why.reason, why.message, type_=EventType.WARNING)
        ctx.status.set_condition(PoolsCondition.INSTANCE_ASSIGNED, False, why.reason, why.message)
        return RequeueAfter(timedelta(seconds=self._settings.retry))

    # --- with an instance ----------------------------------------------------------------------------------------------------

    async def _follow(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Any]) -> Outcome:
        """Apply what the tenant set, and copy the status up."""
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
        self, nextcloud: Nextcloud, instance: Object, ctx: Context[Any]
    ) -> tuple[Object, timedelta | None]:
        self._check_fields(nextcloud, instance)
        instance = await self._recorded(nextcloud, instance, ctx)
        metadata, now = instance.metadata, ctx.now()
        intent = tenant_intent(
            nextcloud,
            metadata.name,
            metadata.namespace,
            uid=metadata.uid,
            defaults=metadata.annotation(PoolsAnnotation.PROFILE_DEFAULTS),
            before=metadata.annotation(PoolsAnnotation.SPEC_BEFORE),
            replaced=metadata.annotation(PoolsAnnotation.REPLACED),
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
        """Raise FieldsRefused if the tenant sets what the administrators keep to themselves for this instance."""
        check_tenant(tenant_spec(nextcloud), policy_of(instance.to_dict().get("spec") or {}, self._settings.instances))

    async def _recorded(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Any]) -> Object:
        """Record the spec that an instance had before, if it was taken without: by an older version, or by hand."""
        metadata = instance.metadata
        if metadata.annotation(PoolsAnnotation.SPEC_BEFORE) or _how(nextcloud) == InstanceReason.CREATED:
            return instance
        pool = ctx.cache(POOL).find("", metadata.label(PoolsLabel.POOL))
        named = "" if pool is None else str(pool.get("spec", "profileRef", "name", default="") or "")
        profile = ctx.cache(PROFILE).find("", named) if named else None
        text = spec_text(spec_before(nextcloud, instance, pool, profile))
        if not text:
            return instance
        guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        patch = {"metadata": {**guard, "annotations": {PoolsAnnotation.SPEC_BEFORE: text}}}
        try:
            return await ctx.patch(INSTANCE, metadata.name, metadata.namespace, patch=patch)
        except (Conflict, NotFound):
            raise RetryAfter(1, f"NextcloudInstance {metadata.path} changed; reading it again") from None

    async def _rivals(self, intent: Object, ctx: Context[Any]) -> tuple[FieldConflict, ...]:
        """Return who owns the fields that differ: a dry run without force says it."""
        try:
            await ctx.apply(intent, dry_run=True)
        except FieldsHeld as held:
            return held.held.conflicts
        except ApiError:
            return ()
        return ()

    def _set_fight(self, message: str, ctx: Context[Any]) -> None:
        text = f"another manager edits fields of the tenant again and again; stop it. Last: {message}"
        ctx.status.set_condition(PoolsCondition.DRIFT_FIGHT, True, DriftReason.FIGHTING, text)

    def _copy_status(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Any]) -> None:
        metadata, draft, status = instance.metadata, ctx.status.draft, instance.status
        draft.instance_ref = InstanceRef(namespace=metadata.namespace, name=metadata.name)
        draft.applied_profile = nextcloud.status.applied_profile or nextcloud.spec.profile
        draft.assigned_at = nextcloud.status.assigned_at or rfc3339(ctx.now())
        draft.pool = metadata.label(PoolsLabel.POOL) or None
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
                ctx.status.set_condition(type_, state, copied.reason, copied.message)


def _how(nextcloud: Nextcloud) -> str:
    """Return the reason of InstanceAssigned=True: how the Nextcloud got its instance, whatever its spec says by now."""
    said = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
    return said.reason if said is not None and said.is_true else _REASONS[mode_of(nextcloud.spec)]


def _forget_steps(ctx: Context[Any], *, but: Container[str] = ()) -> None:
    """Set the conditions that were copied from an instance to Unknown: one that vanished would be taken for one that never was."""
    for type_ in _COPIED:
        if type_ not in but and ctx.status.find(type_) is not None:
            ctx.status.set_condition(type_, None, StepReason.NOT_REPORTED, "the instance does not report it")


def _waits_for(instance: Object) -> tuple[str, str]:
    """Return reason and message of Ready=False while an instance is being deleted: the step that it is at."""
    said = instance.find_condition(PoolsCondition.READY)
    if said is not None and said.is_false and instance.metadata.deleting:
        return said.reason, said.message
    return InstanceReason.RELEASING, f"NextcloudInstance {instance.metadata.path} is being deleted"


def _claimed_by(uid: str, found: Iterable[Object]) -> Object | None:
    """Return the instance with this claim; the oldest, should there be several."""
    mine = [one for one in found if one.get("spec", "claimRef", "uid", default="") == uid]
    return min(mine, key=lambda one: order_of(one.metadata), default=None)


def _matching(selector: str, found: Iterable[Metadata]) -> list[Metadata]:
    return [instance for instance in found if matches(selector, instance)]
