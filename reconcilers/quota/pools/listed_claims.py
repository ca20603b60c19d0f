"""The claims that the status of a pool lists, and the room for more: the status is one object of etcd.

Guarantees: no I/O. Listed claims stay listed, whatever the limits are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from konverge.quantities import Quantity
from konverge.reconcilers.quota.amounts import show
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView

if TYPE_CHECKING:
    from konverge.reconcilers.quota.pools.ledger import PoolLedger
    from konverge.reconcilers.quota.pools.observe import PoolObservation

__all__ = ["NAMESPACE_BYTES", "ListedClaims", "amounts_bytes", "entry_bytes"]

_ENTRY_BYTES: Final = 51
_AMOUNT_BYTES: Final = 6
NAMESPACE_BYTES: Final = 8
"""Size of the JSON around an entry's name, namespace and uid, around an amount's resource and digits, and around a namespace's name."""


def entry_bytes(namespace: str, claim: ClaimView | AllocatedClaim, hard: Mapping[str, Quantity]) -> int:
    """Return the bytes that a claim takes in the status of its pool."""
    return _ENTRY_BYTES + len(namespace) + len(claim.name) + len(claim.uid) + amounts_bytes(claim.amounts, hard)


def amounts_bytes(amounts: Mapping[str, int], hard: Mapping[str, Quantity]) -> int:
    """Return the bytes that amounts take in the status of a pool."""
    return sum([_AMOUNT_BYTES + len(name) + len(show(name, amount, hard)) for name, amount in amounts.items()])


class ListedClaims:
    """The claims that an allocation adds to the list of a ledger."""

    def __init__(self, observed: PoolObservation, ledger: PoolLedger) -> None:
        self._observed = observed
        self._ledger = ledger
        self.added: dict[str, list[AllocatedClaim]] = {}
        self.count = ledger.listed
        self._bytes = ledger.bytes
        self._bytes_in: dict[str, int] = {}

    def add(self, namespace: str, entry: AllocatedClaim) -> None:
        """List a claim."""
        self.added.setdefault(namespace, []).append(entry)
        self.count += 1
        size = entry_bytes(namespace, entry, self._observed.pool.hard)
        self._bytes += size
        self._bytes_in[namespace] = self._bytes_in.get(namespace, 0) + size

    def has_room_for(self, claim: ClaimView) -> bool:
        """Whether the status of the pool can list another claim."""
        observed = self._observed
        if self.count >= observed.max_claims:
            return False
        return observed.max_status_bytes - self._bytes >= entry_bytes(claim.namespace, claim, observed.pool.hard)

    def listed_in(self, namespace: str) -> int:
        """Return how many claims of a namespace are listed."""
        return len(self._ledger.accounts[namespace].kept) + len(self.added.get(namespace, ()))

    def exceeds_share(self, claim: ClaimView) -> bool:
        """Whether another claim would exceed one namespace's part of the list."""
        observed, namespace = self._observed, claim.namespace
        listed, share = self.listed_in(namespace), observed.namespace_share
        if not listed or share >= 1:
            return False
        before = self._ledger.accounts[namespace].entry_bytes + self._bytes_in.get(namespace, 0)
        size = before + entry_bytes(namespace, claim, observed.pool.hard)
        return listed + 1 > observed.max_claims * share or size > observed.max_status_bytes * share
