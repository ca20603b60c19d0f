"""The reconciler of NextcloudPools: observe, decide, delete and create, report.

The plan lacks creations and guarded deletions, since the status records their results.

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

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.pool.act import create_instances, delete_instances, reset_marks
from konverge.reconcilers.pools.pool.decide import (
    EXCESS,
    FAILED,
    PoolLimits,
    PoolPlan,
    PoolState,
    Removal,
    counts_of,
    decide_pool,
)
from konverge.reconcilers.pools.pool.memory import PoolMemory
from konverge.reconcilers.pools.pool.observe import ObservedNextcloudPool, observe_cached, observe_listed, stored_pool
from konverge.reconcilers.pools.pool.status import MemberWrites, plan_deleting, plan_status
from konverge.reconcilers.pools.settings import PoolSettings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudPoolReconciler"]


class NextcloudPoolReconciler:
    """Keeps the wanted number of unassigned instances."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._random = random
        self._memory: dict[str, PoolMemory] = {}
        self._retry = timedelta(seconds=settings.retry)
        self._limits = PoolLimits(
            settings.creates_per_window,
            timedelta(seconds=settings.window),
            timedelta(seconds=settings.progress_deadline),
        )

    async def reconcile(self, pool: NextcloudPool, ctx: Context[NextcloudPool]) -> Outcome:
        """Create, replace or delete unassigned instances, and report their numbers."""
        memory = self._memory.setdefault(pool.uid, PoolMemory())
        observed, changed = await reset_marks(observe_cached(pool, self._settings, memory.views, ctx), ctx)
        state = self._state(observed, memory, ctx.now())
        plan = decide_pool(state, ctx.now(), self._limits)
        writes = MemberWrites()
        if plan.create or plan.delete or observed.record.adopts or observed.census.unseen:
            observed, faster = await reset_marks(await observe_listed(observed, memory.views, ctx), ctx)
            state = self._state(observed, memory, ctx.now())
            plan = decide_pool(state, ctx.now(), self._limits)
            changed |= faster or await self._delete(plan, memory, ctx)
            writes = await self._create(observed, plan, memory, ctx)
        if plan.counts.ready and not plan.counts.failed:
            memory.end_pause()
        self._metrics.set_pool(pool.name, pool.spec.replicas, plan.counts)
        if writes.created or memory.has_news(observed.creations(ctx.now() + self._limits.window)):
            writes = replace(writes, recent=memory.creations(observed.record.digests))
        writes = replace(writes, changed=changed)
        return await ctx.execute(plan_status(observed, state, plan, writes, ctx.now(), self._retry))

    async def finalize(self, pool: NextcloudPool, ctx: Context[NextcloudPool]) -> Outcome:
        """Delete the unassigned instances; Done when none is left."""
        views = self._memory.setdefault(pool.uid, PoolMemory()).views
        cached = observe_cached(await stored_pool(pool, ctx), self._settings, views, ctx)
        observed, _ = await reset_marks(await observe_listed(cached, views, ctx), ctx)
        members = observed.census.members
        free = [member for member in members if not member.taken]
        await delete_instances([Removal(member, EXCESS) for member in free if not member.deleting], ctx)
        if free:
            counts = counts_of(members, ctx.now(), self._limits, observed.assigned)
            return await ctx.execute(plan_deleting(observed.pool, counts, len(free), self._retry))
        self._memory.pop(pool.uid, None)
        self._metrics.forget_pool(pool.name)
        return Done()

    def _state(self, observed: ObservedNextcloudPool, memory: PoolMemory, now: datetime) -> PoolState:
        """Return the state of a pool after its memory has seen the members and the creations in the status."""
        window = self._limits.window
        memory.see(observed.census.members, observed.creations(now + window), observed.record.digests, now - window)
        return observed.state(memory)

    async def _delete(self, plan: PoolPlan, memory: PoolMemory, ctx: Context[NextcloudPool]) -> bool:
        """Delete the instances of a plan; returns whether an instance had changed."""
        changed = await delete_instances(plan.delete, ctx)
        if any(removal.why == FAILED for removal in plan.delete):
            memory.pause_replacements(self._settings, ctx.now())
        return changed

    async def _create(
        self, observed: ObservedNextcloudPool, plan: PoolPlan, memory: PoolMemory, ctx: Context[NextcloudPool]
    ) -> MemberWrites:
        """Create the recorded instances, and choose names for the instances that the next reconcile creates."""
        creations = await create_instances(observed, plan.create, memory, self._metrics, ctx)
        if creations.refused:
            return MemberWrites(creations.uids, creations.refused)
        left = plan.create - len(creations.uids)
        chosen = memory.nominate(left, observed.record.digests, self._settings, self._random, ctx.now())
        return MemberWrites(creations.uids, chosen=chosen)
