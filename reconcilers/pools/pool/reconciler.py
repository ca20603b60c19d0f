"""The reconciler of NextcloudPools: the async shell around `decide`.

Guarantees
- Before anything is created or deleted the members are listed from the API server, so a stale cache never makes a pool too large.
- A delete carries UID and resourceVersion of the instance as it was listed: a claim that was faster wins.
- Creations of the present window are in the status, so the limit of a window holds when the process restarts.
- A pool that is deleted takes its unassigned instances with it; assigned ones stay and keep working.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import from_rfc3339, rfc3339, rfc3339_micro
from konverge.crds.pools_v1alpha1 import NextcloudPool, ObservedProfile, RecentCreation
from konverge.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.kinds import INSTANCE, PROFILE
from konverge.reconcilers.pools.members import Member, member_of
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.names import instance_name
from konverge.reconcilers.pools.pool.decide import (
    EXCESS,
    FAILED,
    Doomed,
    PoolCounts,
    PoolLimits,
    PoolPlan,
    PoolState,
    counts_of,
    decide_pool,
)
from konverge.reconcilers.pools.pool.indexes import BY_POOL
from konverge.reconcilers.pools.pool.render import new_member, selector_of
from konverge.reconcilers.pools.profiles import profile_digest
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolReason, PoolsCondition, PoolsEvent, PoolsLabel

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudPoolReconciler"]

_SOON: Final = timedelta(seconds=1)
_TRIES: Final = 4
_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)


@dataclass(slots=True)
class _Memory:
    """The memory of this process about a pool: when instances were created, and how often it replaced failed ones."""

    created: dict[str, datetime] = field(default_factory=dict)
    rounds: int = 0
    replace_after: datetime | None = None

    def see(self, members: Iterable[Member], recorded: Mapping[str, datetime], since: datetime) -> None:
        """Remember the instances that were created since then, and forget the older ones."""
        self.created = {member.name: member.created for member in members} | dict(recorded) | self.created
        self.created = {name: moment for name, moment in self.created.items() if moment > since}


@dataclass(frozen=True, slots=True)
class _Profile:
    name: str
    defaults: dict[str, Any]
    digest: str | None


class NextcloudPoolReconciler:
    """Keeps the wanted number of unassigned instances."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._random = random
        self._memory: dict[str, _Memory] = {}
        self._limits = PoolLimits(
            settings.creates_per_window,
            timedelta(seconds=settings.window),
            timedelta(seconds=settings.progress_deadline),
        )

    async def reconcile(self, pool: NextcloudPool, ctx: Context[Any]) -> Outcome:
        """Create, replace or delete unassigned instances, and report their numbers."""
        memory = self._memory.setdefault(pool.uid, _Memory())
        profile = _profile(pool, ctx)
        members = _members(ctx.cache(INSTANCE).by_index(BY_POOL, pool.name), ctx.now())
        state = self._state(pool, profile, members, memory, ctx.now())
        plan = decide_pool(state, ctx.now(), self._limits)
        refused, changed = "", False
        if plan.create or plan.delete:
            listed = await ctx.live(INSTANCE).list(labels=f"{PoolsLabel.POOL}={pool.name}")
            state = self._state(pool, profile, _members(listed, ctx.now()), memory, ctx.now())
            plan = decide_pool(state, ctx.now(), self._limits)
            changed = await self._delete(plan.delete, memory, ctx)
            refused = await self._create(pool, profile, plan.create, memory, ctx)
            if plan.create and not refused:
                ctx.event(PoolsEvent.INSTANCE_CREATED, f"created {plan.create} instances; {state.replicas} are wanted")
        if plan.counts.ready and not plan.counts.failed:
            memory.rounds, memory.replace_after = 0, None
        self._report(pool, state, plan, profile, refused, ctx)
        _record(pool, memory, self._limits.window, ctx)
        if refused:
            return RequeueAfter(timedelta(seconds=self._settings.retry))
        if changed:
            return RequeueAfter(_SOON)
        return Done() if plan.again is None else RequeueAfter(plan.again)

    async def finalize(self, pool: NextcloudPool, ctx: Context[Any]) -> Outcome:
        """Delete the unassigned instances; Done when none is left."""
        listed = await ctx.live(INSTANCE).list(labels=f"{PoolsLabel.POOL}={pool.name}")
        members = _members(listed, ctx.now())
        free = [member for member in members if not member.taken]
        doomed = tuple(Doomed(member, EXCESS) for member in free if not member.deleting)
        await self._delete(doomed, _Memory(), ctx)
        if free:
            counts = counts_of(members, ctx.now(), self._limits)
            _write_counts(pool, counts, ctx)
            message = f"waiting for {len(free)} unassigned instances to be deleted"
            ctx.status.set_condition(PoolsCondition.READY, False, PoolReason.DELETING, message)
            return RequeueAfter(timedelta(seconds=self._settings.retry))
        self._memory.pop(pool.uid, None)
        self._metrics.forget_pool(pool.name)
        return Done()

    def _state(
        self, pool: NextcloudPool, profile: _Profile, members: tuple[Member, ...], memory: _Memory, now: datetime
    ) -> PoolState:
        observed, lifecycle = pool.status.observed_profile, pool.spec.lifecycle
        recorded = _recorded(pool)
        memory.see(members, _until(now + self._limits.window, recorded), now - self._limits.window)
        return PoolState(
            replicas=pool.spec.replicas,
            members=members,
            digest=profile.digest,
            observed_digest=None if observed is None else observed.digest,
            recreate=lifecycle.recreate_on_profile_change,
            max_age=lifecycle.max_unassigned_age,
            recent=tuple(memory.created.items()),
            recorded=frozenset(recorded),
            replace_after=memory.replace_after,
            refusal=self._settings.instance_namespaces.refusal(self._namespace_of(pool)),
        )

    def _namespace_of(self, pool: NextcloudPool) -> str:
        """Return the namespace of new instances."""
        return pool.spec.instance_namespace or self._settings.instance_namespace

    async def _delete(self, doomed: Iterable[Doomed], memory: _Memory, ctx: Context[Any]) -> bool:
        """Delete exactly these instances; returns whether one of them had changed."""
        changed = failed = False
        for one in doomed:
            member = one.member
            failed |= one.why == FAILED
            try:
                gone = await ctx.delete(
                    INSTANCE, member.name, member.namespace, uid=member.uid, resource_version=member.version
                )
            except Conflict:
                changed = True  # it was claimed, or its status changed: decide anew
                continue
            if gone and one.why != EXCESS:
                ctx.event(PoolsEvent.INSTANCE_REPLACED, f"{member.name} is replaced: {one.why}")
        if failed:
            pause = min(self._settings.replace_backoff * 2**memory.rounds, self._settings.replace_backoff_limit)
            memory.rounds = min(memory.rounds + 1, 20)
            memory.replace_after = ctx.now() + timedelta(seconds=pause)
        return changed

    async def _create(
        self, pool: NextcloudPool, profile: _Profile, number: int, memory: _Memory, ctx: Context[Any]
    ) -> str:
        """Create so many instances; returns the refusal of the API server, "" without one."""
        for _ in range(number):
            refused = await self._create_one(pool, profile, memory, ctx)
            if refused:
                self._metrics.refused.labels(pool.name).inc()
                return refused
            self._metrics.creates.labels(pool.name).inc()
        return ""

    async def _create_one(self, pool: NextcloudPool, profile: _Profile, memory: _Memory, ctx: Context[Any]) -> str:
        """Create an instance under a name that is free; returns the refusal of the API server, "" without one."""
        settings = self._settings
        for attempt in range(_TRIES):
            name = instance_name(self._random, settings.adjectives, settings.nouns)
            namespace = self._namespace_of(pool)
            memory.created[name] = ctx.now()  # before the request: one whose response is lost may have been carried out
            try:
                await ctx.client.create(
                    new_member(pool, name, namespace, profile.name, profile.defaults, profile.digest or "")
                )
            except _REFUSALS as error:
                del memory.created[name]
                return error.message.replace(
                    name, "a new instance"
                )  # the same text for each name: no write of the status
            except AlreadyExists:
                del memory.created[name]
                if attempt == _TRIES - 1:
                    raise
            else:
                return ""
        return ""

    def _report(
        self,
        pool: NextcloudPool,
        state: PoolState,
        plan: PoolPlan,
        profile: _Profile,
        refused: str,
        ctx: Context[Any],
    ) -> None:
        _write_counts(pool, plan.counts, ctx)
        self._metrics.set_pool(pool.name, pool.spec.replicas, plan.counts)
        draft = ctx.status.draft
        if plan.digest is not None and profile.name:
            observed = pool.status.observed_profile
            if observed is None or (observed.name, observed.digest) != (profile.name, plan.digest):
                draft.observed_profile = ObservedProfile(
                    name=profile.name, digest=plan.digest, observed_at=rfc3339(ctx.now())
                )
        elif plan.digest == "":
            draft.observed_profile = None
        for condition in conditions_of(state, plan, profile.name, refused):
            ctx.status.set_condition(*condition)


