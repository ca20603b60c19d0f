"""Fields that an older version cannot hold, kept in an annotation while an object is in that version.

Guarantees
- Pure; the arguments are not changed. The annotation holds only what a round trip loses, not the whole object.
- A field returns only if the object holds, in its place, what the round trip left there. So a change of that place by a client of the
  older version wins over the kept value.
- Items of a list map are found by their keys, so a client of the older version may add, remove and reorder items. Any other list is one
  value.
- The annotation has at most `LARGEST` bytes. Above that it holds a mark (`is_mark`): the object can be read in the older version, and a
  write through that version is refused (NotConvertible).

Why not the whole object, as Cluster API keeps it: it doubles the object, and a write through the older version is undone by it.
https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from konverge.errors import NotConvertible

__all__ = ["LARGEST", "is_mark", "kept_text", "lost_fields", "restored"]

Data = dict[str, Any]
Entry = dict[str, Any]
"""`path`, the lost `value`, and `left`: what the round trip left in its place. An absent value has no key."""

LARGEST: Final = 128 * 1024
"""Half of what all annotations of an object may have together (apimachinery `pkg/api/validation/objectmeta.go`)."""
_TOO_LARGE: Final = "too large"
_ABSENT: Final = object()
_HEAD: Final = ("apiVersion", "kind", "metadata")


def lost_fields(given: Mapping[str, Any], back: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Entry]:
    """Return what an object lost in a round trip; both are in the version of the schema.

    >>> lost_fields({"spec": {"size": 1, "unit": "cm"}}, {"spec": {"size": 1}}, {})
    [{'path': ['spec', 'unit'], 'value': 'cm'}]
    """
    before, after = ({name: value for name, value in each.items() if name not in _HEAD} for each in (given, back))
    return list(_differences((), before, after, schema))


def _differences(path: tuple[Any, ...], given: Any, back: Any, schema: Mapping[str, Any]) -> Iterator[Entry]:
    if (type(given) is type(back) and given == back) or (given is _ABSENT and back in ([], {})):
        return
    if isinstance(given, dict) and isinstance(back, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        for name in dict.fromkeys((*given, *back)):
            inner = known.get(name) or (more if isinstance(more, Mapping) else {})
            yield from _differences((*path, name), given.get(name, _ABSENT), back.get(name, _ABSENT), inner)
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if keys and isinstance(given, list) and isinstance(back, list):
        items, others = _by_keys(given, keys), _by_keys(back, keys)
        for key in dict.fromkeys((*items, *others)):
            step = dict(zip(keys, msgspec.json.decode(key), strict=True))
            item, other = items.get(key, _ABSENT), others.get(key, _ABSENT)
            yield from _differences((*path, step), item, other, schema.get("items", {}))
        return
    values = {"value": given, "left": back}
    yield {"path": list(path), **{name: value for name, value in values.items() if value is not _ABSENT}}


def _by_keys(items: Iterable[Any], keys: Sequence[str]) -> dict[bytes, Any]:
    return {msgspec.json.encode([item.get(key) for key in keys]): item for item in items}


def kept_text(entries: Sequence[Entry]) -> str:
    """Return the annotation of lost fields, "" if there are none."""
    if not entries:
        return ""
    text = msgspec.json.encode(entries).decode()
    return text if len(text.encode()) <= LARGEST else _TOO_LARGE


def is_mark(text: str) -> bool:
    """Return whether an annotation replaces fields that are too large for it."""
    return text == _TOO_LARGE


def restored(data: Mapping[str, Any], text: str, annotation: str) -> Data:
    """Return an object with the fields of an annotation; raises NotConvertible if it cannot be read, or is the mark."""
    field = f'.metadata.annotations["{annotation}"]'
    if is_mark(text):
        raise NotConvertible(
            field,
            "the fields that this version lacks are too large for an annotation; write the object in a newer version",
        )
    try:
        entries = msgspec.json.decode(text, type=list[dict[str, Any]])
        result: Data = copy.deepcopy(dict(data))
        for entry in entries:
            _restore(result, entry)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError):
        raise NotConvertible(field, "it was changed and cannot be read; remove the annotation") from None
    return result


def _restore(data: Data, entry: Entry) -> None:
    """Put one field back, unless its place holds another value than the round trip left."""
    *steps, last = path = entry["path"]
    if path[0] in _HEAD:
        raise ValueError(path[0])
    place: Any = data
    for step in steps:
        place = _inside(place, step)
        if not isinstance(place, dict | list):
            return
    present = _inside(place, last)
    left, value = entry.get("left", _ABSENT), entry.get("value", _ABSENT)
    if (present is _ABSENT) != (left is _ABSENT) or (left is not _ABSENT and present != left):
        return
    _put(place, last, value)


def _inside(place: Any, step: Any) -> Any:
    if isinstance(step, dict):
        return next((item for item in place if _has_keys(item, step)), _ABSENT) if isinstance(place, list) else _ABSENT
    return place.get(step, _ABSENT) if isinstance(place, dict) else _ABSENT


def _put(place: Any, step: Any, value: Any) -> None:
    if isinstance(place, list):
        others = [item for item in place if not _has_keys(item, step)]
        place[:] = others if value is _ABSENT else [*others, value]
    elif value is _ABSENT:
        place.pop(step, None)
    else:
        place[step] = value


def _has_keys(item: Any, step: Mapping[str, Any]) -> bool:
    return isinstance(item, dict) and all(item.get(key) == value for key, value in step.items())
