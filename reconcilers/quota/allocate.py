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
from konverge.reconcilers.quota.holding import Hold, Wanted, hold_of, summed
from konverge.reconcilers.quota.seen import ClaimView, Entry, Seen, mark_of
from konverge.reconcilers.quota.usage import covering
from konverge.reconcilers.quota.verdicts import (
    BOUND,
    IN_USE,
    Verdict,
    exhausted,
    failed,
    let_go,
    queue_exhausted,
    refused,
    too_many,
    too_many_here,
    unassigned,
)
from konverge.reconcilers.quota.words import Message, Semantics, join, not_claimable, queued, shortage

__all__ = ["Allocation", "allocate"]

_ENTRY_BYTES = 51
_AMOUNT_BYTES = 6
_NAMESPACE_BYTES = 8
"""What an entry takes beside its name, namespace and uid, an amount beside resource and digits, a namespace beside its name, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a pass concludes. Amounts are billionths; verdicts are by the uid of the claim."""

    claims: Mapping[str, tuple[Entry, ...]]
    releasing: Mapping[str, Amounts]
    quotas: Mapping[str, Amounts | None]
    """hard of the ResourceQuota of each namespace; None: it is to go."""
    verdicts: Mapping[str, Verdict]
    used: Amounts
    available: Amounts
    over: Amounts
    """What is held beyond hard, where somebody lowered that past admission."""
    exhaustions: Mapping[str, tuple[int, int]]
    """What is available, and what is requested in vain, by resource."""
    strip: tuple[ClaimView, ...] = ()
    """Claims whose release annotation has done its work and is to be removed."""
    crowded: bool = False
    """Whether a claim was left out because no more can be listed."""
    pending: bool = False
    settling: frozenset[str] = frozenset()
    """Namespaces whose ResourceQuota's status is yet to follow."""


def allocate(seen: Seen) -> Allocation:
    """Return what the pool hands out, given what was seen."""
    found = _Pass(seen).run()
    return found if seen.semantics == Semantics.V012 else _with_use(seen, found)


def _with_use(seen: Seen, found: Allocation) -> Allocation:
    """Return the same, with what pods use among what is allocated."""
    order = {claim.uid: claim.priority for claim in seen.claims}
    verdicts = dict(found.verdicts)
    for namespace, entries in found.claims.items():
        quota = seen.quotas.get(namespace)
        if quota is None:
            continue
        listed = sorted(entries, key=lambda entry: order[entry.uid])
        in_use = covering(quota.used, [(entry.uid, entry.amounts) for entry in listed], seen.pool.hard)
        verdicts.update(dict.fromkeys(in_use, IN_USE))
    return replace(found, verdicts=verdicts)


