"""The reconciler of NextcloudPools: the async shell around `decide` and `record`.

Guarantees
- A member is an instance whose UID is in the status of the pool. Labels prove nothing.
- An instance is created only after the status has its name and the digest of its nonce. So the next process knows it after a crash, and a
  process with an old view of the pool creates nothing: its write of the status is refused.
- Before anything is created or deleted the members are listed from the API server, so a stale cache never lets a pool grow too large.
- A delete carries UID and resourceVersion of the instance as it was listed: a claim that was faster wins.
- Creations of the present window are in the status, so the limit of a window holds when the process restarts.
- A deleted pool also deletes its unassigned instances; assigned instances stay and keep working.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import from_rfc3339, rfc3339, rfc3339_micro
from konverge.crds.pools_v1alpha1 import NextcloudPool, ObservedProfile, RecentCreation
from konverge.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound, ObjectChanged
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, PROFILE
from konverge.reconcilers.pools.members import Member, is_claimed, member_of
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.names import instance_name
from konverge.reconcilers.pools.nonces import digest_of, new_nonce
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
from konverge.reconcilers.pools.pool.record import Census, MemberRecord, corrected_marks, take_census
from konverge.reconcilers.pools.pool.render import new_member, selector_of
from konverge.reconcilers.pools.profiles import profile_digest
from konverge.reconcilers.pools.records import BY_UID, SERVED, is_confirmed
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import (
    PoolReason,
    PoolsAnnotation,
    PoolsCondition,
    PoolsEvent,
    PoolsLabel,
    UnrecordedReason,
)
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudPoolReconciler"]

_MAX_WISH: Final = 256
"""The longest value of the annotation adopt-members that is compared."""
_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)


@dataclass(frozen=True, slots=True)
class _Nomination:
    """A name that was chosen for a new instance."""

    nonce: str
    chosen: datetime


@dataclass(slots=True)
class _Memory:
    """The memory of this process about a pool: when instances were created, and how often it replaced failed instances."""

    created: dict[str, datetime] = field(default_factory=dict)
    nominations: dict[str, _Nomination] = field(default_factory=dict)
    """The names of instances that this process is still to create."""
    rounds: int = 0
    replace_after: datetime | None = None

    def see(
        self,
        members: Iterable[Member],
        recorded: Mapping[str, datetime],
        digests: Mapping[str, str],
        since: datetime,
    ) -> None:
        """Remember the instances that were created since then, and forget the older instances and the unused names."""
        for member in members:
            self.nominations.pop(member.name, None)
        self.nominations = {
            name: one for name, one in self.nominations.items() if digests.get(name) in (None, digest_of(one.nonce))
        }
        past = {name: moment for name, moment in recorded.items() if name not in self.nominations}
        self.created = {member.name: member.created for member in members} | past | self.created
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

    async def reconcile(self, pool: NextcloudPool, ctx: Context[NextcloudPool]) -> Outcome:
        """Create, replace or delete unassigned instances, and report their numbers."""
        memory = self._memory.setdefault(pool.uid, _Memory())
        profile, record = _profile(pool, ctx), self._record(pool)
        census, changed = await self._corrected(pool, self._cached(pool, record, ctx), ctx)
        state = self._state(pool, profile, census, memory, ctx)
        plan = decide_pool(state, ctx.now(), self._limits)
        refused, created, chosen = "", tuple[str, ...](), False
        if plan.create or plan.delete or record.adopts or census.unseen:
            census, corrected = await self._corrected(pool, await self._listed(pool, record, ctx), ctx)
            state = self._state(pool, profile, census, memory, ctx)
            plan = decide_pool(state, ctx.now(), self._limits)
            changed |= corrected or await self._delete(plan.delete, memory, ctx)
            created, refused = await self._create(pool, profile, plan.create, memory, ctx)
            chosen = not refused and self._nominate(plan.create - len(created), pool, memory, ctx.now())
            if created:
                ctx.event(PoolsEvent.INSTANCE_CREATED, f"created {len(created)} instances; {state.replicas} are wanted")
        if plan.counts.ready and not plan.counts.failed:
            memory.rounds, memory.replace_after = 0, None
        self._report(pool, state, plan, profile, refused, ctx)
        _report_look_alikes(census.look_alikes, ctx)
        self._write_record(pool, census, record, created, memory, ctx)
        if refused:
            return RequeueAfter(timedelta(seconds=self._settings.retry))
        if chosen or plan.create > len(created):
            return RequeueAfter(NEXT_STEP)
        if changed:
            return RequeueAfter(READ_AGAIN)
        return Done() if plan.again is None else RequeueAfter(plan.again)

    async def finalize(self, pool: NextcloudPool, ctx: Context[NextcloudPool]) -> Outcome:
        """Delete the unassigned instances; Done when none is left."""
        stored = await ctx.live(NextcloudPool).find(
            "", pool.name
        )  # the cache may lack the last record of a former leader
        pool = stored if stored is not None and stored.uid == pool.uid else pool
        census, _ = await self._corrected(pool, await self._listed(pool, self._record(pool), ctx), ctx)
        members = _members(census.members, ctx.now())
        free = [member for member in members if not member.taken]
        doomed = tuple(Doomed(member, EXCESS) for member in free if not member.deleting)
        await self._delete(doomed, _Memory(), ctx)
        if free:
            counts = counts_of(members, ctx.now(), self._limits, self._assigned(pool, ctx))
            _write_counts(pool, counts, ctx)
            message = f"waiting for {len(free)} unassigned instances to be deleted"
            ctx.status.set_condition(PoolsCondition.READY, False, PoolReason.DELETING, message)
            return RequeueAfter(timedelta(seconds=self._settings.retry))
        self._memory.pop(pool.uid, None)
        self._metrics.forget_pool(pool.name)
        return Done()

    # --- the record ----------------------------------------------------------------------------------------------------------

    def _record(self, pool: NextcloudPool) -> MemberRecord:
        wish = pool.metadata.annotation(PoolsAnnotation.ADOPT_MEMBERS)[:_MAX_WISH]
        return MemberRecord(
            pool=pool.name,
            namespace=self._namespace_of(pool),
            uids=pool.status.members or (),
            digests={one.name: one.nonce_digest or "" for one in pool.status.recent_creations or ()},
            adopts=wish not in ("", pool.status.adopted),
        )

    def _cached(self, pool: NextcloudPool, record: MemberRecord, ctx: Context[NextcloudPool]) -> Census:
        """Return the members that the cache shows."""
        instances = ctx.cache(INSTANCE)
        found = [one for uid in record.uids for one in instances.by_index(BY_UID, uid)]
        found += instances.by_index(BY_POOL, f"{record.namespace}/{pool.name}")
        return take_census(replace(record, adopts=False), found, partial(_is_served, ctx=ctx), complete=False)

    async def _listed(self, pool: NextcloudPool, record: MemberRecord, ctx: Context[NextcloudPool]) -> Census:
        """Return the members from the API server, including members that lost the label of the pool or are in a former namespace."""
        listed = list(await ctx.live(INSTANCE).list(record.namespace, labels=f"{PoolsLabel.POOL}={pool.name}"))
        seen = {one.metadata.uid for one in listed}
        for uid in record.uids:
            if uid in seen:
                continue
            for cached in ctx.cache(INSTANCE).metadata_by_index(BY_UID, uid):
                stored = await ctx.live(INSTANCE).find(cached.namespace, cached.name)
                if stored is not None and stored.metadata.uid == uid:
                    listed.append(stored)
        return take_census(record, listed, partial(_is_served, ctx=ctx), complete=True)

    async def _corrected(self, pool: NextcloudPool, census: Census, ctx: Context[NextcloudPool]) -> tuple[Census, bool]:
        """Reset the labels and annotations of members; returns the members after that, and whether one of them had changed."""
        changed, members = False, list[Object]()
        for member in census.members:
            metadata = member.metadata
            marks = {} if is_claimed(member) or metadata.deleting else corrected_marks(metadata, pool.name)
            if not marks:
                members.append(member)
                continue
            try:
                members.append(await ctx.patch(INSTANCE, expect=member, patch={"metadata": marks}))
            except ObjectChanged:
                changed = True
                members.append(member)
                continue
            keys = sorted(key for part in marks.values() for key in part)
            message = (
                f"set back {', '.join(keys)} of {metadata.name}: only the operator writes them on a member of a pool"
            )
            if metadata.uid in (pool.status.members or ()):
                ctx.event_about(INSTANCE, metadata, PoolsEvent.MARKS_CORRECTED, message, type_=EventType.WARNING)
        return replace(census, members=tuple(members)), changed

    def _write_record(
        self,
        pool: NextcloudPool,
        census: Census,
        record: MemberRecord,
        created: tuple[str, ...],
        memory: _Memory,
        ctx: Context[NextcloudPool],
    ) -> None:
        """Write the members, and new creations of the window: creations that leave the window cause no write."""
        draft = ctx.status.draft
        draft.members = (*census.uids, *created)
        if record.adopts:
            draft.adopted = pool.metadata.annotation(PoolsAnnotation.ADOPT_MEMBERS)[:_MAX_WISH]
            message = f"recorded {len(census.uids)} instances as members, as the annotation {PoolsAnnotation.ADOPT_MEMBERS} asks"
            ctx.event(PoolsEvent.MEMBERS_ADOPTED, message)
        known = _until(ctx.now() + self._limits.window, _recorded(pool))
        if not created and not (memory.created.keys() | memory.nominations.keys()) - known.keys():
            return
        digests = dict(record.digests)
        digests |= {name: digest_of(one.nonce) for name, one in memory.nominations.items()}
        moments = memory.created | {name: one.chosen for name, one in memory.nominations.items()}
        draft.recent_creations = tuple(
            RecentCreation(name=name, created_at=rfc3339_micro(moment), nonce_digest=digests.get(name) or None)
            for name, moment in sorted(moments.items())
        )

    def _assigned(self, pool: NextcloudPool, ctx: Context[NextcloudPool]) -> int:
        return len(ctx.cache(NEXTCLOUD).metadata_by_index(SERVED, pool.name))

    # --- the plan ------------------------------------------------------------------------------------------------------------

    def _state(
        self, pool: NextcloudPool, profile: _Profile, census: Census, memory: _Memory, ctx: Context[NextcloudPool]
    ) -> PoolState:
        observed, lifecycle = pool.status.observed_profile, pool.spec.lifecycle
        now, recorded = ctx.now(), _recorded(pool)
        members = _members(census.members, now, self._namespace_of(pool))
        digests = self._record(pool).digests
        memory.see(members, _until(now + self._limits.window, recorded), digests, now - self._limits.window)
        return PoolState(
            replicas=pool.spec.replicas,
            members=members,
            assigned=self._assigned(pool, ctx),
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

    async def _delete(self, doomed: Iterable[Doomed], memory: _Memory, ctx: Context[NextcloudPool]) -> bool:
        """Delete exactly these instances; returns whether one of them had changed."""
        changed = failed = False
        for one in doomed:
            member = one.member
            failed |= one.why == FAILED
            try:
                gone = await ctx.delete(INSTANCE, expect=member.metadata)
            except ObjectChanged:
                changed = True  # a claim took it, or its status changed: decide again
                continue
            if gone and one.why != EXCESS:
                ctx.event(PoolsEvent.INSTANCE_REPLACED, f"{member.name} is replaced: {one.why}")
        if failed:
            pause = min(self._settings.replace_backoff * 2**memory.rounds, self._settings.replace_backoff_limit)
            memory.rounds = min(memory.rounds + 1, 20)
            memory.replace_after = ctx.now() + timedelta(seconds=pause)
        return changed

    def _nominate(self, number: int, pool: NextcloudPool, memory: _Memory, now: datetime) -> bool:
        """Choose names for so many instances; returns whether the status is to be written before they are created."""
        settings, recorded = self._settings, self._record(pool).digests
        waiting = [name for name in memory.nominations if name not in recorded]
        for _ in range(number - len(waiting)):
            name = instance_name(self._random, settings.adjectives, settings.nouns)
            memory.nominations[name] = _Nomination(new_nonce(self._random), now)
        return any(name not in recorded for name in memory.nominations)

    async def _create(
        self, pool: NextcloudPool, profile: _Profile, number: int, memory: _Memory, ctx: Context[NextcloudPool]
    ) -> tuple[tuple[str, ...], str]:
        """Create up to so many instances whose names the status has; returns their UIDs and the API server's refusal, "" without one."""
        recorded = self._record(pool).digests
        names = [name for name in memory.nominations if name in recorded]
        created: list[str] = []
        for name in names[:number]:
            uid, refused = await self._create_one(pool, profile, name, memory, ctx)
            if refused:
                self._metrics.refused.labels(pool.name).inc()
                return tuple(created), refused
            if uid:
                self._metrics.creates.labels(pool.name).inc()
                created.append(uid)
        return tuple(created), ""

    async def _create_one(
        self, pool: NextcloudPool, profile: _Profile, name: str, memory: _Memory, ctx: Context[NextcloudPool]
    ) -> tuple[str, str]:
        """Create an instance; returns its UID, "" if the name is taken, and the refusal of the API server, "" without one."""
        nonce = memory.nominations[name].nonce
        instance = new_member(
            pool, name, self._namespace_of(pool), profile.name, profile.defaults, profile.digest or "", nonce
        )
        memory.created[name] = ctx.now()  # before the request: if its response is lost, it may have been done
        try:
            stored = await ctx.client.create(instance)
        except _REFUSALS as error:
            del memory.created[name]
            # The same text for each name: no write of the status.
            return "", error.message.replace(name, "a new instance")
        except AlreadyExists:  # of another writer; our own instance is known by its nonce when the members are listed
            del memory.nominations[name]
            return "", ""
        del memory.nominations[name]
        return stored.metadata.uid, ""

    def _report(
        self,
        pool: NextcloudPool,
        state: PoolState,
        plan: PoolPlan,
        profile: _Profile,
        refused: str,
        ctx: Context[NextcloudPool],
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
    """Return creations without future creations: another writer put these into the status, and they would stop the pool."""
    return {name: moment for name, moment in recorded.items() if moment <= latest}


def _is_served(instance: Object, ctx: Context[NextcloudPool]) -> bool:
    """Whether the Nextcloud of the claim of an instance has it in its status, or has released it."""
    claim_uid = str(instance.get("spec", "claimRef", "uid", default=""))
    released = instance.metadata.annotation(PoolsAnnotation.RELEASED) == claim_uid
    return released or is_confirmed(instance.metadata, claim_uid, ctx.cache(NEXTCLOUD))


def _report_look_alikes(number: int, ctx: Context[NextcloudPool]) -> None:
    """Report instances with the label of the pool outside of its record: they are neither counted nor handed out nor deleted."""
    if not number:
        ctx.status.remove_condition(PoolsCondition.UNRECORDED)
        return
    message = (
        f"{number} instances have the label of the pool and are not in its record: they are neither counted nor handed out nor deleted; "
        f"delete them, or annotate the pool with {PoolsAnnotation.ADOPT_MEMBERS} to record them"
    )
    if ctx.status.find(PoolsCondition.UNRECORDED) is None:
        ctx.event(UnrecordedReason.LOOK_ALIKES, message, type_=EventType.WARNING)
    ctx.status.set_condition(PoolsCondition.UNRECORDED, True, UnrecordedReason.LOOK_ALIKES, message)


def _write_counts(pool: NextcloudPool, counts: PoolCounts, ctx: Context[NextcloudPool]) -> None:
    draft = ctx.status.draft
    draft.ready, draft.assigned, draft.unassigned = counts.ready, counts.assigned, counts.unassigned
    draft.provisioning, draft.failed, draft.replicas = counts.provisioning, counts.failed, counts.unassigned
    draft.selector = selector_of(pool.name)


def _members(found: Iterable[Object], now: datetime, namespace: str = "") -> tuple[Member, ...]:
    return tuple(member_of(instance, now, namespace) for instance in found)


def _profile(pool: NextcloudPool, ctx: Context[NextcloudPool]) -> _Profile:
    if pool.spec.profile_ref is None:
        return _Profile("", {}, "")
    name = pool.spec.profile_ref.name
    stored = ctx.cache(PROFILE).find("", name)
    if stored is None or stored.metadata.deleting:
        return _Profile(name, {}, None)
    defaults = stored.get("spec", "defaults", default={}) or {}
    return _Profile(name, defaults, profile_digest(name, defaults))
