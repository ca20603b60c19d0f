"""Requests, as hypothesis strategies: every place that the server's discovery names, and places, options and headers that no client sends.

The bodies are based on the good objects of the conformance cases.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from conformance.cases import CASES, KINDS, Step, load_cases, step_of
from fuzzing.bodies import carried, changed, json_patches
from fuzzing.values import anything, fitting, texts
from hypothesis import strategies as st
from yaml_files import load_yaml

from konverge_testing.apiserver.catalog import builtin, definition_of, schema_node
from konverge_testing.apiserver.nodes import ANYTHING, Node
from konverge_testing.apiserver.resources import Resource

Data = dict[str, Any]

SETUP: Final[tuple[Data, ...]] = tuple(
    json.loads(json.dumps(step.body))
    for step in map(step_of, load_yaml(CASES.parent / "setup.yaml"))
    if step.line == "POST crd"
)
"""The definitions of the custom kinds."""
_NAMESPACE: Final = "default"
_SUBRESOURCES: Final[dict[str, tuple[str, str, str, Data]]] = {
    "scale": ("autoscaling", "v1", "Scale", {"spec": {"replicas": 1}}),
    "eviction": ("policy", "v1", "Eviction", {"deleteOptions": {"gracePeriodSeconds": 0}}),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", {"spec": {"audiences": ["a"], "expirationSeconds": 600}}),
    "binding": ("", "v1", "Binding", {"target": {"kind": "Node", "name": "n"}}),
}


@dataclass(frozen=True)
class Place:
    """A resource in one version, with the good objects of its kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[str, ...]
    node: Node
    seeds: tuple[Data, ...]
    status: Data
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The path of the collection."""
        inside = f"/namespaces/{_NAMESPACE}" if self.namespaced else ""
        return f"/{'apis' if self.group else 'api'}/{self.api_version}{inside}/{self.plural}"


@dataclass(frozen=True)
class Sent:
    """A request as it is sent."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.target} {dict(self.headers)} {self.body[:2000]!r}"


@dataclass(frozen=True)
class Script:
    """Requests on a resource, after the creation of a good object of its kind if there is one."""

    place: Place
    seed: Data
    requests: tuple[Sent, ...]
    objects: Data = field(default_factory=dict)
    """Fields of an object of the kind that a definition defines."""


@cache
def places() -> tuple[Place, ...]:
    """Return all places that are served."""
    seeds = _seeds()
    found = [_builtin(resource, seeds) for resource in builtin() if "admissionpolic" not in resource.plural]
    for definition in SETUP:
        spec = definition["spec"]
        for version in spec["versions"]:
            found.append(
                Place(
                    spec["group"],
                    version["name"],
                    spec["names"]["plural"],
                    spec["names"]["kind"],
                    spec["scope"] == "Namespaced",
                    tuple(version.get("subresources", ())),
                    Node(version["schema"]["openAPIV3Schema"]),
                    tuple(seeds.get((spec["group"], spec["names"]["plural"]), ())),
                    _status_of(spec["group"], spec["names"]["plural"]),
                    custom=True,
                )
            )
    return tuple(found)


@cache
def _ruled_places() -> tuple[Place, ...]:
    """Return the resources whose kinds have rules beyond their schema: the resources of the cases."""
    return tuple(place for place in places() if place.seeds)


def _builtin(resource: Resource, seeds: Mapping[tuple[str, str], list[Data]]) -> Place:
    version = resource.versions[0]
    known = seeds.get(resource.name, [])
    subresources = tuple(sorted(resource.subresources))
    return Place(
        resource.group,
        version.name,
        resource.plural,
        resource.kind,
        resource.namespaced,
        subresources,
        version.schema,
        tuple(known),
        _status_of(resource.group, resource.plural),
    )


def _status_of(group: str, plural: str) -> Data:
    return next(
        (_plain(dict(one.status)) for one in KINDS.values() if one.plural == plural and one.api.startswith(group)), {}
    )


def _seeds() -> dict[tuple[str, str], list[Data]]:
    found: dict[tuple[str, str], list[Data]] = {}
    for kind in KINDS.values():
        if kind.body:
            group = kind.api.rpartition("/")[0]
            found.setdefault((group, kind.plural), []).append(_plain(dict(kind.body)))
    for case in load_cases():
        if case.area != "generic":
            for step in case.steps:
                _collect(found, step)
    found[("apiextensions.k8s.io", "customresourcedefinitions")] = [
        *map(_plain, map(copy.deepcopy, SETUP)),
        *found.get(("apiextensions.k8s.io", "customresourcedefinitions"), ()),
    ]
    return found


