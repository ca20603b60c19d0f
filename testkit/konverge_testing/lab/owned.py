"""The fields of an object that a client set, read from its managedFields: the API server chose the values of all others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["dotted", "is_owned", "owned_paths"]

_INDEX: Final = re.compile(r"\[\d+\]")


def owned_paths(data: Mapping[str, Any]) -> frozenset[str]:
    """Return the dotted paths of the fields that have an owner; an item of a list has the path of its list.

    >>> fields = {"f:spec": {"f:ports": {'k:{"port":80}': {".": {}, "f:port": {}}}}}
    >>> sorted(owned_paths({"metadata": {"managedFields": [{"fieldsV1": fields}]}}))
    ['spec.ports', 'spec.ports.port']
    """
    entries = (data.get("metadata") or {}).get("managedFields") or ()
    return frozenset(path for entry in entries for path in _paths(entry.get("fieldsV1") or {}, ()))


def _paths(fields: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    if not fields or "." in fields:
        yield ".".join(above)
    for key, below in fields.items():
        if key != ".":
            yield from _paths(below, (*above, key[2:]) if key.startswith("f:") else above)


def dotted(path: str) -> str:
    """Return the path of a difference as `lab.may_differ` takes it.

    >>> dotted(".spec.ports[0].nodePort")
    'spec.ports.nodePort'
    """
    return _INDEX.sub("", path).strip(".")


def is_owned(owned: frozenset[str], path: str) -> bool:
    """Return whether a client set a field, or an atomic field around it, or a field within it.

    >>> owned = frozenset({"spec.selector", "spec.ports", "spec.ports.port"})
    >>> [is_owned(owned, path) for path in ("spec.selector.app", "spec.ports.nodePort", "spec.clusterIP", "spec")]
    [True, False, False, True]
    """
    if path in owned or any(one.startswith(f"{path}.") for one in owned):
        return True
    leaves = (one for one in owned if path.startswith(f"{one}."))
    return any(not any(other.startswith(f"{leaf}.") for other in owned) for leaf in leaves)
