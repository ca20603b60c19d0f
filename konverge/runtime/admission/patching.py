"""The JSON patch of a handler's changes to an object. Pure.

Guarantees: the patch changes only what the handler changed, although a model has only some fields and its own spelling of values. The
model encodes the object before and after the handler; the difference is applied to the object as the API server sent it, and the patch
is the difference of that object and the result. An unchanged object gives no patch.

A list whose length changes is replaced as a whole by the handler's list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["carried_over", "json_patch", "with_metadata"]


def carried_over(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the changes from `before` to `after`; unchanged parts are shared.

    >>> carried_over({"a": 1, "unknown": 2}, {"a": 1}, {"a": 3})
    {'a': 3, 'unknown': 2}
    """
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(raw, dict):
        return _dict_carried_over(raw, before, after)
    if isinstance(before, list) and isinstance(after, list) and isinstance(raw, list):
        if len(before) == len(after) == len(raw):
            return [carried_over(*each) for each in zip(raw, before, after, strict=True)]
        return raw if before == after else after
    return raw if type(before) is type(after) and before == after else after


def _dict_carried_over(raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    result = dict(raw)
    for key in before.keys() - after.keys():
        result.pop(key, None)
    for key, value in after.items():
        if key not in before:
            result[key] = value
        elif key in raw:
            result[key] = carried_over(raw[key], before[key], value)
        elif before[key] != value:
            result[key] = value
    return result


def with_metadata(
    document: dict[str, Any], labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return an object with these labels and annotations set, or removed if None; the given object is not changed."""
    for name, entries in (("labels", labels), ("annotations", annotations)):
        if not entries:
            continue
        metadata = dict(document.get("metadata") or {})
        merged = {**(metadata.get(name) or {}), **entries}
        metadata[name] = {key: value for key, value in merged.items() if value is not None}
        if not metadata[name]:
            del metadata[name]
        document = {**document, "metadata": metadata}
    return document


def json_patch(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of RFC 6902 that change `before` into `after`; [] if they are equal.

    The time is linear in the size of both objects and of the operations. (`jsonpatch.make_patch` searches for moved items of lists: it
    encodes each item once for each level of nesting, so an object of 900 nested lists holds the event loop for a second.)

    >>> json_patch({"a/b": 1, "c": [1, 2]}, {"a/b": 2, "c": [1]})
    [{'op': 'replace', 'path': '/a~1b', 'value': 2}, {'op': 'replace', 'path': '/c', 'value': [1]}]
    """
    operations: list[dict[str, Any]] = []
    _compare([], before, after, operations)
    return operations


def _compare(place: list[str | int], before: Any, after: Any, operations: list[dict[str, Any]]) -> None:
    """Add the operations below a place, which is restored. Only an operation computes its pointer: keys may be long, and members many."""
    if before is after:
        return  # `carried_over` shares what is unchanged
    if isinstance(before, dict) and isinstance(after, dict):
        removed = [key for key in before if key not in after]  # in the object's order, which a set does not have
        operations.extend({"op": "remove", "path": _pointer(*place, key)} for key in removed)
        for key, value in after.items():
            if key in before:
                place.append(key)
                _compare(place, before[key], value, operations)
                place.pop()
            else:
                operations.append({"op": "add", "path": _pointer(*place, key), "value": value})
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            place.append(index)
            _compare(place, old, new, operations)
            place.pop()
    elif type(before) is not type(after) or before != after:
        operations.append({"op": "replace", "path": _pointer(*place), "value": after})


def _pointer(*place: str | int) -> str:
    """Return the pointer to a place (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in place)
