"""The release of claims: the amounts that a namespace holds of a pool, and when the pool may allocate them again (shrink first, credit
later).

Guarantees (docs/reference/capsule.md#shrink-first-credit-later): of each resource of the pool a namespace holds the maximum of: the sum of
its allocated claims; the grant of its ResourceQuota (spec.hard); the limit that admission enforces (status.hard); and the released amount
that pods still use. The default of the resource is subtracted from all of these; for a ResourceQuota, the default that was written with
it. The rest of a lowered default counts until status.hard follows, without a record, since it was never claimed.

A release takes two reconciles. The first records the held amount in the pool's status (`releasing`) and lowers nothing; the second sees
the record, lowers the ResourceQuota, and writes the record to its annotation in the same write: the witness, so that a status that was
wiped or edited releases nothing. Once the ResourceQuota shows that nothing above the claims is granted or used, the witness is removed,
then the record, and the pool may allocate the amount again. So an amount is never allocated twice, whichever write is the last before a
crash. If the whole record is lost, all use counts as released.

The witness is also a fence between two processes. Until the ResourceQuota has it, the whole record counts as held; and the removal, which
names the version of the ResourceQuota, fails if another process has raised the ResourceQuota. A raise that is still on its way fails then,
since the version that it names is older than the witness.

A lowered key stays in the ResourceQuota while it is on record: a missing key would mean no limit at all (X26). A terminating namespace
holds its amounts until its deletion ends; a namespace that the pool no longer selects, until the deletion of its ResourceQuota.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from konverge.reconcilers.quota.amounts import Amounts, add
from konverge.reconcilers.quota.views import AllocatedClaim, PoolView, QuotaView

__all__ = ["NamespaceHold", "NamespaceTarget", "hold_of", "summed"]


class NamespaceTarget(msgspec.Struct, frozen=True):
    """The desired state of a namespace: its ResourceQuota's hard (None: delete it), and the record of the amounts in release.

    `pending`: the next reconcile continues a release as soon as record and witness are stored. `witness` is the part of the record for
    the annotation.
    """

    hard: Amounts | None
    releasing: Amounts
    pending: bool
    witness: Amounts


class NamespaceHold(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of the pool's resources that a namespace holds at the start of a reconcile.

    `granted` is the larger of spec.hard and status.hard of its ResourceQuota. `frozen`: nothing is released now, since it is terminating.
    """

    held: Amounts
    granted: Amounts
    claimed: Mapping[str, int]
    """The sum of the claims in the pool's status."""
    recorded: Mapping[str, int]
    """The larger of record and witness."""
    stored: Mapping[str, int]
    """The record in the pool's status."""
    specified: Mapping[str, int]
    """The grant by spec.hard."""
    resources: Collection[str]
    """The resources of the pool."""
    settling: frozenset[str] = frozenset()
    """Resources whose status.hard is still above spec.hard without a release: a default was lowered."""
    quota: QuotaView | None
    frozen: bool = False
    leaving: bool = False

    def wanted(self, pool: PoolView, claimed: Mapping[str, int]) -> NamespaceTarget:
        """Return the desired state of the namespace, given the sum of its claims."""
        if self.leaving and self.quota is None:
            return NamespaceTarget(None, {}, pending=bool(self.held), witness={})
        releasing, lowering = self._releasing(claimed)
        # The record is stored first. If it was wiped, the witness stays.
        seen = {} if self.quota is None else self.quota.releasing
        witness = {
            resource: amount for resource, amount in releasing.items() if resource in self.stored or resource in seen
        }
        if self.leaving:
            return NamespaceTarget(None, releasing, pending=False, witness=witness)
        if self.frozen:
            hard_now = dict(self.quota.hard) if self.quota is not None else None
            return NamespaceTarget(hard_now, releasing, pending=False, witness=witness)
        present = {} if self.quota is None else self.quota.hard
        hard: Amounts = {}
        for resource in {*claimed, *pool.defaults, *(pool.hard if pool.zero else ()), *releasing}:
            default = pool.default(resource)
            amount = claimed.get(resource, 0)
            if not amount and default is None and resource not in releasing:
                continue
            hard[resource] = amount + (default or 0)
            if resource in lowering and resource in present:
                # The grant stays and not spec.hard, which may contain a default that the pool had before.
                hard[resource] = max(hard[resource], self.specified.get(resource, 0) + (default or 0))
        pending = any(amount > seen.get(resource, 0) for resource, amount in releasing.items())
        return NamespaceTarget(hard, releasing, pending=pending, witness=witness)

    def grants(self, amounts: Mapping[str, int]) -> bool:
        """Whether the ResourceQuota grants the claims in the pool's status, as far as these resources of the pool are concerned."""
        return all(
            self.granted.get(resource, 0) >= self.claimed.get(resource, 0)
            for resource, amount in amounts.items()
            if amount and resource in self.resources
        )

    def lacks_record_of(self, claimed: Mapping[str, int]) -> bool:
        """Whether these claims need a grant that neither the ResourceQuota has nor the pool's status lists.

        The status is written first, and names the version that this reconcile read: so only one of two processes can grant an amount.
        """
        return any(
            amount > max(self.claimed.get(resource, 0), self.specified.get(resource, 0))
            for resource, amount in claimed.items()
            if resource in self.resources
        )

    def ends_release(self, claimed: Mapping[str, int], releasing: Mapping[str, int]) -> bool:
        """Whether an amount on record is neither claimed nor in release any more."""
        return self.quota is not None and any(
            amount > max(claimed.get(resource, 0), releasing.get(resource, 0))
            for resource, amount in self.recorded.items()
        )

    def _releasing(self, claimed: Mapping[str, int]) -> tuple[Amounts, Collection[str]]:
        """Return the new record, and the resources whose grant exceeds the stored record: these are not lowered yet."""
        releasing: Amounts = {}
        early = set()
        for resource, held in self.held.items():
            if held <= claimed.get(resource, 0) or resource in self.settling:
                continue
            granted = self.granted.get(resource, 0)
            before = self.recorded.get(resource, 0)
            releasing[resource] = max(before, granted, held)
            if self.stored.get(resource, 0) < granted:
                early.add(resource)
        return releasing, early


