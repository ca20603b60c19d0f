"""`track_update`: the field owners after a create or an update.

Guarantees: pure; arguments are never changed, unchanged entries are the dicts of the live object themselves. If the new object does not fit
its schema, all owners are dropped (a server cannot track them either, and validation then refuses such an object). Facts: apimachinery
`pkg/util/managedfields/internal/{fieldmanager,skipnonapplied,structuredmerge}.go`, structured-merge-diff v6 `merge/update.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from konverge_testing.apiserver.apply import owners as entries
from konverge_testing.apiserver.apply.fieldset import (
    Fields,
    difference,
    from_paths,
    intersection,
    recursive_difference,
    union,
)
from konverge_testing.apiserver.apply.merging import reconcile
from konverge_testing.apiserver.apply.owners import Key, Owner, Owners
from konverge_testing.apiserver.apply.shapes import Shape, blank, shape_of
from konverge_testing.apiserver.apply.typed import Change, Misfit, compare
from konverge_testing.apiserver.nodes import Node

__all__ = ["Changes", "Versions", "Views", "deduct", "reset_fields", "settle", "track", "track_update"]

Data = dict[str, Any]

Versions = Mapping[str, Node] | None
"""The schemas of all versions of a resource by apiVersion; None if only the request's own schema is known, which then counts for all."""


@dataclass(frozen=True, slots=True)
class Views:
    """A custom object in its other versions: their schemas by apiVersion, and its conversion."""

    schemas: Mapping[str, Node]
    show: Callable[[Data, str], Data]
    """Returns an object in another apiVersion; may raise, so that its caller converts the object and starts again."""


_REMEMBERED = 4096
_encode = msgspec.json.Encoder().encode


def track_update(
    node: Node,
    live: Data | None,
    new: Data,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    now: str,
    reset: Sequence[tuple[str, ...]] = (),
    versions: Versions = None,
    settled: bool = False,
    views: Views | None = None,
) -> list[Data] | None:
    """Return managedFields of an object after a create (`live` None) or an update; None if there is nothing to store.

    The entries that the client sent in `new` count, as on the server: entries other than the live entries are adopted, `[{}]` forgets all
    owners (and an object without owners stays so until the next apply), and invalid or absent entries mean the live entries. `[]` forgets
    them too, except on custom resources, which treat it as absent. Through a subresource only the live entries count. `reset` are paths
    that a write through this subresource does not own. With `versions`, an owner of an unknown version is dropped. `settled`: the live
    object's entries were written under the current schemas. With `views`, owners by other versions lose the fields that changed in their
    version.
    """
    before = (live.get("metadata") or {}).get("managedFields") if live is not None else None
    sent = (new.get("metadata") or {}).get("managedFields")
    if not sent and not node.definitions:
        sent = None
    owners = _starting(before, sent, subresource)
    if not owners and live is not None:
        return None
    try:
        if not settled or sent:
            settle(node, owners, api_version, versions if views is None else views.schemas)
        track(node, live, new, owners, (manager, api_version, subresource), now, reset, views)
    except Misfit:
        return None
    after = entries.write(owners)
    return before if after == before else after


def _starting(before: Any, sent: Any, subresource: str) -> Owners:
    if subresource or sent is None or sent == before:
        return entries.read(before) or {}
    if isinstance(sent, list) and sent in ([], [{}]):
        return {}
    return entries.read(sent, foreign=True) or entries.read(before) or {}


def track(
    node: Node,
    live: Data | None,
    new: Data,
    owners: Owners,
    who: tuple[str, str, str],
    now: str,
    reset: Sequence[tuple[str, ...]],
    views: Views | None = None,
) -> None:
    """Give the changed fields to the writer (manager, apiVersion, subresource), and remove them from all other owners. Changes `owners`."""
    manager, version, subresource = who
    changes = Changes(node, version, (blank(node) if live is None else live, new), reset, views)
    deduct(owners, changes)
    mine = entries.strip(changes.of(version).touched)
    key = entries.key_of(manager, "Update", version, subresource)
    if mine:
        old = owners.get(key)
        owners[key] = Owner(union(mine, old.fields) if old is not None else mine, version, now)
    entries.cap(owners)


def reset_fields(reset: Sequence[tuple[str, ...]]) -> Fields:
    """Return the set of the given paths."""
    return _reset(tuple(reset)) if reset else {}


@lru_cache(maxsize=256)
def _reset(paths: tuple[tuple[str, ...], ...]) -> Fields:
    return from_paths([[f"f:{name}" for name in path] for path in paths])


def _without(change: Change, excluded: Fields) -> Change:
    return Change(
        *(recursive_difference(fields, excluded) for fields in (change.added, change.modified, change.removed))
    )


class Changes:
    """The change of an object, in each version that has owners."""

    def __init__(
        self,
        node: Node,
        version: str,
        objects: tuple[Data, Data],
        reset: Sequence[tuple[str, ...]],
        views: Views | None,
    ) -> None:
        self._objects = objects
        self._excluded = reset_fields(reset)
        self._views = views
        self._own = self._change(shape_of(node), *objects)
        self._known = {version: self._own}

    def _change(self, shape: Shape, before: Data, after: Data) -> Change:
        change = compare(shape, before, after)
        return _without(change, self._excluded) if self._excluded else change

    def of(self, version: str) -> Change:
        """Return the change in a version; without views the change is the same in every version."""
        if self._views is None or version not in self._views.schemas:
            return self._own
        found = self._known.get(version)
        if found is None:
            before, after = (self._views.show(one, version) for one in self._objects)
            found = self._known[version] = self._change(shape_of(self._views.schemas[version]), before, after)
        return found


def deduct(owners: Owners, changes: Changes, but: Key | None = None) -> None:
    """Remove the changed fields from all owners but one; an owner without fields is removed. Changes `owners`."""
    for key, owner in list(owners.items()):
        if key == but:
            continue
        change = changes.of(owner.version)
        touched, removed = change.touched, change.removed
        if not touched and not removed:
            continue
        fields = owner.fields
        if intersection(fields, touched):
            fields = difference(fields, touched)
        if intersection(fields, removed):
            fields = difference(fields, removed)
        if not fields:
            del owners[key]
        elif fields is not owner.fields:
            owners[key] = Owner(fields, owner.version, owner.time)


def settle(node: Node, owners: Owners, version: str, versions: Versions) -> None:
    """Bring the owners' sets to the current schemas, and drop owners of removed versions. Changes `owners`."""
    for key, owner in list(owners.items()):
        schema = node if versions is None or owner.version == version else versions.get(owner.version)
        if schema is None:
            del owners[key]
            continue
        after = _conformed(shape_of(schema), owner.fields)
        if after is not None:
            owners[key] = Owner(after, owner.version, owner.time)


def _conformed(shape: Shape, fields: Fields) -> Fields | None:
    """Return the set under the schema, or None if it needs no change; cached by its JSON, since most sets are written again and again."""
    memory = shape.settled
    text = _encode(fields)
    if text not in memory:
        if len(memory) >= _REMEMBERED:
            memory.clear()
        after = reconcile(shape, fields)
        memory[text] = None if after is fields else after
    return memory[text]
