"""The index of the family's controllers that maps an event to the pools and claims to reconcile, and drops events without effect.

Guarantees: hints only, and no decision reads them: after a restart the index is empty, and the first reconcile of every pool and claim
fills it. One index belongs to one installation of the family; two managers share nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from konverge.crds.quota_v1beta2 import LabelSelector
from konverge.informers import Change
from konverge.objects import Metadata
from konverge.reconcilers.quota.kinds import POOL
from konverge.reconcilers.quota.namespace_selectors import selects
from konverge.reconcilers.quota.parse import selectors_of
from konverge.reconcilers.quota.words import QuotaAnnotation, quota_name
from konverge.runtime import Caches

__all__ = ["WakeIndex"]


class WakeIndex:
    """By pool: the namespaces with a release, and the namespaces that it is responsible for. By claim: the pool that it waits for."""

    def __init__(self, *, by_use: bool = False) -> None:
        self._by_use = by_use
        self._giving_back: dict[str, frozenset[str]] = {}
        self._looked_after: dict[str, frozenset[str]] = {}
        self._selectors: dict[str, tuple[tuple[str, int], tuple[LabelSelector, ...]]] = {}
        self.waiting: dict[tuple[str, str], str] = {}
        """The claims (namespace and name) of the claim controller, each with the pool that it names, "" for none."""

    # --- claims --------------------------------------------------------------------------------------------------------------

    def set_waiting(self, claim: tuple[str, str], pool: str | None) -> None:
        """Set the pool that a claim of the claim controller waits for, "" for any; None if it waits for none."""
        if pool is None:
            self.waiting.pop(claim, None)
        else:
            self.waiting[claim] = pool

    # --- pools ---------------------------------------------------------------------------------------------------------------

    def set_releasing(self, pool: str, namespaces: Iterable[str]) -> None:
        """Set the namespaces whose use has to shrink for a release of the pool."""
        self._giving_back[quota_name(pool)] = frozenset(namespaces)

    def set_namespaces(self, pool: str, namespaces: Iterable[str]) -> None:
        """Set the namespaces that a pool is responsible for."""
        self._looked_after[pool] = frozenset(namespaces)

    def forget(self, pool: str) -> None:
        """Drop the entries of a deleted pool."""
        self._giving_back.pop(quota_name(pool), None)
        self._looked_after.pop(pool, None)
        self._selectors.pop(pool, None)

    def quota_matters(self, change: Change) -> bool:
        """Whether a change of a ResourceQuota triggers a reconcile.

        A change of only its use triggers a reconcile only during a release (X29), or if claims report their use.
        """
        old, new = change.old, change.new
        if new is None or change.namespace in self._giving_back.get(change.name, ()):
            return True
        if old is None:
            return True
        if _bearing(old.metadata) != _bearing(new.metadata):
            return True
        if self._by_use and old.status().get("used") != new.status().get("used"):
            return True
        return bool(old.data().get("spec") != new.data().get("spec"))

    def pool_affects_claims(self, change: Change) -> bool:
        """Whether a change of a pool affects a claim of the claim controller."""
        new = change.new
        if change.old is None or new is None or new.metadata.deleting:
            return True
        pools = self.waiting.values()
        return "" in pools or change.name in pools

    def pools_of_namespace(self, namespace: str, labels: dict[str, str], caches: Caches) -> list[str]:
        """Return the pools that select a namespace by these labels, or are responsible for it."""
        pools = []
        for pool in caches(POOL).all_metadata():
            looked_after = namespace in self._looked_after.get(pool.name, ())
            if looked_after or selects(self._selectors_of(pool.name, (pool.uid, pool.generation), caches), labels):
                pools.append(pool.name)
        return pools

    def _selectors_of(self, name: str, version: tuple[str, int], caches: Caches) -> tuple[LabelSelector, ...]:
        known = self._selectors.get(name)
        if known is None or known[0] != version:
            stored = caches(POOL).find("", name)
            known = self._selectors[name] = (version, () if stored is None else selectors_of(stored))
        return known[1]


def _bearing(metadata: Metadata) -> tuple[object, ...]:
    names = ("uid", "labels", "owner_references", "deletion_timestamp")
    ours = (QuotaAnnotation.CLAIMS, QuotaAnnotation.DEFAULTS, QuotaAnnotation.RELEASING)
    return (*(getattr(metadata, name) for name in names), *(metadata.annotation(name) for name in ours))
