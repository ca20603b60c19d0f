"""Field ownership, and whether applying an intent would change anything.

Guarantees: pure functions on `metadata.managedFields` (FieldsV1, kubernetes-sigs/structured-merge-diff `fieldpath`). `unchanged` is
True only if the set of fields that the intent would own equals the set that the manager owns, and every value is equal; so a
skipped apply would not have changed the object. `unchanged` may be False without need (a defaulted list key, a normalised quantity); the
apply is then sent and changes nothing.

No schema is needed: a value that another manager changed is no longer in the manager's field set, and the field set itself shows whether a
list is a map, a set or atomic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

__all__ = [
    "Owner",
    "applied_fields",
    "applied_part",
    "decode_fields",
    "digest",
    "has_nulls",
    "owned_by",
    "owners_of",
    "projection",
    "unchanged",
    "unchanged_by",
    "without_emptied",
    "without_nulls",
]

_MAPPING = (dict, Mapping)
"""Dict first: a check against an abstract class takes several times as long, and nearly everything is a dict."""
_LISTS = (list, tuple)
_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types without members: most values are of these and need no further check."""
_NO_MAPS = _PLAIN | {list, tuple}
_IDENTITY = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "generateName",
    }
)


class Owner(NamedTuple):
    """One owner of fields: the manager, how it writes (`Apply` or `Update`), and through which subresource ("" is the main one)."""

    manager: str
    operation: str
    subresource: str


