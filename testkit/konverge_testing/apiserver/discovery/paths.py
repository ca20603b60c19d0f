"""The `paths` of an OpenAPI v3 document: one operation for each verb of a resource.

Guarantees: pure. Paths, operation ids, actions, kinds and parameters match a real server's, so that clients which decide
by them behave the same (kubectl looks for `fieldValidation` at the patch operation of a kind). Descriptions are omitted, except the
descriptions of responses, which OpenAPI requires.

Left out: the old `/watch/` paths, and the connecting subresources (exec, attach, portforward, proxy, log).
Bodies are JSON only.

Sources: k8s.io/apiserver `pkg/endpoints/installer.go`, k8s.io/apiextensions-apiserver `pkg/controller/openapi/builder/builder.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from konverge_testing.apiserver.catalog import Subresource, definition_of, returns_deleted, subresources
from konverge_testing.apiserver.discovery.groups import Group, Served

__all__ = ["definition_name", "document_paths", "list_definition"]

Data = dict[str, Any]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_WORDS: Final = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}
_CONNECTING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})

_LIST: Final = {
    "allowWatchBookmarks": "boolean",
    "continue": "string",
    "fieldSelector": "string",
    "labelSelector": "string",
    "limit": "integer",
    "pretty": "string",
    "resourceVersion": "string",
    "resourceVersionMatch": "string",
    "sendInitialEvents": "boolean",
    "shardSelector": "string",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_WRITE: Final = {"dryRun": "string", "fieldManager": "string", "fieldValidation": "string", "pretty": "string"}
_PATCH: Final = {**_WRITE, "force": "boolean"}
_DELETE: Final = {
    "dryRun": "string",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "orphanDependents": "boolean",
    "pretty": "string",
    "propagationPolicy": "string",
}
_DELETE_ALL: Final = _DELETE | {
    name: type_ for name, type_ in _LIST.items() if name not in ("allowWatchBookmarks", "watch")
}
_READ: Final = {"pretty": "string"}
_READ_CUSTOM: Final = {"pretty": "string", "resourceVersion": "string"}
_APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = (_APPLY, "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def definition_name(served: Served) -> str:
    """Return the name of the schema of a resource: the recorded name, or for a CustomResourceDefinition the reversed group."""
    resource, version = served.resource, served.version.name
    if not resource.custom:
        return served.version.schema.reference or definition_of(resource.group, version, resource.kind)
    return ".".join([*reversed(resource.group.split(".")), version, resource.kind])


def list_definition(served: Served) -> str:
    """Return the name of the schema of a resource's list, or "" if there is none."""
    resource = served.resource
    list_kind = resource.list_kind or f"{resource.kind}List"
    if not resource.custom:
        return definition_of(resource.group, served.version.name, list_kind)
    return ".".join([*reversed(resource.group.split(".")), served.version.name, list_kind])


def document_paths(group: Group, version: str) -> dict[str, Data]:
    """Return the paths of one group and version, sorted."""
    found: dict[str, Data] = {}
    base = f"/apis/{group.name}/{version}" if group.name else f"/api/{version}"
    for served in group.versions[version]:
        found.update(_Resource(base, served).paths())
    if not all(served.resource.custom for served in group.versions[version]):
        tag, title = _names(group.name, version)
        listed = _operation("get", f"get{title}APIResources", tag, _META + "APIResourceList", {})
        found[f"{base}/"] = _hoisted({"get": listed})
    return dict(sorted(found.items()))


def _names(group: str, version: str) -> tuple[str, str]:
    """Return the tag of a group's operations, and the group's part of their ids.

    >>> _names("rbac.authorization.k8s.io", "v1")
    ('rbacAuthorization_v1', 'RbacAuthorizationV1')
    """
    words = [word for word in re.split(r"[.\-]", group.removesuffix(".k8s.io") or "core") if word]
    title = "".join(word[:1].upper() + word[1:] for word in words)
    return f"{title[:1].lower()}{title[1:]}_{version}", title + version[:1].upper() + version[1:]


