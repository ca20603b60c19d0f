"""The ledger of a pool: an account of each namespace, kept from one reconcile to the next, and their sums.

Guarantees: no I/O, and a cache only: `catch_up` computes exactly the accounts whose part of the observation changed, so a ledger that has
followed any history equals a ledger that starts with the last observation (`tests/property/test_quota_ledger.py`). A restart loses it.
One changed claim costs one account; what is compared for each namespace is compared by identity, without a call of Python code.

Caveats: views are compared by identity first, so a view must not change in place.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, TypeAlias

from konverge.reconcilers.quota.amounts import Amounts, add
from konverge.reconcilers.quota.pools.account import NamespaceAccount, NamespaceAllocation, account_of
from konverge.reconcilers.quota.pools.listed_claims import NAMESPACE_BYTES
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.views import AllocatedClaim, QuotaView

__all__ = ["SLICE", "PoolLedger", "RenderedClaims", "differing"]

RenderedClaims: TypeAlias = dict[str, tuple[tuple[AllocatedClaim, ...], list[Any]]]

SLICE: Final = 50
"""Namespaces or claims between two points at which a computation may be interrupted."""


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the keys whose values differ.

    >>> sorted(differing({"a": 1, "b": 2}, {"b": 3, "c": 4}))
    ['a', 'b', 'c']
    """
    if before is now:
        return set()
    changed = {key for key, value in now.items() if (known := before.get(key)) is not value and known != value}
    return changed | (before.keys() - now.keys())


class PoolLedger:
    """The accounts of one pool by namespace, and their sums."""

    def __init__(self) -> None:
        self._seen: PoolObservation | None = None
        self.accounts: dict[str, NamespaceAccount] = {}
        self.unserved: dict[str, NamespaceAllocation] = {}
        """The allocation of each namespace without its waiting claims."""
        self.waiting: dict[str, NamespaceAccount] = {}
        """The accounts with claims that wait, that lose their annotation, or that only the pool's status lists."""
        self.held: Amounts = {}
        self.claimed: Amounts = {}
        self.listed = 0
        self.bytes = 0
        """The bytes of the status that the kept claims, the namespaces and the amounts in release take."""
        self.planned: dict[str, tuple[NamespaceAllocation, QuotaView | None]] = {}
        """The allocation and the ResourceQuota of each namespace that needs no write (`decide.plan_writes`)."""
        self.rendered: RenderedClaims = {}
        """The entries of each namespace, and as they are rendered (`render.render_steps`)."""

    def catch_up(self, observed: PoolObservation) -> Generator[None, None, None]:
        """Compute the accounts that differ from the last observation; yields between slices."""
        changed = self._changed(observed)
        # While slices are pending, the accounts match no observation.
        self._seen = None
        for number, namespace in enumerate(sorted(changed)):
            if number and number % SLICE == 0:
                yield
            claims = observed.claims_in.get(namespace, ())
            self._replace(namespace, account_of(observed, namespace, claims))
        self._seen = observed

    def _changed(self, now: PoolObservation) -> set[str]:
        """Return the namespaces whose account may differ."""
        before = self._seen
        if before is None or _common(before) != _common(now):
            self.__init__()  # type: ignore[misc]  # starts over
            before = PoolObservation(pool=now.pool)
        joined, left = now.selected - before.selected, before.selected - now.selected
        self.bytes += sum([len(name) + NAMESPACE_BYTES for name in joined])
        self.bytes -= sum([len(name) + NAMESPACE_BYTES for name in left])
        changed = {*joined, *left}
        changed |= before.terminating ^ now.terminating
        changed |= before.foreign ^ now.foreign
        changed |= before.unconfirmed ^ now.unconfirmed
        changed |= differing(before.quotas, now.quotas)
        changed |= differing(before.claims_in, now.claims_in)
        changed |= differing(before.recorded.claims, now.recorded.claims)
        changed |= differing(before.recorded.releasing, now.recorded.releasing)
        changed |= differing(before.impossible, now.impossible)
        refused = differing(before.refused, now.refused)
        if refused:
            changed |= {claim.namespace for claim in now.claims if claim.uid in refused}
            recorded = now.recorded.claims.items()
            changed |= {name for name, entries in recorded if any(entry.uid in refused for entry in entries)}
        return changed

    def _replace(self, namespace: str, account: NamespaceAccount) -> None:
        before = self.accounts.pop(namespace, None)
        if before is not None:
            self._count(before, -1)
        for kept in (self.unserved, self.waiting):
            kept.pop(namespace, None)
        if not account.tracked and not account.claims:
            return
        self.accounts[namespace] = account
        self.unserved[namespace] = account.unserved
        if account.waiting or account.spent_releases or account.unwitnessed:
            self.waiting[namespace] = account
        self._count(account, 1)

    def _count(self, account: NamespaceAccount, sign: int) -> None:
        for total, amounts in ((self.held, account.hold.held), (self.claimed, account.claimed)):
            add(total, amounts if sign > 0 else {resource: -amount for resource, amount in amounts.items()})
        self.listed += sign * len(account.kept)
        self.bytes += sign * (account.entry_bytes + account.release_bytes)


def _common(observed: PoolObservation) -> tuple[object, ...]:
    """Return the part of an observation that concerns every namespace."""
    return (observed.pool, observed.semantics, observed.recorded.lost)
