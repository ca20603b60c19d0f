"""Defaults of pods and of everything that has a pod template.

Guarantees: changes its argument in place; idempotent. The additions of admission (service account, tolerations, priority) are not here.
Source: `pkg/apis/core/v1/defaults.go`, `pkg/apis/core/v1/conversion.go`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from konverge.quantities import Quantity, added, masked, non_zero, read
from konverge_testing.apiserver.strategies.defaulting import Defaults, Tree
from konverge_testing.apiserver.strategies.pods.containers_of import containers_of
from konverge_testing.apiserver.strategies.pods.resources import default_pod_resources

__all__ = [
    "default_pod",
    "default_spec",
    "default_template",
    "drop_gated",
    "pull_policy",
    "quality",
]

Data = dict[str, Any]

_REFERENCE: Final = re.compile(
    r"(?:(?:[a-zA-Z0-9.-]+[.:][a-zA-Z0-9.:-]*|localhost)/)?[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*(:[\w][\w.-]{0,127})?(@[\w+.-]+:[0-9a-fA-F]{32,})?"
)


def pull_policy(image: str) -> str:
    """Return the pull policy that an image's tag implies.

    >>> [pull_policy(image) for image in ("nginx", "nginx:latest", "nginx:1.27", "example.com:5000/a/b", "a@sha256:" + 32 * "0")]
    ['Always', 'Always', 'IfNotPresent', 'Always', 'IfNotPresent']
    """
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag, digest = match.groups()
    return "Always" if tag == ":latest" or (tag is None and digest is None) else "IfNotPresent"


def default_template(template: Data) -> None:
    """Fill in the defaults of a pod template."""
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Data) -> None:
    """Fill in the defaults that a pod and a template have in common."""
    _SPEC.fill(spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _CONTAINER.fill(container)
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for volume in spec.get("volumes") or ():
        if not set(volume) - {"name"}:
            volume["emptyDir"] = {}
        _VOLUME.fill(volume)
        if "image" in volume and not volume["image"].get("pullPolicy"):
            volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference", ""))


def _http(path: str) -> Defaults:
    return ((f"{path}?.httpGet?.path+", "/"), (f"{path}?.httpGet?.scheme+", "HTTP"))


def _probe(name: str) -> Defaults:
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    rows = [(f"{name}?.{field}+", value) for field, value in numbers.items()]
    return (*_http(name), (f"{name}?.grpc?.service", ""), *rows)


def _source(path: str) -> Defaults:
    return ((f"{path}.fieldRef?.apiVersion+", "v1"), (f"{path}.resourceFieldRef?.divisor", "0"))


_SPEC: Final = Tree(
    (
        ("dnsPolicy+", "ClusterFirst"),
        ("restartPolicy+", "Always"),
        ("securityContext", {}),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName+", "default-scheduler"),
    )
)
_CONTAINER: Final = Tree(
    (
        ("terminationMessagePath+", "/dev/termination-log"),
        ("terminationMessagePolicy+", "File"),
        ("resources", {}),
        ("ports[].protocol+", "TCP"),
        *_probe("livenessProbe"),
        *_probe("readinessProbe"),
        *_probe("startupProbe"),
        *_http("lifecycle?.postStart"),
        *_http("lifecycle?.preStop"),
        *_source("env[].valueFrom?"),
    )
)
_VOLUME: Final = Tree(
    (
        *((f"{kind}?.defaultMode", 0o644) for kind in ("secret", "configMap", "downwardAPI", "projected")),
        *_source("downwardAPI?.items[]"),
        ("projected?.sources[].serviceAccountToken?.expirationSeconds", 3600),
        *_source("projected?.sources[].downwardAPI?.items[]"),
        ("hostPath?.type", ""),
        ("ephemeral?.volumeClaimTemplate?.spec.volumeMode", "Filesystem"),
    )
)


def default_pod(pod: Data) -> None:
    """Fill in the defaults of a pod that a template lacks: requests from limits, its own resources, links, host ports, addresses."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in containers_of(spec, "containers", "initContainers"):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)
    default_pod_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status") or {}
    for single, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        _addresses(status, single, many)


def _addresses(status: Data, single: str, many: str) -> None:
    first = status[many][0].get("ip") if status.get(many) else None
    if status.get(single) and first != status[single]:
        status[many] = [{"ip": status[single]}]
    elif first:
        status[single] = first


def drop_gated(spec: Data) -> None:
    """Remove the fields of features that are off by default."""
    spec.pop("schedulingGroup", None)
    for container in containers_of(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            for name in ("clusterTrustBundle", "podCertificate"):
                source.pop(name, None)


def quality(spec: Mapping[str, Any]) -> str:
    """Return the quality-of-service class of a pod: Guaranteed, Burstable or BestEffort."""
    whole = spec.get("resources")
    parts = (
        [whole]
        if whole is not None
        else [each.get("resources") or {} for each in containers_of(spec, "containers", "initContainers")]
    )
    requests, limits = _sum(parts, "requests"), _sum(parts, "limits")
    if not requests and not limits:
        return "BestEffort"
    complete = all({"cpu", "memory"} <= set(_computed(part.get("limits"))) for part in parts)
    return "Guaranteed" if complete and requests == limits else "Burstable"


def _sum(parts: list[Data], name: str) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for part in parts:
        total = added(total, _computed(part.get(name)))
    return total


def _computed(resources: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return masked(non_zero(read(resources)), ("cpu", "memory"))
