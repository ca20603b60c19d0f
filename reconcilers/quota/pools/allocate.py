"""The allocator: which claims of a pool are allocated, and which amounts each namespace gets.

Guarantees (docs/reference/capsule.md#allocation): pure, idempotent, and independent of the order of its input. Claims are served in queue
order (`queue_order`). A claim is allocated whole or not at all. An allocated claim stays allocated (sticky), even if an older claim waits
or hard is lowered below the allocated amounts. With `ordered` a claim waits for an older claim that waits for the same resource. An amount
that a namespace still holds (`release`) is available to that namespace only. A claim that can never be allocated fails without effect on
others. Above `max_claims` no further claim is listed, and the listed claims stay. A claim that only the pool's status lists, without a
grant of its ResourceQuota or a status of its own (`account`), is allocated if it fits: the status may have been edited, or the process may
have been killed. With a ledger, the cost is the cost of what changed, and of the claims that wait.

Caveats: one reconcile may not be enough. `pending`: the next step needs only this reconcile's record in the status.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from functools import cached_property

import msgspec

from konverge.reconcilers.quota.amounts import Amounts, add, show
from konverge.reconcilers.quota.claims.decision import (
    BOUND,
    ClaimDecision,
    exhausted,
    queue_exhausted,
    too_many,
    too_many_in_namespace,
)
from konverge.reconcilers.quota.claims.queue import blocked_by_older, in_queue_order
from konverge.reconcilers.quota.pools.account import NamespaceAccount, NamespaceAllocation, allocation_in
from konverge.reconcilers.quota.pools.concurrency import finished
from konverge.reconcilers.quota.pools.ledger import SLICE, PoolLedger
from konverge.reconcilers.quota.pools.listed_claims import ListedClaims
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.release import NamespaceTarget
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, claim_hash
from konverge.reconcilers.quota.words import queued, shortage

__all__ = ["PoolAllocation", "allocate", "allocation_steps"]


class PoolAllocation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The result of an allocation. Amounts are billionths; decisions are by uid of the claim."""

    namespaces: Mapping[str, NamespaceAllocation]
    """By namespace, sorted. An allocation that did not change since the last allocation by the same ledger is the same object."""
    used: Amounts
    available: Amounts
    excess: Amounts
    """The amounts held above hard, after hard was lowered in spite of admission."""
    exhaustions: Mapping[str, tuple[int, int]]
    """Available amount and total of the unmet requests, by resource."""
    spent_releases: tuple[ClaimView, ...] = ()
    """Claims whose release annotation has taken effect and can be removed."""
    unwitnessed: frozenset[str] = frozenset()
    """Uids of allocated claims that only the pool's status lists: their ResourceQuota does not include them yet."""
    status_full: bool = False
    """Whether a claim waits because the pool's status cannot list more."""
    listed: int = 0
    """The number of allocated claims."""

    @cached_property
    def claims(self) -> Mapping[str, tuple[AllocatedClaim, ...]]:
        """The allocated claims by namespace."""
        return {name: each.entries for name, each in self.namespaces.items() if each.entries}

    @cached_property
    def _targets(self) -> Mapping[str, NamespaceTarget]:
        return {name: each.target for name, each in self.namespaces.items() if each.target is not None}

    @cached_property
    def releasing(self) -> Mapping[str, Amounts]:
        """The amounts in release by namespace."""
        return {name: target.releasing for name, target in self._targets.items() if target.releasing}

    @cached_property
    def quotas(self) -> Mapping[str, Amounts | None]:
        """spec.hard of each namespace's ResourceQuota; None: delete it."""
        return {name: target.hard for name, target in self._targets.items()}

    @cached_property
    def witnesses(self) -> Mapping[str, Amounts]:
        """The amounts in release that the annotation of each ResourceQuota names."""
        return {name: target.witness for name, target in self._targets.items() if target.witness}

    @cached_property
    def reserving(self) -> frozenset[str]:
        """Namespaces whose ResourceQuota is raised once the stored record lists their claims."""
        return frozenset([name for name, each in self.namespaces.items() if each.reserving])

    @cached_property
    def ending(self) -> frozenset[str]:
        """Namespaces whose release ends: their ResourceQuota is written before the record is removed."""
        return frozenset([name for name, each in self.namespaces.items() if each.ending])

    @cached_property
    def pending(self) -> frozenset[str]:
        """Namespaces whose release continues in the next reconcile."""
        return frozenset([name for name, target in self._targets.items() if target.pending])

    @cached_property
    def settling(self) -> frozenset[str]:
        """Namespaces whose ResourceQuota status does not show its spec yet."""
        return frozenset([name for name, each in self.namespaces.items() if each.settling])

    @cached_property
    def decisions(self) -> Mapping[str, ClaimDecision]:
        """The decisions about all claims."""
        decisions: dict[str, ClaimDecision] = {}
        for each in self.namespaces.values():
            decisions.update(each.decisions)
        return decisions


def allocate(observed: PoolObservation, ledger: PoolLedger | None = None) -> PoolAllocation:
    """Allocate the claims of a pool; a ledger is brought up to date, and makes this cost only what changed."""
    return finished(allocation_steps(observed, ledger))


def allocation_steps(
    observed: PoolObservation, ledger: PoolLedger | None = None
) -> Generator[None, None, PoolAllocation]:
    """Allocate as `allocate` does; yields between slices, so that other work is not held up."""
    ledger = PoolLedger() if ledger is None else ledger
    yield from ledger.catch_up(observed)
    return (yield from _Allocator(observed, ledger).steps())


