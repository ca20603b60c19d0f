"""The objects outside the attacker's namespace, and the parts of them that an attack may change.

Guarantees: pure. A difference names the object and the path. Resource versions, managed fields and times are left out. Objects that tenants
share have a part for each tenant, and the victim's part has to stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Key: TypeAlias = tuple[str, str, str]
"""Plural with group, namespace, name."""

JOURNAL: Final = "vworkspace-agent-journal"
_BOOKKEEPING: Final = frozenset({"resourceVersion", "managedFields", "generation"})
_MOMENT: Final = re.compile(r"(Time|Timestamp|At|Heartbeat)$")
_IGNORED: Final = frozenset({"events.events.k8s.io", "events", "leases.coordination.k8s.io"})


@dataclass(frozen=True)
class Snapshot:
    """Objects by key, each as its leaves by path."""

    objects: Mapping[Key, Mapping[str, Any]]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of an object with their paths.

    >>> dict(flat({"spec": {"a": [1, {"b": 2}]}}))
    {'spec.a[0]': 1, 'spec.a[1].b': 2}
    """
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from flat(inner, f"{path}[{index}]")
    else:
        yield path, value


def part_of(resource: str, data: Mapping[str, Any], victim: str) -> dict[str, Any] | None:
    """Return the part of an object that an attack must not change; None for an object that it may change as a whole."""
    if resource in _IGNORED:
        return None
    kept = {name: value for name, value in data.items() if name not in ("apiVersion", "kind", "status")}
    kept["metadata"] = {name: value for name, value in data["metadata"].items() if name not in _BOOKKEEPING}
    status = data.get("status")
    if resource == "resourcepools.capsule.clastix.io":
        status = {"claims": ((status or {}).get("claims") or {}).get(victim)}
    elif resource == "nextcloudpools.k8s.bnerd.com":
        status = None  # its numbers, and the record of instances that the attacker may take
    elif resource == "namespaces":
        status = {"phase": (status or {}).get("phase")}
    elif resource == "resourcequotas":
        status = None
    if resource == "secrets" and data["metadata"]["name"] == JOURNAL:
        kept.pop("data", None)  # each job of the control plane is written down in it
    if status is not None:
        kept["status"] = _without_moments(status)
    return kept


def _without_moments(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_moments(inner) for name, inner in value.items() if not _MOMENT.search(str(name))}
    if isinstance(value, list):
        return [_without_moments(inner) for inner in value]
    return value


def differences(before: Snapshot, after: Snapshot, keys: Iterable[Key]) -> list[str]:
    """Return what changed of these objects, a line for each leaf."""
    lines = []
    for key in keys:
        name = "/".join(part for part in key if part)
        old, new = before.objects[key], after.objects.get(key)
        if new is None:
            lines.append(f"{name} was deleted")
        elif old.get("metadata.uid") != new.get("metadata.uid"):
            lines.append(f"{name} was replaced by another object")
        else:
            lines += [
                f"{name}: {path} was {old.get(path)!r} and is {new.get(path)!r}"
                for path in sorted({*old, *new})
                if old.get(path) != new.get(path)
            ]
    return lines