class _Pass:
    """One pass: the running sums, and what has been concluded so far."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.pool = seen.pool
        self.hold = {namespace: self._hold(namespace) for namespace in sorted(_tracked(seen))}
        self.claimed: dict[str, Amounts] = {namespace: {} for namespace in self.hold}
        self.free: Amounts = {resource: hard.billionths for resource, hard in self.pool.hard.items()}
        for hold in self.hold.values():
            for resource, held in hold.held.items():
                self.free[resource] -= held
        self.listed: dict[str, list[Entry]] = {}
        self.count = 0
        self._bytes = -1
        self._bytes_in: dict[str, int] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        self.strip: list[ClaimView] = []
        self.crowded = False
        self.before = {entry.uid: entry for entries in seen.before.claims.values() for entry in entries}

    def _hold(self, namespace: str) -> Hold:
        seen = self.seen
        frozen = namespace in seen.ending
        return hold_of(
            seen.pool,
            seen.quotas.get(namespace),
            summed(seen.before.claims.get(namespace, ())),
            seen.before.releasing.get(namespace, {}),
            frozen=frozen,
            leaving=not frozen and namespace not in seen.selected,
            lost=seen.before.lost,
        )

    # --- the claims ----------------------------------------------------------------------------------------------------------

    def run(self) -> Allocation:
        queue = []
        for claim in sorted(self.seen.claims, key=lambda claim: claim.priority):
            if claim.deleting:
                if claim.uid in self.before or claim.says_bound(self.pool.name, self.pool.uid):
                    self.verdicts[claim.uid] = let_go(self.pool.name)
                continue
            if claim.is_tried_elsewhere(self.pool):
                queue += [claim] if self._could_wait(claim) else []
                continue
            verdict = self._barred(claim)
            if verdict is not None:
                self.verdicts[claim.uid] = verdict
            elif self._keeps(claim):
                self._keep(claim)
            else:
                queue.append(claim)
        # What was allocated and changed, or says so itself and was not recorded any more, goes before those that wait.
        former = [claim for claim in queue if self._was_allocated(claim)]
        for claim in former:
            if not self._short(claim):
                self._accept(claim)
        self._serve([claim for claim in queue if claim.uid not in self.verdicts])
        return self._concluded()

    def _serve(self, queue: list[ClaimView]) -> None:
        """Give the waiting claims their turns until nobody is served any more: what is said then, the next pass would say too."""
        while True:
            self.waiting.clear()
            for claim in queue:
                if claim.is_tried_elsewhere(self.pool):
                    self._keeps_its_place(claim)
                else:
                    self.verdicts[claim.uid] = self._next(claim)
            left = [claim for claim in queue if claim.uid not in self.verdicts or not self.verdicts[claim.uid].bound]
            if len(left) == len(queue):
                return
            queue = left

    def _barred(self, claim: ClaimView) -> Verdict | None:
        """Return why a claim is no candidate in this pass; None where it is."""
        if claim.namespace not in self.seen.selected and not self._stays_to_the_end(claim):
            if claim.pool:
                return failed(Message.NOT_AVAILABLE)
            return unassigned(claim.namespace, [(self.pool.name, Message.NOT_AVAILABLE)])
        if claim.problem:
            return failed(claim.problem)
        if claim.release:
            if self._is_let_go(claim):
                return let_go(self.pool.name)
            self.strip.append(claim)
        if claim.uid in self.before:
            return None
        lacking = [resource for resource in sorted(claim.amounts) if resource not in self.pool.hard]
        if lacking:
            return failed(join(not_claimable(resource, self.pool.name) for resource in lacking))
        if claim.uid in self.seen.refused:
            return refused(self.seen.refused[claim.uid])
        return None

    def _could_wait(self, claim: ClaimView) -> bool:
        """Tell whether a claim that is tried in another pool has a place in the queue of this one."""
        served = claim.namespace in self.seen.selected and not claim.problem and not claim.release
        return served and all(resource in self.pool.hard for resource in claim.amounts)

    def _keeps_its_place(self, claim: ClaimView) -> None:
        """Count a claim that is tried in another pool among those that wait; what becomes of it that one says."""
        if not self._ahead(claim):
            self._count_short(claim, self._short(claim))

    def _stays_to_the_end(self, claim: ClaimView) -> bool:
        return claim.namespace in self.seen.ending and claim.uid in self.before

    def _is_let_go(self, claim: ClaimView) -> bool:
        """Tell whether the annotation is at work: the claim is let go now, or was, and its owner has not edited it since."""
        if claim.let_go:
            return claim.steps_aside()
        return claim.uid in self.before or claim.says_bound(self.pool.name, self.pool.uid)

    def _was_allocated(self, claim: ClaimView) -> bool:
        """Tell whether one of three witnesses says so: the pool's status, the claim's own, or, where the first is lost, the quota."""
        if claim.let_go:
            return False
        if claim.uid in self.before or claim.says_bound(self.pool.name, self.pool.uid):
            return True
        if not self.seen.before.lost or claim.is_tried_elsewhere(self.pool):
            return False
        quota = self.seen.quotas.get(claim.namespace)
        return quota is not None and mark_of(claim.name) in quota.claims

    def _keeps(self, claim: ClaimView) -> bool:
        """Tell whether an allocated claim stays so unasked: it wants what it has, or less."""
        entry = self.before.get(claim.uid)
        if entry is None or claim.let_go:
            return False
        had = entry.amounts
        return had == claim.amounts or all(amount <= had.get(resource, 0) for resource, amount in claim.amounts.items())

    def _keep(self, claim: ClaimView) -> None:
        """List a claim that stays: what it has is among what its namespace holds, so nothing is taken from the pool."""
        add(self.claimed[claim.namespace], claim.amounts)
        self._list(claim)

    def _next(self, claim: ClaimView) -> Verdict:
        """Return the verdict of a claim that waits for its turn, which has come."""
        ahead = self._ahead(claim)
        if ahead:
            return queue_exhausted(
                queued(
                    resource,
                    self._tell(claim, resource, claim.amounts[resource]),
                    self._tell(claim, resource, self.waiting[resource][1]),
                )
                for resource in ahead
            )
        short = self._short(claim)
        self._count_short(claim, short)
        if short:
            return exhausted(
                shortage(
                    resource,
                    self._tell(claim, resource, claim.amounts[resource]),
                    self._tell(claim, resource, available),
                )
                for resource, available in short.items()
            )
        if self.count >= self.seen.ceiling or self._room() < self._size(claim.namespace, claim):
            self.crowded = True
            return too_many(self.count)
        if self._has_its_share(claim):
            return too_many_here(claim.namespace, len(self.listed[claim.namespace]))
        self._accept(claim)
        return BOUND

    def _ahead(self, claim: ClaimView) -> list[str]:
        """Return the resources for which older claims wait, and which this one asks for, in an ordered queue."""
        asked = (resource for resource in sorted(claim.amounts) if claim.amounts[resource])
        return [resource for resource in asked if resource in self.waiting] if self.pool.ordered else []

    def _count_short(self, claim: ClaimView, short: Iterable[str]) -> None:
        for resource in short:
            available, requested = self.waiting.get(resource, (max(0, self.free.get(resource, 0)), 0))
            self.waiting[resource] = (available, requested + claim.amounts[resource])

    def _short(self, claim: ClaimView) -> Amounts:
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

    def _accept(self, claim: ClaimView) -> None:
        hold, claimed = self.hold[claim.namespace], self.claimed[claim.namespace]
        for resource, amount in claim.amounts.items():
            has, held = claimed.get(resource, 0), hold.held.get(resource, 0)
            if resource in self.free:
                self.free[resource] -= max(0, has + amount - max(held, has))
        add(claimed, claim.amounts)
        self._list(claim)

    def _list(self, claim: ClaimView) -> None:
        entry = self.before.get(claim.uid)
        if entry is None or entry.name != claim.name or entry.amounts != claim.amounts:
            entry = Entry(claim.name, claim.uid, claim.amounts)
        self.listed.setdefault(claim.namespace, []).append(entry)
        self.count += 1
        if self._bytes >= 0:
            self._bytes += self._size(claim.namespace, entry)
        if claim.namespace in self._bytes_in:
            self._bytes_in[claim.namespace] += self._size(claim.namespace, entry)
        self.verdicts[claim.uid] = BOUND

    def _room(self) -> int:
        """Return how many bytes are left for further claims, beside all else that grows; counted once somebody asks."""
        if self._bytes < 0:
            self._bytes = sum(
                self._size(namespace, entry) for namespace, entries in self.listed.items() for entry in entries
            )
            self._bytes += sum(len(namespace) + _NAMESPACE_BYTES for namespace in self.seen.selected)
            for namespace, hold in self.hold.items():
                claimed = self.claimed[namespace]
                self._bytes += self._bytes_of({r: held for r, held in hold.held.items() if held > claimed.get(r, 0)})
        return self.seen.room - self._bytes

    def _has_its_share(self, claim: ClaimView) -> bool:
        """Tell whether the claims of a namespace take all of the list that one namespace may have."""
        listed, share = self.listed.get(claim.namespace), self.seen.share
        if listed is None or share >= 1:
            return False
        if claim.namespace not in self._bytes_in:
            self._bytes_in[claim.namespace] = sum(self._size(claim.namespace, entry) for entry in listed)
        size = self._bytes_in[claim.namespace] + self._size(claim.namespace, claim)
        return len(listed) + 1 > self.seen.ceiling * share or size > self.seen.room * share

    def _size(self, namespace: str, claim: ClaimView | Entry) -> int:
        """Return how many bytes a claim takes in the status of its pool."""
        return _ENTRY_BYTES + len(namespace) + len(claim.name) + len(claim.uid) + self._bytes_of(claim.amounts)

    def _bytes_of(self, amounts: Mapping[str, int]) -> int:
        return sum(
            _AMOUNT_BYTES + len(resource) + len(self._show(resource, amount)) for resource, amount in amounts.items()
        )

    # --- what comes of it ----------------------------------------------------------------------------------------------------

    def _concluded(self) -> Allocation:
        pool = self.pool
        wanted = {namespace: self._wanted(namespace) for namespace in self.hold}
        releasing = {namespace: each.releasing for namespace, each in wanted.items() if each.releasing}
        used = {resource: hard.billionths - self.free[resource] for resource, hard in pool.hard.items()}
        for claimed in self.claimed.values():
            add(used, {name: amount for name, amount in claimed.items() if amount and name not in pool.hard})
        return Allocation(
            claims={
                namespace: tuple(sorted(entries, key=lambda entry: (entry.name, entry.uid)))
                for namespace, entries in sorted(self.listed.items())
            },
            releasing=releasing,
            quotas={namespace: each.hard for namespace, each in wanted.items()},
            verdicts=self.verdicts,
            used=used,
            available={resource: max(0, free) for resource, free in self.free.items()},
            over={resource: -free for resource, free in self.free.items() if free < 0},
            exhaustions=dict(sorted(self.waiting.items())),
            strip=tuple(self.strip),
            crowded=self.crowded,
            pending=any(each.lowering for each in wanted.values()),
            settling=frozenset(namespace for namespace, hold in self.hold.items() if hold.settling),
        )

    def _wanted(self, namespace: str) -> Wanted:
        claimed = {resource: amount for resource, amount in self.claimed[namespace].items() if amount}
        return self.hold[namespace].wanted(self.pool, claimed)

    def _tell(self, claim: ClaimView, resource: str, amount: int) -> str:
        """Write an amount for the owner of a claim, in the format in which it was asked for."""
        return show(resource, amount, self.pool.hard, claim.formats.get(resource))

    def _show(self, resource: str, amount: int) -> str:
        return show(resource, amount, self.pool.hard)


def _tracked(seen: Seen) -> Iterable[str]:
    return {*seen.selected, *seen.before.claims, *seen.before.releasing, *seen.quotas}
