"""Entries of managedFields as owners: read, sorted and written as the server does.

Guarantees: pure; an owner with unchanged fields and time keeps the entry that it was read from. Facts: apimachinery
`pkg/util/managedfields/internal/{managedfields,managedfieldsupdater,capmanagers,stripmeta,buildmanagerinfo}.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge_testing.apiserver.apply.elements import go_json
from konverge_testing.apiserver.apply.fieldset import UNTRACKED, Fields, below, decode, ordered, union
from konverge_testing.apiserver.golang import quote

__all__ = ["Key", "Owner", "Owners", "cap", "identity", "key_of", "read", "shown", "strip", "write"]

Data = dict[str, Any]

Key = tuple[str, str, str, str]
"""Manager, operation, apiVersion ("" for Apply: an applier is the same owner in every version), subresource."""

_MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_STRIPPED: Final = ("f:apiVersion", "f:kind")
_STRIPPED_METADATA: Final = frozenset(f"f:{name}" for name in UNTRACKED)


@dataclass(slots=True)
class Owner:
    """The fields of one manager and operation."""

    fields: Fields
    version: str
    time: str | None = None
    entry: Data | None = None
    """The entry as read; None after any change except to the time."""


Owners = dict[Key, Owner]


def key_of(manager: str, operation: str, version: str, subresource: str) -> Key:
    """Return the key of an owner; an owner without a name is called unknown."""
    return (manager or "unknown", operation, "" if operation == "Apply" else version, subresource)


def read(entries: Any, *, foreign: bool = False) -> Owners | None:
    """Read entries; None if any entry is invalid. `foreign`: the entries are a client's, so their fields are spelled as the server does."""
    owners: Owners = {}
    for entry in entries or ():
        if not isinstance(entry, dict):
            return None
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in ("Apply", "Update") or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        fields = entry.get("fieldsV1") or {}
        if foreign:
            try:
                fields = decode(fields)
            except ValueError:
                return None
        key = (
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else version,
            entry.get("subresource", ""),
        )
        owners[key] = Owner(fields, version, entry.get("time"), None if foreign else entry)
    return owners


def write(owners: Mapping[Key, Owner]) -> list[Data] | None:
    """Write the entries in the server's order: appliers first, then by time and name. None if there is none."""
    if not owners:
        return None
    entries = [_entry(key, owner) for key, owner in owners.items()]
    if len(entries) > 1:
        entries.sort(key=_rank)
    return entries


def _rank(entry: Data) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _entry(key: Key, owner: Owner) -> Data:
    if owner.entry is not None and owner.entry.get("time") == owner.time:
        return owner.entry
    manager, operation, _, subresource = key
    entry: Data = {"manager": manager} if manager else {}
    entry["operation"] = operation
    entry["apiVersion"] = owner.version
    if owner.time is not None:
        entry["time"] = owner.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owner.entry["fieldsV1"] if owner.entry is not None else ordered(owner.fields)
    if subresource:
        entry["subresource"] = subresource
    return entry


def strip(fields: Fields) -> Fields:
    """Remove the fields that have no owner: type, identity and bookkeeping."""
    metadata = fields.get("f:metadata")
    if metadata is None and "f:apiVersion" not in fields and "f:kind" not in fields:
        return fields
    out = {element: node for element, node in fields.items() if element not in _STRIPPED}
    if metadata is not None:
        rest = {element: node for element, node in below(metadata).items() if element not in _STRIPPED_METADATA}
        if rest:
            out["f:metadata"] = rest
        else:
            del out["f:metadata"]
    return out


def identity(key: Key) -> str:
    """Return the server's own name for an owner, its sort key in messages."""
    manager, operation, version, subresource = key
    pairs = {"manager": manager, "operation": operation, "apiVersion": version, "subresource": subresource}
    return "{" + ",".join(f'"{name}":{go_json(value)}' for name, value in pairs.items() if value) + "}"


def shown(key: Key) -> str:
    """Name an owner in a conflict: `"kubectl" using v1`, `"x" with subresource "status"`."""
    manager, operation, version, subresource = key
    out = quote(manager)
    if subresource:
        out += f" with subresource {quote(subresource)}"
    return f"{out} using {version}" if operation == "Update" else out


def cap(owners: Owners) -> None:
    """Keep at most ten updaters: the oldest updaters of a version are merged into one, called ancient-changes."""
    updaters = [key for key in owners if key[1] == "Update"]
    count = len(updaters)
    if count <= _MOST_UPDATERS:
        return
    updaters.sort(key=lambda key: (owners[key].time or "", identity(key)))
    first: dict[str, Key] = {}
    for key in updaters:
        if count <= _MOST_UPDATERS:
            return
        version = owners[key].version
        if version not in first:
            first[version] = key
            continue
        bucket = key_of(_ANCIENT, "Update", version, "")
        old = owners[key]
        if bucket not in owners:
            owners[bucket] = owners.pop(first[version])
        merged = Owner(union(old.fields, owners[bucket].fields), version, old.time)
        owners.pop(key, None)
        owners[bucket] = merged
        count -= 1
