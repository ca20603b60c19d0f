"""OpenAPI v3 documents: one for each group and version, and short documents for the lists of discovery.

Guarantees: pure; a document refers only to its own definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from konverge_testing.apiserver.catalog import reachable
from konverge_testing.apiserver.catalog.descriptions import SENTENCES
from konverge_testing.apiserver.discovery.custom import OBJECT_META, custom_schemas
from konverge_testing.apiserver.discovery.groups import Group
from konverge_testing.apiserver.discovery.paths import document_paths

__all__ = ["document", "references"]

Data = dict[str, Any]

_REF: Final = "#/components/schemas/"
_EVERYWHERE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SECURITY: Final = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def document(group: Group, version: str, release: str) -> Data:
    """Return the document of a group and version; `release` is `1.36`."""
    paths = document_paths(group, version)
    customs: dict[str, Data] = {}
    for served in group.versions[version]:
        if served.resource.custom:
            customs.update(custom_schemas(served))
    roots = {*references(paths), *references(customs), *((OBJECT_META,) if customs else ())} - set(customs)
    schemas: dict[str, Mapping[str, Any]] = {**reachable(roots), **customs}
    for name in schemas.keys() & SENTENCES.keys():
        schemas[name] = {"description": SENTENCES[name], **schemas[name]}
    for name in ("DeleteOptions", "WatchEvent"):
        if (found := schemas.get(_EVERYWHERE + name)) is not None:
            kinds = [{"group": "", "kind": name, "version": "v1"}]
            if group.name:
                kinds.append({"group": group.name, "kind": name, "version": version})
            schemas[_EVERYWHERE + name] = {**found, "x-kubernetes-group-version-kind": kinds}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _SECURITY},
    }


def references(value: Any) -> Iterator[str]:
    """Return the names of all definitions that a document or a part of it refers to."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if key == "$ref" and isinstance(below, str):
                yield below.removeprefix(_REF)
            else:
                yield from references(below)
    elif isinstance(value, list):
        for below in value:
            yield from references(below)
