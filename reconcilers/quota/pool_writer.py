"""The writes of a pool's reconcile, concurrent and isolated: a rejected write affects its own namespace or claim only.

Guarantees: the number of concurrent writes is bounded. A ResourceQuota is raised only if the stored pool has the version that was read, and
each apply names the version of the ResourceQuota: two processes that both act as leader never grant more than the pool has. If the
API server rejects a ResourceQuota, the claims that caused it are found by adding them one by one and lose their allocation; other claims of
that namespace keep theirs (X28). Transient errors are not rejections: one of them is raised at the end, so that the reconcile is retried. A
claim or ResourceQuota that changed since it was read is left to the next reconcile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from konverge.client import missing_rule, namespace_is_ending
from konverge.crds.quota_v1beta2 import GROUP, ResourcePool, ResourcePoolClaim
from konverge.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Contested,
    Forbidden,
    Invalid,
    KonvergeError,
    NotFound,
    NotOurs,
    ObjectChanged,
)
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota.allocate import PoolAllocation, allocate
from konverge.reconcilers.quota.claim_decision import ClaimDecision
from konverge.reconcilers.quota.decide import PoolWrites, defaults_of, place_after, plan_writes
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.observation import ClaimView, PoolObservation, QuotaView, claim_hashes
from konverge.reconcilers.quota.observe import has_lost_its_owner
from konverge.reconcilers.quota.parse import pool_references, quota_view
from konverge.reconcilers.quota.queue_order import in_queue_order
from konverge.reconcilers.quota.render import claim_status, resource_quota
from konverge.reconcilers.quota.words import EventAction, EventReason, QuotaAnnotation, QuotaReason, quota_name
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "PoolChanged",
    "PoolWriter",
    "WriteOutcomes",
    "claim_event",
    "is_ending",
    "is_refusal",
    "remove_owner_references",
]

T = TypeVar("T")


class PoolChanged(Exception):
    """The stored pool has another version than the pool that was read: another process may have granted the same amounts."""


_ROUNDS = 3
_TRIES = 5
"""Applies of one ResourceQuota while pods start and end: each changes its version."""
_NEVER_A_VERSION = "1"
"""The version of no object: a missing ResourceQuota is created, and a ResourceQuota that exists now is not changed."""
_REFUSALS = (BadRequest, Forbidden, Invalid, NotOurs)


@dataclass(slots=True)
class WriteOutcomes:
    """The results of the writes: rejections by namespace, a transient error, and whether another reconcile has work."""

    refused: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """Uids of claims whose status is not written in this reconcile, because their ResourceQuota was not."""
    culprits: dict[str, dict[str, str]] = field(default_factory=dict)
    """By namespace the claims that invalidate its ResourceQuota, with the reason of each, by uid."""
    failed: set[str] = field(default_factory=set)
    """Namespaces whose ResourceQuota was not written."""
    error: KonvergeError | None = None
    again: bool = False


class PoolWriter:
    """Sends the writes of one reconcile of one pool."""

    def __init__(self, pool: ResourcePool, ctx: Context[ResourcePool], parallel: int) -> None:
        self._pool = pool
        self._ctx = ctx
        self._slots = asyncio.Semaphore(parallel)
        self._stripped: dict[str, Metadata] = {}
        self._applied: set[str] = set()
        self.outcomes = WriteOutcomes()

    async def _for_each(self, items: Iterable[T], write: Callable[[T], Awaitable[None]]) -> None:
        """Write all items with bounded concurrency, and wait for all of them."""

        async def one(item: T) -> None:
            async with self._slots:
                await write(item)

        async with asyncio.TaskGroup() as tasks:
            for item in items:
                tasks.create_task(one(item))

    # --- ResourceQuotas ------------------------------------------------------------------------------------------------------

    async def apply_quotas(self, observed: PoolObservation) -> tuple[PoolObservation, PoolAllocation]:
        """Apply and delete ResourceQuotas; returns the observation and allocation that result, without the rejected claims.

        Errors: PoolChanged if a ResourceQuota is to be raised and the stored pool has another version than the pool that was read.
        """
        for _ in range(_ROUNDS):
            allocation = allocate(observed)
            writes = plan_writes(observed, allocation)
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
                    impossible |= _never_granted(observed, allocation, namespace)
            await self._for_each(writes.deletes, self._delete_quota)
            unconfirmed = (allocation.ending & (allocation.reserving | failed.keys())) - observed.unconfirmed
            if not news and not unconfirmed and not impossible:
                return observed, allocation
            observed = replace(
                observed,
                refused={**observed.refused, **news},
                unconfirmed=observed.unconfirmed | unconfirmed,
                impossible={**observed.impossible, **impossible},
            )
        self.outcomes.again = True
        return observed, allocate(observed)

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
            target = QuotaView(
                hard=writes.applies[namespace],
                claims=claim_hashes(allocation.claims.get(namespace, ())),
                defaults=defaults_of(observed.pool),
                releasing=allocation.witnesses.get(namespace, {}),
            )
            before = observed.quotas.get(namespace)
            if (
                namespace in self._applied
            ):  # an object is applied once in a reconcile; the next reconcile applies the rest
                self._leave_to_next_reconcile(observed, allocation, namespace)
                return
            try:
                version = await self._apply_quota(
                    observed, namespace, target, before, raises=namespace in writes.raises
                )
            except KonvergeError as error:
                failed[namespace] = error
                return
            self._applied.add(namespace)
            seen = QuotaView() if before is None else before
            # A release that ended stays ended if the allocation is computed again.
            releasing = seen.releasing if namespace in allocation.ending else target.releasing
            written[namespace] = replace(
                target, status_hard=seen.status_hard, used=seen.used, releasing=releasing, version=version
            )

        await self._for_each(writes.applies, write)
        return written, failed

    def _leave_to_next_reconcile(self, observed: PoolObservation, allocation: PoolAllocation, namespace: str) -> None:
        self.outcomes.again = True
        self.outcomes.unsure.update(
            claim.uid
            for claim in observed.claims
            if claim.namespace == namespace
            and claim.uid in allocation.decisions
            and allocation.decisions[claim.uid].bound
        )

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
        found = quota_view(stored, self._pool)
        return found if found.is_like(before) else None

    async def _find_refused_claims(
        self, observed: PoolObservation, allocation: PoolAllocation, namespace: str, error: KonvergeError
    ) -> tuple[PoolObservation, dict[str, str]]:
        """Find the claims that invalidate the ResourceQuota of a namespace; returns the reasons by uid."""
        self._record_error(namespace, error)
        listed = {entry.uid for entry in observed.recorded.claims.get(namespace, ())}
        new = [
            claim.uid
            for claim in in_queue_order(observed.claims)
            if claim.namespace == namespace
            and (claim.uid not in listed or claim.uid in allocation.unwitnessed)
            and (decision := allocation.decisions.get(claim.uid)) is not None
            and decision.bound
        ]
        left = dict.fromkeys(new, _server_message(error))
        if not is_refusal(error):
            self.outcomes.unsure.update(new)
            return observed, {}
        if len(new) < 2:
            self.outcomes.culprits[namespace] = left
            return observed, left
        culprits = self.outcomes.culprits[namespace] = {}
        for uid in new:
            trial = replace(
                observed, refused={**observed.refused, **{other: why for other, why in left.items() if other != uid}}
            )
            tried = allocate(trial)
            planned = plan_writes(trial, tried)
            hard = tried.quotas.get(namespace)
            applies = {} if hard is None else {namespace: hard}
            written, failed = await self._apply(trial, tried, replace(planned, applies=applies))
            if not failed:
                del left[uid]  # the other claims follow in the next reconcile
                self.outcomes.unsure.update(left.keys() - culprits.keys())
                self.outcomes.again = True
                return replace(observed, quotas={**observed.quotas, **written}), left
            if not is_refusal(failed[namespace]):
                self._record_error(namespace, failed[namespace])
                self.outcomes.unsure.update(left.keys() - culprits.keys())
                break
            left[uid] = culprits[uid] = _server_message(failed[namespace])
        return observed, left

    def _record_error(self, namespace: str, error: KonvergeError) -> None:
        self.outcomes.failed.add(namespace)
        if is_ending(error) or isinstance(error, (Conflict, Contested)):
            self.outcomes.again = True  # its watch event is on its way, or another daemon lags behind
        elif is_refusal(error):
            self.outcomes.refused[namespace] = _server_message(error)
        else:
            self.outcomes.error = error

    async def _delete_quota(self, namespace: str) -> None:
        name = quota_name(self._pool.name)
        metadata = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, name)
        if metadata is None or metadata.deleting:
            return
        try:
            await self._ctx.delete(RESOURCE_QUOTA, name, namespace, uid=metadata.uid)
        except Conflict:
            self.outcomes.again = True  # it was recreated under the same name
        except KonvergeError as error:
            self._record_error(namespace, error)

    # --- claims --------------------------------------------------------------------------------------------------------------

    async def remove_release_annotations(self, claims: Iterable[ClaimView]) -> None:
        """Remove release annotations that have taken effect; the status of a claim that changed since it was read is not written."""

        async def write(claim: ClaimView) -> None:
            patch = {"metadata": {"annotations": {QuotaAnnotation.RELEASE: None}}}
            try:
                stored = await self._ctx.patch(CLAIM, expect=claim.metadata, patch=patch)
            except ObjectChanged:
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.again = True
            except KonvergeError as error:
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.error = error
            else:
                self._stripped[claim.uid] = stored.metadata

        await self._for_each(claims, write)

    async def write_claim_status(
        self, observed: PoolObservation, says: Iterable[tuple[ClaimView, ClaimDecision]]
    ) -> None:
        """Write the statuses of claims, and emit an event for each transition."""

        async def write(item: tuple[ClaimView, ClaimDecision]) -> None:
            claim, decision = item
            if claim.uid in self.outcomes.unsure:
                return
            place = place_after(claim, decision, observed.pool)
            try:
                sent = await self._ctx.write_status(
                    CLAIM,
                    expect=self._stripped.get(claim.uid, claim.metadata),
                    status=claim_status(claim, decision, place, self._ctx.now(), observed.semantics),
                )
            except ObjectChanged:
                self.outcomes.again = True
                return
            except KonvergeError as error:
                self.outcomes.error = error
                return
            news = claim_event(claim, decision) if sent else None
            if news is not None:
                self._ctx.event_about(CLAIM, claim.metadata, news[0], decision.message, type_=news[1], action=news[2])

        await self._for_each(says, write)


def _never_granted(observed: PoolObservation, allocation: PoolAllocation, namespace: str) -> dict[str, frozenset[str]]:
    """Return the resources in release that the ResourceQuota of a namespace lacks: if the server rejects them, it never granted them."""
    present = observed.quotas.get(namespace, QuotaView())
    known = observed.impossible.get(namespace, frozenset())
    lacking = allocation.releasing.get(namespace, {}).keys() - {*present.hard, *present.status_hard} - known
    return {namespace: known | lacking} if lacking else {}


def is_ending(error: KonvergeError) -> bool:
    """Whether a write failed because its namespace is terminating or deleted."""
    return isinstance(error, NotFound) or namespace_is_ending(error)


def is_refusal(error: KonvergeError) -> bool:
    """Whether the API server rejected the object itself; a temporary failure or a missing RBAC rule does not count."""
    return isinstance(error, _REFUSALS) and not is_ending(error) and missing_rule(error) is None


def _server_message(error: KonvergeError) -> str:
    """Return the API server's message without the request, which the reader of the status knows."""
    return error.message if isinstance(error, ApiError) else str(error)


def claim_event(claim: ClaimView, decision: ClaimDecision) -> tuple[str, str, str] | None:
    """Return reason, type and action of the event about a decision; None if only the message or the generation is new."""
    before = claim.condition
    if before is not None and (before.type, before.is_true, before.reason) == (
        decision.type,
        decision.status,
        decision.reason,
    ):
        return None
    if decision.reason == QuotaReason.RELEASED:
        return EventReason.DISASSOCIATED, EventType.NORMAL, EventAction.DISASSOCIATING
    return decision.reason, EventType.NORMAL if decision.status else EventType.WARNING, EventAction.RECONCILED


async def remove_owner_references(claim: Metadata, ctx: Context[ResourcePoolClaim]) -> None:
    """Remove a claim's owner references to pools, which Capsule set (docs/reference/capsule.md#owner-references)."""
    places = pool_references(claim, GROUP)
    if not places:
        return
    kept = [msgspec.to_builtins(owner) for place, owner in enumerate(claim.owner_references) if place not in places]
    await ctx.patch(CLAIM, expect=claim, patch={"metadata": {"ownerReferences": kept or None}})
