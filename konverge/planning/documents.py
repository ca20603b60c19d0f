"""JSON documents: the merge of two changes, a merge patch, and the differences between two states. Pure.

A list is merged and compared by the identity of its items: `uid`, `type` (conditions), `name` (containers) or `key`, if each item has a
unique one; a list of texts is a set (finalizers); any other list is atomic. Server-side apply decides by the schema instead:
https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy. Without the schema, two writers that change one list of
another form in one plan overwrite each other there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["Difference", "Document", "differences", "merge_patch", "three_way"]

Document: TypeAlias = dict[str, Any]

_ABSENT: Final = object()
_QUOTED: Final = re.compile(r'[./"\[\]]')
_IDENTITIES: Final = ("uid", "type", "name", "key")
_OWNER_OF_FIELDS: Final = ("manager", "operation", "subresource")


def three_way(base: Any, planned: Any, result: Any) -> Any:
    """Return `planned` with the change from `base` to `result`.

    >>> three_way({"a": 1}, {"a": 1, "b": 2}, {"a": 3})
    {'a': 3, 'b': 2}
    """
    if result == base:
        return planned
    if planned in (base, result):
        return result
    if isinstance(planned, dict) and isinstance(result, dict):
        origin = base if isinstance(base, dict) else {}
        merged = {}
        for name in (*planned, *(name for name in result if name not in planned)):
            sides = (side.get(name, _ABSENT) for side in (origin, planned, result))
            value = three_way(*sides)
            if value is not _ABSENT:
                merged[name] = value
        return merged
    if isinstance(planned, list) and isinstance(result, list):
        return _merged_lists(base if isinstance(base, list) else [], planned, result)
    return result


def _merged_lists(base: list[Any], planned: list[Any], result: list[Any]) -> list[Any]:
    identity = _identity_of(base, planned, result)
    if identity is None:
        return result
    before, ours, theirs = ({identity(item): item for item in side} for side in (base, planned, result))
    merged = []
    for name in (*ours, *(name for name in theirs if name not in ours)):
        value = three_way(before.get(name, _ABSENT), ours.get(name, _ABSENT), theirs.get(name, _ABSENT))
        if value is not _ABSENT:
            merged.append(value)
    return merged


def _identity_of(*lists: list[Any]) -> Callable[[Any], str] | None:
    """Return the function that identifies the items of these lists; None if the lists are atomic."""
    items = [item for side in lists for item in side]
    if all(isinstance(item, str) for item in items):
        return str
    if not all(isinstance(item, dict) for item in items):
        return None
    if all("fieldsType" in item for item in items):
        return _owner_of_fields
    for name in _IDENTITIES:
        if all(isinstance(item.get(name), str) for item in items) and all(
            len({item[name] for item in side}) == len(side) for side in lists
        ):
            return itemgetter(name)
    return None


def _owner_of_fields(entry: Mapping[str, Any]) -> str:
    return "/".join(str(entry.get(name, "")) for name in _OWNER_OF_FIELDS)


def merge_patch(target: Any, patch: Any) -> Any:
    """Return a document after a JSON merge patch (RFC 7386).

    >>> merge_patch({"a": 1, "b": 2}, {"a": None, "c": 3})
    {'b': 2, 'c': 3}
    """
    if not isinstance(patch, Mapping):
        return patch
    patched = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            patched.pop(name, None)
        else:
            patched[name] = merge_patch(patched.get(name), value)
    return patched


class Difference(NamedTuple):
    """One difference between two documents; a side without the field is None, and `added` or `removed` is true."""

    path: str
    before: Any
    after: Any
    added: bool = False
    removed: bool = False


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Yield the differences of two documents, each at the deepest path that shows it.

    >>> [change.path for change in differences({"a": {"b": 1}}, {"a": {"b": 2}, "c": 3})]
    ['.a.b', '.c']
    """
    if before == after:
        return
    if before is _ABSENT or after is _ABSENT:
        yield from _whole(before, after, path)
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            yield from differences(before.get(name, _ABSENT), after.get(name, _ABSENT), f"{path}.{_segment(name)}")
    elif isinstance(before, list) and isinstance(after, list) and (identity := _named_items(before, after)):
        old, new = ({identity(item): item for item in side} for side in (before, after))
        for name in (*old, *(name for name in new if name not in old)):
            yield from differences(old.get(name, _ABSENT), new.get(name, _ABSENT), f"{path}[{_item(name)}]")
    else:
        yield Difference(path, before, after)


def _named_items(before: list[Any], after: list[Any]) -> Callable[[Any], str] | None:
    """Return the identity of items that are objects; a list of texts is compared as a whole."""
    return _identity_of(before, after) if any(isinstance(item, dict) for item in (*before, *after)) else None


def _whole(before: Any, after: Any, path: str) -> Iterator[Difference]:
    """Yield an added or removed field, by its leaves."""
    added = before is _ABSENT
    value = after if added else before
    members: dict[str, Any] = {}
    if isinstance(value, dict):
        members = {f"{path}.{_segment(name)}": member for name, member in value.items()}
    elif isinstance(value, list) and (identity := _named_items(value, [])):
        members = {f"{path}[{_item(identity(item))}]": item for item in value}
    if not members:
        yield Difference(path, None, value, added=True) if added else Difference(path, value, None, removed=True)
    for place, member in members.items():
        yield from _whole(_ABSENT, member, place) if added else _whole(member, _ABSENT, place)


def _item(identity: str) -> str:
    """Return the identity of an item in a path; only an identity that could be taken for another part of the path is quoted."""
    return json.dumps(identity, ensure_ascii=False) if not identity.isprintable() or "]" in identity else identity


def _segment(name: str) -> str:
    """Return a key in a path; a key with a dot, such as an annotation's, and a key with an unprintable character are quoted."""
    return json.dumps(name, ensure_ascii=False) if _QUOTED.search(name) or not name.isprintable() else name
