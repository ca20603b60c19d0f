"""One namespace of a pool: which of its claims stay allocated, which are rejected, which wait, and the target of its ResourceQuota.

Guarantees: pure. An account depends on the namespace's part of an observation and on the pool itself, on no other namespace; so it holds
until that part changes (`konverge.reconcilers.quota.pools.ledger`). A claim belongs to the account of its own namespace, and only an entry
of that namespace's list records it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from konverge.reconcilers.quota.amounts import Amounts, add
from konverge.reconcilers.quota.claims.decision import (
    BOUND,
    IN_USE,
    ClaimDecision,
    failed,
    refused,
    released,
    unassigned,
)
from konverge.reconcilers.quota.pools.in_use import covering
from konverge.reconcilers.quota.pools.listed_claims import amounts_bytes, entry_bytes
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.release import NamespaceHold, NamespaceTarget, hold_of, summed
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView
from konverge.reconcilers.quota.words import Message, Semantics, join, not_claimable

__all__ = ["NamespaceAccount", "NamespaceAllocation", "account_of"]

_NO_AMOUNTS: Mapping[str, int] = {}


class NamespaceAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an allocation that concerns one namespace; decisions are by uid of the claim."""

    claims: tuple[ClaimView, ...]
    """The claims of the namespace, in queue order."""
    decisions: Mapping[str, ClaimDecision]
    entries: tuple[AllocatedClaim, ...] = ()
    """The allocated claims, by name."""
    target: NamespaceTarget | None = None
    """None for a namespace that has claims only, which the pool does not serve."""
    reserving: bool = False
    """Whether the ResourceQuota is raised once the stored record lists the claims."""
    ending: bool = False
    """Whether a release ends: the ResourceQuota is written before the record is removed."""
    settling: bool = False
    """Whether the status of the ResourceQuota does not show its spec yet."""


class NamespaceAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace before the waiting claims of the pool are served."""

    claims: tuple[ClaimView, ...]
    hold: NamespaceHold
    recorded: Mapping[str, AllocatedClaim]
    """The entries of the pool's stored list, by uid."""
    kept: tuple[AllocatedClaim, ...]
    claimed: Mapping[str, int]
    """The sum of the kept claims."""
    decisions: Mapping[str, ClaimDecision]
    waiting: tuple[ClaimView, ...]
    """The claims to serve, in queue order."""
    spent_releases: tuple[ClaimView, ...]
    """Claims whose release annotation has taken effect and can be removed."""
    unwitnessed: frozenset[str]
    """Uids of listed claims that neither their ResourceQuota nor their status shows."""
    tracked: bool
    entry_bytes: int
    """The bytes of the kept claims in the status of the pool."""
    release_bytes: int
    """The bytes of the amounts in release."""
    unserved: NamespaceAllocation
    """The allocation if no waiting claim is allocated."""

    def own(self, resource: str, has: int) -> int:
        """Return the amount that the namespace holds beyond `has`: it is available to this namespace only."""
        return max(0, self.hold.held.get(resource, 0) - has)

    def entry_of(self, claim: ClaimView) -> AllocatedClaim:
        """Return the list entry of an allocated claim: the recorded entry if it is equal."""
        return _entry(self.recorded.get(claim.uid), claim)


def account_of(observed: PoolObservation, namespace: str, claims: tuple[ClaimView, ...]) -> NamespaceAccount:
    """Return the account of a namespace; `claims` are its claims in queue order."""
    return _Accountant(observed, namespace).account(claims)


def allocation_in(
    observed: PoolObservation,
    namespace: str,
    account: NamespaceAccount,
    claimed: Mapping[str, int],
    entries: Iterable[AllocatedClaim],
    decisions: Mapping[str, ClaimDecision],
) -> NamespaceAllocation:
    """Return the allocation of a namespace with these claims allocated; `claimed` is their sum."""
    return _allocation(
        observed, namespace, account.claims, account.hold, claimed, entries, decisions, tracked=account.tracked
    )


def _entry(recorded: AllocatedClaim | None, claim: ClaimView) -> AllocatedClaim:
    if recorded is None or recorded.name != claim.name or recorded.amounts != claim.amounts:
        return AllocatedClaim(claim.name, claim.uid, claim.amounts)
    return recorded


def _allocation(
    observed: PoolObservation,
    namespace: str,
    claims: tuple[ClaimView, ...],
    hold: NamespaceHold,
    claimed: Mapping[str, int],
    entries: Iterable[AllocatedClaim],
    decisions: Mapping[str, ClaimDecision],
    *,
    tracked: bool,
) -> NamespaceAllocation:
    if not tracked:
        return NamespaceAllocation(claims=claims, decisions=decisions)
    claimed = {resource: amount for resource, amount in claimed.items() if amount}
    target = hold.wanted(observed.pool, claimed)
    listed = tuple(sorted(entries, key=lambda entry: (entry.name, entry.uid)))
    quota = observed.quotas.get(namespace)
    if listed and quota is not None and observed.semantics == Semantics.V014:
        amounts = {entry.uid: entry.amounts for entry in listed}
        in_order = [(claim.uid, amounts[claim.uid]) for claim in claims if claim.uid in amounts]
        in_use = covering(quota.used, in_order, observed.pool.hard)
        decisions = {**decisions, **dict.fromkeys(in_use, IN_USE)}
    return NamespaceAllocation(
        claims=claims,
        decisions=decisions,
        entries=listed,
        target=target,
        reserving=namespace not in observed.foreign and hold.lacks_record_of(claimed),
        ending=hold.ends_release(claimed, target.releasing),
        settling=bool(hold.settling),
    )


