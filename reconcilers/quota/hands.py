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
from konverge.reconcilers.quota.allocate import Allocation, allocate
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.notes import Notes
from konverge.reconcilers.quota.observe import is_stray
from konverge.reconcilers.quota.render import claim_status, resource_quota
from konverge.reconcilers.quota.seen import ClaimView, QuotaView, Seen, marks_of
from konverge.reconcilers.quota.steps import defaults_of, place_by, steps_of
from konverge.reconcilers.quota.verdicts import Verdict
from konverge.reconcilers.quota.views import pool_references
from konverge.reconcilers.quota.words import Action, Annotation, Event, Reason, quota_name
from konverge.words import EventType

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["Hands", "Outcomes", "announcement", "is_ending", "is_refusal", "let_go_of_owners"]

T = TypeVar("T")

_ROUNDS = 3
_REFUSALS = (BadRequest, Forbidden, Invalid, NotOurs)


@dataclass(slots=True)
class Outcomes:
    """What became of the writes: refusals by namespace, an error that another try may mend, whether a next pass has work."""

    refused: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """Claims, by uid, of which nothing is said in this pass: their ResourceQuota did not get through."""
    error: KonvergeError | None = None
    again: bool = False


class Hands:
    """Writes for one pass of one pool."""

    def __init__(self, pool: ResourcePool, ctx: Context[Any], parallel: int, notes: Notes) -> None:
        self._pool = pool
        self._notes = notes
        self._ctx = ctx
        self._places = asyncio.Semaphore(parallel)
        self._stripped: dict[str, str] = {}
        self.outcomes = Outcomes()

    async def _all(self, what: Iterable[T], write: Callable[[T], Awaitable[None]]) -> None:
        """Write all of these, so many at a time; all of them have ended when this returns."""

        async def one(item: T) -> None:
            async with self._places:
                await write(item)

        async with asyncio.TaskGroup() as tasks:
            for item in what:
                tasks.create_task(one(item))

    # --- ResourceQuotas ------------------------------------------------------------------------------------------------------

    async def quotas(self, seen: Seen) -> tuple[Seen, Allocation]:
        """Bring the ResourceQuotas to what is handed out; returns what that came to, without what was refused."""
        refused: dict[str, str] = {}
        for _ in range(_ROUNDS):
            seen = seen.but(refused=dict(refused))
            allocation = allocate(seen)
            steps = steps_of(seen, allocation)
            written, failed = await self._apply(seen, allocation, steps.applies)
            seen = seen.but(quotas={**seen.quotas, **written})
            news: dict[str, str] = {}
            for namespace in sorted(failed):
                seen, culprits = await self._one_by_one(seen, allocation, namespace, failed[namespace])
                news.update(culprits)
            await self._all(steps.removes, self._remove)
            if not news:
                return seen, allocation
            refused.update(news)
        seen = seen.but(refused=dict(refused))
        self.outcomes.again = True
        return seen, allocate(seen)

    async def _apply(
        self, seen: Seen, allocation: Allocation, applies: Mapping[str, Amounts]
    ) -> tuple[dict[str, QuotaView], dict[str, KonvergeError]]:
        written: dict[str, QuotaView] = {}
        failed: dict[str, KonvergeError] = {}

        async def write(namespace: str) -> None:
            try:
                await self._own(seen, namespace, applies[namespace], marks_of(allocation.claims.get(namespace, ())))
            except KonvergeError as error:
                failed[namespace] = error
            else:
                before = seen.quotas.get(namespace, QuotaView())
                written[namespace] = replace(
                    before,
                    hard=applies[namespace],
                    intact=True,
                    claims=marks_of(allocation.claims.get(namespace, ())),
                    defaults=defaults_of(seen.pool),
                )

        await self._all(applies, write)
        return written, failed

    async def _own(self, seen: Seen, namespace: str, hard: Amounts, claims: frozenset[str]) -> None:
        quota = resource_quota(self._pool, seen.pool, namespace, hard, claims)
        present = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, quota.name)
        adopt = present is not None and is_stray(present, self._pool.name)
        stored: Object = await self._ctx.own(quota, adopt=adopt)
        # Keys of another writer, a person or Capsule before the hand-over, survive an apply; they would limit what nobody claimed.
        foreign = sorted((stored.get("spec", "hard", default={}) or {}).keys() - hard.keys())
        if foreign:
            patch = {"metadata": {"uid": stored.metadata.uid}, "spec": {"hard": dict.fromkeys(foreign)}}
            stored = await self._ctx.patch(RESOURCE_QUOTA, stored.name, namespace, patch=patch)
        self._notes.wrote(namespace, stored.name, stored.metadata.resource_version)

    async def _one_by_one(
        self, seen: Seen, allocation: Allocation, namespace: str, error: KonvergeError
    ) -> tuple[Seen, dict[str, str]]:
        """Find the claims of a namespace that its ResourceQuota cannot hold; returns why, by uid."""
        self._note(namespace, error)
        listed = {entry.uid for entry in seen.before.claims.get(namespace, ())}
        new = [
            claim.uid
            for claim in sorted(seen.claims, key=lambda claim: claim.priority)
            if claim.namespace == namespace
            and claim.uid not in listed
            and (verdict := allocation.verdicts.get(claim.uid)) is not None
            and verdict.bound
        ]
        left = dict.fromkeys(new, _words(error))
        if not is_refusal(error):
            self.outcomes.unsure.update(new)
            return seen, left
        if len(new) < 2:
            return seen, left
        for uid in new:
            trial = seen.but(refused={**seen.refused, **{other: why for other, why in left.items() if other != uid}})
            tried = allocate(trial)
            hard = tried.quotas.get(namespace)
            written, failed = await self._apply(seen, tried, {} if hard is None else {namespace: hard})
            if not failed:
                # An object is applied once in a pass: the other claims have their turns in the next.
                del left[uid]
                self.outcomes.again = True
                return seen.but(quotas={**seen.quotas, **written}), left
            left[uid] = _words(failed[namespace])
        return seen, left

    def _note(self, namespace: str, error: KonvergeError) -> None:
        if is_ending(error):
            self.outcomes.again = True  # the news of it is on its way
        elif is_refusal(error):
            self.outcomes.refused[namespace] = _words(error)
        else:
            self.outcomes.error = error

    async def _remove(self, namespace: str) -> None:
        name = quota_name(self._pool.name)
        metadata = self._ctx.cache(RESOURCE_QUOTA).metadata(namespace, name)
        if metadata is None or metadata.deleting:
            return
        try:
            await self._ctx.delete(RESOURCE_QUOTA, name, namespace, uid=metadata.uid)
        except Conflict:
            self.outcomes.again = True  # another one of that name by now
        except KonvergeError as error:
            self._note(namespace, error)

    # --- claims --------------------------------------------------------------------------------------------------------------

    async def strip(self, claims: Iterable[ClaimView]) -> None:
        """Remove release annotations that have done their work; nothing is said of a claim that changed meanwhile."""

        async def write(claim: ClaimView) -> None:
            guard = {"uid": claim.uid, "resourceVersion": claim.version}
            patch = {"metadata": {**guard, "annotations": {Annotation.RELEASE: None}}}
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

        await self._all(claims, write)

    async def say(self, seen: Seen, says: Iterable[tuple[ClaimView, Verdict]]) -> None:
        """Write what claims say, and announce what is new."""

        async def write(item: tuple[ClaimView, Verdict]) -> None:
            claim, verdict = item
            if claim.uid in self.outcomes.unsure:
                return
            place = place_by(claim, verdict, seen.pool)
            try:
                sent = await self._ctx.write_status(
                    CLAIM,
                    claim.name,
                    claim.namespace,
                    status=claim_status(claim, verdict, place, self._ctx.now(), seen.semantics),
                    uid=claim.uid,
                    resource_version=self._stripped.get(claim.uid, claim.version),
                )
            except Conflict:
                self.outcomes.again = True
                return
            except KonvergeError as error:
                self.outcomes.error = error
                return
            news = announcement(claim, verdict) if sent else None
            if news is not None:
                about = Metadata(
                    name=claim.name, namespace=claim.namespace, uid=claim.uid, resource_version=claim.version
                )
                self._ctx.event_about(CLAIM, about, news[0], verdict.message, type_=news[1], action=news[2])

        await self._all(says, write)