@dataclass(frozen=True)
class _Resource:
    """Creates the path items of one resource."""

    base: str
    served: Served

    def paths(self) -> Iterator[tuple[str, Data]]:
        resource = self.served.resource
        scope = f"{self.base}/namespaces/{{namespace}}" if resource.namespaced else self.base
        if collection := list(self._collection()):
            yield f"{scope}/{resource.plural}", self._item(collection, named=False)
        if resource.namespaced and "list" in resource.verbs:
            operation = self._op("get", f"list{self._title}{resource.kind}ForAllNamespaces", self._list, _LIST, "list")
            yield f"{self.base}/{resource.plural}", _hoisted({"get": operation})
        if one := list(self._one()):
            yield f"{scope}/{resource.plural}/{{name}}", self._item(one, named=True)
        for subresource in subresources(resource, self.served.version):
            if subresource.name not in _CONNECTING:
                operations = list(self._below(subresource))
                yield f"{scope}/{resource.plural}/{{name}}/{subresource.name}", self._item(operations, named=True)

    @property
    def _tag(self) -> str:
        return _names(self.served.resource.group, self.served.version.name)[0]

    @property
    def _title(self) -> str:
        return _names(self.served.resource.group, self.served.version.name)[1]

    @property
    def _scoped(self) -> str:
        """The kind as in operation ids."""
        resource = self.served.resource
        return f"Namespaced{resource.kind}" if resource.namespaced else resource.kind

    @property
    def _schema(self) -> str:
        return definition_name(self.served)

    @property
    def _list(self) -> str:
        return list_definition(self.served)

    @property
    def _kind(self) -> Data:
        resource = self.served.resource
        return {"group": resource.group, "version": self.served.version.name, "kind": resource.kind}

    def _collection(self) -> Iterator[tuple[str, Data]]:
        verbs = self.served.resource.verbs
        if "list" in verbs:
            yield "get", self._op("get", f"list{self._title}{self._scoped}", self._list, _LIST, "list")
        if "create" in verbs:
            yield "post", self._op("post", f"create{self._title}{self._scoped}", self._schema, _WRITE, "post")
        if "deletecollection" in verbs:
            id_ = f"delete{self._title}Collection{self._scoped}"
            asked = _LIST if self.served.resource.custom else _DELETE_ALL
            operation = self._op("delete", id_, _META + "Status", asked, "deletecollection")
            del operation["responses"]["202"]
            if self.served.resource.custom:
                del operation["requestBody"]
            yield "delete", operation

    def _one(self) -> Iterator[tuple[str, Data]]:
        verbs, custom = self.served.resource.verbs, self.served.resource.custom
        if "get" in verbs:
            read = _READ_CUSTOM if custom else _READ
            yield "get", self._op("get", f"read{self._title}{self._scoped}", self._schema, read, "get")
        if "update" in verbs:
            yield "put", self._op("put", f"replace{self._title}{self._scoped}", self._schema, _WRITE, "put")
        if "delete" in verbs:
            answered = self._schema if returns_deleted(self.served.resource) else _META + "Status"
            yield "delete", self._op("delete", f"delete{self._title}{self._scoped}", answered, _DELETE, "delete")
        if "patch" in verbs:
            yield "patch", self._op("patch", f"patch{self._title}{self._scoped}", self._schema, _PATCH, "patch")

    def _below(self, subresource: Subresource) -> Iterator[tuple[str, Data]]:
        resource = self.served.resource
        group = subresource.group if subresource.version else resource.group
        version = subresource.version or self.served.version.name
        own = (group, version, subresource.kind) == tuple(self._kind.values())
        schema = self._schema if own else definition_of(group, version, subresource.kind)
        id_ = f"{self._title}{self._scoped}{subresource.name.title()}"
        kind = self._kind if resource.custom else {"group": group, "version": version, "kind": subresource.kind}
        if "create" in subresource.verbs:
            yield "post", self._op("post", f"create{id_}", schema, _WRITE, "post", kind)
        if "get" in subresource.verbs:
            yield "get", self._op("get", f"read{id_}", schema, _READ_CUSTOM if resource.custom else _READ, "get", kind)
        if "update" in subresource.verbs:
            yield "put", self._op("put", f"replace{id_}", schema, _WRITE, "put", kind)
        if "patch" in subresource.verbs:
            yield "patch", self._op("patch", f"patch{id_}", schema, _PATCH, "patch", kind)

    def _op(
        self, method: str, id_: str, schema: str, parameters: dict[str, str], action: str, kind: Data | None = None
    ) -> Data:
        operation = _operation(method, id_, self._tag, schema, parameters)
        if action == "list":
            content = operation["responses"]["200"]["content"]
            content["application/json;stream=watch"] = content["application/json"]
        if method == "patch":
            accepted = _PATCHES if self.served.resource.custom else (*_PATCHES, _STRATEGIC)
            operation["requestBody"] = _body(_META + "Patch", *accepted)
            if self.served.resource.custom:
                del operation["responses"]["201"]
        elif method in ("post", "put"):
            operation["requestBody"] = _body(schema)
        elif method == "delete":
            operation["requestBody"] = {"content": _body(_META + "DeleteOptions")["content"]}
        return {**operation, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind or self._kind}

    def _item(self, operations: list[tuple[str, Data]], *, named: bool) -> Data:
        fixed = [_parameter("name", "string", "path")] if named else []
        if self.served.resource.namespaced:
            fixed.append(_parameter("namespace", "string", "path"))
        return _hoisted(dict(operations), fixed)


def _operation(method: str, id_: str, tag: str, schema: str, parameters: dict[str, str]) -> Data:
    codes = {"post": ("200", "201", "202"), "put": ("200", "201"), "patch": ("200", "201"), "delete": ("200", "202")}
    shown = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
    responses: Data = {code: {"description": _WORDS[code], **shown} for code in codes.get(method, ("200",))}
    return {
        "tags": [tag],
        "operationId": id_,
        "parameters": [_parameter(name, type_, "query") for name, type_ in sorted(parameters.items())],
        "responses": {**responses, "401": {"description": _WORDS["401"]}},
    }


def _body(schema: str, *types: str) -> Data:
    shown = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    return {"content": dict.fromkeys(types or ("application/json",), shown), "required": True}


def _parameter(name: str, type_: str, place: str) -> Data:
    needed = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **needed, "schema": {"type": type_, "uniqueItems": True}}


def _hoisted(operations: dict[str, Data], fixed: list[Data] | None = None) -> Data:
    """Move the parameters that all operations share to the path, as the generator of the real documents does."""
    named = [{each["name"] for each in operation["parameters"]} for operation in operations.values()]
    common = set.intersection(*named)
    shared = {
        each["name"]: each
        for operation in operations.values()
        for each in operation["parameters"]
        if each["name"] in common
    }
    for operation in operations.values():
        kept = [each for each in operation["parameters"] if each["name"] not in common]
        operation.pop("parameters")
        if kept:
            operation["parameters"] = kept
    item: Data = dict(operations)
    hoisted = [*(fixed or ()), *shared.values()]
    if hoisted:
        item["parameters"] = sorted(hoisted, key=lambda each: str(each["name"]))
    return item