class _Entry(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw(b"{}")


_LARGEST_CACHED = 1 << 16
"""Bytes of a field set whose decoded form is cached."""
_DECODE_ENTRIES = msgspec.json.Decoder(list[_Entry])


def owned_by(managed: bytes | msgspec.Raw, managers: Iterable[str]) -> dict[Owner, bytes]:
    """Return the applied field sets (FieldsV1 as JSON bytes) of these managers from the raw managedFields list.

    Only entries of operation Apply count: a field that was once updated is not part of an intent.
    """
    wanted = frozenset(managers)
    return {
        Owner(entry.manager, entry.operation, entry.subresource): bytes(entry.fields_v1)
        for entry in _DECODE_ENTRIES.decode(managed)
        if entry.manager in wanted and entry.operation == "Apply"
    }


def applied_fields(managed: Iterable[Mapping[str, Any]], owner: Owner) -> dict[str, Any] | None:
    """Return the field set of one owner from decoded managedFields, None if it owns no field."""
    for entry in managed:
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == owner:
            fields: dict[str, Any] = entry.get("fieldsV1", {})
            return fields
    return None


def owners_of(managed: bytes | msgspec.Raw, path: tuple[str, ...]) -> list[Owner]:
    """Return the owners of the field at a path of plain keys, for instance ("spec", "interval")."""
    owners = []
    for entry in _DECODE_ENTRIES.decode(managed):
        part: Any = msgspec.json.decode(entry.fields_v1)
        for step in path:
            part = part.get(f"f:{step}") if isinstance(part, dict) else None
        if part is not None:
            owners.append(Owner(entry.manager, entry.operation, entry.subresource))
    return owners


def decode_fields(fields: bytes) -> Mapping[str, Any]:
    """Decode FieldsV1 bytes. The result is cached and shared, because objects of one kind have few different field sets.

    A large set is not cached: any writer may apply one under the name of our manager.
    """
    return _decode_cached(fields) if len(fields) <= _LARGEST_CACHED else _decode(fields)


def _decode(fields: bytes) -> Mapping[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(fields)
    return decoded


_decode_cached = lru_cache(maxsize=512)(_decode)


def has_nulls(value: Any) -> bool:
    """Return whether a map holds a null at any depth; null items of a list do not count.

    >>> has_nulls({"a": [{"b": None}]}), has_nulls({"a": [None]})
    (True, False)
    """
    try:
        if b"null" not in msgspec.json.encode(value):  # each written status is checked
            return False
    except (TypeError, ValueError):
        pass  # not plain JSON
    pending = [value]
    for container in pending:
        if isinstance(container, _MAPPING):
            if None in container.values():
                return True
            pending += [member for member in container.values() if member.__class__ not in _PLAIN]
        elif isinstance(container, _LISTS):
            pending += [item for item in container if item.__class__ not in _PLAIN]
    return False


def without_nulls(value: Any) -> Any:
    """Return a copy without null members; an apply that names a field with null would claim it."""
    if isinstance(value, _MAPPING):
        return {
            key: member if type(member) in _PLAIN else without_nulls(member)
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, _LISTS):
        return [member if type(member) in _PLAIN else without_nulls(member) for member in value]
    return value


def without_emptied(intent: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an intent without each empty map whose members the manager owns.

    kube-apiserver stores null for a map that an apply empties, and refuses that null in a custom resource. It removes a map that is left
    out.

    >>> without_emptied({"outputs": {}, "phase": "a"}, {"f:outputs": {"f:x": {}}, "f:phase": {}})
    {'phase': 'a'}
    """
    kept: dict[str, Any] = {}
    changed = False
    for name, value in intent.items():
        below = None if value.__class__ in _NO_MAPS else fields.get(f"f:{name}")
        if below and isinstance(value, _MAPPING):
            if not value and any(member != "." for member in below):
                changed = True
                continue
            left = without_emptied(value, below)
            changed = changed or left is not value
            value = left
        kept[name] = value
    return kept if changed else intent


def _same(left: Any, right: Any) -> bool:
    if type(left) is str:
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, _MAPPING) and isinstance(right, _MAPPING):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def _same_leaf(intent: Any, live: Any) -> bool:
    """Compare as `_same` does; an atomic map or list, which may be long, is first compared as a whole."""
    if intent.__class__ is dict or intent.__class__ is list:
        if intent != live:
            return False
        try:
            if msgspec.json.encode(intent) == msgspec.json.encode(live):
                return True
        except (TypeError, ValueError):
            pass  # not plain JSON
    return _same(intent, live)


def _item(items: list[Any], keys: Mapping[str, Any]) -> Any:
    for item in items:
        if not isinstance(item, _MAPPING):
            continue
        for key, value in keys.items():
            if key not in item or not _same(item[key], value):
                break
        else:
            return item
    return None


def _list_unchanged(intent: list[Any], fields: Mapping[str, Any], live: Any) -> bool:
    if not isinstance(live, list) or len(intent) != len(fields) - ("." in fields):
        return False
    for name, below in fields.items():
        if name == ".":
            continue
        tag, _, text = name.partition(":")
        if tag == "k":
            keys = msgspec.json.decode(text)
            ours, theirs = _item(intent, keys), _item(live, keys)
            if ours is None or theirs is None or not _value_unchanged(ours, below, theirs):
                return False
        elif tag == "v":
            value = msgspec.json.decode(text)
            if not any(_same(value, member) for member in intent) or not any(_same(value, member) for member in live):
                return False
        else:
            return False
    return True


def _value_unchanged(intent: Any, fields: Mapping[str, Any], live: Any) -> bool:
    below = len(fields) - ("." in fields)
    if not below:
        return (intent == {} and isinstance(live, _MAPPING)) or _same_leaf(intent, live)
    if isinstance(intent, list):
        return _list_unchanged(intent, fields, live)
    if not isinstance(intent, _MAPPING) or not isinstance(live, _MAPPING) or len(intent) != below:
        return False
    # The counts are equal, so the sets are equal if each key is a field.
    for key, value in intent.items():
        inner = fields.get(f"f:{key}")
        if inner is None or key not in live or not _value_unchanged(value, inner, live[key]):
            return False
    return True


def applied_part(intent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an intent that can be owned: without identity and empty metadata."""
    part = {key: value for key, value in intent.items() if key not in {"apiVersion", "kind", "metadata"}}
    metadata = {key: value for key, value in (intent.get("metadata") or {}).items() if key not in _IDENTITY}
    if metadata:
        part["metadata"] = metadata
    return part


def unchanged(intent: Mapping[str, Any], owned: bytes | None, live: Mapping[str, Any]) -> bool:
    """Whether applying this intent would change neither a value nor the ownership of a field.

    `owned` is the FieldsV1 of the manager's own entry (None if it owns nothing), `live` the stored object.
    """
    return owned is not None and unchanged_by(intent, decode_fields(owned), live)


def unchanged_by(intent: Mapping[str, Any], fields: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """As `unchanged`, given the decoded FieldsV1 of the manager."""
    part = applied_part(intent)
    if not part:
        return not any(name != "." for name in fields)
    return _value_unchanged(part, fields, live)


def projection(live: Any, fields: Mapping[str, Any]) -> Any:
    """Return the part of a live value that a field set covers, as plain data; absent parts are None."""
    below = {name: inner for name, inner in fields.items() if name != "."}
    if not below or live is None:
        return live
    if isinstance(live, _MAPPING):
        return {
            name[2:]: projection(live.get(name[2:]), inner)
            for name, inner in sorted(below.items())
            if name.startswith("f:")
        }
    if isinstance(live, list):
        result: list[Any] = []
        for name, inner in sorted(below.items()):
            tag, _, text = name.partition(":")
            member = msgspec.json.decode(text)
            if tag == "k":
                result.append(projection(_item(live, member), inner))
            elif tag == "v":
                result.append(member if any(_same(member, value) for value in live) else None)
        return result
    return live


def digest(value: Any) -> str:
    """Return a short digest of plain data, the same for equal data whatever the order of its keys."""
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=12).hexdigest()