def is_ending(error: KonvergeError) -> bool:
    """Tell whether a write failed because its namespace is going, or gone."""
    return isinstance(error, NotFound) or (isinstance(error, Forbidden) and "being terminated" in error.message)


def is_refusal(error: KonvergeError) -> bool:
    """Tell whether the API server will not take what was sent: what it cannot take now, or not from us, is another matter."""
    return isinstance(error, _REFUSALS) and not is_ending(error) and missing_rule(error) is None


def _words(error: KonvergeError) -> str:
    """What the API server said, without what was asked of it: the reader knows that."""
    return error.message if isinstance(error, ApiError) else str(error)


def announcement(claim: ClaimView, verdict: Verdict) -> tuple[str, str, str] | None:
    """Return reason, type and action of the event that a verdict is worth: None where only words or the generation are new."""
    said = claim.condition
    if said is not None and (said.type, said.is_true, said.reason) == (verdict.type, verdict.status, verdict.reason):
        return None
    if verdict.reason == Reason.RELEASED:
        return Event.DISASSOCIATED, EventType.NORMAL, Action.DISASSOCIATING
    return verdict.reason, EventType.NORMAL if verdict.status else EventType.WARNING, Action.RECONCILED


async def let_go_of_owners(claim: Metadata, ctx: Context[Any]) -> None:
    """Remove the owner references to pools that Capsule left (docs/reference/capsule.md#owner-references)."""
    places = pool_references(claim, GROUP)
    if not places:
        return
    kept = [msgspec.to_builtins(owner) for place, owner in enumerate(claim.owner_references) if place not in places]
    guard = {"uid": claim.uid, "resourceVersion": claim.resource_version}
    await ctx.patch(CLAIM, claim.name, claim.namespace, patch={"metadata": {**guard, "ownerReferences": kept or None}})
