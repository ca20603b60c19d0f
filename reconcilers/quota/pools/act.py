"""The writes of ResourceQuotas. A plan does not hold them, because the response to each decides which claims stay allocated.

Guarantees: a rejected write affects its own namespace only, and the number of concurrent writes is bounded. A ResourceQuota is raised only
if the stored pool has the version that was read, and each apply names the version of the ResourceQuota: two processes that both act as
leader never grant more than the pool has. If the API server rejects a ResourceQuota, the claims that caused it are found by adding them one
by one and lose their allocation; other claims of that namespace keep theirs (X28). A ResourceQuota that changed since it was read is left
to the next reconcile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.errors import Conflict, KonvergeError
from konverge.objects import Object
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.parse import quota_view
from konverge.reconcilers.quota.pools.allocate import PoolAllocation, allocate, allocation_steps
from konverge.reconcilers.quota.pools.concurrency import for_each, in_slices
from konverge.reconcilers.quota.pools.decide import (
    PoolWrites,
    bound_claims_in,
    never_granted,
    plan_writes,
    planning_steps,
    suspects,
    target_quota,
    without,
)
from konverge.reconcilers.quota.pools.ledger import PoolLedger
from konverge.reconcilers.quota.pools.observe import PoolObservation, has_lost_its_owner
from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes, is_refusal, server_message
from konverge.reconcilers.quota.pools.render import resource_quota
from konverge.reconcilers.quota.views import QuotaView
from konverge.reconcilers.quota.words import quota_name

if TYPE_CHECKING:
    from konverge.runtime import Context, Delete

__all__ = ["PoolChanged", "QuotaWriter", "delete_all"]

_ROUNDS = 3
_TRIES = 5
"""Applies of one ResourceQuota while pods start and end: each changes its version."""
_NEVER_A_VERSION = "1"
"""The version of no object: a missing ResourceQuota is created, and a ResourceQuota that exists now is not changed."""


class PoolChanged(Exception):
    """The stored pool has another version than the pool that was read: another process may have granted the same amounts."""


async def delete_all(deletes: Iterable[Delete], ctx: Context[ResourcePool], parallel: int) -> None:
    """Delete objects by uid; an object that was recreated under the same name survives."""

    async def delete(item: Delete) -> None:
        try:
            await ctx.delete(item.kind, item.name, item.namespace, uid=item.uid)
        except Conflict:
            ctx.log.debug("an object was recreated and stays", namespace=item.namespace, name=item.name)

    await for_each(deletes, delete, parallel)


class QuotaWriter:
    """Applies the ResourceQuotas of one reconcile of one pool."""

    def __init__(
        self, pool: ResourcePool, ctx: Context[ResourcePool], outcomes: WriteOutcomes, parallel: int, ledger: PoolLedger
    ) -> None:
        self._pool = pool
        self._ctx = ctx
        self._outcomes = outcomes
        self._parallel = parallel
        self._ledger = ledger
        self._applied: set[str] = set()

    async def apply_quotas(self, observed: PoolObservation) -> tuple[PoolObservation, PoolAllocation]:
        """Apply and delete ResourceQuotas; returns the observation and allocation that result, without the rejected claims.

        Errors: PoolChanged if a ResourceQuota is to be raised and the stored pool has another version than the pool that was read.
        """
        for _ in range(_ROUNDS):
            allocation = await in_slices(allocation_steps(observed, self._ledger))
            writes = await in_slices(planning_steps(observed, allocation, self._ledger))
            if writes.raises and not await self._pool_is_current():
                raise PoolChanged
            written, failed = await self._apply(observed, allocation, writes)
            observed = replace(observed, quotas={**observed.quotas, **written})
            news: dict[str, str] = {}
            impossible: dict[str, frozenset[str]] = {}
            for namespace in sorted(failed):
                observed, culprits = await self._find_refused_claims(observed, allocation, namespace, failed[namespace])
                news.update(culprits)
                if not culprits and is_refusal(failed[namespace]):
                    impossible |= never_granted(observed, allocation, namespace)
            await for_each(writes.deletes, self._delete_quota, self._parallel)
            unconfirmed = (allocation.ending & (allocation.reserving | failed.keys())) - observed.unconfirmed
            if not news and not unconfirmed and not impossible:
                return observed, allocation
            observed = replace(
                observed,
                refused={**observed.refused, **news},
                unconfirmed=observed.unconfirmed | unconfirmed,
                impossible={**observed.impossible, **impossible},
            )
        self._outcomes.again = True
        return observed, allocate(observed, self._ledger)

    async def _pool_is_current(self) -> bool:
        """Whether the server still has the version of the pool that this reconcile read."""
        stored = await self._ctx.client.get_metadata(ResourcePool, self._pool.name)
        return stored.resource_version == self._pool.metadata.resource_version

    async def _apply(
        self, observed: PoolObservation, allocation: PoolAllocation, writes: PoolWrites
    ) -> tuple[dict[str, QuotaView], dict[str, KonvergeError]]:
        written: dict[str, QuotaView] = {}
        failed: dict[str, KonvergeError] = {}

        async def write(namespace: str) -> None:
            if namespace in self._applied:  # applied once in a reconcile; the next reconcile applies the rest
                self._outcomes.again = True
                self._outcomes.unsure |= bound_claims_in(namespace, observed, allocation)
                return
            target = target_quota(observed, allocation, namespace, writes.applies[namespace])
            before = observed.quotas.get(namespace)
            raises = namespace in writes.raises
            try:
                version = await self._apply_quota(observed, namespace, target, before, raises=raises)
            except KonvergeError as error:
                failed[namespace] = error
                return
            self._applied.add(namespace)
            present = QuotaView() if before is None else before
            # A release that ended stays ended if the allocation is computed again.
            releasing = present.releasing if namespace in allocation.ending else target.releasing
            written[namespace] = replace(
                target, status_hard=present.status_hard, used=present.used, releasing=releasing, version=version
            )

        await for_each(writes.applies, write, self._parallel)
        return written, failed

    async def _apply_quota(
        self,
        observed: PoolObservation,
        namespace: str,
        target: QuotaView,
        before: QuotaView | None,
        *,
        raises: bool,
    ) -> str:
        """Apply the ResourceQuota of a namespace, if it is unchanged except for use and status; returns its new version."""
        present = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota_name(self._pool.name))
        adopt = present is not None and has_lost_its_owner(present, self._pool.name)
        left = _TRIES
        while True:
            quota = resource_quota(
                self._pool,
                observed.pool,
                namespace,
                target.hard,
                target.claims,
                target.releasing,
                version=_NEVER_A_VERSION if before is None else before.version,
            )
            stored: Object
            try:
                stored = await self._ctx.own(quota, adopt=adopt)
            except Conflict:  # tried again at once: a claim that fails here loses its place to the claim behind it
                left -= 1
                before = await self._read_again(namespace, before)
                if not left or before is None or (raises and not await self._pool_is_current()):
                    raise
            else:
                break
        # Keys of another field manager (kubectl, Capsule) survive an apply, and would limit resources that no claim requests.
        foreign = sorted((stored.get("spec", "hard", default={}) or {}).keys() - target.hard.keys())
        if foreign:
            patch = {"metadata": {"uid": stored.metadata.uid}, "spec": {"hard": dict.fromkeys(foreign)}}
            stored = await self._ctx.patch(RESOURCE_QUOTA, stored.name, namespace, patch=patch)
        return stored.metadata.resource_version

    async def _read_again(self, namespace: str, before: QuotaView | None) -> QuotaView | None:
        """Return the stored ResourceQuota; None if more than its use and status differ from the ResourceQuota that was read."""
        if before is None:
            return None
        stored = await self._ctx.live(RESOURCE_QUOTA).find(namespace, quota_name(self._pool.name))
        if stored is None:
            return None
        view = quota_view(stored, self._pool)
        return view if view.is_like(before) else None

    async def _find_refused_claims(
        self, observed: PoolObservation, allocation: PoolAllocation, namespace: str, error: KonvergeError
    ) -> tuple[PoolObservation, dict[str, str]]:
        """Find the claims that invalidate the ResourceQuota of a namespace; returns the reasons by uid."""
        outcomes = self._outcomes
        outcomes.record(namespace, error)
        new = suspects(observed, allocation, namespace)
        left = dict.fromkeys(new, server_message(error))
        if not is_refusal(error):
            outcomes.unsure.update(new)
            return observed, {}
        if len(new) < 2:
            outcomes.culprits[namespace] = left
            return observed, left
        culprits = outcomes.culprits[namespace] = {}
        for uid in new:
            trial = without(observed, {other: why for other, why in left.items() if other != uid})
            allocated = allocate(trial)
            hard = allocated.quotas.get(namespace)
            applies = {} if hard is None else {namespace: hard}
            written, failed = await self._apply(
                trial, allocated, replace(plan_writes(trial, allocated), applies=applies)
            )
            if not failed:
                del left[uid]  # the other claims follow in the next reconcile
                outcomes.unsure.update(left.keys() - culprits.keys())
                outcomes.again = True
                return replace(observed, quotas={**observed.quotas, **written}), left
            if not is_refusal(failed[namespace]):
                outcomes.record(namespace, failed[namespace])
                outcomes.unsure.update(left.keys() - culprits.keys())
                break
            left[uid] = culprits[uid] = server_message(failed[namespace])
        return observed, left

    async def _delete_quota(self, namespace: str) -> None:
        name = quota_name(self._pool.name)
        metadata = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, name)
        if metadata is None or metadata.deleting:
            return
        try:
            await self._ctx.delete(RESOURCE_QUOTA, name, namespace, uid=metadata.uid)
        except Conflict:
            self._outcomes.again = True  # it was recreated under the same name
        except KonvergeError as error:
            self._outcomes.record(namespace, error)
