"""Validation of the containers of a pod.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver import names
from konverge.testing.apiserver.statuses import FieldError
from konverge.testing.apiserver.strategies import texts
from konverge.testing.apiserver.strategies.amounts import requirement_errors
from konverge.testing.apiserver.strategies.base import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    missing_in,
    not_negative,
    not_supported,
    required,
    text_errors,
)
from konverge.testing.apiserver.strategies.pods.volumes import descending_path_errors

__all__ = ["container_errors", "handler_errors", "init_container_errors", "port_or_name_errors"]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_FIELDS: Final = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
]
_RESOURCES: Final = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
]
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)


def container_errors(containers: list[Data], path: str, volumes: set[str], grace: int | None) -> Errors:
    """Check the containers of a pod; there has to be one."""
    if not containers:
        return [required(path)]
    errors: Errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, volumes)
        errors += _unique(container, here, seen)
        errors += _lifecycle(container, here, grace) + _probes(container, here, grace)
        errors += _restart(container, here)
    return errors + _host_ports(containers, path)


def init_container_errors(
    containers: list[Data], path: str, regular: list[Data], volumes: set[str], grace: int | None
) -> Errors:
    """Check the init containers of a pod."""
    errors: Errors = []
    seen = {each.get("name", "") for each in regular}
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        errors += _common(container, here, volumes) + _restart(container, here)
        errors += _unique(container, here, seen)
        errors += _host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            errors += _lifecycle(container, here, grace) + _probes(container, here, grace)
            continue
        for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if name in container:
                errors.append(
                    forbidden(f"{here}.{name}", "may not be set for init containers without restartPolicy=Always")
                )
    return errors


def _unique(container: Data, path: str, seen: set[str]) -> Errors:
    name = container.get("name", "")
    if name in seen:
        return [duplicate(f"{path}.name", name)]
    seen.add(name)
    return []


def _restart(container: Data, path: str) -> Errors:
    policy = container.get("restartPolicy")
    if policy is None or policy in _RESTARTS:
        return []
    return [not_supported(f"{path}.restartPolicy", policy, _RESTARTS)]


def _common(container: Data, path: str, volumes: set[str]) -> Errors:
    name = container.get("name", "")
    errors = text_errors(f"{path}.name", name, names.dns1123_label) if name else [required(f"{path}.name")]
    errors += missing_in(container, path, "image")
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGES:
        where = f"{path}.terminationMessagePolicy"
        errors.append(not_supported(where, policy, _MESSAGES) if policy else required(where))
    errors += _ports(container.get("ports") or [], f"{path}.ports")
    errors += _env(container.get("env") or [], f"{path}.env") + _env_from(
        container.get("envFrom") or [], f"{path}.envFrom"
    )
    errors += _mounts(container, f"{path}.volumeMounts", volumes)
    pull = container.get("imagePullPolicy", "")
    if pull not in _POLICIES:
        errors.append(
            not_supported(f"{path}.imagePullPolicy", pull, _POLICIES) if pull else required(f"{path}.imagePullPolicy")
        )
    errors += requirement_errors(container.get("resources") or {}, f"{path}.resources")
    return errors + _security(container.get("securityContext") or {}, f"{path}.securityContext")


def _security(context: Data, path: str) -> Errors:
    errors: Errors = []
    for name in ("runAsUser", "runAsGroup"):
        if name in context:
            found = texts.between(context[name], 0, 2**31 - 1)
            errors += [invalid(f"{path}.{name}", context[name], message) for message in found]
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, text))
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
        errors += _port(number, f"{here}.containerPort") if number else [required(f"{here}.containerPort")]
        if port.get("hostPort"):
            errors += _port(port["hostPort"], f"{here}.hostPort")
        protocol = port.get("protocol", "")
        if protocol not in _PROTOCOLS:
            errors.append(
                not_supported(f"{here}.protocol", protocol, _PROTOCOLS) if protocol else required(f"{here}.protocol")
            )
    return errors


def _port(number: int, path: str) -> Errors:
    return [invalid(path, number, message) for message in texts.between(number, 1, 65535)]


def port_or_name_errors(port: Any, path: str) -> Errors:
    """Check a port that is a number or a name."""
    return text_errors(path, port, texts.port_name) if isinstance(port, str) else _port(port or 0, path)


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


def _env(variables: list[Data], path: str) -> Errors:
    errors: Errors = []
    for index, variable in enumerate(variables):
        here, name = f"{path}[{index}]", variable.get("name", "")
        errors += text_errors(f"{here}.name", name, texts.env_name) if name else [required(f"{here}.name")]
        if variable.get("valueFrom") is not None:
            errors += _value_from(variable["valueFrom"], bool(variable.get("value")), f"{here}.valueFrom")
    return errors


def _value_from(source: Data, has_value: bool, path: str) -> Errors:
    given = [name for name in _SOURCES if name in source]
    errors: Errors = []
    for name in given:
        if name == "fieldRef":
            errors += _field_ref(source[name], f"{path}.{name}")
        elif name == "resourceFieldRef":
            errors += _resource_ref(source[name], f"{path}.{name}")
        elif name != "fileKeyRef":
            errors += _key_ref(source[name], f"{path}.{name}")
    if not given:
        errors.append(invalid(path, "", _ONE_SOURCE))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _field_ref(reference: Data, path: str) -> Errors:
    wanted = reference.get("fieldPath", "")
    if not wanted:
        return [required(f"{path}.fieldPath")]
    for prefix in ("metadata.annotations", "metadata.labels"):
        if wanted.startswith(f"{prefix}['") and wanted.endswith("']"):
            key = wanted[len(prefix) + 2 : -2]
            return text_errors(path, key.lower() if prefix.endswith("annotations") else key, names.label_key)
    if wanted in _FIELDS:
        return []
    known = {"metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
    if wanted in known:
        return [not_supported(f"{path}.fieldPath", wanted, _FIELDS)]
    text = f"error converting fieldPath: field label not supported: {wanted}"
    return [invalid(f"{path}.fieldPath", wanted, text)]


def _resource_ref(reference: Data, path: str) -> Errors:
    wanted = reference.get("resource", "")
    if not wanted:
        return [required(f"{path}.resource")]
    if wanted in _RESOURCES or wanted.startswith(("requests.hugepages-", "limits.hugepages-")):
        return []
    return [not_supported(f"{path}.resource", wanted, _RESOURCES)]


def _key_ref(reference: Data, path: str) -> Errors:
    errors = text_errors(f"{path}.name", reference.get("name", ""), names.dns1123_subdomain)
    key = reference.get("key", "")
    return errors + (text_errors(f"{path}.key", key, texts.config_key) if key else [required(f"{path}.key")])


def _env_from(sources: list[Data], path: str) -> Errors:
    errors: Errors = []
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            errors += text_errors(f"{here}.prefix", source["prefix"], texts.env_name)
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            wanted = source[name].get("name", "")
            where = f"{here}.{name}.name"
            errors += text_errors(where, wanted, names.dns1123_subdomain) if wanted else [required(where)]
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _mounts(container: Data, path: str, volumes: set[str]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        errors += missing_in(mount, here, "name")
        if name not in volumes:
            errors.append(FieldError("NotFound", f"{here}.name", name))
        errors += missing_in(mount, here, "mountPath")
        if target in seen:
            errors.append(invalid(f"{here}.mountPath", target, "must be unique"))
        seen.add(target)
        if mount.get("subPath"):
            errors += descending_path_errors(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                text = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid(f"{here}.subPathExpr", mount["subPathExpr"], text))
            errors += descending_path_errors(mount["subPathExpr"], f"{path}.subPathExpr")
    return errors


def _lifecycle(container: Data, path: str, grace: int | None) -> Errors:
    errors: Errors = []
    for name in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(name)
        if handler is not None:
            errors += handler_errors(handler, f"{path}.lifecycle.{name}", grace)
    return errors


def handler_errors(handler: Data, path: str, grace: int | None) -> Errors:
    """Check what a probe or a hook does: exactly one thing."""
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    action, here = handler[given[0]], f"{path}.{given[0]}"
    errors: Errors = []
    if given[0] == "exec":
        errors += missing_in(action, here, "command")
    elif given[0] == "sleep":
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            errors.append(invalid(here, seconds, text))
    else:
        errors += port_or_name_errors(action.get("port", 0), f"{here}.port")
    if given[0] == "httpGet":
        errors += _http_errors(action, here)
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]


def _http_errors(action: Data, path: str) -> Errors:
    errors: Errors = []
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        errors += text_errors(f"{path}.httpHeaders", header.get("name", ""), texts.header_name)
    return errors


def _probes(container: Data, path: str, grace: int | None) -> Errors:
    errors: Errors = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        errors += handler_errors(probe, here, grace) + not_negative(probe, here, *_PROBE_NUMBERS)
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            errors.append(invalid(f"{here}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            errors.append(invalid(f"{here}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
        if name == "readinessProbe" and seconds is not None:
            errors.append(
                invalid(f"{here}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
            )
    return errors
