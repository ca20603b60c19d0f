"""The scale subresource: a Scale made from an object, and the object changed by one. Source: apiserver `registry/rest` and the CRD's scale
paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.testing.apiserver import patch as patches
from konverge.testing.apiserver import schemas
from konverge.testing.apiserver.registry.ask import APPLY_TYPES, Ask
from konverge.testing.apiserver.registry.core import Data, Registry
from konverge.testing.apiserver.registry.pipeline import owned
from konverge.testing.apiserver.registry.updating import MODIFIED, change
from konverge.testing.apiserver.statuses import (
    FieldError,
    bad_request,
    conflict,
    invalid,
    not_found,
    not_implemented,
    unsupported_media_type,
)

__all__ = ["scale_of", "update_scale"]

_BUILT_IN: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_JSON: Final = "application/json-patch+json"
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def _paths(ask: Ask) -> Mapping[str, str]:
    return ask.version.scale or _BUILT_IN


def _at(data: Data, path: str) -> Any:
    here: Any = data
    for step in path.strip(".").split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here


def scale_of(ask: Ask, data: Data) -> Data:
    """Make the Scale of an object."""
    metadata, paths = data["metadata"], _paths(ask)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec: Data = {}
    replicas = _at(data, paths["specReplicasPath"])
    if replicas:
        spec["replicas"] = replicas
    status: Data = {"replicas": _at(data, paths["statusReplicasPath"]) or 0}
    selector = _selector(ask, data)
    if selector:
        status["selector"] = selector
    about = {name: metadata[name] for name in kept if name in metadata}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": about, "spec": spec, "status": status}


def _selector(ask: Ask, data: Data) -> str:
    if ask.resource.custom and ask.version.scale is not None:
        path = ask.version.scale.get("labelSelectorPath")
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


async def update_scale(registry: Registry, ask: Ask) -> Data:
    """Change the replicas of an object through a Scale that is put or patched; returns the new Scale."""
    entry = registry.entry(ask)
    if entry is None:
        raise not_found(ask.group, ask.plural, ask.place.name)
    if ask.media_type in APPLY_TYPES:
        raise not_implemented("server-side apply of scale")

    def make(old: Data) -> Data:
        wanted = _wanted(ask, scale_of(ask, old))
        given = wanted["metadata"].get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict(ask.group, ask.plural, ask.place.name, MODIFIED)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise bad_request("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
        if replicas < 0:
            wrong = FieldError("Invalid", "spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", ask.place.name, [wrong])
        new = _with(old, _paths(ask)["specReplicasPath"].strip(".").split("."), replicas)
        new["metadata"] = {key: value for key, value in old["metadata"].items() if key != "resourceVersion"}
        owned(ask, old, new, registry.now())
        return new

    return scale_of(ask, await change(registry, ask, entry, make))


def _wanted(ask: Ask, live: Data) -> Data:
    if ask.place.verb == "update":
        return schemas.decode(ask.call.body, ask.media_type or "application/json", strict=False).data
    document = patches.decode_patch(ask.call.body, ask.media_type)
    if ask.media_type == _JSON:
        return patches.json_patch(live, document)
    if ask.media_type in (_MERGE, _STRATEGIC):
        return patches.merge_patch(live, document)
    raise unsupported_media_type([_JSON, _MERGE, _STRATEGIC])


def _with(data: Data, path: list[str], value: Any) -> Data:
    if len(path) == 1:
        return {**data, path[0]: value}
    return {**data, path[0]: _with(data.get(path[0]) or {}, path[1:], value)}