def summed(entries: Iterable[AllocatedClaim]) -> Amounts:
    """Return the sum of allocated claims, without zeros."""
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
    unconfirmed: bool = False,
) -> NamespaceHold:
    """Return the amounts that a namespace holds; `claimed` and `recorded` are from the pool's stored status; `lost`: it has no record.

    With `unconfirmed` no release ends, since the ResourceQuota could not be written.
    """
    held: Amounts = {}
    granted: Amounts = {}
    records: Amounts = {}
    specified: Amounts = {}
    settling = set()
    for resource in pool.hard:
        default = pool.default(resource) or 0
        by_spec, by_status, used, witness = 0, 0, None, 0
        if quota is not None:
            witness = quota.releasing.get(resource, 0)
            part = default if quota.defaults is None else quota.defaults.get(resource, 0)
            by_spec = quota.hard.get(resource, 0) - part
            by_status = quota.status_hard.get(resource, 0) - part
            used = quota.used.get(resource) if resource in quota.status_hard else None
        by_quota = max(by_spec, by_status)
        stored = max(recorded.get(resource, 0), (used or 0) - default if lost else 0)
        record = max(stored, witness)
        # If status.hard lacks the resource its use is unknown, so the whole record counts.
        whole = used is None or frozen or unconfirmed or witness < stored
        overhang = record if used is None or whole else min(record, max(0, used - default))
        gone = leaving and quota is None
        # Claims in the stored status count until the end of this reconcile, since the status is written last.
        most = max(claimed.get(resource, 0), by_quota, 0 if gone else overhang)
        if most > max(claimed.get(resource, 0), by_spec, record):
            settling.add(resource)
        if record > 0:
            records[resource] = record
        if by_spec > 0:
            specified[resource] = by_spec
        if by_quota > 0:
            granted[resource] = by_quota
        if most > 0:
            held[resource] = most
    return NamespaceHold(
        held=held,
        granted=granted,
        claimed=claimed,
        specified=specified,
        resources=pool.hard.keys(),
        recorded=records,
        stored=recorded,
        settling=frozenset(settling),
        quota=quota,
        frozen=frozen,
        leaving=leaving,
    )
