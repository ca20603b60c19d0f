"""The published schema of a CustomResourceDefinition: the user's schema with Kubernetes' additions.

Guarantees: pure; arguments are not changed. The root gets apiVersion, kind, metadata and the kind's group and version; an embedded
resource gets apiVersion, kind and metadata, the first two required; an int-or-string is written in plain OpenAPI.

Source: k8s.io/apiextensions-apiserver `pkg/controller/openapi/builder/builder.go`, `pkg/apiserver/schema/kubeopenapi.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.discovery.groups import Served
from konverge_testing.apiserver.discovery.paths import definition_name, list_definition

__all__ = ["OBJECT_META", "custom_schemas"]

Data = dict[str, Any]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = _META + "ObjectMeta"
_WORD: Final = {"type": "string"}


def _ref(name: str) -> Data:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def custom_schemas(served: Served) -> dict[str, Data]:
    """Return the definitions of a custom kind and of its list by name."""
    resource, version = served.resource, served.version
    name = definition_name(served)
    root = _published(version.schema.raw)
    properties = {"apiVersion": _WORD, "kind": _WORD, "metadata": _ref(OBJECT_META)}
    root = {"type": "object", **root, "properties": {**(root.get("properties") or {}), **properties}}
    root["x-kubernetes-group-version-kind"] = [_kind(resource.group, version.name, resource.kind)]
    list_kind = resource.list_kind or f"{resource.kind}List"
    listed: Data = {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _WORD,
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            "kind": _WORD,
            "metadata": _ref(_META + "ListMeta"),
        },
        "x-kubernetes-group-version-kind": [_kind(resource.group, version.name, list_kind)],
    }
    if version.selectable:
        paths = [{"fieldPath": path.removeprefix(".")} for path in version.selectable]
        root["x-kubernetes-selectable-fields"] = listed["x-kubernetes-selectable-fields"] = paths
    return {name: root, list_definition(served): listed}


def _kind(group: str, version: str, kind: str) -> Data:
    return {"group": group, "kind": kind, "version": version}


def _published(schema: Mapping[str, Any]) -> Data:
    """Return a schema with Kubernetes' additions below it."""
    out = dict(schema)
    if "properties" in out:
        out["properties"] = {name: _published(below) for name, below in (out["properties"] or {}).items()}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), Mapping):
            out[key] = _published(out[key])
    if out.get("x-kubernetes-int-or-string") and not {"anyOf", "allOf"} & set(out):
        out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if out.get("x-kubernetes-embedded-resource"):
        words = {"apiVersion": _WORD, "kind": _WORD, "metadata": _ref(OBJECT_META)}
        out["properties"] = {**out.get("properties", {}), **words}
        out["required"] = [
            *out.get("required", ()),
            *(name for name in ("kind", "apiVersion") if name not in out.get("required", ())),
        ]
    return out
