"""The writes of a pool's reconcile, concurrent and isolated: a rejected write affects its own namespace or claim only.

Guarantees: the number of concurrent writes is bounded. If the API server rejects a ResourceQuota, the claims that caused it are found by
adding them one by one and lose their allocation; the other claims of that namespace keep theirs (X28). Transient errors are not rejections:
one of them is raised at the end, so that the reconcile is retried. A claim that changed since it was read is left to the next reconcile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from konverge.client import missing_rule, namespace_is_ending
from konverge.crds.quota_v1beta2 import GROUP, ResourcePool
from konverge.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, KonvergeError, NotFound, NotOurs
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota.allocate import PoolAllocation, allocate
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.claim_decision import ClaimDecision
from konverge.reconcilers.quota.decide import defaults_of, place_after, plan_writes
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.observation import ClaimView, PoolObservation, QuotaView, claim_hashes
from konverge.reconcilers.quota.observe import has_lost_its_owner
from konverge.reconcilers.quota.parse import pool_references
from konverge.reconcilers.quota.queue_order import in_queue_order
from konverge.reconcilers.quota.render import claim_status, resource_quota
from konverge.reconcilers.quota.words import EventAction, EventReason, QuotaAnnotation, QuotaReason, quota_name
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["PoolWriter", "WriteOutcomes", "claim_event", "is_ending", "is_refusal", "remove_owner_references"]

T = TypeVar("T")

_ROUNDS = 3
_REFUSALS = (BadRequest, Forbidden, Invalid, NotOurs)


@dataclass(slots=True)
class WriteOutcomes:
    """The results of the writes: rejections by namespace, a transient error, and whether another reconcile has work."""

    refused: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """Uids of claims whose status is not written in this reconcile, because their ResourceQuota was not."""
    error: KonvergeError | None = None
    again: bool = False


class PoolWriter:
    """Sends the writes of one reconcile of one pool."""

    def __init__(self, pool: ResourcePool, ctx: Context[Any], parallel: int) -> None:
        self._pool = pool
        self._ctx = ctx
        self._slots = asyncio.Semaphore(parallel)
        self._stripped: dict[str, str] = {}
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
        """Apply and delete ResourceQuotas; returns the observation and allocation that result, without the rejected claims."""
        refused: dict[str, str] = {}
        for _ in range(_ROUNDS):
            observed = replace(observed, refused=dict(refused))
            allocation = allocate(observed)
            writes = plan_writes(observed, allocation)
            written, failed = await self._apply(observed, allocation, writes.applies)
            observed = replace(observed, quotas={**observed.quotas, **written})
            news: dict[str, str] = {}
            for namespace in sorted(failed):
                observed, culprits = await self._find_refused_claims(observed, allocation, namespace, failed[namespace])
                news.update(culprits)
            await self._for_each(writes.deletes, self._delete_quota)
            if not news:
                return observed, allocation
            refused.update(news)
        observed = replace(observed, refused=dict(refused))
        self.outcomes.again = True
        return observed, allocate(observed)

    async def _apply(
        self, observed: PoolObservation, allocation: PoolAllocation, applies: Mapping[str, Amounts]
    ) -> tuple[dict[str, QuotaView], dict[str, KonvergeError]]:
        written: dict[str, QuotaView] = {}
        failed: dict[str, KonvergeError] = {}

        async def write(namespace: str) -> None:
            hard, claims = applies[namespace], claim_hashes(allocation.claims.get(namespace, ()))
            try:
                await self._apply_quota(observed, namespace, hard, claims)
            except KonvergeError as error:
                failed[namespace] = error
            else:
                before = observed.quotas.get(namespace, QuotaView())
                written[namespace] = replace(
                    before, hard=hard, intact=True, claims=claims, defaults=defaults_of(observed.pool)
                )

        await self._for_each(applies, write)
        return written, failed

    async def _apply_quota(
        self, observed: PoolObservation, namespace: str, hard: Amounts, claims: frozenset[str]
    ) -> None:
        quota = resource_quota(self._pool, observed.pool, namespace, hard, claims)
        present = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota.name)
        adopt = present is not None and has_lost_its_owner(present, self._pool.name)
        stored: Object
        try:
            stored = await self._ctx.own(quota, adopt=adopt)
        except Conflict:  # tried again at once: a claim that fails here loses its place to the one behind it
            stored = await self._ctx.own(quota, adopt=adopt)
        # Keys of another field manager (kubectl, Capsule) survive an apply, and would limit resources that no claim requests.
        foreign = sorted((stored.get("spec", "hard", default={}) or {}).keys() - hard.keys())
        if foreign:
            patch = {"metadata": {"uid": stored.metadata.uid}, "spec": {"hard": dict.fromkeys(foreign)}}
            stored = await self._ctx.patch(RESOURCE_QUOTA, stored.name, namespace, patch=patch)

    async def _find_refused_claims(
        self, observed: PoolObservation, allocation: PoolAllocation, namespace: str, error: KonvergeError
    ) -> tuple[PoolObservation, dict[str, str]]:
        """Find the claims that make the ResourceQuota of a namespace invalid; returns the reasons by uid."""
        self._record_error(namespace, error)
        listed = {entry.uid for entry in observed.recorded.claims.get(namespace, ())}
        new = [
            claim.uid
            for claim in in_queue_order(observed.claims)
            if claim.namespace == namespace
            and claim.uid not in listed
            and (decision := allocation.decisions.get(claim.uid)) is not None
            and decision.bound
        ]
        left = dict.fromkeys(new, _server_message(error))
        if not is_refusal(error):
            self.outcomes.unsure.update(new)
            return observed, left
        if len(new) < 2:
            return observed, left
        for uid in new:
            trial = replace(
                observed, refused={**observed.refused, **{other: why for other, why in left.items() if other != uid}}
            )
            tried = allocate(trial)
            hard = tried.quotas.get(namespace)
            written, failed = await self._apply(observed, tried, {} if hard is None else {namespace: hard})
            if not failed:
                # An object is applied successfully once in a reconcile; the other claims follow in the next.
                del left[uid]
                self.outcomes.again = True
                return replace(observed, quotas={**observed.quotas, **written}), left
            left[uid] = _server_message(failed[namespace])
        return observed, left

    def _record_error(self, namespace: str, error: KonvergeError) -> None:
        if is_ending(error):
            self.outcomes.again = True  # the watch event of it is on its way
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
        """Remove release annotations that have taken effect; the status of a claim that changed meanwhile is not written."""

        async def write(claim: ClaimView) -> None:
            guard = {"uid": claim.uid, "resourceVersion": claim.version}
            patch = {"metadata": {**guard, "annotations": {QuotaAnnotation.RELEASE: None}}}
            try:
                stored: Object = await self._ctx.patch(CLAIM, claim.name, claim.namespace, patch=patch)
            except (Conflict, NotFound):
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.again = True  # deleted, edited or recreated meanwhile
            except KonvergeError as error:
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.error = error
            else:
                self._stripped[claim.uid] = stored.metadata.resource_version

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
                    claim.name,
                    claim.namespace,
                    status=claim_status(claim, decision, place, self._ctx.now(), observed.semantics),
                    uid=claim.uid,
                    resource_version=self._stripped.get(claim.uid, claim.version),
                )
            except Conflict:
                self.outcomes.again = True
                return
            except KonvergeError as error:
                self.outcomes.error = error
                return
            news = claim_event(claim, decision) if sent else None
            if news is not None:
                about = Metadata(
                    name=claim.name, namespace=claim.namespace, uid=claim.uid, resource_version=claim.version
                )
                self._ctx.event_about(CLAIM, about, news[0], decision.message, type_=news[1], action=news[2])

        await self._for_each(says, write)


def is_ending(error: KonvergeError) -> bool:
    """Whether a write failed because its namespace is terminating or gone."""
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


async def remove_owner_references(claim: Metadata, ctx: Context[Any]) -> None:
    """Remove a claim's owner references to pools, which Capsule set (docs/reference/capsule.md#owner-references)."""
    places = pool_references(claim, GROUP)
    if not places:
        return
    kept = [msgspec.to_builtins(owner) for place, owner in enumerate(claim.owner_references) if place not in places]
    guard = {"uid": claim.uid, "resourceVersion": claim.resource_version}
    await ctx.patch(CLAIM, claim.name, claim.namespace, patch={"metadata": {**guard, "ownerReferences": kept or None}})
