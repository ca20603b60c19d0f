"""What the controllers of the family remember between passes, to be woken by what matters and by nothing else.

Promises: hints only. A process that begins knows nothing of this and is right all the same, since it looks at every pool and every claim
once; nothing is decided by it. Belongs to one installation of the family: two managers share nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from konverge.crds.quota_v1beta2 import LabelSelector
from konverge.fields import decode_fields
from konverge.informers import Change
from konverge.objects import Metadata
from konverge.reconcilers.quota.kinds import POOL
from konverge.reconcilers.quota.selecting import selects
from konverge.reconcilers.quota.views import selectors_of
from konverge.reconcilers.quota.words import Annotation, quota_name
from konverge.runtime import Caches, generation_changed

__all__ = ["Notes", "claim_matters", "namespace_matters", "pool_matters_to_itself", "status_was_touched"]

_PLACES: Final = ("pool", "queue")


class Notes:
    """Which pools give something back where, which look after which namespaces, and which claims wait for a pool."""

    def __init__(self, *, by_use: bool = False) -> None:
        self._by_use = by_use
        self._giving_back: dict[str, frozenset[str]] = {}
        self._looked_after: dict[str, frozenset[str]] = {}
        self._selectors: dict[str, tuple[tuple[str, int], tuple[LabelSelector, ...]]] = {}
        self._wrote: dict[tuple[str, str], str] = {}
        self.waiting: dict[tuple[str, str], str] = {}
        """Claims (namespace and name) that the claim controller looks after: the pool that they name, "" for none."""

    # --- pools ---------------------------------------------------------------------------------------------------------------

    def giving_back(self, pool: str, namespaces: Iterable[str]) -> None:
        """Note where a pool waits for the use to fit."""
        self._giving_back[quota_name(pool)] = frozenset(namespaces)

    def looks_after(self, pool: str, namespaces: Iterable[str]) -> None:
        """Note in which namespaces a pool has anything to do."""
        self._looked_after[pool] = frozenset(namespaces)

    def wrote(self, namespace: str, name: str, version: str) -> None:
        """Note the version that our own write gave to a ResourceQuota: its echo is no news."""
        self._wrote[namespace, name] = version

    def forget(self, pool: str) -> None:
        """The pool is gone."""
        for path in [path for path in self._wrote if path[1] == quota_name(pool)]:
            del self._wrote[path]
        self._giving_back.pop(quota_name(pool), None)
        self._looked_after.pop(pool, None)
        self._selectors.pop(pool, None)

    def quota_matters(self, change: Change) -> bool:
        """Tell whether a change of a ResourceQuota asks for a pass: its use alone does only where something is given back (X29), or where
        claims say whether they are used.
        """
        old, new = change.old, change.new
        if new is None or change.namespace in self._giving_back.get(change.name, ()):
            return True
        if self._wrote.get((change.namespace, change.name)) == new.metadata.resource_version:
            return False
        if old is None:
            return True
        if _bearing(old.metadata) != _bearing(new.metadata):
            return True
        if self._by_use and old.status().get("used") != new.status().get("used"):
            return True
        return bool(old.data().get("spec") != new.data().get("spec"))

    def pool_matters(self, change: Change) -> bool:
        """Tell whether a change of a pool is news to a claim that the claim controller looks after."""
        new = change.new
        if change.old is None or new is None or new.metadata.deleting:
            return True
        return any(pool in ("", change.name) for pool in self.waiting.values())

    def concerned(self, namespace: str, labels: dict[str, str], caches: Caches) -> list[str]:
        """Return the pools that a change of a namespace concerns: those that select it by these labels, or look after it."""
        found = []
        for pool in caches(POOL).all_metadata():
            looked_after = namespace in self._looked_after.get(pool.name, ())
            if looked_after or selects(self._selectors_of(pool.name, (pool.uid, pool.generation), caches), labels):
                found.append(pool.name)
        return found

    def _selectors_of(self, name: str, version: tuple[str, int], caches: Caches) -> tuple[LabelSelector, ...]:
        known = self._selectors.get(name)
        if known is None or known[0] != version:
            stored = caches(POOL).find("", name)
            known = self._selectors[name] = (version, () if stored is None else selectors_of(stored))
        return known[1]


def _bearing(metadata: Metadata) -> tuple[object, ...]:
    names = ("uid", "labels", "owner_references", "deletion_timestamp")
    return (*(getattr(metadata, name) for name in names), metadata.annotation(Annotation.CLAIMS))


def namespace_matters(change: Change) -> bool:
    """Pass a namespace that comes, goes, begins to end, or changes its labels."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return old.metadata.labels != new.metadata.labels or old.metadata.deleting != new.metadata.deleting


def claim_matters(change: Change) -> bool:
    """Pass what of a claim is not said by the family itself (spec, release annotation, owners, end), and where it was put."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    if (before.uid, before.generation, before.deleting, before.owner_references) != (
        after.uid,
        after.generation,
        after.deleting,
        after.owner_references,
    ):
        return True
    if before.annotation(Annotation.RELEASE) != after.annotation(Annotation.RELEASE):
        return True
    if status_was_touched(change, but=_PLACES):
        return True
    said, says = old.status(), new.status()
    moved = any(said.get(place) != says.get(place) for place in _PLACES)
    # A claim that names its pool is that pool's, whatever its status says: but a place that is lost, with nothing else said, is restored.
    as_before = all(said.get(form) == says.get(form) for form in ("condition", "conditions"))
    lost = as_before and any(said.get(place) for place in _PLACES)
    return moved and (lost or not (new.data().get("spec") or {}).get("pool"))


def pool_matters_to_itself(change: Change) -> bool:
    """Pass what is new in the spec of a pool, and what others did to its status."""
    return generation_changed(change) or status_was_touched(change)


def status_was_touched(change: Change, but: Collection[str] = ()) -> bool:
    """Tell whether a field of a status that the family had written is no longer its own: it was edited, or wiped, by another hand.

    `but` are fields that the family itself leaves out at times.
    """
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    now = new.owned or {}
    return any(
        owner.subresource == "status" and fields != now.get(owner) and not _covers(now.get(owner), fields, but)
        for owner, fields in (old.owned or {}).items()
    )


def _covers(now: bytes | None, before: bytes, but: Collection[str]) -> bool:
    had, have = (decode_fields(fields).get("f:status", {}) if fields else {} for fields in (before, now))
    return all(name.removeprefix("f:") in but or _within(part, have.get(name)) for name, part in had.items())


def _within(part: Any, whole: Any) -> bool:
    if not isinstance(part, Mapping):
        return True
    return isinstance(whole, Mapping) and all(
        name in whole and _within(below, whole[name]) for name, below in part.items()
    )
