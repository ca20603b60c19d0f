"""A CustomResourceDefinition for the server: its defaults, the `Resource` that it defines, and the acceptance of its names.

Guarantees: pure. Sources: apiextensions `pkg/apis/apiextensions/v1/defaults.go`, `pkg/apiserver/customresource_{handler,discovery}.go`,
`pkg/controller/status/naming_controller.go`, k8s.io/apimachinery `pkg/version/helpers.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key, lru_cache
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.golang import quote
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Column, Resource, Version

__all__ = ["compare_api_versions", "crd_default", "crd_names_accepted", "crd_resource"]

Data = dict[str, Any]

_ENCODE: Final = msgspec.json.Encoder().encode
_KUBE_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES: Final = {"alpha": 0, "beta": 1, "": 2}
_COLUMN: Final = "Custom resource definition column (in JSONPath format): {}"
_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")


def crd_default(crd: Data) -> None:
    """Set the optional fields of a definition to their defaults, in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    status = crd.get("status")
    if isinstance(status, dict) and not status.get("storedVersions"):
        status["storedVersions"] = [one["name"] for one in spec.get("versions") or () if one.get("storage")][:1]
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


def compare_api_versions(one: str, other: str) -> int:
    """Compare versions by Kubernetes' rule: more than 0 if `one` is preferred (v2, v1, v1beta1, v1alpha1, then others by name).

    >>> sorted(["v1alpha1", "v10", "foo", "v1beta2", "v2"], key=cmp_to_key(compare_api_versions), reverse=True)
    ['v10', 'v2', 'v1beta2', 'v1alpha1', 'foo']
    """
    first, second = _KUBE_VERSION.fullmatch(one), _KUBE_VERSION.fullmatch(other)
    if first is None or second is None:
        if first is None and second is None:
            return (other > one) - (other < one)
        return 1 if second is None else -1
    ranks = [(_STAGES[found[2] or ""], int(found[1]), int(found[3] or 0)) for found in (first, second)]
    return (ranks[0] > ranks[1]) - (ranks[0] < ranks[1])


def crd_resource(crd: Data) -> Resource:
    """Return the resource that a definition defines, by its accepted names if it has them."""
    spec = crd["spec"]
    accepted = (crd.get("status") or {}).get("acceptedNames") or {}
    names = accepted if accepted.get("plural") and accepted.get("kind") else spec["names"]
    versions = [_version(version, spec, names["kind"]) for version in spec["versions"]]
    versions.sort(key=cmp_to_key(lambda one, other: compare_api_versions(one.name, other.name)), reverse=True)
    conversion = spec.get("conversion") or {}
    subresources = {name for version in spec["versions"] for name in ("status", "scale") if _has(version, name)}
    return Resource(
        group=spec["group"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        namespaced=spec.get("scope") == "Namespaced",
        versions=tuple(versions),
        subresources=frozenset(subresources),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        conversion=conversion.get("webhook") if conversion.get("strategy") == "Webhook" else None,
    )


@lru_cache(maxsize=256)
def _node(schema: bytes) -> Node:
    """Return the schema's node: the same text gives the same node, since tests define the same kinds again and again."""
    return Node(msgspec.json.decode(schema))


def _has(version: Data, subresource: str) -> bool:
    return (version.get("subresources") or {}).get(subresource) is not None


def _version(version: Data, spec: Data, kind: str) -> Version:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
    columns = tuple(
        Column(
            name=column["name"],
            type=column["type"],
            path=column["jsonPath"],
            format=column.get("format") or "",
            description=column.get("description") or _COLUMN.format(column["jsonPath"]),
            priority=column.get("priority") or 0,
        )
        for column in version.get("additionalPrinterColumns") or ()
    )
    return Version(
        name=version["name"],
        schema=_node(_ENCODE(schema)),
        served=bool(version.get("served")),
        storage=bool(version.get("storage")),
        columns=columns or (_AGE,),
        selectable=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
        scale=(version.get("subresources") or {}).get("scale"),
        has_status=_has(version, "status"),
        deprecated=_deprecation(version, spec, kind) if version.get("deprecated") else "",
    )


def _deprecation(version: Data, spec: Data, kind: str) -> str:
    if (words := version.get("deprecationWarning")) is not None:
        return str(words)
    name, group = version["name"], spec["group"]
    better = [
        one["name"]
        for one in spec["versions"]
        if one.get("served") and not one.get("deprecated") and compare_api_versions(name, one["name"]) < 0
    ]
    told = f"{group}/{name} {kind} is deprecated"
    if not better:
        return told
    return f"{told}; use {group}/{max(better, key=cmp_to_key(compare_api_versions))} {kind}"


def crd_names_accepted(crd: Data, others: Iterable[Data]) -> tuple[Data, list[Data]]:
    """Return the accepted names of a definition among the others, and the conditions NamesAccepted and Established (without times).

    A name that another definition of the group has accepted is taken; the definition keeps its own accepted names.
    """
    wanted, status = crd["spec"]["names"], crd.get("status") or {}
    before = status.get("acceptedNames") or {}
    resources, kinds = _taken_names(crd["spec"]["group"], others)
    accepted, conflict = {"plural": "", "kind": "", **before}, ("", "")
    for name, used in (("plural", resources), ("singular", resources)):
        conflict = _take(accepted, before, wanted, name, used) or conflict
    conflict = _take_short_names(accepted, before, wanted, resources) or conflict
    for name, used in (("kind", kinds), ("listKind", kinds)):
        conflict = _take(accepted, before, wanted, name, used) or conflict
    accepted.pop("categories", None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    reason, message = conflict if conflict[0] else ("NoConflicts", "no conflicts found")
    named = {
        "type": "NamesAccepted",
        "status": "False" if conflict[0] else "True",
        "reason": reason,
        "message": message,
    }
    return {name: value for name, value in accepted.items() if value or name in ("kind", "plural")}, [
        named,
        _established(status, named),
    ]


def _established(status: Data, named: Data) -> Data:
    old = next((one for one in status.get("conditions") or () if one.get("type") == "Established"), None)
    if old is not None and old.get("status") == "True":
        return {name: old[name] for name in ("type", "status", "reason", "message")}
    if named["status"] == "True":
        words = "the initial names have been accepted"
        return {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": words}
    return {"type": "Established", "status": "False", "reason": "NotAccepted", "message": "not all names are accepted"}


def _taken_names(group: str, others: Iterable[Data]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] == group:
            names = (other.get("status") or {}).get("acceptedNames") or {}
            resources |= {names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())}
            kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    return resources - {""}, kinds - {""}


def _take(accepted: Data, before: Data, wanted: Data, name: str, used: set[str]) -> tuple[str, str] | None:
    value = wanted.get(name) or ""
    if value != (before.get(name) or "") and value in used:
        return f"{name[0].upper()}{name[1:]}Conflict", f"{quote(value)} is already in use"
    accepted[name] = value
    return None


def _take_short_names(accepted: Data, before: Data, wanted: Data, used: set[str]) -> tuple[str, str] | None:
    new, old = wanted.get("shortNames") or [], before.get("shortNames") or []
    clashes = [f"{quote(one)} is already in use" for one in dict.fromkeys(new) if one not in old and one in used]
    if clashes:
        return "ShortNamesConflict", clashes[0] if len(clashes) == 1 else f"[{', '.join(clashes)}]"
    accepted["shortNames"] = new
    return None
