"""Objects that outlived their owners, without a controller that reconciles or deletes them. Pure.

Guarantees: an object has an owner if it has owner references, or the label of a back reference (`konverge.runtime.back_reference`). It is
an orphan if no object with any of these uids is stored. The garbage collector knows nothing of a back reference: a finalizer cleans up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from konverge.words import Annotation, Label
from konverge_testing.apiserver.storage import Entry, Store

__all__ = ["orphans"]

_REFERENCES: Final = b'"ownerReferences"'


def orphans(store: Store, allowed: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Return a problem for each object whose owners are all deleted; `allowed` returns whether an object may outlive its owners."""
    entries = [entry for resource in store.resources() for entry in store.list(resource)]
    uids = {entry.uid for entry in entries}
    return [
        f"{entry.resource[1]} {entry.key} has outlived its owner {owner} (lab.may_outlive_owner allows it)"
        for entry in entries
        if (owner := _lost_owner(entry, uids)) and not allowed(entry.object())
    ]


def _lost_owner(entry: Entry, uids: set[str]) -> str:
    """Return the owner of an object whose owners are all deleted, "" if it has an owner or never had any."""
    if Label.OWNER_UID in entry.labels:
        lost = entry.labels[Label.OWNER_UID] not in uids
        return (
            str((entry.metadata().get("annotations") or {}).get(Annotation.OWNER, "of another place")) if lost else ""
        )
    if _REFERENCES not in entry.raw:
        return ""
    references = entry.metadata().get("ownerReferences") or ()
    if not references or any(reference["uid"] in uids for reference in references):
        return ""
    return ", ".join(f"{reference['kind']} {reference['name']}" for reference in references)
