"""Defaults of pods and of everything that has a pod template.

Guarantees: changes its argument in place; idempotent. The additions of admission (service account, tolerations, priority) are not here.
Source: `pkg/apis/core/v1/defaults.go`, `pkg/apis/core/v1/conversion.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from konverge.quantities import Quantity, added, masked, non_zero, read
from konverge_testing.apiserver.strategies.pods.resources import default_pod_resources

__all__ = [
    "containers_of",
    "default_claim",
    "default_pod",
    "default_spec",
    "default_template",
    "drop_gated",
    "pull_policy",
    "quality",
]

Data = dict[str, Any]

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_REFERENCE: Final = re.compile(
    r"(?:(?:[a-zA-Z0-9.-]+[.:][a-zA-Z0-9.:-]*|localhost)/)?[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*(:[\w][\w.-]{0,127})?(@[\w+.-]+:[0-9a-fA-F]{32,})?"
)


def containers_of(spec: Mapping[str, Any], *kinds: str) -> Iterator[Data]:
    """Iterate over containers, init containers and ephemeral ones, or those of the given fields."""
    for kind in kinds or ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def pull_policy(image: str) -> str:
    """Return the pull policy that an image's tag implies.

    >>> [pull_policy(image) for image in ("nginx", "nginx:latest", "nginx:1.27", "example.com:5000/a/b", "a@sha256:" + 32 * "0")]
    ['Always', 'Always', 'IfNotPresent', 'Always', 'IfNotPresent']
    """
    found = _REFERENCE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag, digest = found.groups()
    return "Always" if tag == ":latest" or (tag is None and digest is None) else "IfNotPresent"


def default_template(template: Data) -> None:
    """Fill in the defaults of a pod template."""
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Data) -> None:
    """Fill in the defaults that a pod and a template have in common."""
    _or(spec, "dnsPolicy", "ClusterFirst")
    _or(spec, "restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _or(spec, "schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _or(data: Data, name: str, value: Any) -> None:
    if not data.get(name):
        data[name] = value


def _container(container: Data) -> None:
    _or(container, "imagePullPolicy", pull_policy(container.get("image", "")))
    _or(container, "terminationMessagePath", "/dev/termination-log")
    _or(container, "terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        _or(port, "protocol", "TCP")
    for name in _PROBES:
        if name in container:
            _probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _http(handler)
    for variable in container.get("env") or ():
        _source(variable.get("valueFrom") or {})


def _source(source: Data) -> None:
    if source.get("fieldRef"):
        _or(source["fieldRef"], "apiVersion", "v1")
    if source.get("resourceFieldRef"):
        source["resourceFieldRef"].setdefault("divisor", "0")


def _probe(probe: Data) -> None:
    _http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        _or(probe, name, value)


def _http(handler: Data) -> None:
    if "httpGet" in handler:
        _or(handler["httpGet"], "path", "/")
        _or(handler["httpGet"], "scheme", "HTTP")


def _volume(volume: Data) -> None:
    if not set(volume) - {"name"}:
        volume["emptyDir"] = {}
    for kind in ("secret", "configMap", "downwardAPI", "projected"):
        if kind in volume:
            volume[kind].setdefault("defaultMode", 0o644)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _source(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _source(item)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "image" in volume:
        _or(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference", "")))
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim:
        default_claim(claim)


def default_claim(claim: Data) -> None:
    """Fill in the defaults of a volume claim's spec."""
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def default_pod(pod: Data) -> None:
    """Fill in a pod's own defaults, after those of its spec: requests from limits, its own resources, links, host ports, addresses."""
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
                _or(port, "hostPort", port.get("containerPort", 0))
    default_pod_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status") or {}
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        _addresses(status, one, many)


def _addresses(status: Data, one: str, many: str) -> None:
    first = status[many][0].get("ip") if status.get(many) else None
    if status.get(one) and first != status[one]:
        status[many] = [{"ip": status[one]}]
    elif first:
        status[one] = first


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
