"""The scale subresource: a Scale made from an object, and the object changed by one. Source: apiserver `registry/rest` and the CRD's scale
paths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from konverge.testing.apiserver import patch as patches
from konverge.testing.apiserver import schemas
from konverge.testing.apiserver.apply import track_update
from konverge.testing.apiserver.apply.scaling import from_scale, to_scale
from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.patch.wording import word_of
from konverge.testing.apiserver.registry.core import Data, Registry
from konverge.testing.apiserver.registry.pipeline import manager_of
from konverge.testing.apiserver.registry.request import APPLY_TYPES, ResourceRequest
from konverge.testing.apiserver.registry.updating import MODIFIED, change
from konverge.testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
    not_implemented,
    unsupported_media_type,
)

__all__ = ["scale_of", "update_scale"]

_BUILT_IN: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_JSON: Final = "application/json-patch+json"
_MERGE: Final = "application/merge-patch+json"
_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALE: Final = Node(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _FREE,
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "status": _FREE,
        },
    }
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def _paths(request: ResourceRequest) -> Mapping[str, str]:
    return request.version.scale or _BUILT_IN


def _at(data: Data, path: str) -> Any:
    here: Any = data
    for step in path.strip(".").split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here


def scale_of(request: ResourceRequest, data: Data) -> Data:
    """Make the Scale of an object."""
    metadata, paths = data["metadata"], _paths(request)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Data = {}
    replicas = _at(data, paths["specReplicasPath"])
    if replicas is None and request.resource.custom and request.info.verb == "get":
        raise internal(f'the spec replicas field "{paths["specReplicasPath"]}" does not exist')
    if replicas:
        spec["replicas"] = replicas
    status: Data = {"replicas": _at(data, paths["statusReplicasPath"]) or 0}
    selector = _selector(request, data)
    if selector:
        status["selector"] = selector
    about = {name: metadata[name] for name in kept if name in metadata}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": about, "spec": spec, "status": status}


def _selector(request: ResourceRequest, data: Data) -> str:
    if request.resource.custom and request.version.scale is not None:
        path = request.version.scale.get("labelSelectorPath")
        return str(_at(data, path) or "") if path else ""
    selector: Data = (data.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    terms = [f"{key}={value}" for key, value in sorted(labels.items())]
    terms += [_term(one) for one in selector.get("matchExpressions") or ()]
    return ",".join(sorted(terms))


def _term(expression: Data) -> str:
    key, operator, values = expression["key"], expression["operator"], ",".join(sorted(expression.get("values") or ()))
    terms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
    return str(terms[operator])


async def update_scale(registry: Registry, request: ResourceRequest) -> Data:
    """Change the replicas of an object through a Scale that is put or patched; returns the new Scale."""
    entry = registry.entry(request)
    if entry is None:
        raise not_found(request.group, request.plural, request.info.name)
    if request.media_type in APPLY_TYPES:
        raise not_implemented("server-side apply of scale")

    def make(old: Data, _: bool) -> Data:
        wanted = _desired_scale(request, scale_of(request, old))
        given = wanted["metadata"].get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict(request.group, request.plural, request.info.name, MODIFIED)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise _unfit(request, wanted, replicas)
        if replicas < 0 and not request.resource.custom:
            wrong = FieldError("Invalid", "spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", request.info.name, [wrong])
        new = _with(old, _paths(request)["specReplicasPath"].strip(".").split("."), replicas)
        new["metadata"] = {key: value for key, value in old["metadata"].items() if key != "resourceVersion"}
        _owned(registry, request, old, new)
        return new

    return scale_of(request, await change(registry, request, entry, make))


def _unfit(request: ResourceRequest, wanted: Data, replicas: Any) -> StatusError:
    words = f"json: cannot unmarshal {word_of(replicas)} into Go struct field ScaleSpec.spec.replicas of type int32"
    if request.info.verb == "update":
        return bad_request(f'Scale in version "v1" cannot be handled as a Scale: {words}')
    shown = json.dumps(wanted, separators=(",", ":"))
    return invalid("", "", "", [FieldError("Invalid", "patch", shown, words)])


def _owned(registry: Registry, request: ResourceRequest, old: Data, new: Data) -> None:
    """Record the owner of the replicas: ownership is tracked on the Scale and copied back to the object."""
    places = {
        request.resource.api_version(one.name): _steps((one.scale or _BUILT_IN)["specReplicasPath"])
        for one in request.resource.versions
        if one.scale is not None or not request.resource.custom
    }
    before = old["metadata"].get("managedFields")
    if _at(old, _paths(request)["specReplicasPath"]) is None:
        return  # if the object had no number, no owner is recorded
    scale = track_update(
        _SCALE,
        _with_managers(scale_of(request, old), to_scale(before, places)),
        _with_managers(scale_of(request, new), to_scale(before, places)),
        manager=manager_of(request),
        api_version="autoscaling/v1",
        subresource="scale",
        now=registry.now(),
        reset=(("metadata",), ("status",)),
    )
    managed = from_scale(before, scale, request.api_version, places)
    if managed:
        new["metadata"]["managedFields"] = managed
    else:
        new["metadata"].pop("managedFields", None)


def _with_managers(scale: Data, managed: list[Data] | None) -> Data:
    return {**scale, "metadata": {**scale["metadata"], **({"managedFields": managed} if managed else {})}}


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.strip(".").split("."))


def _desired_scale(request: ResourceRequest, live: Data) -> Data:
    if request.info.verb == "update":
        return schemas.decode(request.call.body, request.media_type or "application/json", strict=False).data
    document = patches.decode_patch(request.call.body, request.media_type)
    if request.media_type == _JSON:
        return patches.json_patch(live, document)
    if request.media_type in (_MERGE, _STRATEGIC):
        return patches.merge_patch(live, document)
    raise unsupported_media_type([_JSON, _MERGE, _STRATEGIC])


def _with(data: Data, path: list[str], value: Any) -> Data:
    if len(path) == 1:
        return {**data, path[0]: value}
    return {**data, path[0]: _with(data.get(path[0]) or {}, path[1:], value)}