class _Served(msgspec.Struct):
    """The changes by the waiting claims of one namespace."""

    account: NamespaceAccount
    claimed: Amounts
    decisions: dict[str, ClaimDecision] = msgspec.field(default_factory=dict)


class _Allocator:
    """The running totals of one allocation, and the decisions about the waiting claims so far."""

    def __init__(self, observed: PoolObservation, ledger: PoolLedger) -> None:
        self.observed = observed
        self.pool = observed.pool
        self.ledger = ledger
        self.free: Amounts = {
            resource: hard.billionths - ledger.held.get(resource, 0) for resource, hard in self.pool.hard.items()
        }
        self.listed = ListedClaims(observed, ledger)
        self.waiting: dict[str, tuple[int, int]] = {}
        self.status_full = False
        self.beyond: Amounts = {
            name: amount for name, amount in ledger.claimed.items() if amount and name not in self.pool.hard
        }
        self.served = {
            namespace: _Served(account, dict(account.claimed)) for namespace, account in ledger.waiting.items()
        }

    # --- the claims ----------------------------------------------------------------------------------------------------------

    def steps(self) -> Generator[None, None, PoolAllocation]:
        accounts = self.ledger.waiting.values()
        queue = in_queue_order([claim for account in accounts for claim in account.waiting])
        # Formerly allocated claims that were edited, or whose record was lost, are served before the waiting claims.
        bound = set()
        for claim in queue:
            if self._was_allocated(claim) and not self._shortages(claim):
                self._allocate(claim)
                bound.add(claim.uid)
        yield from self._allocate_waiting([claim for claim in queue if claim.uid not in bound])
        return (yield from self._result())

    def _allocate_waiting(self, queue: list[ClaimView]) -> Generator[None, None, None]:
        """Serve the waiting claims until a round allocates none: only then would the next reconcile write the same messages."""
        while True:
            self.waiting.clear()
            left = []
            for number, claim in enumerate(queue):
                if number and number % (4 * SLICE) == 0:
                    yield
                if claim.is_offered_elsewhere(self.pool):
                    self._count_in_queue(claim)
                else:
                    decision = self.served[claim.namespace].decisions[claim.uid] = self._decide_waiting(claim)
                    if decision.bound:
                        continue
                left.append(claim)
            if len(left) == len(queue):
                return
            queue = left

    def _count_in_queue(self, claim: ClaimView) -> None:
        """Count a claim that was offered to another pool as waiting; that pool writes its status."""
        if not self._behind_older(claim):
            self._count_shortages(claim, self._shortages(claim))

    def _was_allocated(self, claim: ClaimView) -> bool:
        """Whether the claim was allocated, by the pool's status, by the claim's status or, if the pool's is lost, by the ResourceQuota."""
        if claim.released:
            return False
        recorded = self.served[claim.namespace].account.recorded
        if claim.uid in recorded or claim.is_bound_to(self.pool.name, self.pool.uid):
            return True
        if not self.observed.recorded.lost or claim.is_offered_elsewhere(self.pool):
            return False
        quota = self.observed.quotas.get(claim.namespace)
        return quota is not None and claim_hash(claim.name) in quota.claims

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
            return too_many_in_namespace(claim.namespace, self.listed.listed_in(claim.namespace))
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
        served = self.served[claim.namespace]
        short: Amounts = {}
        for resource in sorted(claim.amounts):
            wanted, free = claim.amounts[resource], self.free.get(resource, 0)
            if not wanted:
                continue
            own = served.account.own(resource, served.claimed.get(resource, 0))
            could = free + own if free >= 0 else 0
            if wanted > could:
                short[resource] = could
        return short

    def _allocate(self, claim: ClaimView) -> None:
        served = self.served[claim.namespace]
        for resource, amount in claim.amounts.items():
            if resource in self.free:
                self.free[resource] -= max(0, amount - served.account.own(resource, served.claimed.get(resource, 0)))
            elif amount:
                self.beyond[resource] = self.beyond.get(resource, 0) + amount
        add(served.claimed, claim.amounts)
        served.decisions[claim.uid] = BOUND
        self.listed.add(claim.namespace, served.account.entry_of(claim))

    # --- the result ----------------------------------------------------------------------------------------------------

    def _result(self) -> Generator[None, None, PoolAllocation]:
        pool, changed = self.pool, dict(self.ledger.unserved)
        for number, (namespace, served) in enumerate(self.served.items()):
            if number and number % SLICE == 0:
                yield
            account, added = served.account, self.listed.added.get(namespace, ())
            if not served.decisions:
                continue
            changed[namespace] = allocation_in(
                self.observed,
                namespace,
                account,
                served.claimed,
                [*account.kept, *added],
                {**account.decisions, **served.decisions},
            )
        used = {resource: hard.billionths - self.free[resource] for resource, hard in pool.hard.items()}
        accounts = [served.account for served in self.served.values()]
        return PoolAllocation(
            namespaces={namespace: changed[namespace] for namespace in sorted(changed)},
            used=used | self.beyond,
            available={resource: max(0, free) for resource, free in self.free.items()},
            excess={resource: -free for resource, free in self.free.items() if free < 0},
            exhaustions=dict(sorted(self.waiting.items())),
            spent_releases=tuple(in_queue_order(claim for account in accounts for claim in account.spent_releases)),
            unwitnessed=frozenset[str]().union(*[account.unwitnessed for account in accounts]),
            status_full=self.status_full,
            listed=self.listed.count,
        )

    def _in_claims_format(self, claim: ClaimView, resource: str, amount: int) -> str:
        """Format an amount like the claim's own request, for messages to its owner."""
        return show(resource, amount, self.pool.hard, claim.formats.get(resource))