class _Accountant(msgspec.Struct):
    """The decisions about the claims of one namespace that do not depend on the free amounts of the pool."""

    observed: PoolObservation
    namespace: str
    recorded: dict[str, AllocatedClaim] = msgspec.field(default_factory=dict)
    spent_releases: list[ClaimView] = msgspec.field(default_factory=list)
    unwitnessed: set[str] = msgspec.field(default_factory=set)

    def account(self, claims: tuple[ClaimView, ...]) -> NamespaceAccount:
        observed, namespace = self.observed, self.namespace
        self.recorded = {entry.uid: entry for entry in observed.recorded.claims.get(namespace, ())}
        hold = self._hold()
        claimed: Amounts = {}
        kept: list[AllocatedClaim] = []
        decisions: dict[str, ClaimDecision] = {}
        waiting = []
        for claim in claims:
            if claim.deleting:
                if self._was_bound(claim):
                    decisions[claim.uid] = released(observed.pool.name)
                continue
            if claim.is_offered_elsewhere(observed.pool):
                waiting += [claim] if self._can_queue(claim) else []
                continue
            decision = self._rejection_of(claim)
            if decision is not None:
                decisions[claim.uid] = decision
            elif self._stays_allocated(claim, hold):
                # The namespace holds its amounts already, so the pool's free amounts stay.
                add(claimed, claim.amounts)
                kept.append(_entry(self.recorded.get(claim.uid), claim))
                decisions[claim.uid] = BOUND
            else:
                waiting.append(claim)
        hard = observed.pool.hard
        tracked = (
            namespace in observed.selected
            or namespace in observed.quotas
            or namespace in observed.recorded.claims
            or namespace in observed.recorded.releasing
        )
        in_release = {name: held for name, held in hold.held.items() if held > claimed.get(name, 0)}
        return NamespaceAccount(
            claims=claims,
            hold=hold,
            recorded=self.recorded,
            kept=tuple(kept),
            claimed=claimed,
            decisions=decisions,
            waiting=tuple(waiting),
            spent_releases=tuple(self.spent_releases),
            unwitnessed=frozenset(self.unwitnessed),
            tracked=tracked,
            entry_bytes=sum([entry_bytes(namespace, entry, hard) for entry in kept]),
            release_bytes=amounts_bytes(in_release, hard),
            unserved=_allocation(observed, namespace, claims, hold, claimed, kept, decisions, tracked=tracked),
        )

    def _hold(self) -> NamespaceHold:
        observed, namespace = self.observed, self.namespace
        frozen = namespace in observed.terminating
        impossible = observed.impossible.get(namespace, frozenset())
        # A listed claim whose ResourceQuota was rejected was never granted.
        listed = [entry for entry in observed.recorded.claims.get(namespace, ()) if entry.uid not in observed.refused]
        claimed, releasing = summed(listed), observed.recorded.releasing.get(namespace, _NO_AMOUNTS)
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

    def _rejection_of(self, claim: ClaimView) -> ClaimDecision | None:
        """Return why a claim cannot be allocated regardless of the available amounts; None if it is a candidate."""
        observed = self.observed
        if self.namespace not in observed.selected and not (
            self.namespace in observed.terminating and claim.uid in self.recorded
        ):
            if claim.pool:
                return failed(Message.NOT_AVAILABLE)
            return unassigned(claim.namespace, [(observed.pool.name, Message.NOT_AVAILABLE)])
        if claim.problem:
            return failed(claim.problem)
        if claim.release:
            if self._is_released(claim):
                return released(observed.pool.name)
            self.spent_releases.append(claim)
        if claim.uid in observed.refused:
            return refused(observed.refused[claim.uid])
        if claim.uid in self.recorded:
            return None
        lacking = [resource for resource in sorted(claim.amounts) if resource not in observed.pool.hard]
        if lacking:
            return failed(join(not_claimable(resource, observed.pool.name) for resource in lacking))
        return None

    def _can_queue(self, claim: ClaimView) -> bool:
        """Whether a claim that was offered to another pool can wait in the queue of this pool."""
        served = self.namespace in self.observed.selected and not claim.problem and not claim.release
        return served and claim.amounts.keys() <= self.observed.pool.hard.keys()

    def _was_bound(self, claim: ClaimView) -> bool:
        pool = self.observed.pool
        return claim.uid in self.recorded or claim.is_bound_to(pool.name, pool.uid)

    def _is_released(self, claim: ClaimView) -> bool:
        """Whether the annotation takes effect: the claim is released now, or was released and has not been edited since."""
        if claim.released:
            return claim.stays_released()
        return self._was_bound(claim)

    def _stays_allocated(self, claim: ClaimView, hold: NamespaceHold) -> bool:
        """Whether an allocated claim stays allocated without a check: it requests at most its allocated amounts."""
        entry = self.recorded.get(claim.uid)
        if entry is None or claim.released:
            return False
        if not self._is_witnessed(claim, entry, hold):
            self.unwitnessed.add(claim.uid)
            return False
        had = entry.amounts
        return had == claim.amounts or all(amount <= had.get(resource, 0) for resource, amount in claim.amounts.items())

    def _is_witnessed(self, claim: ClaimView, entry: AllocatedClaim, hold: NamespaceHold) -> bool:
        """Whether anything besides the pool's status shows the allocation: the claim's own status, or the grant of its ResourceQuota."""
        pool, condition = self.observed.pool, claim.condition
        is_current = condition is not None and condition.observed_generation == claim.generation
        if is_current and claim.is_bound_to(pool.name, pool.uid):
            return True
        return claim.namespace in self.observed.terminating or hold.grants(entry.amounts)
