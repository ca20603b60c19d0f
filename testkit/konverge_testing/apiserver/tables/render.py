"""`table` and `row`: objects as meta.k8s.io/v1 Table, the form for `kubectl get`.

Guarantees: pure; objects are not changed. Columns (name, type, format, priority) of the built-in kinds are a real server's, recorded in
`columns.json`; a kind without columns of its own shows Name and Created At, a custom resource its additionalPrinterColumns, or Age if it
has none. Descriptions of columns are the user's own, or "".

Sources: k8s.io/apimachinery `pkg/apis/meta/v1/types.go` (Table), k8s.io/apiserver `pkg/endpoints/handlers/response.go`,
`pkg/registry/rest/table.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.resources import Column, Resource, Version
from konverge_testing.apiserver.statuses import bad_request
from konverge_testing.apiserver.tables.cluster import CLUSTER
from konverge_testing.apiserver.tables.custom import AGE, custom_cells
from konverge_testing.apiserver.tables.networks import NETWORKS
from konverge_testing.apiserver.tables.partial import metadata_only
from konverge_testing.apiserver.tables.pods import pod, pod_conditions
from konverge_testing.apiserver.tables.values import Cells, at, name
from konverge_testing.apiserver.tables.workloads import WORKLOADS

__all__ = ["columns", "row", "table"]

Data = dict[str, Any]

_NAME: Final = Column("Name", "string", format="name")
_GENERIC: Final = (_NAME, Column("Created At", "date"))
_INCLUDES: Final = ("", "Metadata", "None", "Object")


def _created(object_: Data, _: datetime) -> list[Any]:
    return [name(object_), at(object_, "metadata", "creationTimestamp")]


_CELLS: Final[Mapping[tuple[str, str], Cells]] = {("", "pods"): pod, **WORKLOADS, **NETWORKS, **CLUSTER}


@cache
def _recorded() -> Mapping[str, tuple[Column, ...]]:
    text = (resources.files("konverge_testing.apiserver.tables") / "columns.json").read_bytes()
    return {key: tuple(found) for key, found in msgspec.json.decode(text, type=dict[str, list[Column]]).items()}


def columns(resource: Resource, version: Version) -> tuple[Column, ...]:
    """Return the columns of a resource in display order, the name first."""
    if resource.custom:
        return (_NAME, *(version.columns or (AGE,)))
    return _recorded().get(resource.qualified, _GENERIC) if resource.id in _CELLS else _GENERIC


def table(
    resource: Resource,
    version: Version,
    objects: Iterable[Data],
    *,
    include: str = "Metadata",
    list_version: str = "",
    continue_: str = "",
    remaining: int | None = None,
    now: datetime,
    headers: bool = True,
) -> Data:
    """Return the Table of a list, or of one object (`list_version` is then its resourceVersion).

    `include` is the parameter includeObject: Metadata, Object or None; another value is refused with 400.
    """
    if include not in _INCLUDES:
        why = "must be 'Metadata', 'Object', 'None', or empty"
        text = f'includeObject: Invalid value: "{include}": {why}'
        raise bad_request(f"Unable to convert to Table as requested: {text}")
    metadata: Data = {"resourceVersion": list_version, "continue": continue_}
    metadata = {key: value for key, value in metadata.items() if value}
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": _definitions(columns(resource, version)) if headers else None,
        "rows": [_row(resource, version, object_, include, now) for object_ in objects],
    }


def row(
    resource: Resource,
    version: Version,
    object_: Data,
    *,
    include: str = "Metadata",
    first: bool = False,
    now: datetime,
) -> Data:
    """Return the Table for one line of a watch; only the `first` line of a watch has the columns."""
    own = str(at(object_, "metadata", "resourceVersion") or "")
    return table(resource, version, [object_], include=include, list_version=own, now=now, headers=first)


def _definitions(found: Iterable[Column]) -> list[Data]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in found
    ]


def _row(resource: Resource, version: Version, object_: Data, include: str, now: datetime) -> Data:
    if resource.custom:
        cells = custom_cells(version.columns or (AGE,), object_, now)
    else:
        cells = _CELLS.get(resource.id, _created)(object_, now)
    out: Data = {"cells": cells}
    if resource.id == ("", "pods") and (ended := pod_conditions(object_)):
        out["conditions"] = ended
    return {**out, "object": _included(object_, include)}


def _included(object_: Data, include: str) -> Data | None:
    if include == "None":
        return None
    if include == "Object":
        return object_
    return metadata_only({"metadata": object_.get("metadata") or {}})
