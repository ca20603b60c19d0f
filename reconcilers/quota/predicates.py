"""Predicates: which changes of a pool, a claim or a namespace trigger a reconcile, and which are only the family's own writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from konverge.fields import decode_fields
from konverge.informers import Change
from konverge.reconcilers.quota.words import QuotaAnnotation
from konverge.runtime import generation_changed

__all__ = ["claim_changed", "namespace_changed", "pool_changed", "status_was_edited"]

_PLACE_FIELDS: Final = ("pool", "queue")


def namespace_changed(change: Change) -> bool:
    """Accept creation, deletion and termination of a namespace, and changes of its labels."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return old.metadata.labels != new.metadata.labels or old.metadata.deleting != new.metadata.deleting


def claim_changed(change: Change) -> bool:
    """Accept changes of a claim that the family does not cause itself (spec, release annotation, owners, deletion), and of its place."""
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
    if before.annotation(QuotaAnnotation.RELEASE) != after.annotation(QuotaAnnotation.RELEASE):
        return True
    if status_was_edited(change, but=_PLACE_FIELDS):
        return True
    old_status, new_status = old.status(), new.status()
    place_changed = any(old_status.get(place) != new_status.get(place) for place in _PLACE_FIELDS)
    # A claim that names its pool belongs to it, whatever its status has; but if only the place was removed, it is restored.
    conditions_unchanged = all(old_status.get(form) == new_status.get(form) for form in ("condition", "conditions"))
    place_was_removed = conditions_unchanged and any(old_status.get(place) for place in _PLACE_FIELDS)
    return place_changed and (place_was_removed or not (new.data().get("spec") or {}).get("pool"))


def pool_changed(change: Change) -> bool:
    """Accept changes of a pool's spec, and edits of its status by other writers."""
    return generation_changed(change) or status_was_edited(change)


def status_was_edited(change: Change, but: Collection[str] = ()) -> bool:
    """Whether another writer edited or removed a status field that the family owned, by the field managers.

    `but` are fields that the family itself omits at times.
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
