"""The OpenAPI v2 document of everything that is served, converted from the v3 documents of the groups.

Guarantees: pure. Definitions equal a real server's without descriptions: references have no defaults beside them, and schemas of
custom kinds lose what v2 cannot express (alternatives, nullable, the types below a field whose unknown fields are kept).

Caveats: parameters are repeated at each operation; a real server shares them under `parameters`.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/kubeopenapi.go` and `pkg/controller/openapi/v2/conversion.go`,
k8s.io/kube-openapi `pkg/builder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["document_v2"]

Data = dict[str, Any]

_SECURITY: Final = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}
_V3: Final = "#/components/schemas/"
_V2: Final = "#/definitions/"
_KINDS: Final = "x-kubernetes-group-version-kind"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_LOST: Final = frozenset({"allOf", "anyOf", "default", "not", "nullable", "oneOf"})
_APPLY: Final = "application/apply-patch+yaml"
_MEDIA_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_WATCHES: Final = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


def document_v2(documents: Iterable[Data], release: str) -> Data:
    """Return the document with the paths and definitions of these v3 documents; `release` is `1.36`."""
    paths: Data = {}
    definitions: Data = {}
    for document in documents:
        paths.update({path: _path(item) for path, item in document["paths"].items()})
        for name, schema in document["components"]["schemas"].items():
            definition = _root(schema)
            if (known := definitions.get(name)) is not None and definition.get(_KINDS):
                kinds = [*known[_KINDS], *(kind for kind in definition[_KINDS] if kind not in known[_KINDS])]
                definition = {**definition, _KINDS: kinds}
            definitions[name] = definition
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def _root(schema: Mapping[str, Any]) -> Data:
    """Return a definition; a custom kind whose unknown fields are kept has only its group, version and kind."""
    if schema.get(_PRESERVE) and schema.get(_KINDS):
        return {"type": "object", _KINDS: schema[_KINDS]}
    return _schema(schema)


def _schema(schema: Mapping[str, Any]) -> Data:
    target = _target(schema)
    if target:
        kept = {key: value for key, value in schema.items() if key == "description" or key.startswith("x-")}
        return {**kept, "$ref": target.replace(_V3, _V2)}
    found = {key: _below(key, value) for key, value in schema.items() if key not in _LOST}
    if schema.get(_PRESERVE) or schema.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in found.items() if key == "description" or key.startswith("x-")}
    if schema.get("nullable"):
        for key in ("type", "items", "properties"):
            found.pop(key, None)
    elif "type" not in found and any(one.get("type") == "string" for one in schema.get("oneOf") or ()):
        found["type"] = "string"
    return found


def _target(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"])
    several = list(schema.get("allOf") or ())
    return str(several[0]["$ref"]) if len(several) == 1 and "$ref" in several[0] else ""


def _below(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _schema(inner) for name, inner in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return _schema(value)
    return value


def _path(item: Mapping[str, Any]) -> Data:
    found: Data = {
        method: _operation(operation)
        for method, operation in item.items()
        if method not in ("parameters", "description")
    }
    if "parameters" in item:
        found["parameters"] = [_parameter(one) for one in item["parameters"]]
    return found


def _operation(operation: Mapping[str, Any]) -> Data:
    found: Data = {
        key: value for key, value in operation.items() if key not in ("parameters", "requestBody", "responses")
    }
    body = operation.get("requestBody")
    found["consumes"] = ["*/*"]
    if body is not None and operation.get("x-kubernetes-action") == "patch":
        found["consumes"] = sorted(body["content"], key=lambda one: one == _APPLY)
    watches = operation.get("x-kubernetes-action") == "list"
    found["produces"] = [*_MEDIA_TYPES, *(_WATCHES if watches else ())]
    found["schemes"] = ["https"]
    parameters = [_parameter(one) for one in operation.get("parameters") or ()]
    if body is not None:
        needed = {"required": True} if body.get("required") else {}
        schema = _schema(next(iter(body["content"].values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", **needed, "schema": schema})
    if parameters:
        found["parameters"] = parameters
    found["responses"] = {code: _response(one) for code, one in operation["responses"].items()}
    return found


def _response(response: Mapping[str, Any]) -> Data:
    content = response.get("content")
    found = {"description": response["description"]}
    return {**found, "schema": _schema(content["application/json"]["schema"])} if content else found


def _parameter(parameter: Mapping[str, Any]) -> Data:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}
