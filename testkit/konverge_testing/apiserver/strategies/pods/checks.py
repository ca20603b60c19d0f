"""Validation of the spec of a pod and of a pod template.

Guarantees: pure; errors come in the server's order. Left out: certificates and trust bundles of projected volumes, scheduling groups,
annotations about seccomp and AppArmor. Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import legacy_ip_errors
from konverge_testing.apiserver.strategies.amounts import requirement_errors
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    annotation_errors,
    duplicate,
    forbidden,
    invalid,
    label_errors,
    not_supported,
    required,
    text_errors,
    too_long,
)
from konverge_testing.apiserver.strategies.pods.containers import (
    PodContext,
    container_errors,
    ephemeral_container_errors,
    init_container_errors,
)
from konverge_testing.apiserver.strategies.pods.env import file_reference_errors
from konverge_testing.apiserver.strategies.pods.resources import pod_resource_errors
from konverge_testing.apiserver.strategies.pods.scheduling import (
    affinity_errors,
    gate_errors,
    spread_errors,
    toleration_errors,
)
from konverge_testing.apiserver.strategies.pods.security import (
    host_process_errors,
    host_user_errors,
    os_errors,
    pod_security_errors,
)
from konverge_testing.apiserver.strategies.pods.volumes import volume_errors

__all__ = ["spec_errors", "template_errors"]

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX: Final = 2**31 - 1
_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048
_LONGEST_NAME: Final = 64


def template_errors(template: Data, path: str) -> Errors:
    """Check a pod template."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = label_errors(metadata.get("labels"), f"{path}.labels")
    errors += annotation_errors(metadata.get("annotations"), f"{path}.annotations")
    errors += spec_errors(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def spec_errors(spec: Data, path: str, *, pod: str | None = None) -> Errors:
    """Check the spec of a pod of this name, or (None) of a template."""
    errors, volumes = volume_errors(spec.get("volumes") or [], f"{path}.volumes", pod=pod)
    errors += _claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    context = PodContext(
        volumes,
        frozenset(each["name"] for each in spec.get("resourceClaims") or () if each.get("name")),
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", ""),
        spec.get("hostUsers", True),
    )
    regular = spec.get("containers") or []
    errors += container_errors(regular, f"{path}.containers", context)
    errors += init_container_errors(spec.get("initContainers") or [], f"{path}.initContainers", regular, context)
    errors += ephemeral_container_errors(spec, f"{path}.ephemeralContainers", context)
    errors += pod_resource_errors(spec, f"{path}.resources")
    errors += _host_network(spec, f"{path}.containers", pod is not None)
    for name, allowed in (("restartPolicy", _RESTARTS), ("dnsPolicy", _DNS)):
        if spec.get(name) not in allowed:
            errors.append(not_supported(f"{path}.{name}", spec.get(name, ""), allowed))
    errors += label_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += pod_security_errors(spec, path)
    errors += affinity_errors(spec.get("affinity") or {}, f"{path}.affinity")
    errors += _dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where = f"{path}.readinessGates[{index}].conditionType"
        errors += text_errors(where, gate.get("conditionType", ""), names.label_key)
    errors += gate_errors(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    errors += spread_errors(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    errors += host_process_errors(spec, path) + host_user_errors(spec, path) + _host_name(spec, path)
    return errors + _names(spec, path) + os_errors(spec, path) + file_reference_errors(spec, path)


def _claims(claims: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{here}.name"))
        elif name in seen:
            errors.append(duplicate(f"{here}.name", name))
        else:
            errors += text_errors(f"{here}.name", name, names.dns1123_label)
            seen.add(name)
        given = {field: claim.get(field) for field in ("resourceClaimName", "resourceClaimTemplateName")}
        shown = Struct({"Name": name, **{f"R{field[1:]}": value for field, value in given.items()}})
        count = sum(value is not None for value in given.values())
        if count > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(here, shown, text))
        elif not count:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(here, shown, text))
        for field, value in given.items():
            if value is not None:
                errors += text_errors(f"{here}.{field}", value, names.dns1123_subdomain)
    return errors


def _host_name(spec: Data, path: str) -> Errors:
    name, where = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if name is None:
        return []
    errors = [
        forbidden(where, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _LONGEST_NAME:
        errors.append(too_long(where, _LONGEST_NAME))
    return errors + text_errors(where, name, names.dns1123_subdomain)


def _dns(spec: Data, path: str) -> Errors:
    config, none = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    if config is None:
        return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")] if none else []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if none and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(f"{path}.nameservers", text)]
    errors: Errors = []
    if len(servers) > _MOST_SERVERS:
        errors.append(invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors += legacy_ip_errors(server, f"{path}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        errors.append(invalid(f"{path}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        text = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            errors += text_errors(f"{path}.searches[{index}]", search.removesuffix("."), texts.underscored_subdomain)
    return errors + [
        required(f"{path}.options[{index}]", "must not be empty")
        for index, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]


def _names(spec: Data, path: str) -> Errors:
    errors: Errors = []
    for name in ("serviceAccountName", "nodeName"):
        if spec.get(name):
            errors += text_errors(f"{path}.{name}", spec[name], names.dns1123_subdomain)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        errors += [
            invalid(f"{path}.activeDeadlineSeconds", deadline, text) for text in texts.between(deadline, 1, _MAX)
        ]
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            errors += text_errors(f"{path}.{name}", spec[name], names.dns1123_label)
    errors += toleration_errors(spec.get("tolerations") or [], f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        errors += legacy_ip_errors(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for number, host in enumerate(alias.get("hostnames") or ()):
            errors += text_errors(f"{path}.hostAliases[{index}].hostnames[{number}]", host, names.dns1123_subdomain)
    for name in ("priorityClassName", "runtimeClassName"):
        if spec.get(name):
            errors += text_errors(f"{path}.{name}", spec[name], names.dns1123_subdomain)
    policy, allowed = spec.get("preemptionPolicy"), ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in allowed:
        errors.append(not_supported(f"{path}.preemptionPolicy", policy, allowed))
    return errors + requirement_errors({"limits": spec.get("overhead")}, f"{path}.overhead")


def _host_network(spec: Data, path: str, is_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return []
    text = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{index}].ports[{number}].hostPort", port.get("hostPort", 0), text)
        for index, container in enumerate(spec.get("containers") or ())
        for number, port in enumerate(container.get("ports") or ())
        if (is_pod or port.get("hostPort")) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]
