"""CustomResourceDefinitions as `Resource`s, for tests of rooms that may not import the room that generates definitions."""

from typing import Any

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Column, Resource, Version


def resource_of(definition: dict[str, Any]) -> Resource:
    """Return the resource of a CustomResourceDefinition."""
    spec, names = definition["spec"], definition["spec"]["names"]
    return Resource(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular", names["kind"].lower()),
        list_kind=names.get("listKind", f"{names['kind']}List"),
        namespaced=spec["scope"] == "Namespaced",
        versions=tuple(_version(version) for version in spec["versions"]),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        custom=True,
    )


def _version(version: dict[str, Any]) -> Version:
    below = version.get("subresources") or {}
    return Version(
        version["name"],
        Node(version["schema"]["openAPIV3Schema"]),
        version["served"],
        version["storage"],
        tuple(_column(column) for column in version.get("additionalPrinterColumns", ())),
        tuple(field["jsonPath"] for field in version.get("selectableFields", ())),
        below.get("scale"),
        "status" in below,
    )


def _column(column: dict[str, Any]) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("format", ""),
        column.get("description", ""),
        column.get("priority", 0),
    )
