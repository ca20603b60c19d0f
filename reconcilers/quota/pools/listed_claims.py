"""The claims that the status of a pool lists, and the room for more: the status is one object of etcd.

Guarantees: no I/O. Listed claims stay listed, whatever the limits are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from konverge.reconcilers.quota.amounts import Amounts, show
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView

__all__ = ["ListedClaims"]

_ENTRY_BYTES: Final = 51
_AMOUNT_BYTES: Final = 6
_NAMESPACE_BYTES: Final = 8
"""Size of the JSON around an entry's name, namespace and uid, around an amount's resource and digits, and around a namespace's name."""


class ListedClaims:
    """The list of one allocation; `releasing` returns the amounts in release of each namespace, which the status holds as well."""

    def __init__(self, observed: PoolObservation, releasing: Callable[[], Iterable[Amounts]]) -> None:
        self._observed = observed
        self._releasing = releasing
        self.by_namespace: dict[str, list[AllocatedClaim]] = {}
        self.count = 0
        self._bytes = -1
        self._bytes_in: dict[str, int] = {}

    def add(self, namespace: str, entry: AllocatedClaim) -> None:
        """List a claim."""
        self.by_namespace.setdefault(namespace, []).append(entry)
        self.count += 1
        if self._bytes >= 0:
            self._bytes += self._entry_bytes(namespace, entry)
        if namespace in self._bytes_in:
            self._bytes_in[namespace] += self._entry_bytes(namespace, entry)

    def has_room_for(self, claim: ClaimView) -> bool:
        """Whether the status of the pool can list another claim."""
        if self.count >= self._observed.max_claims:
            return False
        return self._bytes_left() >= self._entry_bytes(claim.namespace, claim)

    def exceeds_share(self, claim: ClaimView) -> bool:
        """Whether another claim would exceed one namespace's part of the list."""
        observed, namespace = self._observed, claim.namespace
        listed, share = self.by_namespace.get(namespace), observed.namespace_share
        if listed is None or share >= 1:
            return False
        if namespace not in self._bytes_in:
            self._bytes_in[namespace] = sum(self._entry_bytes(namespace, entry) for entry in listed)
        size = self._bytes_in[namespace] + self._entry_bytes(namespace, claim)
        return len(listed) + 1 > observed.max_claims * share or size > observed.max_status_bytes * share

    def _bytes_left(self) -> int:
        """Return how many bytes of the status are left for further claims; counted lazily, since most pools are far below the limit."""
        if self._bytes < 0:
            entries = ((namespace, entry) for namespace, listed in self.by_namespace.items() for entry in listed)
            self._bytes = (
                sum(self._entry_bytes(namespace, entry) for namespace, entry in entries)
                + sum(len(namespace) + _NAMESPACE_BYTES for namespace in self._observed.selected)
                + sum(map(self._amounts_bytes, self._releasing()))
            )
        return self._observed.max_status_bytes - self._bytes

    def _entry_bytes(self, namespace: str, claim: ClaimView | AllocatedClaim) -> int:
        """Return the bytes that a claim takes in the status of its pool."""
        return _ENTRY_BYTES + len(namespace) + len(claim.name) + len(claim.uid) + self._amounts_bytes(claim.amounts)

    def _amounts_bytes(self, amounts: Mapping[str, int]) -> int:
        hard = self._observed.pool.hard
        return sum(
            _AMOUNT_BYTES + len(resource) + len(show(resource, amount, hard)) for resource, amount in amounts.items()
        )
