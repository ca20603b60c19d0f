"""The built-in resources as discovery lists them, read from `resources.json`, and discovery's further data of any resource.

Guarantees: groups, resources and versions in the order of a real server's aggregated discovery; names, scope, verbs, short names,
categories, subresources with their kinds, storage version hashes, and the warnings of deprecated versions equal a real server's.

Omitted, as on a server that was started without them: `resource.k8s.io` and `flowcontrol.apiserver.k8s.io`. `componentstatuses` is
listed, and not stored.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from konverge_testing.apiserver.catalog.schemas import schema_node
from konverge_testing.apiserver.resources import Resource, Strategy, Version

__all__ = ["Subresource", "builtin", "registered", "returns_deleted", "storage_hash", "subresources", "verbs"]

_WORKLOAD_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
"""The paths of Scale's fields in the built-in workloads; the selector is a structure there (a plain map in a ReplicationController)."""

_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True):
    """A subresource with its kind. Without a version, the kind belongs to the resource's own group."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ()


class _Served(msgspec.Struct, frozen=True):
    name: str
    schema: str
    list: str = ""
    warning: str = ""


class _Kind(msgspec.Struct, frozen=True, rename="camel"):
    plural: str
    kind: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    versions: tuple[_Served, ...]
    group: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    hash: str = ""
    returns_deleted: bool = False


@cache
def _kinds() -> Mapping[tuple[str, str], _Kind]:
    text = (resources.files("konverge_testing.apiserver.catalog") / "resources.json").read_bytes()
    return {(kind.group, kind.plural): kind for kind in msgspec.json.decode(text, type=list[_Kind])}


def builtin(strategies: Mapping[tuple[str, str], Strategy] | None = None) -> list[Resource]:
    """Return the built-in resources in discovery's order; schemas are read at their first use.

    `strategies` are by group and plural. None uses the package `strategies`; the resources, which are immutable, are then shared by all
    servers of a process. A kind without a strategy gets the plain `Strategy`.
    """
    if strategies is None:
        return list(_shared())
    return [_resource(kind, strategies) for kind in _kinds().values()]


@cache
def _shared() -> tuple[Resource, ...]:
    from konverge_testing.apiserver.strategies import STRATEGIES

    return tuple(_resource(kind, STRATEGIES) for kind in _kinds().values())


def _resource(kind: _Kind, strategies: Mapping[tuple[str, str], Strategy]) -> Resource:
    names = frozenset(sub.name for sub in kind.subresources)
    return Resource(
        group=kind.group,
        plural=kind.plural,
        kind=kind.kind,
        singular=kind.singular,
        list_kind=f"{kind.kind}List",
        namespaced=kind.namespaced,
        versions=tuple(
            Version(
                served.name,
                schema_node(served.schema),
                storage=index == 0,
                scale=_WORKLOAD_SCALE if "scale" in names else None,
                has_status="status" in names,
                deprecated=served.warning,
            )
            for index, served in enumerate(kind.versions)
        ),
        verbs=frozenset(kind.verbs),
        subresources=names,
        short_names=kind.short_names,
        categories=kind.categories,
        strategy=strategies.get((kind.group, kind.plural)) or Strategy(),
        stored=bool(kind.hash),
    )


@cache
def _registered() -> frozenset[tuple[str, str]]:
    of_group = ((f"{one.group}/" if one.group else "", one) for one in _kinds().values())
    return frozenset((f"{prefix}{served.name}", one.kind) for prefix, one in of_group for served in one.versions)


def registered(api_version: str, kind: str) -> bool:
    """Tell whether a version has a built-in kind."""
    return (api_version, kind) in _registered()


def subresources(resource: Resource, version: Version) -> tuple[Subresource, ...]:
    """Return the subresources of one version in discovery's order."""
    if not resource.custom and resource.id in _kinds():
        return _kinds()[resource.id].subresources
    found = []
    if version.has_status:
        found.append(Subresource("status", resource.kind, resource.group, version.name, _STATUS_VERBS))
    if version.scale:
        found.append(Subresource("scale", "Scale", "autoscaling", "v1", _STATUS_VERBS))
    return tuple(found)


def verbs(resource: Resource) -> tuple[str, ...]:
    """Return the verbs in discovery's order, which differs for CustomResourceDefinitions."""
    if resource.custom:
        return tuple(verb for verb in _CUSTOM_VERBS if verb in resource.verbs)
    return tuple(sorted(resource.verbs))


def storage_hash(resource: Resource) -> str:
    """Return the hash of the storage version, "" for a resource that is not stored.

    The rule is from k8s.io/apiserver `pkg/endpoints/discovery/storageversionhash.go`.
    """
    if not resource.stored:
        return ""
    known = None if resource.custom else _kinds().get(resource.id)
    if known is not None:
        return known.hash
    text = f"{resource.group}/{resource.storage.name}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def returns_deleted(resource: Resource) -> bool:
    """Whether the response to an immediate deletion is the object's last state, and not a Status."""
    known = None if resource.custom else _kinds().get(resource.id)
    return known is not None and known.returns_deleted
