"""What one namespace holds of a pool, and how it gives back: shrink first, credit later.

Promises (docs/reference/capsule.md#shrink-first-credit-later): a namespace holds, of each resource of the pool, the greatest of what its
allocated claims sum up to, what its ResourceQuota grants (spec.hard), what the cluster still goes by (status.hard), and, of what it has
let go, what it still uses. The default of the resource is no part of any of these: of a ResourceQuota, it is the default that was written
with it. What is left of a default that was lowered counts until the status follows, and is no claim: no record is made of it.

Giving back takes two passes: the first records in the pool's status what is held (`releasing`) and lowers nothing; the second, which
sees the record, lowers the ResourceQuota. The record goes, and the pool may hand the amount out again, once the ResourceQuota shows
that nothing above the claims is granted or used. So whatever single write is the last before a crash, nothing is handed out twice.
Where the records themselves are lost, all that is used counts as if it had been let go.

A lowered key stays in the ResourceQuota for as long as it is on record: without the key there would be no limit at all (X26).
A namespace that is being deleted keeps what it holds until it is gone; one that left keeps it until its ResourceQuota is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from konverge.reconcilers.quota.amounts import Amounts, add
from konverge.reconcilers.quota.observation import AllocatedClaim, PoolView, QuotaView

__all__ = ["NamespaceHold", "NamespaceTarget", "hold_of", "summed"]


@dataclass(frozen=True, slots=True)
class NamespaceTarget:
    """What a namespace is to come to: its ResourceQuota's hard (None: it is to go), and the record of what it gives back.

    `lowering` tells that the next pass goes on as soon as this one's record is stored.
    """

    hard: Amounts | None
    releasing: Amounts
    lowering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceHold:
    """What a namespace held of the pool's resources when the pass began.

    `granted` is what it may use by its ResourceQuota, be it by spec or by status. `frozen`: nothing is given back at present.
    """

    held: Amounts
    granted: Amounts
    recorded: Mapping[str, int]
    settling: frozenset[str] = frozenset()
    """Resources of which the cluster still goes by more than the ResourceQuota grants, though nothing was let go: a default was lowered."""
    quota: QuotaView | None
    frozen: bool = False
    leaving: bool = False

    def wanted(self, pool: PoolView, claimed: Mapping[str, int]) -> NamespaceTarget:
        """Return what the namespace is to come to with claims that sum up to this."""
        if self.leaving and self.quota is None:
            return NamespaceTarget(None, {}, lowering=bool(self.held))
        releasing, lowering = self._releasing(claimed)
        if self.leaving:
            return NamespaceTarget(None, releasing, lowering=False)
        if self.frozen:
            return NamespaceTarget(dict(self.quota.hard) if self.quota is not None else None, releasing, lowering=False)
        present = {} if self.quota is None else self.quota.hard
        hard: Amounts = {}
        for resource in {*claimed, *pool.defaults, *(pool.hard if pool.zero else ()), *releasing}:
            default = pool.default(resource)
            amount = claimed.get(resource, 0)
            if not amount and default is None and resource not in releasing:
                continue
            hard[resource] = amount + (default or 0)
            if resource in lowering and resource in present:
                hard[resource] = max(hard[resource], present[resource])
        return NamespaceTarget(hard, releasing, lowering=bool(lowering))

    def _releasing(self, claimed: Mapping[str, int]) -> tuple[Amounts, Collection[str]]:
        """Return the new record, and the resources that are granted above the stored one: these are not lowered yet."""
        releasing: Amounts = {}
        early = set()
        for resource, held in self.held.items():
            if held <= claimed.get(resource, 0) or resource in self.settling:
                continue
            granted = self.granted.get(resource, 0)
            before = self.recorded.get(resource, 0)
            releasing[resource] = max(before, granted, held)
            if before < granted:
                early.add(resource)
        return releasing, early


def summed(entries: Iterable[AllocatedClaim]) -> Amounts:
    """Return what allocated claims sum up to, without resources of which they want nothing."""
    total: Amounts = {}
    for entry in entries:
        add(total, entry.amounts)
    return {resource: amount for resource, amount in total.items() if amount}


def hold_of(
    pool: PoolView,
    quota: QuotaView | None,
    claimed: Mapping[str, int],
    recorded: Mapping[str, int],
    *,
    frozen: bool = False,
    leaving: bool = False,
    lost: bool = False,
) -> NamespaceHold:
    """Return what a namespace holds: `claimed` and `recorded` are what the stored status says of it; `lost`: it says nothing."""
    held: Amounts = {}
    granted: Amounts = {}
    settling = set()
    for resource in pool.hard:
        default = pool.default(resource) or 0
        by_spec, by_status, used = 0, 0, None
        if quota is not None:
            part = default if quota.defaults is None else quota.defaults.get(resource, 0)
            by_spec = quota.hard.get(resource, 0) - part
            by_status = quota.status_hard.get(resource, 0) - part
            used = quota.used.get(resource) if resource in quota.status_hard else None
        by_quota = max(by_spec, by_status)
        record = max(0, (used or 0) - default) if lost else recorded.get(resource, 0)
        # Of a quota whose status does not speak of the resource, nobody knows the use: all that is on record counts.
        overhang = record if used is None or frozen else min(record, max(0, used - default))
        gone = leaving and quota is None
        # What the stored status lists counts to the end of this pass even where nothing else does: it is rewritten last.
        most = max(claimed.get(resource, 0), by_quota, 0 if gone else overhang)
        if most > max(claimed.get(resource, 0), by_spec, record):
            settling.add(resource)
        if by_quota > 0:
            granted[resource] = by_quota
        if most > 0:
            held[resource] = most
    return NamespaceHold(
        held=held,
        granted=granted,
        recorded=recorded,
        settling=frozenset(settling),
        quota=quota,
        frozen=frozen,
        leaving=leaving,
    )
