"""JSON patches (RFC 6902) as gopkg.in/evanphx/json-patch.v4 applies them, which differs from the RFC.

Guarantees: pure; document and operations are not changed. The library's differences: replacing an absent field sets it, a test of an
absent field succeeds against null, copying an absent field gives a null, negative indices count from the end (`-1` adds at the end),
numbers are compared as they are written. (The Python library jsonpatch follows the RFC instead, so it is not used.)
"""

from __future__ import annotations

import copy
import re
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.patch.decoding import operations_of
from konverge_testing.apiserver.patch.wording import unprocessable
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["MAX_OPERATIONS", "json_patch"]

Data: TypeAlias = dict[str, Any]
Container: TypeAlias = dict[str, Any] | list[Any]

MAX_OPERATIONS: Final = 10_000
"""A server refuses a patch of more operations."""

_INDEX: Final = re.compile(r"[+-]?[0-9]+")


class _Unfit(Exception):
    """An operation does not apply."""


def json_patch(document: Data, operations: list[Any]) -> Data:
    """Apply operations; raise StatusError 422 if one does not apply, 413 if there are too many.

    >>> json_patch({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}, {"op": "remove", "path": "/a/0"}])
    {'a': [2, 3]}
    """
    operations_of(operations)
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
    root: Any = copy.deepcopy(document)
    try:
        for operation in operations:
            root = _apply(root, operation or {})
    except _Unfit:
        raise unprocessable() from None
    patched: Data = root
    return patched


def _apply(root: Any, operation: Data) -> Any:
    path = operation.get("path")
    value = copy.deepcopy(operation.get("value"))
    match operation.get("op"):
        case "add":
            container, key = _find(root, path)
            _add(container, key, value)
        case "remove":
            container, key = _find(root, path)
            _remove(container, key)
        case "replace":
            return _replace(root, path, value)
        case "move":
            container, key = _find(root, operation.get("from"))
            moved = _get(container, key)
            _remove(container, key)
            container, key = _find(root, path)
            _add(container, key, moved)
        case "copy":
            container, key = _find(root, operation.get("from"))
            copied = copy.deepcopy(_get(container, key))
            container, key = _find(root, path)
            _add(container, key, copied)
        case "test":
            _test(root, path, value)
        case _:
            raise _Unfit
    return root


def _replace(root: Any, path: Any, value: Any) -> Any:
    if path == "":
        if not isinstance(value, (dict, list)):
            raise _Unfit
        return value
    container, key = _find(root, path)
    _get(container, key)
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(key, len(container))] = value
    return root


def _test(root: Any, path: Any, value: Any) -> None:
    if path == "":
        found = root
    else:
        container, key = _find(root, path)
        found = _get(container, key)
    if not _equal(found, value):
        raise _Unfit


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _find(root: Any, path: Any) -> tuple[Container, str]:
    """Return the container of a path's last key, and that key."""
    if not isinstance(path, str) or "/" not in path:
        raise _Unfit
    _, *parts, last = path.split("/")
    here = root
    for part in parts:
        here = _get(here, _decoded(part))
        if not isinstance(here, (dict, list)):
            raise _Unfit
    return here, _decoded(last)


def _decoded(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _index(key: str, size: int) -> int:
    if not _INDEX.fullmatch(key):
        raise _Unfit
    index = int(key)
    if not -size <= index < size:
        raise _Unfit
    return index % size


def _get(container: Container, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else container[_index(key, len(container))]


def _add(container: Container, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.insert(len(container) if key == "-" else _index(key, len(container) + 1), value)


def _remove(container: Container, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise _Unfit
