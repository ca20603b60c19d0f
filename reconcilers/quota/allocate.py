"""The allocator: what a pool hands out to which claim.

Promises (docs/reference/capsule.md#allocation): pure, and independent of the order of what it is given. Claims are taken by priority:
creation, then name, then namespace. A claim is allocated whole or not at all. What is allocated stays so, whoever is older (sticky), also
where hard was lowered below it. With `ordered` a claim waits for an older one that waits for the same resource. Nothing is handed out
that a namespace still holds (`holding`), except to that namespace itself. A claim that can never be allocated is marked alone. Beyond
the ceiling nothing more is listed, and what is listed stays. Done twice, the second time changes nothing.

Does not promise: that one pass is enough. `pending` tells that the next step waits for nothing but the record of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from konverge.reconcilers.quota.amounts import Amounts, add, show
from konverge.reconcilers.quota.claim_decision import (
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
from konverge.reconcilers.quota.in_use import covering
from konverge.reconcilers.quota.observation import AllocatedClaim, ClaimView, PoolObservation, claim_hash
from konverge.reconcilers.quota.queue_order import blocked_by_older, in_queue_order, position
from konverge.reconcilers.quota.release import NamespaceHold, NamespaceTarget, hold_of, summed
from konverge.reconcilers.quota.words import Message, Semantics, join, not_claimable, queued, shortage

__all__ = ["PoolAllocation", "allocate"]

_ENTRY_BYTES = 51
_AMOUNT_BYTES = 6
_NAMESPACE_BYTES = 8
"""What an entry takes beside its name, namespace and uid, an amount beside resource and digits, a namespace beside its name, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAllocation:
    """What a pass concludes. Amounts are billionths; decisions are by the uid of the claim."""

    claims: Mapping[str, tuple[AllocatedClaim, ...]]
    releasing: Mapping[str, Amounts]
    quotas: Mapping[str, Amounts | None]
    """hard of the ResourceQuota of each namespace; None: it is to go."""
    decisions: Mapping[str, ClaimDecision]
    used: Amounts
    available: Amounts
    excess: Amounts
    """What is held beyond hard, where somebody lowered that past admission."""
    exhaustions: Mapping[str, tuple[int, int]]
    """What is available, and what is requested in vain, by resource."""
    spent_releases: tuple[ClaimView, ...] = ()
    """Claims whose release annotation has done its work and is to be removed."""
    status_full: bool = False
    """Whether a claim was left out because no more can be listed."""
    pending: bool = False
    settling: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota's status is yet to follow."""


def allocate(observed: PoolObservation) -> PoolAllocation:
    """Return what the pool hands out, given what was observed."""
    found = _Allocator(observed).run()
    return found if observed.semantics == Semantics.V012 else _with_in_use(observed, found)


def _with_in_use(observed: PoolObservation, found: PoolAllocation) -> PoolAllocation:
    """Return the same, with what pods use among what is allocated."""
    order = {claim.uid: position(claim) for claim in observed.claims}
    decisions = dict(found.decisions)
    for namespace, entries in found.claims.items():
        quota = observed.quotas.get(namespace)
        if quota is None:
            continue
        listed = sorted(entries, key=lambda entry: order[entry.uid])
        in_use = covering(quota.used, [(entry.uid, entry.amounts) for entry in listed], observed.pool.hard)
        decisions.update(dict.fromkeys(in_use, IN_USE))
    return replace(found, decisions=decisions)