def conditions_of(
    state: PoolState, plan: PoolPlan, profile: str, refused: str
) -> tuple[tuple[str, bool, str, str], ...]:
    """Return the conditions of a pool: type, status, reason, message."""
    counts, wanted = plan.counts, state.replicas
    shown = (
        f"{counts.ready} of {wanted} instances are ready, {counts.provisioning} are being made, {counts.failed} failed"
    )
    if counts.ready >= wanted:
        ready = (True, PoolReason.FULL)
    else:
        ready = (False, PoolReason.FILLING if counts.ready else PoolReason.EMPTY)
    if state.digest is None:
        resolved = (False, PoolReason.PROFILE_NOT_FOUND, f"create the NextcloudProfile {profile}, or name another one")
    elif profile:
        resolved = (True, PoolReason.RESOLVED, f"the profile is {profile}")
    else:
        resolved = (True, PoolReason.NO_PROFILE, "the pool names no profile")
    if state.refusal:
        progress = (False, PoolReason.NAMESPACE_NOT_LISTED, state.refusal)
    elif refused:
        progress = (False, PoolReason.CREATE_FAILED, f"the API server refuses new instances: {refused}")
    elif plan.create:
        progress = (True, PoolReason.CREATING, "instances are created")
    elif any(one.why != EXCESS for one in plan.delete) or (state.recreate and plan.stale):
        progress = (True, PoolReason.ROLLING, "instances are replaced")
    elif plan.delete:
        progress = (True, PoolReason.TRIMMING, "instances are deleted")
    elif counts.ready < wanted and state.digest is not None:
        progress = (True, PoolReason.WAITING, "instances are being made")
    else:
        progress = (False, PoolReason.SETTLED, "")
    return (
        (PoolsCondition.READY, *ready, shown),
        (PoolsCondition.PROFILE_RESOLVED, *resolved),
        (PoolsCondition.PROGRESSING, *progress),
    )


