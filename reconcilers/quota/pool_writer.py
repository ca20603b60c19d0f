"""The writes of a pool's pass, many at a time and each contained: what the API server refuses hurts its own namespace or claim alone.

Promises: writes are bounded in number at once. A ResourceQuota that is refused costs the claims that made it so their place, found out by
adding them one by one; the others of that namespace keep theirs (X28). What failed in transit is told apart from what was refused: it is
raised in the end, so that the pass is tried again. A claim that changed since it was read is left to the next pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from konverge.client import missing_rule
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
from konverge.reconcilers.quota.wake_index import WakeIndex
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
    """What became of the writes: refusals by namespace, an error that another try may mend, whether a next pass has work."""

    refused: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """Claims, by uid, of which nothing is said in this pass: their ResourceQuota did not get through."""
    error: KonvergeError | None = None
    again: bool = False


class PoolWriter:
    """Writes for one pass of one pool."""

    def __init__(self, pool: ResourcePool, ctx: Context[Any], parallel: int, wake_index: WakeIndex) -> None:
        self._pool = pool
        self._wake_index = wake_index
        self._ctx = ctx
        self._places = asyncio.Semaphore(parallel)
        self._stripped: dict[str, str] = {}
        self.outcomes = WriteOutcomes()

    async def _for_each(self, what: Iterable[T], write: Callable[[T], Awaitable[None]]) -> None:
        """Write all of these, so many at a time; all of them have ended when this returns."""

        async def one(item: T) -> None:
            async with self._places:
                await write(item)

        async with asyncio.TaskGroup() as tasks:
            for item in what:
                tasks.create_task(one(item))

    # --- ResourceQuotas ------------------------------------------------------------------------------------------------------

    async def apply_quotas(self, observed: PoolObservation) -> tuple[PoolObservation, PoolAllocation]:
        """Bring the ResourceQuotas to what is handed out; returns what that came to, without what was refused."""
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
            try:
                await self._apply_quota(
                    observed, namespace, applies[namespace], claim_hashes(allocation.claims.get(namespace, ()))
                )
            except KonvergeError as error:
                failed[namespace] = error
            else:
                before = observed.quotas.get(namespace, QuotaView())
                written[namespace] = replace(
                    before,
                    hard=applies[namespace],
                    intact=True,
                    claims=claim_hashes(allocation.claims.get(namespace, ())),
                    defaults=defaults_of(observed.pool),
                )

        await self._for_each(applies, write)
        return written, failed

    async def _apply_quota(
        self, observed: PoolObservation, namespace: str, hard: Amounts, claims: frozenset[str]
    ) -> None:
        quota = resource_quota(self._pool, observed.pool, namespace, hard, claims)
        present = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota.name)
        adopt = present is not None and has_lost_its_owner(present, self._pool.name)
        stored: Object = await self._ctx.own(quota, adopt=adopt)
        # Keys of another writer, a person or Capsule before the hand-over, survive an apply; they would limit what nobody claimed.
        foreign = sorted((stored.get("spec", "hard", default={}) or {}).keys() - hard.keys())
        if foreign:
            patch = {"metadata": {"uid": stored.metadata.uid}, "spec": {"hard": dict.fromkeys(foreign)}}
            stored = await self._ctx.patch(RESOURCE_QUOTA, stored.name, namespace, patch=patch)
        self._wake_index.wrote(namespace, stored.name, stored.metadata.resource_version)

    async def _find_refused_claims(
        self, observed: PoolObservation, allocation: PoolAllocation, namespace: str, error: KonvergeError
    ) -> tuple[PoolObservation, dict[str, str]]:
        """Find the claims of a namespace that its ResourceQuota cannot hold; returns why, by uid."""
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
                # An object is applied once in a pass: the other claims have their turns in the next.
                del left[uid]
                self.outcomes.again = True
                return replace(observed, quotas={**observed.quotas, **written}), left
            left[uid] = _server_message(failed[namespace])
        return observed, left

    def _record_error(self, namespace: str, error: KonvergeError) -> None:
        if is_ending(error):
            self.outcomes.again = True  # the news of it is on its way
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
            self.outcomes.again = True  # another one of that name by now
        except KonvergeError as error:
            self._record_error(namespace, error)

    # --- claims --------------------------------------------------------------------------------------------------------------

    async def remove_release_annotations(self, claims: Iterable[ClaimView]) -> None:
        """Remove release annotations that have done their work; nothing is said of a claim that changed meanwhile."""

        async def write(claim: ClaimView) -> None:
            guard = {"uid": claim.uid, "resourceVersion": claim.version}
            patch = {"metadata": {**guard, "annotations": {QuotaAnnotation.RELEASE: None}}}
            try:
                stored: Object = await self._ctx.patch(CLAIM, claim.name, claim.namespace, patch=patch)
            except (Conflict, NotFound):
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.again = True  # gone, edited, or another one of that name by now
            except KonvergeError as error:
                self.outcomes.unsure.add(claim.uid)
                self.outcomes.error = error
            else:
                self._stripped[claim.uid] = stored.metadata.resource_version

        await self._for_each(claims, write)

    async def write_claim_status(
        self, observed: PoolObservation, says: Iterable[tuple[ClaimView, ClaimDecision]]
    ) -> None:
        """Write what claims say, and announce what is new."""

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
    """Tell whether a write failed because its namespace is going, or gone."""
    return isinstance(error, NotFound) or (isinstance(error, Forbidden) and "being terminated" in error.message)


def is_refusal(error: KonvergeError) -> bool:
    """Tell whether the API server will not take what was sent: what it cannot take now, or not from us, is another matter."""
    return isinstance(error, _REFUSALS) and not is_ending(error) and missing_rule(error) is None


def _server_message(error: KonvergeError) -> str:
    """What the API server said, without what was asked of it: the reader knows that."""
    return error.message if isinstance(error, ApiError) else str(error)


def claim_event(claim: ClaimView, decision: ClaimDecision) -> tuple[str, str, str] | None:
    """Return reason, type and action of the event that a decision is worth: None where only words or the generation are new."""
    said = claim.condition
    if said is not None and (said.type, said.is_true, said.reason) == (decision.type, decision.status, decision.reason):
        return None
    if decision.reason == QuotaReason.RELEASED:
        return EventReason.DISASSOCIATED, EventType.NORMAL, EventAction.DISASSOCIATING
    return decision.reason, EventType.NORMAL if decision.status else EventType.WARNING, EventAction.RECONCILED


async def remove_owner_references(claim: Metadata, ctx: Context[Any]) -> None:
    """Remove the owner references to pools that Capsule left (docs/reference/capsule.md#owner-references)."""
    places = pool_references(claim, GROUP)
    if not places:
        return
    kept = [msgspec.to_builtins(owner) for place, owner in enumerate(claim.owner_references) if place not in places]
    guard = {"uid": claim.uid, "resourceVersion": claim.resource_version}
    await ctx.patch(CLAIM, claim.name, claim.namespace, patch={"metadata": {**guard, "ownerReferences": kept or None}})
