"""The rules of the containers of a pod.

Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.amounts import requirement_errors
from konverge_testing.apiserver.strategies.errors import (
    Data,
    Errors,
    duplicate,
    invalid,
    not_found,
    required,
)
from konverge_testing.apiserver.strategies.pods.env import env, env_from_errors
from konverge_testing.apiserver.strategies.pods.mounts import device_errors, mount_errors
from konverge_testing.apiserver.strategies.pods.probes import lifecycle_errors, probe_errors
from konverge_testing.apiserver.strategies.pods.security import container_security_errors
from konverge_testing.apiserver.strategies.pods.volumes import pull_policies
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    barred,
    each,
    filled,
    given,
    must,
    need,
    port,
    present,
    struct,
    text,
    unset,
    when,
)

__all__ = [
    "PodContext",
    "container_errors",
    "ephemeral_container_errors",
    "image_errors",
    "init_container_errors",
]

_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_NO_RESTART: Final = "must not be set to 'RestartContainer' for non-sidecar initContainers"


@dataclass(frozen=True, slots=True)
class PodContext:
    """The parts of a pod that the checks of its containers need."""

    volumes: Mapping[str, Data]
    claims: frozenset[str]
    grace: int | None
    restarts: str
    host_users: bool


def _named_ports(ports: list[Data] | None, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, each_port in enumerate(ports or ()):
        here, name = f"{path}[{index}]", each_port.get("name", "")
        wrong = _port_name(each_port, here)
        errors += wrong or ([duplicate(f"{here}.name", name)] if name in seen else [])
        seen |= {name} - {""}
        errors += _port(each_port, here)
    return errors


_port_name: Final = filled("name", text(texts.port_name))
_port: Final = struct(
    need("containerPort", port), filled("hostPort", port), need("protocol", among("SCTP", "TCP", "UDP"))
)
_basics: Final = struct(
    need("name", text(names.dns1123_label)),
    need("image"),
    need("terminationMessagePolicy", among("File", "FallbackToLogsOnError")),
    at("ports", _named_ports),
    at("env", env),
    at("envFrom", env_from_errors),
)
image_errors: Final = given(
    "image", must(lambda image: image.strip() == image, "must not have leading or trailing whitespace")
)
"""The rule of an image, which a template may leave with spaces around it."""
_pull: Final = need("imagePullPolicy", pull_policies)
_restart: Final = struct(
    when(
        lambda container: container.get("restartPolicyRules"),
        present("restartPolicy", detail="must specify restartPolicy when restart rules are used"),
    ),
    given("restartPolicy", among("Always", "Never", "OnFailure")),
    at(
        "restartPolicyRules",
        each(
            at("action", among("Restart", "RestartAllContainers")),
            present("exitCodes", at("operator", among("In", "NotIn")), detail="must be specified"),
        ),
    ),
)
_not_sidecar: Final = struct(
    given(
        "lifecycle livenessProbe readinessProbe startupProbe",
        barred("may not be set for init containers without restartPolicy=Always"),
    ),
    at("resizePolicy", each(at("restartPolicy", must(lambda policy: policy != "RestartContainer", _NO_RESTART)))),
)
_ephemeral: Final = struct(
    unset(
        "ports resources resizePolicy restartPolicy restartPolicyRules livenessProbe readinessProbe startupProbe lifecycle",
        _EPHEMERAL,
    ),
    at("volumeMounts", each(unset("subPath subPathExpr", _EPHEMERAL))),
)


def container_errors(containers: list[Data], path: str, pod: PodContext) -> Errors:
    """Check the containers of a pod, which has one at least."""
    if not containers:
        return [required(path)]
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, pod) + _unique(container, here, seen)
        errors += lifecycle_errors(container, here, pod.grace) + probe_errors(container, here, pod.grace)
        errors += _restart(container, here)
    return errors + _host_ports(containers, path)


def init_container_errors(containers: list[Data], path: str, regular: list[Data], pod: PodContext) -> Errors:
    """Check the init containers of a pod."""
    errors: Errors = []
    seen = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, pod) + _restart(container, here) + _unique(container, here, seen, "")
        errors += _host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += lifecycle_errors(container, here, pod.grace) + probe_errors(container, here, pod.grace)
        else:
            errors += _not_sidecar(container, here)
    return errors


def ephemeral_container_errors(spec: Data, path: str, pod: PodContext) -> Errors:
    """Check the ephemeral containers of a pod."""
    errors: Errors = []
    others = {each.get("name", "") for kind in ("containers", "initContainers") for each in spec.get(kind) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here, target = f"{path}[{index}]", container.get("targetContainerName")
        errors += _common(container, here, pod) + image_errors(container, here) + _unique(container, here, seen)
        if target and target not in others:
            errors.append(not_found(f"{here}.targetContainerName", target))
        errors += _ephemeral(container, here)
    return errors


def _unique(container: Data, path: str, seen: set[str], unseen: str | None = None) -> Errors:
    """Note a name unless it is `unseen`; return an error if another container has it."""
    name = container.get("name", "")
    if name in seen:
        return [duplicate(f"{path}.name", name)]
    seen |= {name} - {unseen}
    return []


def _resizing(policies: list[Data], path: str, restarts: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, each_policy in enumerate(policies):
        resource, policy = each_policy.get("resourceName", ""), each_policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, allowed in ((resource, ("cpu", "memory")), (policy, ("NotRequired", "RestartContainer"))):
            errors += among(*allowed)(value, path) if value else [required(path)]
        if restarts == "Never" and policy != "NotRequired":
            errors.append(invalid(path, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
    return errors


def _common(container: Data, path: str, pod: PodContext) -> Errors:
    errors = _basics(container, path) + mount_errors(container, f"{path}.volumeMounts", pod.volumes)
    errors += device_errors(container, f"{path}.volumeDevices", pod.volumes) + _pull(container, path)
    resources, context = container.get("resources") or {}, container.get("securityContext") or {}
    errors += requirement_errors(resources, f"{path}.resources")
    errors += _claims(resources.get("claims") or [], f"{path}.resources.claims", pod.claims)
    errors += _resizing(container.get("resizePolicy") or [], f"{path}.resizePolicy", pod.restarts)
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
            errors += filled("request", text(names.dns1123_label))(claim, here)
            clashes = key in seen or (not request and any(other.startswith(f"{name}/") for other in seen))
            errors += [duplicate(here, key)] if clashes else []
            seen.add(key)
        if name not in known:
            words = f": {', '.join(sorted(known))}" if known else " which is empty"
            errors.append(not_found(here, name, f"must be one of the names in pod.spec.resourceClaims{words}"))
    return errors


def _host_ports(containers: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, each_port in enumerate(container.get("ports") or ()):
            if not each_port.get("hostPort"):
                continue
            shown = f"{each_port.get('protocol', '')}/{each_port.get('hostIP', '')}/{each_port['hostPort']}"
            if shown in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", shown))
            seen.add(shown)
    return errors