def _recorded(pool: NextcloudPool) -> dict[str, datetime]:
    """Return the creations that the status has."""
    found: dict[str, datetime] = {}
    for one in pool.status.recent_creations or ():
        with suppress(ValueError):
            found[one.name] = from_rfc3339(one.created_at)
    return found


def _until(latest: datetime, recorded: Mapping[str, datetime]) -> dict[str, datetime]:
    """Return creations without later ones: another writer put those into the status, and they would stop the pool."""
    return {name: moment for name, moment in recorded.items() if moment <= latest}


def _record(pool: NextcloudPool, memory: _Memory, window: timedelta, ctx: Context[Any]) -> None:
    """Write the creations of the window, if there are new ones: those that leave it alone cause no write."""
    known = _until(ctx.now() + window, _recorded(pool))
    if memory.created.keys() - known.keys():
        ctx.status.draft.recent_creations = tuple(
            RecentCreation(name=name, created_at=rfc3339_micro(moment))
            for name, moment in sorted(memory.created.items())
        )


def _write_counts(pool: NextcloudPool, counts: PoolCounts, ctx: Context[Any]) -> None:
    draft = ctx.status.draft
    draft.ready, draft.assigned, draft.unassigned = counts.ready, counts.assigned, counts.unassigned
    draft.provisioning, draft.failed, draft.replicas = counts.provisioning, counts.failed, counts.unassigned
    draft.selector = selector_of(pool.name)


def _members(found: Iterable[Object], now: datetime) -> tuple[Member, ...]:
    return tuple(member_of(instance, now) for instance in found)


def _profile(pool: NextcloudPool, ctx: Context[Any]) -> _Profile:
    if pool.spec.profile_ref is None:
        return _Profile("", {}, "")
    name = pool.spec.profile_ref.name
    stored = ctx.cache(PROFILE).find("", name)
    if stored is None or stored.metadata.deleting:
        return _Profile(name, {}, None)
    defaults = stored.get("spec", "defaults", default={}) or {}
    return _Profile(name, defaults, profile_digest(name, defaults))
