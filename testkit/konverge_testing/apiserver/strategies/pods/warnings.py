"""Warnings for pods and pod templates: accepted, but probably a mistake.

Guarantees: pure; `path` is "" for a pod and the template's place otherwise. Left out: overlapping paths of volumes, deprecated
annotations. Source: `pkg/api/pod/warnings.go`.
"""

from __future__ import annotations

import json
from typing import Final

from konverge.quantities import Quantity
from konverge_testing.apiserver.strategies.errors import Data
from konverge_testing.apiserver.strategies.pods.containers_of import containers_at
from konverge_testing.apiserver.strategies.pods.node_labels import node_label_warnings

__all__ = ["pod_warnings"]

_DEPRECATED: Final = (
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
"""Kinds of volumes, their names in messages, and the versions that deprecated them."""


def pod_warnings(spec: Data, path: str = "") -> list[str]:
    """Return the warnings for a pod's spec; `path` is the path of the template, "" for a pod."""
    here = f"{path}.spec" if path else "spec"
    found = node_label_warnings(spec, here)
    for index, volume in enumerate(spec.get("volumes") or ()):
        found += [f"{here}.volumes[{index}].{shown}: {text}" for name, shown, text in _DEPRECATED if name in volume]
    for volume in spec.get("volumes") or ():
        empty = [each for each in (volume.get("projected") or {}).get("sources") or () if not each]
        found += [f"volume {json.dumps(volume.get('name', ''))} (Projected) has no sources provided"] * len(empty)
    found += _addresses(spec, here) + _pull_secrets(spec, here)
    containers = list(containers_at(spec, here))
    for where, container in containers:
        found += _fractions(container, where) + _hidden(container, where)
    found += _ports(containers)
    found += _port_names(containers)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{here}.terminationGracePeriodSeconds: {text}")
    return found


def _addresses(spec: Data, path: str) -> list[str]:
    found, seen = [], set()
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        if (ip := alias.get("ip", "")) in seen:
            found.append(f"{path}.hostAliases[{index}].ip: duplicate ip {json.dumps(ip)}")
        seen.add(ip)
    return found


def _pull_secrets(spec: Data, path: str) -> list[str]:
    found, seen = [], set()
    secrets = [each.get("name", "") for each in spec.get("imagePullSecrets") or ()]
    for index, name in enumerate(secrets):
        if name in seen:
            found.append(f"{path}.imagePullSecrets[{index}].name: duplicate name {json.dumps(name)}")
        seen.add(name)
    empty = [index for index, name in enumerate(secrets) if not name]
    return found + [f'{path}.imagePullSecrets[{index}].name: invalid empty name ""' for index in empty]


def _fractions(container: Data, path: str) -> list[str]:
    found = []
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            value = (resources.get(kind) or {}).get(name)
            if value is not None and Quantity.parse(value).billionths % 10**9:
                where = f"{path}.resources.{kind}[{name}]"
                found.append(f"{where}: fractional byte value {json.dumps(value)} is invalid, must be an integer")
    return found


def _hidden(container: Data, path: str) -> list[str]:
    found, seen = [], set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            where = f"{path}.env[{index}]"
            found.append(
                f"{where}: hides previous definition of {json.dumps(name)}, which may be dropped when using apply"
            )
        seen.add(name)
    return found


def _ports(containers: list[tuple[str, Data]]) -> list[str]:
    found: list[str] = []
    seen: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    for path, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            where, ip, host = f"{path}.ports[{index}]", port.get("hostIP", ""), port.get("hostPort", 0)
            others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            for other, other_ip, other_host in others:
                if (ip, host) == (other_ip, other_host):
                    found.append(f"{where}: duplicate port definition with {other}")
                elif not host or not other_host:
                    found.append(f"{where}: overlapping port definition with {other}")
                elif host == other_host and bool(ip) != bool(other_ip):
                    found.append(f"{where}: dangerously ambiguous port definition with {other}")
            others.append((where, ip, host))
    return found


def _port_names(containers: list[tuple[str, Data]]) -> list[str]:
    found = []
    seen: dict[str, str] = {}
    for path, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            name, where = port.get("name", ""), f"{path}.ports[{index}]"
            if name and name in seen:
                text = f"duplicate port name {json.dumps(name)} with {seen[name]}"
                found.append(f"{where}: {text}, services and probes that select ports by name will use {seen[name]}")
            elif name:
                seen[name] = where
    return found
