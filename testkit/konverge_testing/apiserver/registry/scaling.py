"""The scale subresource: a Scale of an object, and changes of the object through the Scale. Source: apiserver `registry/rest` and the CRD's
scale paths.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from konverge_testing.apiserver.apply import apply, track_update
from konverge_testing.apiserver.apply.scaling import from_scale, to_scale
from konverge_testing.apiserver.catalog.schemas import schema_node
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.patching import (
    conformed,
    decode_configuration,
    patch_document,
    patched,
    repeated_fields,
)
from konverge_testing.apiserver.registry.pipeline import SCHEME, check_identity, decode_body, manager_of
from konverge_testing.apiserver.registry.request import APPLY_TYPES, ResourceRequest
from konverge_testing.apiserver.registry.updating import change
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import (
    FieldError,
    StatusError,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
)

__all__ = ["scale_of", "update_scale"]

_BUILT_IN: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_VERSION: Final = Version("v1", schema_node("io.k8s.api.autoscaling.v1.Scale"))
_SCALE: Final = Resource(group="autoscaling", plural="scales", kind="Scale", versions=(_VERSION,))
_UNCONVERTED: Final = "to proper version: request to convert CR to an invalid group/version: autoscaling/v1"


def _paths(request: ResourceRequest) -> Mapping[str, str]:
    return request.version.scale or _BUILT_IN


def _at(data: Data, path: str) -> Any:
    here: Any = data
    for step in path.strip(".").split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here


def scale_of(request: ResourceRequest, data: Data) -> Data:
    """Return the Scale of an object."""
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
    """Change the replicas of an object by PUT, PATCH or apply of its Scale; returns the new Scale."""
    scale = replace(request, resource=replace(_SCALE, namespaced=request.resource.namespaced), version=_VERSION)
    desired = _desired_scale(registry, request, scale)
    entry = registry.entry(request)
    if entry is None:
        raise not_found(request.group, request.plural, request.info.name)

    def make(old: Data, _: bool) -> Data:
        wanted = desired(old)
        check_identity(scale, wanted)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if replicas < 0 and not request.resource.custom:
            wrong = FieldError("Invalid", "spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", request.info.name, [wrong])
        new = _with(old, _steps(_paths(request)["specReplicasPath"]), replicas)
        new["metadata"] = {key: value for key, value in old["metadata"].items() if key != "resourceVersion"}
        given = wanted["metadata"]
        kept = ("uid", "resourceVersion") if request.info.verb == "update" else ("resourceVersion",)
        new["metadata"] |= {key: given[key] for key in kept if given.get(key)}
        _owned(registry, request, old, new, given.get("managedFields"))
        return new

    return scale_of(request, await change(registry, request, entry, make))


def _desired_scale(registry: Registry, request: ResourceRequest, scale: ResourceRequest) -> Callable[[Data], Data]:
    """Return the function that computes the wanted Scale of the object; raises errors that do not depend on the object."""
    if request.info.verb == "update":
        body = _put_scale(request, scale)
        return lambda _: body
    if scale.media_type in APPLY_TYPES:
        intent = decode_configuration(request).data
        return lambda old: _applied_scale(registry, request, old, intent)
    document, repeated = patch_document(request), repeated_fields(request)

    def patch(old: Data) -> Data:
        new = patched(scale, scale_of(request, old), copy.deepcopy(document))
        conformed(scale, new, document, repeated)
        _same_uid(request, old, new)
        if new["metadata"].get("resourceVersion") == old["metadata"]["resourceVersion"]:
            del new["metadata"]["resourceVersion"]
        return new

    return patch


def _put_scale(request: ResourceRequest, scale: ResourceRequest) -> Data:
    try:
        body = decode_body(scale)
    except StatusError as error:
        if request.resource.custom and error.code == 400 and "cannot be handled as" in error.message:
            words = f'no kind is registered for the type v1.Scale in scheme "{SCHEME}"'
            raise bad_request(
                words
            ) from None  # the handler of custom kinds does not know the kind of a body that it could not decode
        raise
    check_identity(scale, body)
    return body


def _same_uid(request: ResourceRequest, old: Data, new: Data) -> None:
    uid = old["metadata"]["uid"]
    if new["metadata"].get("uid", uid) != uid and not request.resource.custom:
        why = f"Precondition failed: UID in precondition: {new['metadata']['uid']}, UID in object meta: {uid}"
        raise conflict(request.group, f"{request.plural}/scale", request.info.name, why)


def _applied_scale(registry: Registry, request: ResourceRequest, old: Data, intent: Data) -> Data:
    """Merge a configuration into the Scale of an object; a custom kind's Scale needs an owner of replicas, as on the real server."""
    live = scale_of(request, old)
    managed = to_scale(old["metadata"].get("managedFields"), _places(request))
    if request.resource.custom and not managed:
        why = f"failed to convert live object (/; autoscaling/v1, Kind=Scale) {_UNCONVERTED}"
        raise StatusError(500, "", f"failed to create manager for existing fields: {why}")
    new = apply(
        _VERSION.schema,
        _with_managers(live, managed),
        intent,
        manager=request.options.manager,
        force=request.options.force,
        api_version="autoscaling/v1",
        subresource="scale",
        now=registry.now(),
        kind="Scale",
    )
    _same_uid(request, old, new)
    if request.resource.custom and (new["spec"] != live["spec"] or new["metadata"]["uid"] != live["metadata"]["uid"]):
        raise StatusError(
            500, "", f"failed to convert new object (/{request.info.name}; autoscaling/v1, Kind=Scale) {_UNCONVERTED}"
        )
    new = {**new, "metadata": dict(new["metadata"])}
    if new["metadata"].get("resourceVersion") == live["metadata"]["resourceVersion"]:
        del new["metadata"]["resourceVersion"]
    new["metadata"].setdefault("managedFields", [])
    return new


def _places(request: ResourceRequest) -> dict[str, tuple[str, ...]]:
    return {
        request.resource.api_version(one.name): _steps((one.scale or _BUILT_IN)["specReplicasPath"])
        for one in request.resource.versions
        if one.scale is not None or not request.resource.custom
    }


def _owned(registry: Registry, request: ResourceRequest, old: Data, new: Data, applied: list[Data] | None) -> None:
    """Record the owner of the replicas: ownership is tracked on the Scale (`applied` if apply did so) and copied back to the object."""
    places, before = _places(request), old["metadata"].get("managedFields")
    if _at(old, _paths(request)["specReplicasPath"]) is None:
        return  # if the object had no number, no owner is recorded
    scale = applied
    if scale is None:
        scale = track_update(
            _VERSION.schema,
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


def _with(data: Data, path: Sequence[str], value: Any) -> Data:
    if len(path) == 1:
        return {**data, path[0]: value}
    return {**data, path[0]: _with(data.get(path[0]) or {}, path[1:], value)}
