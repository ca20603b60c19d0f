"""Validation of the containers of a pod.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.amounts import requirement_errors
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    missing_in,
    not_supported,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.pods.env import env_errors, env_from_errors
from konverge_testing.apiserver.strategies.pods.mounts import device_errors, mount_errors
from konverge_testing.apiserver.strategies.pods.probes import lifecycle_errors, port_errors, probe_errors
from konverge_testing.apiserver.strategies.pods.security import container_security_errors
from konverge_testing.apiserver.strategies.pods.sources import PULL_POLICIES

__all__ = [
    "PodContext",
    "container_errors",
    "ephemeral_container_errors",
    "image_errors",
    "init_container_errors",
]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_OPERATORS: Final = ("In", "NotIn")
_RESIZED: Final = ("cpu", "memory")
_RESIZES: Final = ("NotRequired", "RestartContainer")
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


@dataclass(frozen=True, slots=True)
class PodContext:
    """The parts of a pod that the checks of its containers need."""

    volumes: Mapping[str, Data]
    claims: frozenset[str]
    grace: int | None
    restarts: str
    host_users: bool


def container_errors(containers: list[Data], path: str, pod: PodContext) -> Errors:
    """Check the containers of a pod; there has to be one."""
    if not containers:
        return [required(path)]
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, pod)
        errors += _unique(container, here, seen)
        errors += lifecycle_errors(container, here, pod.grace) + probe_errors(container, here, pod.grace)
        errors += _restart(container, here)
    return errors + _host_ports(containers, path)


def init_container_errors(containers: list[Data], path: str, regular: list[Data], pod: PodContext) -> Errors:
    """Check the init containers of a pod."""
    errors: Errors = []
    seen = {each.get("name", "") for each in regular}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, pod) + _restart(container, here)
        errors += _unique(container, here, seen, "")
        errors += _host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += lifecycle_errors(container, here, pod.grace) + probe_errors(container, here, pod.grace)
            continue
        for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if name in container:
                errors.append(
                    forbidden(f"{here}.{name}", "may not be set for init containers without restartPolicy=Always")
                )
        for number, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                text = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(f"{here}.resizePolicy[{number}].restartPolicy", "RestartContainer", text))
    return errors


def ephemeral_container_errors(spec: Data, path: str, pod: PodContext) -> Errors:
    """Check the ephemeral containers of a pod."""
    errors: Errors = []
    others = {each.get("name", "") for kind in ("containers", "initContainers") for each in spec.get(kind) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, target = f"{path}[{index}]", container.get("targetContainerName")
        errors += _common(container, here, pod) + image_errors(container, here)
        errors += _unique(container, here, seen)
        if target and target not in others:
            errors.append(FieldError("NotFound", f"{here}.targetContainerName", target))
        text = "cannot be set for an Ephemeral Container"
        errors += [forbidden(f"{here}.{name}", text) for name in _NOT_EPHEMERAL if container.get(name)]
        errors += [
            forbidden(f"{here}.volumeMounts[{number}].{name}", text)
            for number, mount in enumerate(container.get("volumeMounts") or ())
            for name in ("subPath", "subPathExpr")
            if mount.get(name)
        ]
    return errors


def image_errors(container: Data, path: str) -> Errors:
    """Check an image, which a template may leave with spaces around it."""
    image = container.get("image", "")
    if image.strip() == image:
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _unique(container: Data, path: str, seen: set[str], unseen: str | None = None) -> Errors:
    """Note a name, but for the one that may come again; an error if another container has it."""
    name = container.get("name", "")
    if name in seen:
        return [duplicate(f"{path}.name", name)]
    if name != unseen:
        seen.add(name)
    return []


def _restart(container: Data, path: str) -> Errors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors: Errors = []
    if policy is None and rules:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy is not None and policy not in _RESTARTS:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTARTS))
    for index, rule in enumerate(rules):
        here, action, codes = f"{path}.restartPolicyRules[{index}]", rule.get("action", ""), rule.get("exitCodes")
        if action not in _ACTIONS:
            errors.append(not_supported(f"{here}.action", action, _ACTIONS))
        if codes is None:
            errors.append(required(f"{here}.exitCodes", "must be specified"))
        elif codes.get("operator", "") not in _OPERATORS:
            errors.append(not_supported(f"{here}.exitCodes.operator", codes.get("operator", ""), _OPERATORS))
    return errors


def _resizing(policies: list[Data], path: str, restarts: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, each in enumerate(policies):
        resource, policy = each.get("resourceName", ""), each.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, allowed in ((resource, _RESIZED), (policy, _RESIZES)):
            if value not in allowed:
                errors.append(not_supported(path, value, allowed) if value else required(path))
        if restarts == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, policy, text))
    return errors


def _common(container: Data, path: str, pod: PodContext) -> Errors:
    name = container.get("name", "")
    errors = text_errors(f"{path}.name", name, names.dns1123_label) if name else [required(f"{path}.name")]
    errors += missing_in(container, path, "image")
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGES:
        where = f"{path}.terminationMessagePolicy"
        errors.append(not_supported(where, policy, _MESSAGES) if policy else required(where))
    errors += _ports(container.get("ports") or [], f"{path}.ports")
    errors += env_errors(container.get("env") or [], f"{path}.env") + env_from_errors(
        container.get("envFrom") or [], f"{path}.envFrom"
    )
    errors += mount_errors(container, f"{path}.volumeMounts", pod.volumes)
    errors += device_errors(container, f"{path}.volumeDevices", pod.volumes)
    pull = container.get("imagePullPolicy", "")
    if pull not in PULL_POLICIES:
        errors.append(
            not_supported(f"{path}.imagePullPolicy", pull, PULL_POLICIES)
            if pull
            else required(f"{path}.imagePullPolicy")
        )
    resources = container.get("resources") or {}
    errors += requirement_errors(resources, f"{path}.resources")
    errors += _claims(resources.get("claims") or [], f"{path}.resources.claims", pod.claims)
    errors += _resizing(container.get("resizePolicy") or [], f"{path}.resizePolicy", pod.restarts)
    context = container.get("securityContext") or {}
    return errors + container_security_errors(context, f"{path}.securityContext", host_users=pod.host_users)


def _claims(claims: list[Data], path: str, known: frozenset[str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(here))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen:
            errors.append(duplicate(here, name))
        else:
            errors += text_errors(f"{here}.request", request, names.dns1123_label) if request else []
            clashes = key in seen or (not request and any(other.startswith(f"{name}/") for other in seen))
            errors += [duplicate(here, key)] if clashes else []
            seen.add(key)
        if name not in known:
            text = f": {', '.join(sorted(known))}" if known else " which is empty"
            errors.append(
                FieldError("NotFound", here, name, f"must be one of the names in pod.spec.resourceClaims{text}")
            )
    return errors


def _ports(ports: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name", "")
        if name:
            wrong = text_errors(f"{here}.name", name, texts.port_name)
            errors += wrong or ([duplicate(f"{here}.name", name)] if name in seen else [])
            seen.add(name)
        number = port.get("containerPort", 0)
        errors += port_errors(number, f"{here}.containerPort") if number else [required(f"{here}.containerPort")]
        if port.get("hostPort"):
            errors += port_errors(port["hostPort"], f"{here}.hostPort")
        protocol = port.get("protocol", "")
        if protocol not in _PROTOCOLS:
            errors.append(
                not_supported(f"{here}.protocol", protocol, _PROTOCOLS) if protocol else required(f"{here}.protocol")
            )
    return errors


def _host_ports(containers: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", shown))
            seen.add(shown)
    return errors
