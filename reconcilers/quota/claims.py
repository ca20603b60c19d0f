"""The reconciler of ResourcePoolClaims that no pool looks after: those whose pool is missing or being deleted, and those without one.

The status of a claim has two writers that take turns: the pool controller writes it while the claim belongs to a pool that exists and is
not being deleted, this one else (docs/reference/capsule.md#one-writer). Whose turn it is, `judge` alone says. What Capsule left behind on
claims goes here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.quota_v1beta2 import PoolReference, ResourcePoolClaim
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.assign import Offer, choose
from konverge.reconcilers.quota.book import Book
from konverge.reconcilers.quota.forms import read, said_by
from konverge.reconcilers.quota.hands import announcement, let_go_of_owners
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.reconcilers.quota.metrics import QuotaMetrics
from konverge.reconcilers.quota.notes import Notes
from konverge.reconcilers.quota.observe import pools_seen
from konverge.reconcilers.quota.render import claim_condition
from konverge.reconcilers.quota.seen import NOWHERE, ClaimView, Place
from konverge.reconcilers.quota.verdicts import FOUND, QUEUED, Verdict, failed, unassigned
from konverge.reconcilers.quota.views import PoolFacts, claim_view, named_in
from konverge.reconcilers.quota.words import Message, Semantics, Type, pool_not_found

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ResourcePoolClaimReconciler", "is_early", "judge", "serving"]

_PATIENCE: Final = timedelta(seconds=10)
"""How long a pool that nobody has looked at yet is waited for."""


def judge(claim: ClaimView, pools: Mapping[str, PoolFacts]) -> tuple[Verdict, Place] | None:
    """Return what a claim says, and where it is put; None where it is the pool controller's turn to say."""
    holder = pools.get(claim.assigned[0])
    if holder is not None and holder.deleting and holder.deletes_bound and claim.says_bound(holder.name, holder.uid):
        return None  # the finalizer of the pool goes by what the claim says; one that survives is judged when the pool is gone
    if claim.pool:
        pool = pools.get(claim.pool)
        if pool is None:
            return failed(pool_not_found(claim.pool)), NOWHERE
        return (failed(Message.NOT_AVAILABLE), NOWHERE) if pool.deleting else None
    if claim.place == NOWHERE and any(claim.uid in pool.listed and not pool.deleting for pool in pools.values()):
        return None  # its status was wiped, and its pool says it anew
    given = pools.get(claim.assigned[0])
    if given is not None and given.uid == claim.assigned[1] and not given.deleting and not claim.asks_anew:
        return None
    if claim.problem:
        return failed(claim.problem), NOWHERE
    choice = choose(claim.amounts, serving(claim.namespace, pools.values()), claim.formats)
    if choice.queue is None:
        return unassigned(claim.namespace, choice.reasons), NOWHERE
    place = Place(queue=choice.queue.place)
    if choice.offer not in (None, choice.queue):
        place = Place(choice.offer.place, choice.queue.place)
    if place == claim.place:
        return None
    return FOUND if choice.offer is not None else QUEUED, place


def serving(namespace: str, pools: Iterable[PoolFacts]) -> list[Offer]:
    """Return what the pools that serve a namespace have to offer."""
    return [pool.offer for pool in pools if namespace in pool.namespaces and not pool.deleting]


def is_early(claim: ClaimView, pools: Mapping[str, PoolFacts], now: datetime) -> bool:
    """Tell whether a claim should wait for a new pool to say what it offers: what is applied together ends the same each time."""
    if claim.pool or (claim.assigned[0] and not claim.asks_anew):
        return False
    born = (pool.unseen_since for pool in pools.values() if not pool.deleting and pool.unseen_since is not None)
    return any(now - moment < _PATIENCE for moment in born)


class ResourcePoolClaimReconciler:
    """Says of claims without a pool what they lack, and gives those a pool, or a place in the queue of one, that name none."""

    def __init__(self, notes: Notes, metrics: QuotaMetrics, semantics: str = Semantics.V012) -> None:
        self._semantics = semantics
        self._notes = notes
        self._metrics = metrics
        self._book: Book[PoolFacts] = Book()

    async def reconcile(self, claim: ResourcePoolClaim, ctx: Context[Any]) -> Outcome:
        """Judge one claim."""
        path = (claim.namespace, claim.name)
        await let_go_of_owners(claim.metadata, ctx)
        stored = ctx.cache(CLAIM).find(*path)
        view = None if stored is None or stored.metadata.uid != claim.uid else claim_view(stored)
        pools = pools_seen(ctx, self._book)
        if view is not None and is_early(view, pools, ctx.now()):
            self._notes.waiting[path] = ""
            ctx.status.skip_write()
            return RequeueAfter(1)
        judged = None if view is None else judge(view, pools)
        if view is None or (judged is None and (view.pool or view.assigned[0])):
            self._notes.waiting.pop(path, None)
            ctx.status.skip_write()
            return Done()
        self._notes.waiting[path] = view.pool
        if judged is None:  # it stands in the queue of one pool, and is to be told of another one with room
            ctx.status.skip_write()
            return Done()
        self._say(view, *judged, ctx)
        return Done()

    def report_failure(self, claim: ResourcePoolClaim, ctx: Context[Any], message: str) -> None:
        """Say that judging the claim failed, unless a pool speaks for it.

        It reads metadata and single fields, since the view of the claim or of a pool may be the part that failed.
        """
        path = (claim.namespace, claim.name)
        stored = ctx.cache(CLAIM).find(*path)
        if stored is None or _is_spoken_for(claim, stored, ctx):
            ctx.status.skip_write()
            return
        status = claim.status
        view = ClaimView(
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            generation=claim.generation,
            pool=named_in(stored),
            condition=status.condition if status.semantics is None else read(status.conditions)[0],
            semantics=status.semantics or Semantics.V012,
        )
        self._notes.waiting[path] = view.pool
        self._say(view, failed(message), NOWHERE, ctx)

    def _say(self, view: ClaimView, verdict: Verdict, place: Place, ctx: Context[Any]) -> None:
        draft = ctx.status.draft
        if self._semantics == Semantics.V014:
            draft.semantics, draft.condition = self._semantics, None
            for mark in said_by(verdict):
                ctx.status.set_condition(*mark)
        else:
            draft.semantics, draft.condition = None, claim_condition(view, verdict, ctx.now())
            for type_ in (Type.READY, Type.EXHAUSTED, Type.BOUND):
                ctx.status.remove_condition(type_)
        draft.pool = _reference(place.pool)
        draft.queue = _reference(place.queue)
        news = announcement(view, verdict)
        if news is not None:
            ctx.event(news[0], verdict.message, type_=news[1], action=news[2])
        self._metrics.of_claim(view, verdict, place.name)


def _is_spoken_for(claim: ResourcePoolClaim, stored: Object, ctx: Context[Any]) -> bool:
    """Tell whether the status of a claim is a pool's: of one that lives and has said something, or whose finalizer goes by what it says."""
    pools, status = ctx.cache(POOL), claim.status
    given, waits = ((place.name or "") if place is not None else "" for place in (status.pool, status.queue))
    pool = pools.metadata("", named_in(stored) or given or waits)
    if pool is not None and not pool.deleting:
        return bool(claim.conditions)
    holder = pools.metadata("", given)
    return holder is not None and holder.deleting


def _reference(pool: tuple[str, str]) -> PoolReference | None:
    name, uid = pool
    return PoolReference(name=name, uid=uid) if name else None
