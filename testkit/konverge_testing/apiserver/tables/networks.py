"""Rows of Services and related kinds, and of storage.

Guarantees: pure; one function a kind, cells in the order of `columns.json`.

Source: k8s.io/kubernetes `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from konverge_testing.apiserver.tables.values import (
    Cells,
    Data,
    age,
    at,
    items,
    labels,
    name,
    number,
    selector,
    some,
    text,
)

__all__ = ["NETWORKS"]

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _balanced(object_: Data) -> list[str]:
    """The addresses of a load balancer, sorted."""
    found = {text(each, "ip") or text(each, "hostname") for each in items(object_, "status", "loadBalancer", "ingress")}
    return sorted(found - {""})


def _service(object_: Data, now: datetime) -> list[Any]:
    spec, type_ = at(object_, "spec"), text(object_, "spec", "type")
    addresses, external = at(spec, "clusterIPs") or ["<none>"], list(at(spec, "externalIPs") or ())
    if type_ == "ExternalName":
        outside = text(spec, "externalName")
    elif type_ == "LoadBalancer":
        outside = ",".join([*_balanced(object_), *external]) or "<pending>"
    elif type_ in ("ClusterIP", "NodePort"):
        outside = ",".join(external) or "<none>"
    else:
        outside = "<unknown>"
    ports = ",".join(_port(each) for each in items(spec, "ports")) or "<none>"
    return [name(object_), type_, addresses[0], outside, ports, age(object_, now), labels(at(spec, "selector"))]


def _port(port: Data) -> str:
    node = number(port, "nodePort")
    return f"{number(port, 'port')}{f':{node}' if node else ''}/{text(port, 'protocol')}"


def _endpoints(object_: Data, now: datetime) -> list[Any]:
    found = []
    for subset in items(object_, "subsets"):
        addresses = [text(each, "ip") for each in items(subset, "addresses")]
        ports = [f":{number(each, 'port')}" for each in items(subset, "ports")] or [""]
        found += [(f"[{ip}]" if ":" in ip and port else ip) + port for port in ports for ip in addresses]
    shown = some(found, 3, len(found), "") if items(object_, "subsets") else "<none>"
    return [name(object_), shown, age(object_, now)]


def _slice(object_: Data, now: datetime) -> list[Any]:
    ports = [
        str(each["port"]) if each.get("port") is not None else each.get("name", "*") for each in items(object_, "ports")
    ]
    addresses = [address for each in items(object_, "endpoints") for address in at(each, "addresses") or ()]
    shown = some(ports, 3, len(ports), "<unset>"), some(addresses, 3, len(addresses), "<unset>")
    return [name(object_), text(object_, "addressType"), *shown, age(object_, now)]


def _ingress(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    rules = items(spec, "rules")
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == 3
        if not more and text(rule, "host"):
            hosts.append(text(rule, "host"))
    shown = ",".join(hosts) or "*"
    if more:
        shown += f" + {len(rules) - 3} more..."
    class_ = at(spec, "ingressClassName")
    ports = "80, 443" if items(spec, "tls") else "80"
    return [
        name(object_),
        "<none>" if class_ is None else class_,
        shown,
        ",".join(_balanced(object_)),
        ports,
        age(object_, now),
    ]


def _default(object_: Data, annotation: str) -> str:
    marked = text(object_, "metadata", "annotations", annotation) == "true"
    return f"{name(object_)} (default)" if marked else name(object_)


def _ingress_class(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    parameters = "<none>"
    if (found := at(spec, "parameters")) is not None:
        group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
        parameters = f"{text(found, 'kind')}{group}/{text(found, 'name')}"
    shown = _default(object_, "ingressclass.kubernetes.io/is-default-class")
    return [shown, text(spec, "controller"), parameters, age(object_, now)]


def _policy(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), selector(at(object_, "spec", "podSelector")) or "<none>", age(object_, now)]


def _address(object_: Data, now: datetime) -> list[Any]:
    parent = at(object_, "spec", "parentRef")
    shown = "<none>"
    if parent is not None:
        group = f".{text(parent, 'group')}" if text(parent, "group") else ""
        inside = f"/{text(parent, 'namespace')}" if text(parent, "namespace") else ""
        shown = f"{(text(parent, 'resource') + group).lower()}{inside}/{text(parent, 'name')}"
    return [name(object_), shown, age(object_, now)]


def _cidr(object_: Data, now: datetime) -> list[Any]:
    return [name(object_), ",".join(at(object_, "spec", "cidrs") or ()), age(object_, now)]


def _modes(found: Any) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (found or ()))


def _class(object_: Data) -> str:
    marked = at(object_, "metadata", "annotations", _BETA_CLASS)
    return text(object_, "spec", "storageClassName") if marked is None else str(marked)


def _or_unset(value: Any, *path: str) -> str:
    found = at(value, *path)
    return "<unset>" if found is None else str(found)


def _phase(object_: Data) -> str:
    return "Terminating" if at(object_, "metadata", "deletionTimestamp") else text(object_, "status", "phase")


def _claim(object_: Data, now: datetime) -> list[Any]:
    spec, volume = at(object_, "spec"), text(object_, "spec", "volumeName")
    capacity = (text(object_, "status", "capacity", "storage") or "0") if volume else ""
    modes = _modes(at(object_, "status", "accessModes")) if volume else ""
    attributes = _or_unset(spec, "volumeAttributesClassName")
    shown = [name(object_), _phase(object_), volume, capacity, modes, _class(object_), attributes]
    return [*shown, age(object_, now), _or_unset(spec, "volumeMode")]


def _volume(object_: Data, now: datetime) -> list[Any]:
    spec = at(object_, "spec")
    claim = at(spec, "claimRef")
    return [
        name(object_),
        text(spec, "capacity", "storage") or "0",
        _modes(at(spec, "accessModes")),
        text(spec, "persistentVolumeReclaimPolicy"),
        _phase(object_),
        "" if claim is None else f"{text(claim, 'namespace')}/{text(claim, 'name')}",
        _class(object_),
        _or_unset(spec, "volumeAttributesClassName"),
        text(object_, "status", "reason"),
        age(object_, now),
        _or_unset(spec, "volumeMode"),
    ]


def _storage_class(object_: Data, now: datetime) -> list[Any]:
    marks = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    shown = max((_default(object_, mark) for mark in marks), key=len)
    reclaim = text(object_, "reclaimPolicy") or "Delete"
    binding = text(object_, "volumeBindingMode") or "Immediate"
    growing = bool(at(object_, "allowVolumeExpansion"))
    return [shown, text(object_, "provisioner"), reclaim, binding, growing, age(object_, now)]


NETWORKS: Final[dict[tuple[str, str], Cells]] = {
    ("", "endpoints"): _endpoints,
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume,
    ("", "services"): _service,
    ("discovery.k8s.io", "endpointslices"): _slice,
    ("networking.k8s.io", "ingressclasses"): _ingress_class,
    ("networking.k8s.io", "ingresses"): _ingress,
    ("networking.k8s.io", "ipaddresses"): _address,
    ("networking.k8s.io", "networkpolicies"): _policy,
    ("networking.k8s.io", "servicecidrs"): _cidr,
    ("storage.k8s.io", "storageclasses"): _storage_class,
}
"""The cells of each kind by group and plural."""