class _Allocator:
    """One pass: the running sums, and what has been concluded so far."""

    def __init__(self, observed: PoolObservation) -> None:
        self.observed = observed
        self.pool = observed.pool
        self.hold = {namespace: self._hold(namespace) for namespace in sorted(_tracked_namespaces(observed))}
        self.claimed: dict[str, Amounts] = {namespace: {} for namespace in self.hold}
        self.free: Amounts = {resource: hard.billionths for resource, hard in self.pool.hard.items()}
        for hold in self.hold.values():
            for resource, held in hold.held.items():
                self.free[resource] -= held
        self.listed: dict[str, list[AllocatedClaim]] = {}
        self.count = 0
        self._bytes = -1
        self._bytes_in: dict[str, int] = {}
        self.decisions: dict[str, ClaimDecision] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        self.spent_releases: list[ClaimView] = []
        self.status_full = False
        self.recorded = {entry.uid: entry for entries in observed.recorded.claims.values() for entry in entries}

    def _hold(self, namespace: str) -> NamespaceHold:
        observed = self.observed
        frozen = namespace in observed.terminating
        return hold_of(
            observed.pool,
            observed.quotas.get(namespace),
            summed(observed.recorded.claims.get(namespace, ())),
            observed.recorded.releasing.get(namespace, {}),
            frozen=frozen,
            leaving=not frozen and namespace not in observed.selected,
            lost=observed.recorded.lost,
        )

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
        # What was allocated and changed, or says so itself and was not recorded any more, goes before those that wait.
        former = [claim for claim in queue if self._was_allocated(claim)]
        for claim in former:
            if not self._shortages(claim):
                self._allocate(claim)
        self._allocate_waiting([claim for claim in queue if claim.uid not in self.decisions])
        return self._result()

    def _allocate_waiting(self, queue: list[ClaimView]) -> None:
        """Give the waiting claims their turns until nobody is served any more: what is said then, the next pass would say too."""
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
        """Return why a claim is no candidate in this pass; None where it is."""
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
        if claim.uid in self.recorded:
            return None
        lacking = [resource for resource in sorted(claim.amounts) if resource not in self.pool.hard]
        if lacking:
            return failed(join(not_claimable(resource, self.pool.name) for resource in lacking))
        if claim.uid in self.observed.refused:
            return refused(self.observed.refused[claim.uid])
        return None

    def _can_queue(self, claim: ClaimView) -> bool:
        """Tell whether a claim that is tried in another pool has a place in the queue of this one."""
        served = claim.namespace in self.observed.selected and not claim.problem and not claim.release
        return served and all(resource in self.pool.hard for resource in claim.amounts)

    def _count_in_queue(self, claim: ClaimView) -> None:
        """Count a claim that is tried in another pool among those that wait; what becomes of it that one says."""
        if not self._behind_older(claim):
            self._count_shortages(claim, self._shortages(claim))

    def _kept_while_terminating(self, claim: ClaimView) -> bool:
        return claim.namespace in self.observed.terminating and claim.uid in self.recorded

    def _is_released(self, claim: ClaimView) -> bool:
        """Tell whether the annotation is at work: the claim is let go now, or was, and its owner has not edited it since."""
        if claim.released:
            return claim.stays_released()
        return claim.uid in self.recorded or claim.is_bound_to(self.pool.name, self.pool.uid)

    def _was_allocated(self, claim: ClaimView) -> bool:
        """Tell whether one of three witnesses says so: the pool's status, the claim's own, or, where the first is lost, the quota."""
        if claim.released:
            return False
        if claim.uid in self.recorded or claim.is_bound_to(self.pool.name, self.pool.uid):
            return True
        if not self.observed.recorded.lost or claim.is_offered_elsewhere(self.pool):
            return False
        quota = self.observed.quotas.get(claim.namespace)
        return quota is not None and claim_hash(claim.name) in quota.claims

    def _stays_allocated(self, claim: ClaimView) -> bool:
        """Tell whether an allocated claim stays so unasked: it wants what it has, or less."""
        entry = self.recorded.get(claim.uid)
        if entry is None or claim.released:
            return False
        had = entry.amounts
        return had == claim.amounts or all(amount <= had.get(resource, 0) for resource, amount in claim.amounts.items())

    def _list_kept(self, claim: ClaimView) -> None:
        """List a claim that stays: what it has is among what its namespace holds, so nothing is taken from the pool."""
        add(self.claimed[claim.namespace], claim.amounts)
        self._list_claim(claim)

    def _decide_waiting(self, claim: ClaimView) -> ClaimDecision:
        """Return the decision of a claim that waits for its turn, which has come."""
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
        if self.count >= self.observed.max_claims or self._bytes_left() < self._entry_bytes(claim.namespace, claim):
            self.status_full = True
            return too_many(self.count)
        if self._namespace_share_is_full(claim):
            return too_many_in_namespace(claim.namespace, len(self.listed[claim.namespace]))
        self._allocate(claim)
        return BOUND

    def _behind_older(self, claim: ClaimView) -> list[str]:
        """Return the resources for which older claims wait, and which this one asks for, in an ordered queue."""
        return blocked_by_older(claim.amounts, self.waiting) if self.pool.ordered else []

    def _count_shortages(self, claim: ClaimView, short: Iterable[str]) -> None:
        for resource in short:
            available, requested = self.waiting.get(resource, (max(0, self.free.get(resource, 0)), 0))
            self.waiting[resource] = (available, requested + claim.amounts[resource])

    def _shortages(self, claim: ClaimView) -> Amounts:
        """Return the resources of which too little is left for a claim, sorted, with what it could have."""
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
        self.listed.setdefault(claim.namespace, []).append(entry)
        self.count += 1
        if self._bytes >= 0:
            self._bytes += self._entry_bytes(claim.namespace, entry)
        if claim.namespace in self._bytes_in:
            self._bytes_in[claim.namespace] += self._entry_bytes(claim.namespace, entry)
        self.decisions[claim.uid] = BOUND

    def _bytes_left(self) -> int:
        """Return how many bytes are left for further claims, beside all else that grows; counted once somebody asks."""
        if self._bytes < 0:
            self._bytes = sum(
                self._entry_bytes(namespace, entry) for namespace, entries in self.listed.items() for entry in entries
            )
            self._bytes += sum(len(namespace) + _NAMESPACE_BYTES for namespace in self.observed.selected)
            for namespace, hold in self.hold.items():
                claimed = self.claimed[namespace]
                self._bytes += self._amounts_bytes(
                    {r: held for r, held in hold.held.items() if held > claimed.get(r, 0)}
                )
        return self.observed.max_status_bytes - self._bytes

    def _namespace_share_is_full(self, claim: ClaimView) -> bool:
        """Tell whether the claims of a namespace take all of the list that one namespace may have."""
        listed, share = self.listed.get(claim.namespace), self.observed.namespace_share
        if listed is None or share >= 1:
            return False
        if claim.namespace not in self._bytes_in:
            self._bytes_in[claim.namespace] = sum(self._entry_bytes(claim.namespace, entry) for entry in listed)
        size = self._bytes_in[claim.namespace] + self._entry_bytes(claim.namespace, claim)
        return len(listed) + 1 > self.observed.max_claims * share or size > self.observed.max_status_bytes * share

    def _entry_bytes(self, namespace: str, claim: ClaimView | AllocatedClaim) -> int:
        """Return how many bytes a claim takes in the status of its pool."""
        return _ENTRY_BYTES + len(namespace) + len(claim.name) + len(claim.uid) + self._amounts_bytes(claim.amounts)

    def _amounts_bytes(self, amounts: Mapping[str, int]) -> int:
        return sum(
            _AMOUNT_BYTES + len(resource) + len(self._in_pools_format(resource, amount))
            for resource, amount in amounts.items()
        )

    # --- what comes of it ----------------------------------------------------------------------------------------------------

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
                for namespace, entries in sorted(self.listed.items())
            },
            releasing=releasing,
            quotas={namespace: each.hard for namespace, each in wanted.items()},
            decisions=self.decisions,
            used=used,
            available={resource: max(0, free) for resource, free in self.free.items()},
            excess={resource: -free for resource, free in self.free.items() if free < 0},
            exhaustions=dict(sorted(self.waiting.items())),
            spent_releases=tuple(self.spent_releases),
            status_full=self.status_full,
            pending=any(each.lowering for each in wanted.values()),
            settling=frozenset(namespace for namespace, hold in self.hold.items() if hold.settling),
        )

    def _target(self, namespace: str) -> NamespaceTarget:
        claimed = {resource: amount for resource, amount in self.claimed[namespace].items() if amount}
        return self.hold[namespace].wanted(self.pool, claimed)

    def _in_claims_format(self, claim: ClaimView, resource: str, amount: int) -> str:
        """Write an amount for the owner of a claim, in the format in which it was asked for."""
        return show(resource, amount, self.pool.hard, claim.formats.get(resource))

    def _in_pools_format(self, resource: str, amount: int) -> str:
        return show(resource, amount, self.pool.hard)


def _tracked_namespaces(observed: PoolObservation) -> Iterable[str]:
    return {*observed.selected, *observed.recorded.claims, *observed.recorded.releasing, *observed.quotas}
