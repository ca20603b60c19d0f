"""The reconciler of Nextclouds: observe, decide, then lock or create an instance, or write the tenant's fields to it, and report.

`reconcile`: find the own instance by the status; without an own instance choose one, record it in the status, and in the next reconcile
lock (`lock.py`) or create it (`create.py`). Then write the tenant's fields (`act.py`), and copy the status of the instance (`status.py`).
`finalize`: release or delete the instance.

The two acting halves of an acquisition have their own files, since only one of them is the lock.

Guarantees
- The instance of a Nextcloud is the instance that its status names, which tenants do not write. A claim in an instance proves nothing.
- Every step is repeated from stored state, so a crash neither loses an instance nor takes a second instance.
- An instance of a pool is taken only from a pool that serves the namespace, and an instance of another namespace only if it allows it.
- A missing instance is reported and not replaced by another instance.
- No owner reference is written: an owner in another namespace counts as absent, and the garbage collector would delete the instance
  (docs/reference/pools.md#owner-references).
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from konverge.crds.pools_v1alpha1 import Nextcloud, NominatedInstance
from konverge.errors import BadRequest, Forbidden, Invalid, NotFound, RetryAfter
from konverge.objects import Object
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.claims.act import FollowedInstance, InstanceWriter
from konverge.reconcilers.pools.claims.create import Created, NewInstances
from konverge.reconcilers.pools.claims.decide import (
    BlockedClaim,
    Choice,
    ClaimMode,
    blocked_by_shortage,
    choose_from_stock,
    choose_named,
    mode_of,
    profile_not_found,
)
from konverge.reconcilers.pools.claims.lock import confirm_record, take_instance
from konverge.reconcilers.pools.claims.observe import (
    bound_instance,
    defaults_of_profile,
    instance_to_release,
    is_own,
    named_instance,
    recorded_instance,
    shortage_of,
    stock_of,
)
from konverge.reconcilers.pools.claims.status import (
    plan_assigned,
    plan_blocked,
    plan_lost,
    plan_recorded,
    plan_releasing,
)
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.release import is_retained, release_step
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.tenant_fields import FieldsRefused
from konverge.reconcilers.pools.words import InstanceReason, PoolsEvent
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NextcloudReconciler"]

_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)

Acquisition: TypeAlias = Object | Created | Choice
"""The instance that the Nextcloud has now, the instance to record before it is taken, or why there is none."""


class NextcloudReconciler:
    """Gives each Nextcloud one instance, and keeps it as the tenant wants it."""

    def __init__(self, settings: PoolSettings, metrics: PoolMetrics, random: Random) -> None:
        self._settings = settings
        self._metrics = metrics
        self._retry = timedelta(seconds=settings.retry)
        self._new = NewInstances(settings, metrics, random)
        self._writer = InstanceWriter(settings, metrics)

    async def reconcile(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Outcome:
        """Take an instance if the Nextcloud has none, write the tenant's fields, copy the status."""
        ref = nextcloud.status.instance_ref
        if ref is not None:
            instance = await bound_instance(nextcloud, ref, self._settings.instance_namespace, ctx)
            if instance is None:
                return await ctx.execute(plan_lost(nextcloud, ref, self._retry))
            return await self._follow(nextcloud, instance, ctx)
        step = await self._acquire(nextcloud, ctx)
        if isinstance(step, BlockedClaim):
            return await ctx.execute(plan_blocked(nextcloud, step, self._retry))
        if isinstance(step, NominatedInstance):
            return await ctx.execute(plan_recorded(step))
        self._new.forget(nextcloud.uid)
        if isinstance(step, Created):  # the creation wrote the tenant's fields
            return await ctx.execute(plan_assigned(nextcloud, FollowedInstance(step.instance), ctx.now()))
        return await self._follow(nextcloud, step, ctx)

    async def finalize(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Outcome:
        """Delete or release the instance; Done once it does not exist any more, or is released for good."""
        instance = await instance_to_release(nextcloud, self._settings.instance_namespace, ctx)
        if instance is not None and await release_step(instance, nextcloud.uid, ctx):
            return await ctx.execute(plan_releasing(instance, self._retry))
        if instance is not None and is_retained(instance):
            message = f"NextcloudInstance {instance.metadata.path} is kept: reclaimPolicy is Retain"
            ctx.event(PoolsEvent.INSTANCE_RELEASED, message)
        self._writer.forget(nextcloud.uid)
        self._new.forget(nextcloud.uid)
        return Done()

    async def _follow(self, nextcloud: Nextcloud, instance: Object, ctx: Context[Nextcloud]) -> Outcome:
        followed = await self._writer.follow(nextcloud, instance, ctx)
        return await ctx.execute(plan_assigned(nextcloud, followed, ctx.now()))

    async def _acquire(self, nextcloud: Nextcloud, ctx: Context[Nextcloud]) -> Acquisition:
        """Return the recorded instance if it has the claim already; else choose, and take the chosen instance if it is recorded."""
        nominated = nextcloud.status.nominated_instance
        if nominated is not None:
            cached = ctx.cache(INSTANCE).find(nominated.namespace, nominated.name)
            if cached is not None and is_own(cached, nextcloud, nominated):
                return cached
        try:
            defaults = defaults_of_profile(nextcloud, ctx)
            if defaults is None:
                choice: Choice = profile_not_found(nextcloud.spec.profile)
            else:
                choice = await self._choose(nextcloud, nominated, ctx)
            if nominated is None:
                return choice
            if choice != nominated:
                own = await recorded_instance(nextcloud, nominated, ctx)
                return choice if own is None else own
            # Before the next await: the lock names the version for which this choice was made.
            chosen = ctx.cache(INSTANCE).find(nominated.namespace, nominated.name)
            await confirm_record(nextcloud, nominated, ctx)
            if nominated.uid is None:
                return await self._create(nextcloud, nominated, defaults or {}, ctx)
            return await self._take(nextcloud, nominated, chosen, ctx)
        except _REFUSALS as error:
            return BlockedClaim(InstanceReason.INVALID, f"the API server refuses the instance: {error.message}")
        except FieldsRefused as problem:
            return BlockedClaim(InstanceReason.FIELDS_REFUSED, str(problem))

    async def _choose(
        self, nextcloud: Nextcloud, nominated: NominatedInstance | None, ctx: Context[Nextcloud]
    ) -> Choice:
        match mode_of(nextcloud.spec):
            case ClaimMode.REFERENCE:
                named = await named_instance(nextcloud, self._settings.instance_namespace, ctx)
                return choose_named(nextcloud, named, nominated)
            case ClaimMode.POOL:
                return self._choose_from_pools(nextcloud, nominated, ctx)
            case _:
                return self._new.choose(nextcloud, nominated, ctx)

    def _choose_from_pools(
        self, nextcloud: Nextcloud, nominated: NominatedInstance | None, ctx: Context[Nextcloud], *, exclude: str = ""
    ) -> Choice:
        stock = stock_of(nextcloud, self._settings.instance_namespace, ctx)
        chosen = choose_from_stock(nextcloud, stock, nominated, exclude=exclude)
        if chosen is not None:
            return chosen
        return blocked_by_shortage(shortage_of(nextcloud, stock, ctx), nextcloud.namespace)

    async def _create(
        self, nextcloud: Nextcloud, nominated: NominatedInstance, defaults: dict[str, Any], ctx: Context[Nextcloud]
    ) -> Acquisition:
        """Create the recorded instance; if its name is taken, return the next instance to record."""
        created = await self._new.create(nextcloud, nominated, defaults, ctx)
        return self._new.choose(nextcloud, None, ctx, exclude=nominated.name) if created is None else created

    async def _take(
        self, nextcloud: Nextcloud, nominated: NominatedInstance, chosen: Object | None, ctx: Context[Nextcloud]
    ) -> Acquisition:
        """Lock the recorded instance; if another writer was faster, return the next instance to record."""
        taken = await take_instance(nextcloud, nominated, chosen, self._settings, self._metrics, ctx)
        if taken is not None:
            return taken
        if mode_of(nextcloud.spec) is ClaimMode.POOL:
            choice = self._choose_from_pools(nextcloud, None, ctx, exclude=nominated.uid or "")
            if isinstance(choice, NominatedInstance):
                return choice
        path = f"{nominated.namespace}/{nominated.name}"
        raise RetryAfter(READ_AGAIN, f"NextcloudInstance {path} changed; reading it again")
