"""The bodies of discovery: APIVersions, APIGroupList, APIGroup, APIResourceList, and the aggregated APIGroupDiscoveryList.

Guarantees: pure; the fields and their order match a real server, its small oddities included (the list of the core group has no
apiVersion; an aggregated kind of a built-in resource's own group has neither group nor version). `serverAddressByClientCIDRs` is omitted:
today's clients do not read it, and this server has no address in process.

Sources: k8s.io/api `apidiscovery/v2`, k8s.io/apimachinery `pkg/apis/meta/v1/types.go`, responses of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from konverge_testing.apiserver.catalog import Subresource, storage_hash, subresources, verbs
from konverge_testing.apiserver.discovery.groups import Group, Served

__all__ = ["aggregated", "group_body", "group_list", "resource_list", "versions_body"]

Data = dict[str, Any]


def versions_body(core: Group | None) -> Data:
    """Return the body of /api."""
    return {"kind": "APIVersions", "versions": list(core.versions) if core else []}


def group_body(group: Group) -> Data:
    """Return the body of /apis/GROUP."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group)}


def group_list(groups: Iterable[Group]) -> Data:
    """Return the body of /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups if group.name]}


def _group(group: Group) -> Data:
    versions = [{"groupVersion": group.api_version(name), "version": name} for name in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(group: Group, version: str) -> Data:
    """Return the body of /api/v1 and /apis/GROUP/VERSION."""
    entries: list[Data] = []
    for served in group.versions[version]:
        entries.append(_resource(served))
        entries += [_subresource(served, subresource) for subresource in subresources(served.resource, served.version)]
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group.api_version(version)}
    if not group.name:
        del head["apiVersion"]
    return {**head, "resources": entries}


def _resource(served: Served) -> Data:
    resource = served.resource
    entry = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(verbs(resource)),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "storageVersionHash": storage_hash(resource),
    }
    return {key: value for key, value in entry.items() if value not in ([], "") or key == "singularName"}


def _subresource(served: Served, subresource: Subresource) -> Data:
    entry: Data = {
        "name": f"{served.resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
    }
    if subresource.version and (subresource.group, subresource.version) != (served.resource.group, served.version.name):
        entry |= {"group": subresource.group, "version": subresource.version}
    return {**entry, "kind": subresource.kind, "verbs": list(subresource.verbs)}


def aggregated(groups: Mapping[str, Group], *, core: bool) -> Data:
    """Return the body of /api (core) or /apis for clients that accept the aggregated form."""
    items = [_discovery(group) for group in groups.values() if (not group.name) == core]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _discovery(group: Group) -> Data:
    versions = [
        {"version": name, "resources": [_described(each) for each in served], "freshness": "Current"}
        for name, served in group.versions.items()
    ]
    return {"metadata": {"name": group.name} if group.name else {}, "versions": versions}


def _described(served: Served) -> Data:
    resource = served.resource
    own = (resource.group, served.version.name) if resource.custom else ("", "")
    entry: Data = {
        "resource": resource.plural,
        "responseKind": _kind(*own, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(verbs(resource)),
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "subresources": [
            {
                "subresource": each.name,
                "responseKind": _kind(each.group, each.version, each.kind),
                "verbs": list(each.verbs),
            }
            for each in subresources(resource, served.version)
        ],
    }
    return {key: value for key, value in entry.items() if value != []}


def _kind(group: str, version: str, kind: str) -> Data:
    return {"group": group, "version": version, "kind": kind}
