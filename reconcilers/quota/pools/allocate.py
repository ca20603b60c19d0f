"""The allocator: which claims of a pool are allocated, and which amounts each namespace gets.

Guarantees (docs/reference/capsule.md#allocation): pure, idempotent, and independent of the order of its input. Claims are served in queue
order (`queue_order`). A claim is allocated whole or not at all. An allocated claim stays allocated (sticky), even if an older claim waits
or hard is lowered below the allocated amounts. With `ordered` a claim waits for an older claim that waits for the same resource. An amount
that a namespace still holds (`release`) is available to that namespace only. A claim that can never be allocated fails without effect on
others. Above `max_claims` no further claim is listed, and the listed claims stay. A claim that only the pool's status lists, without a
grant of its ResourceQuota or a status of its own (`_is_witnessed`), is allocated if it fits: the status may have been edited, or the
process may have been killed.

Caveats: one reconcile may not be enough. `pending`: the next step needs only this reconcile's record in the status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from konverge.reconcilers.quota.amounts import Amounts, add, show
from konverge.reconcilers.quota.claims.decision import (
    BOUND,
    IN_USE,
    ClaimDecision,
    exhausted,
    failed,
    queue_exhausted,
    refused,
    released,
    too_many,
    too_many_in_namespace,
    unassigned,
)
from konverge.reconcilers.quota.claims.queue import blocked_by_older, in_queue_order, position
from konverge.reconcilers.quota.pools.in_use import covering
from konverge.reconcilers.quota.pools.listed_claims import ListedClaims
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.release import NamespaceHold, NamespaceTarget, hold_of, summed
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, claim_hash
from konverge.reconcilers.quota.words import Message, Semantics, join, not_claimable, queued, shortage

__all__ = ["PoolAllocation", "allocate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAllocation:
    """The result of an allocation. Amounts are billionths; decisions are by uid of the claim."""

    claims: Mapping[str, tuple[AllocatedClaim, ...]]
    releasing: Mapping[str, Amounts]
    quotas: Mapping[str, Amounts | None]
    """spec.hard of each namespace's ResourceQuota; None: delete it."""
    witnesses: Mapping[str, Amounts] = field(default_factory=dict)
    """The amounts in release that the annotation of each ResourceQuota names."""
    reserving: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota is raised once the stored record lists their claims."""
    unwitnessed: frozenset[str] = frozenset()
    """Uids of allocated claims that only the pool's status lists: their ResourceQuota does not include them yet."""
    ending: frozenset[str] = frozenset()
    """Namespaces whose release ends: their ResourceQuota is written before the record is removed."""
    decisions: Mapping[str, ClaimDecision]
    used: Amounts
    available: Amounts
    excess: Amounts
    """The amounts held above hard, after hard was lowered in spite of admission."""
    exhaustions: Mapping[str, tuple[int, int]]
    """Available amount and total of the unmet requests, by resource."""
    spent_releases: tuple[ClaimView, ...] = ()
    """Claims whose release annotation has taken effect and can be removed."""
    status_full: bool = False
    """Whether a claim waits because the pool's status cannot list more."""
    pending: frozenset[str] = frozenset()
    """Namespaces whose release continues in the next reconcile."""
    settling: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota status does not show its spec yet."""


def allocate(observed: PoolObservation) -> PoolAllocation:
    """Allocate the claims of a pool."""
    allocation = _Allocator(observed).run()
    return allocation if observed.semantics == Semantics.V012 else _with_in_use(observed, allocation)


def _with_in_use(observed: PoolObservation, allocation: PoolAllocation) -> PoolAllocation:
    """Mark the allocated claims that pods use."""
    order = {claim.uid: position(claim) for claim in observed.claims}
    decisions = dict(allocation.decisions)
    for namespace, entries in allocation.claims.items():
        quota = observed.quotas.get(namespace)
        if quota is None:
            continue
        listed = sorted(entries, key=lambda entry: order[entry.uid])
        in_use = covering(quota.used, [(entry.uid, entry.amounts) for entry in listed], observed.pool.hard)
        decisions.update(dict.fromkeys(in_use, IN_USE))
    return replace(allocation, decisions=decisions)


class _Allocator:
    """The running totals of one allocation, and the decisions so far."""

    def __init__(self, observed: PoolObservation) -> None:
        self.observed = observed
        self.pool = observed.pool
        self.hold = {namespace: self._hold(namespace) for namespace in sorted(_tracked_namespaces(observed))}
        self.claimed: dict[str, Amounts] = {namespace: {} for namespace in self.hold}
        self.free: Amounts = {resource: hard.billionths for resource, hard in self.pool.hard.items()}
        for hold in self.hold.values():
            for resource, held in hold.held.items():
                self.free[resource] -= held
        self.listed = ListedClaims(observed, self._held_beyond_claims)
        self.decisions: dict[str, ClaimDecision] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        self.spent_releases: list[ClaimView] = []
        self.status_full = False
        self.unwitnessed: set[str] = set()
        self.recorded = {entry.uid: entry for entries in observed.recorded.claims.values() for entry in entries}

    def _hold(self, namespace: str) -> NamespaceHold:
        observed = self.observed
        frozen = namespace in observed.terminating
        impossible = observed.impossible.get(namespace, frozenset())
        # A listed claim whose ResourceQuota was rejected was never granted.
        listed = (entry for entry in observed.recorded.claims.get(namespace, ()) if entry.uid not in observed.refused)
        claimed, releasing = summed(listed), observed.recorded.releasing.get(namespace, {})
        return hold_of(
            observed.pool,
            observed.quotas.get(namespace),
            {resource: amount for resource, amount in claimed.items() if resource not in impossible},
            {resource: amount for resource, amount in releasing.items() if resource not in impossible},
            frozen=frozen,
            leaving=not frozen and namespace not in observed.selected,
            lost=observed.recorded.lost,
            unconfirmed=namespace in observed.unconfirmed,
        )

    def _held_beyond_claims(self) -> Iterable[Amounts]:
        """Yield the held amounts of each namespace that exceed its claims."""
        for namespace, hold in self.hold.items():
            claimed = self.claimed[namespace]
            yield {resource: held for resource, held in hold.held.items() if held > claimed.get(resource, 0)}

    # --- the claims ----------------------------------------------------------------------------------------------------------

    def run(self) -> PoolAllocation:
        queue = []
        for claim in in_queue_order(self.observed.claims):
            if claim.deleting:
                if claim.uid in self.recorded or claim.is_bound_to(self.pool.name, self.pool.uid):
                    self.decisions[claim.uid] = released(self.pool.name)
                continue
            if claim.is_offered_elsewhere(self.pool):
                queue += [claim] if self._can_queue(claim) else []
                continue
            decision = self._rejection_of(claim)
            if decision is not None:
                self.decisions[claim.uid] = decision
            elif self._stays_allocated(claim):
                self._list_kept(claim)
            else:
                queue.append(claim)
        # Formerly allocated claims that were edited, or whose record was lost, are served before the waiting claims.
        former = [claim for claim in queue if self._was_allocated(claim)]
        for claim in former:
            if not self._shortages(claim):
                self._allocate(claim)
        self._allocate_waiting([claim for claim in queue if claim.uid not in self.decisions])
        return self._result()

    def _allocate_waiting(self, queue: list[ClaimView]) -> None:
        """Serve the waiting claims until a round allocates none: only then would the next reconcile write the same messages."""
        while True:
            self.waiting.clear()
            for claim in queue:
                if claim.is_offered_elsewhere(self.pool):
                    self._count_in_queue(claim)
                else:
                    self.decisions[claim.uid] = self._decide_waiting(claim)
            left = [claim for claim in queue if claim.uid not in self.decisions or not self.decisions[claim.uid].bound]
            if len(left) == len(queue):
                return
            queue = left

    def _rejection_of(self, claim: ClaimView) -> ClaimDecision | None:
        """Return why a claim cannot be allocated regardless of the available amounts; None if it is a candidate."""
        if claim.namespace not in self.observed.selected and not self._kept_while_terminating(claim):
            if claim.pool:
                return failed(Message.NOT_AVAILABLE)
            return unassigned(claim.namespace, [(self.pool.name, Message.NOT_AVAILABLE)])
        if claim.problem:
            return failed(claim.problem)
        if claim.release:
            if self._is_released(claim):
                return released(self.pool.name)
            self.spent_releases.append(claim)
        if claim.uid in self.observed.refused:
            return refused(self.observed.refused[claim.uid])
        if claim.uid in self.recorded:
            return None
        lacking = [resource for resource in sorted(claim.amounts) if resource not in self.pool.hard]
        if lacking:
            return failed(join(not_claimable(resource, self.pool.name) for resource in lacking))
        return None

    def _can_queue(self, claim: ClaimView) -> bool:
        """Whether a claim that was offered to another pool can wait in the queue of this pool."""
        served = claim.namespace in self.observed.selected and not claim.problem and not claim.release
        return served and all(resource in self.pool.hard for resource in claim.amounts)

    def _count_in_queue(self, claim: ClaimView) -> None:
        """Count a claim that was offered to another pool as waiting; that pool writes its status."""
        if not self._behind_older(claim):
            self._count_shortages(claim, self._shortages(claim))

    def _kept_while_terminating(self, claim: ClaimView) -> bool:
        return claim.namespace in self.observed.terminating and claim.uid in self.recorded

    def _is_released(self, claim: ClaimView) -> bool:
        """Whether the annotation takes effect: the claim is released now, or was released and has not been edited since."""
        if claim.released:
            return claim.stays_released()
        return claim.uid in self.recorded or claim.is_bound_to(self.pool.name, self.pool.uid)

    def _was_allocated(self, claim: ClaimView) -> bool:
        """Whether the claim was allocated, by the pool's status, by the claim's status or, if the pool's is lost, by the ResourceQuota."""
        if claim.released:
            return False
        if claim.uid in self.recorded or claim.is_bound_to(self.pool.name, self.pool.uid):
            return True
        if not self.observed.recorded.lost or claim.is_offered_elsewhere(self.pool):
            return False
        quota = self.observed.quotas.get(claim.namespace)
        return quota is not None and claim_hash(claim.name) in quota.claims

    def _stays_allocated(self, claim: ClaimView) -> bool:
        """Whether an allocated claim stays allocated without a check: it requests at most its allocated amounts."""
        entry = self.recorded.get(claim.uid)
        if entry is None or claim.released:
            return False
        if not self._is_witnessed(claim, entry):
            self.unwitnessed.add(claim.uid)
            return False
        had = entry.amounts
        return had == claim.amounts or all(amount <= had.get(resource, 0) for resource, amount in claim.amounts.items())

    def _is_witnessed(self, claim: ClaimView, entry: AllocatedClaim) -> bool:
        """Whether anything besides the pool's status shows the allocation: the claim's own status, or the grant of its ResourceQuota."""
        condition = claim.condition
        is_current = condition is not None and condition.observed_generation == claim.generation
        if is_current and claim.is_bound_to(self.pool.name, self.pool.uid):
            return True
        return claim.namespace in self.observed.terminating or self.hold[claim.namespace].grants(entry.amounts)

    def _list_kept(self, claim: ClaimView) -> None:
        """List a claim that stays allocated; its namespace holds the amounts already, so the pool's free amounts stay."""
        add(self.claimed[claim.namespace], claim.amounts)
        self._list_claim(claim)

    def _decide_waiting(self, claim: ClaimView) -> ClaimDecision:
        """Decide on the next claim in the queue."""
        ahead = self._behind_older(claim)
        if ahead:
            return queue_exhausted(
                queued(
                    resource,
                    self._in_claims_format(claim, resource, claim.amounts[resource]),
                    self._in_claims_format(claim, resource, self.waiting[resource][1]),
                )
                for resource in ahead
            )
        short = self._shortages(claim)
        self._count_shortages(claim, short)
        if short:
            return exhausted(
                shortage(
                    resource,
                    self._in_claims_format(claim, resource, claim.amounts[resource]),
                    self._in_claims_format(claim, resource, available),
                )
                for resource, available in short.items()
            )
        if not self.listed.has_room_for(claim):
            self.status_full = True
            return too_many(self.listed.count)
        if self.listed.exceeds_share(claim):
            return too_many_in_namespace(claim.namespace, len(self.listed.by_namespace[claim.namespace]))
        self._allocate(claim)
        return BOUND

    def _behind_older(self, claim: ClaimView) -> list[str]:
        """Return the requested resources that older claims wait for, if the queue is ordered."""
        return blocked_by_older(claim.amounts, self.waiting) if self.pool.ordered else []

    def _count_shortages(self, claim: ClaimView, short: Iterable[str]) -> None:
        for resource in short:
            available, requested = self.waiting.get(resource, (max(0, self.free.get(resource, 0)), 0))
            self.waiting[resource] = (available, requested + claim.amounts[resource])

    def _shortages(self, claim: ClaimView) -> Amounts:
        """Return the resources that are short for a claim, sorted, each with the amount available to it."""
        hold, claimed = self.hold[claim.namespace], self.claimed[claim.namespace]
        short: Amounts = {}
        for resource in sorted(claim.amounts):
            wanted, free = claim.amounts[resource], self.free.get(resource, 0)
            if not wanted:
                continue
            has = claimed.get(resource, 0)
            own = max(0, hold.held.get(resource, 0) - has)
            could = free + own if free >= 0 else 0
            if wanted > could:
                short[resource] = could
        return short

    def _allocate(self, claim: ClaimView) -> None:
        hold, claimed = self.hold[claim.namespace], self.claimed[claim.namespace]
        for resource, amount in claim.amounts.items():
            has, held = claimed.get(resource, 0), hold.held.get(resource, 0)
            if resource in self.free:
                self.free[resource] -= max(0, has + amount - max(held, has))
        add(claimed, claim.amounts)
        self._list_claim(claim)

    def _list_claim(self, claim: ClaimView) -> None:
        entry = self.recorded.get(claim.uid)
        if entry is None or entry.name != claim.name or entry.amounts != claim.amounts:
            entry = AllocatedClaim(claim.name, claim.uid, claim.amounts)
        self.listed.add(claim.namespace, entry)
        self.decisions[claim.uid] = BOUND

    # --- the result ----------------------------------------------------------------------------------------------------

    def _result(self) -> PoolAllocation:
        pool = self.pool
        wanted = {namespace: self._target(namespace) for namespace in self.hold}
        releasing = {namespace: each.releasing for namespace, each in wanted.items() if each.releasing}
        used = {resource: hard.billionths - self.free[resource] for resource, hard in pool.hard.items()}
        for claimed in self.claimed.values():
            add(used, {name: amount for name, amount in claimed.items() if amount and name not in pool.hard})
        return PoolAllocation(
            claims={
                namespace: tuple(sorted(entries, key=lambda entry: (entry.name, entry.uid)))
                for namespace, entries in sorted(self.listed.by_namespace.items())
            },
            releasing=releasing,
            quotas={namespace: each.hard for namespace, each in wanted.items()},
            witnesses={namespace: each.witness for namespace, each in wanted.items() if each.witness},
            reserving=frozenset(
                namespace
                for namespace, hold in self.hold.items()
                if namespace not in self.observed.foreign and hold.lacks_record_of(self.claimed[namespace])
            ),
            unwitnessed=frozenset(self.unwitnessed),
            ending=frozenset(
                namespace
                for namespace, hold in self.hold.items()
                if hold.ends_release(self.claimed[namespace], wanted[namespace].releasing)
            ),
            decisions=self.decisions,
            used=used,
            available={resource: max(0, free) for resource, free in self.free.items()},
            excess={resource: -free for resource, free in self.free.items() if free < 0},
            exhaustions=dict(sorted(self.waiting.items())),
            spent_releases=tuple(self.spent_releases),
            status_full=self.status_full,
            pending=frozenset(namespace for namespace, each in wanted.items() if each.pending),
            settling=frozenset(namespace for namespace, hold in self.hold.items() if hold.settling),
        )

    def _target(self, namespace: str) -> NamespaceTarget:
        claimed = {resource: amount for resource, amount in self.claimed[namespace].items() if amount}
        return self.hold[namespace].wanted(self.pool, claimed)

    def _in_claims_format(self, claim: ClaimView, resource: str, amount: int) -> str:
        """Format an amount like the claim's own request, for messages to its owner."""
        return show(resource, amount, self.pool.hard, claim.formats.get(resource))


def _tracked_namespaces(observed: PoolObservation) -> Iterable[str]:
    return {*observed.selected, *observed.recorded.claims, *observed.recorded.releasing, *observed.quotas}