def _collect(found: dict[tuple[str, str], list[Data]], step: Step) -> None:
    verb, _, target = step.line.partition(" ")
    alias = target.partition("/")[0].partition("?")[0].partition("@")[0]
    if verb == "POST" and alias in KINDS and isinstance(step.body, dict) and "/" not in target:
        kind = KINDS[alias]
        seeds = found.setdefault((kind.api.rpartition("/")[0], kind.plural), [])
        body = _plain(step.body)
        if body not in seeds:
            seeds.append(body)
    for inner in step.during:
        _collect(found, inner)


def _plain(body: Data) -> Data:
    read: Data = json.loads(json.dumps(body, default=str).replace("$ns", _NAMESPACE))
    return read


# --- requests ---------------------------------------------------------------------------------------------------------------------

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "PATCH", "DELETE")
_ODD_METHODS: Final = ("HEAD", "OPTIONS", "CONNECT", "TRACE", "WATCH", "get", "")
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TYPES: Final = (
    *_PATCHES,
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/apply-patch+cbor",
    "application/cbor",
    "text/plain",
    "application/json; charset=latin-1",
    "application/json;",
    ";",
    "*/*",
    "",
    "\xff",
)
_ACCEPTS: Final = (
    "application/json",
    "*/*",
    "",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Other;v=v1;g=x",
    "application/json;q=",
    "application/json;q=x;;=",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/html",
    ",",
    ";",
    '"',
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
_OPTIONS: Final = (
    *(
        "pretty",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "x",
    ),
    *("resourceVersionMatch", "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "timeout", "labelSelector"),
    *(
        "fieldSelector",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "includeObject",
        "shardSelector",
        "",
    ),
    "ignoreStoreReadErrorWithClusterBreakingPotential",
)
_SAID: Final = (
    *(
        "",
        "true",
        "false",
        "1",
        "0",
        "-1",
        "x",
        "All",
        "None",
        "Strict",
        "Ignore",
        "Warn",
        "Object",
        "Metadata",
        "Exact",
        "null",
    ),
    *(
        "NotOlderThan",
        "99999999999999999999",
        "9223372036854775807",
        "1.5",
        "1s",
        "a=b",
        "a in (b,c)",
        "a in (",
        "!a",
        "a>1",
        "a>b",
    ),
    *(
        "metadata.name=a",
        "spec.nodeName=",
        "metadata.name!=a,metadata.namespace=b",
        "spec.color=red",
        "=",
        "a=b=c",
        ",",
        "\\",
        "eyJ9",
    ),
    *(
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
        "Foreground",
        "Orphan",
        "%",
        "%zz",
        "%ff",
        "%00",
        "a;b",
    ),
)
_ENCODED: Final = (
    "%",
    "%zz",
    "%ff",
    "%00",
    "%2F",
    "%252F",
    "%2e%2e",
    "+",
    "a%20b",
    ";",
    "..",
    ".",
    "",
    "%C3%A9",
    "#",
    "?",
    "%E0%80%80",
)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Draw some requests on one resource."""
    place = draw(st.sampled_from(places() if draw(st.integers(0, 2)) == 0 else _ruled_places()))
    seed = copy.deepcopy(draw(st.sampled_from(place.seeds))) if place.seeds else {}
    seed = {"apiVersion": place.api_version, "kind": place.kind, **seed}
    seed["metadata"] = {"labels": {"a": "a"}, **(seed.get("metadata") or {})}
    if place.plural != "customresourcedefinitions":
        seed["metadata"]["name"] = "a"
    requests = [draw(_request(place, seed)) for _ in range(draw(st.integers(1, 4)))]
    objects = {}
    if place.plural == "customresourcedefinitions":
        seed = draw(changed(seed, place.node))
        schemas = [one.get("schema") for one in _list_of(seed.get("spec"), "versions") if isinstance(one, dict)]
        named = [one.get("openAPIV3Schema") for one in schemas if isinstance(one, dict)]
        node = Node(named[0]) if named and isinstance(named[0], dict) else ANYTHING
        objects = draw(_fields_of(node))
    return Script(place, seed, tuple(requests), objects)


def _list_of(parent: Any, name: str) -> list[Any]:
    found = parent.get(name) if isinstance(parent, dict) else None
    return found if isinstance(found, list) else []


@st.composite
def _fields_of(draw: st.DrawFn, node: Node) -> Data:
    try:
        names = [name for name in node.properties if name not in ("apiVersion", "kind", "metadata")]
    except AttributeError:  # a schema that is not one
        return {"spec": draw(anything)}
    try:
        return {name: draw(fitting(node.properties[name])) for name in names}
    except (AttributeError, TypeError):
        return {"spec": draw(anything)}


@st.composite
def _request(draw: st.DrawFn, place: Place, seed: Data) -> Sent:
    method = draw(st.sampled_from(_METHODS if draw(st.integers(0, 29)) else _ODD_METHODS))
    subresource = ""
    if place.subresources and draw(st.integers(0, 2)) == 0:
        subresource = draw(st.sampled_from(place.subresources))
    target = draw(_target(place, method, subresource, str(seed["metadata"]["name"])))
    if draw(st.integers(0, 9)) and "?" not in target:
        target += "?fieldManager=m"  # apply demands it
    headers = {"accept": "application/json" if draw(st.integers(0, 4)) else draw(st.sampled_from(_ACCEPTS))}
    body = b""
    if method in ("POST", "PUT", "PATCH"):
        headers["content-type"] = draw(_media_type(method))
        body = draw(_body(place, seed, subresource, headers["content-type"]))
    elif method == "DELETE" and draw(st.booleans()):
        headers["content-type"] = "application/json"
        options = schema_node("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        body = draw(carried(draw(changed({"kind": "DeleteOptions", "apiVersion": "v1"}, options))))
    elif draw(st.integers(0, 29)) == 0:
        body = draw(st.binary(max_size=4))
    if draw(st.integers(0, 39)) == 0:
        headers["impersonate-user"] = draw(
            st.sampled_from(["", "u", "system:serviceaccount:a:b", "system:serviceaccount:", "\xff"])
        )
        headers["impersonate-extra-%zz"] = "x"
    if draw(st.integers(0, 59)) == 0:
        headers["content-type"] = draw(st.sampled_from(_TYPES))
    return Sent(method, target, headers, body)


@st.composite
def _media_type(draw: st.DrawFn, method: str) -> str:
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from(_TYPES))
    if method == "PATCH":
        return draw(st.sampled_from(_PATCHES))
    return "application/json" if draw(st.integers(0, 3)) else "application/yaml"


@st.composite
def _target(draw: st.DrawFn, place: Place, method: str, subresource: str, name: str) -> str:
    path = place.path
    if method != "POST" or subresource:
        if draw(st.integers(0, 4)):
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
    if draw(st.integers(0, 19)) == 0:
        path = draw(_odd_path(path))
    query = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        option = draw(st.sampled_from(_OPTIONS))
        value = draw(st.sampled_from(_SAID) | texts)
        query.append(f"{option}={quote(value, safe='%=,;()!', errors='replace') if draw(st.integers(0, 9)) else value}")
    return path + ("?" + "&".join(query) if query else "")


@st.composite
def _odd_path(draw: st.DrawFn, path: str) -> str:
    parts = path.split("/")
    kind = draw(st.integers(0, 5))
    at = draw(st.integers(1, len(parts) - 1))
    if kind == 0:
        parts[at] = draw(st.sampled_from(_ENCODED))
    elif kind == 1:
        parts.insert(at, draw(st.sampled_from([*_ENCODED, "watch", "proxy", "namespaces", "a"])))
    elif kind == 2:
        del parts[at]
    elif kind == 3:
        parts += [draw(st.sampled_from(["status", "scale", "finalize", "approval", "log", "eviction", "a", ""]))]
    elif kind == 4:
        return draw(st.sampled_from(["", "/", "*", "//", "/api", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/api/v1", "/openapi/v2",
                                     "/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1/", "/version", "/healthz/x", "/readyz",
                                     "/livez?verbose", "/metrics", "/apis/a/b/c", "/api/v1/namespaces/x/finalize", "/api/v1/watch",
                                     "/api/v1/watch/pods", "/api/v1/proxy/a", "/.well-known/openid-configuration", "/logs/", "/../api"]))  # fmt: skip
    else:
        return path + draw(st.sampled_from(["/", "//", "%", "%2f", "?", "??a", "#a", "/\xff"]))
    return "/".join(parts)


@st.composite
def _body(draw: st.DrawFn, place: Place, seed: Data, subresource: str, media_type: str) -> bytes:
    if draw(st.integers(0, 29)) == 0:
        return draw(carried(draw(anything), yaml_too=True))
    base, node = seed, place.node
    if subresource in _SUBRESOURCES:
        group, version, kind, more = _SUBRESOURCES[subresource]
        api_version = f"{group}/{version}" if group else version
        base = {"apiVersion": api_version, "kind": kind, "metadata": {"name": seed["metadata"]["name"]}, **more}
        name = definition_of(group, version, kind)
        node = schema_node(name) if name else ANYTHING
    elif subresource:
        base = {**seed, "status": place.status}
    if media_type.startswith("application/json-patch"):
        return draw(carried(draw(json_patches(base, node))))
    if draw(st.integers(0, 9)) == 0:
        document = draw(fitting(node))
        if isinstance(document, dict) and draw(st.integers(0, 9)):
            document |= {"apiVersion": base["apiVersion"], "kind": base["kind"]}
            if draw(st.integers(0, 9)):
                document["metadata"] = dict(base["metadata"])
    else:
        if media_type.endswith("merge-patch+json"):
            base = {key: value for key, value in base.items() if draw(st.integers(0, 2))}
        document = draw(changed(base, node))
    return draw(carried(document, yaml_too="yaml" in media_type))
