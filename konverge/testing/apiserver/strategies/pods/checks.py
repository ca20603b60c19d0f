"""Validation of the spec of a pod and of a pod template.

Guarantees: pure; errors come in the server's order. Left out: Windows and SELinux options, sysctls, resource claims, DNS configuration.
Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge.testing.apiserver import names
from konverge.testing.apiserver.strategies import texts
from konverge.testing.apiserver.strategies.base import (
    Data,
    Errors,
    annotation_errors,
    duplicate,
    forbidden,
    invalid,
    label_errors,
    not_supported,
    required,
    selector_errors,
    text_errors,
)
from konverge.testing.apiserver.strategies.pods.containers import container_errors, init_container_errors
from konverge.testing.apiserver.strategies.pods.resources import pod_resource_errors
from konverge.testing.apiserver.strategies.pods.volumes import volume_errors

__all__ = ["node_selector_errors", "spec_errors", "taint_effect_errors", "template_errors", "toleration_errors"]

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX: Final = 2**31 - 1


def template_errors(template: Data, path: str) -> Errors:
    """Check a pod template."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = label_errors(metadata.get("labels"), f"{path}.labels")
    errors += annotation_errors(metadata.get("annotations"), f"{path}.annotations")
    errors += spec_errors(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def spec_errors(spec: Data, path: str, *, is_pod: bool = False) -> Errors:
    """Check a pod's spec; `is_pod`: not that of a template."""
    grace = spec.get("terminationGracePeriodSeconds")
    errors, volumes = volume_errors(spec.get("volumes") or [], f"{path}.volumes")
    regular = spec.get("containers") or []
    errors += container_errors(regular, f"{path}.containers", volumes, grace)
    errors += init_container_errors(spec.get("initContainers") or [], f"{path}.initContainers", regular, volumes, grace)
    errors += pod_resource_errors(spec, f"{path}.resources")
    errors += _host_network(spec, f"{path}.containers", is_pod)
    for name, allowed in (("restartPolicy", _RESTARTS), ("dnsPolicy", _DNS)):
        if spec.get(name) not in allowed:
            errors.append(not_supported(f"{path}.{name}", spec.get(name, ""), allowed))
    errors += label_errors(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += _security(spec.get("securityContext") or {}, f"{path}.securityContext")
    errors += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where = f"{path}.readinessGates[{index}].conditionType"
        errors += text_errors(where, gate.get("conditionType", ""), names.label_key)
    errors += _gates(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    errors += _spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    return errors + _names(spec, path)


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
        for number, host in enumerate(alias.get("hostnames") or ()):
            errors += text_errors(f"{path}.hostAliases[{index}].hostnames[{number}]", host, names.dns1123_subdomain)
    for name in ("priorityClassName", "runtimeClassName"):
        if spec.get(name):
            errors += text_errors(f"{path}.{name}", spec[name], names.dns1123_subdomain)
    policy, allowed = spec.get("preemptionPolicy"), ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in allowed:
        errors.append(not_supported(f"{path}.preemptionPolicy", policy, allowed))
    return errors


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


def _security(context: Data, path: str) -> Errors:
    errors: Errors = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        if name in context:
            errors += [invalid(f"{path}.{name}", context[name], text) for text in texts.between(context[name], 0, _MAX)]
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        errors += [
            invalid(f"{path}.supplementalGroups[{index}]", group, text) for text in texts.between(group, 0, _MAX)
        ]
    return errors


def _gates(gates: list[Data], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += text_errors(f"{path}[{index}]", name, names.label_key)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def _spread(constraints: list[Data], path: str) -> Errors:
    errors: Errors = []
    for index, each in enumerate(constraints):
        here, action = f"{path}[{index}]", each.get("whenUnsatisfiable", "")
        if each.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{here}.maxSkew", each.get("maxSkew", 0), "must be greater than zero"))
        if not each.get("topologyKey"):
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        key = each.get("topologyKey", "")
        if any(
            (key, action) == (other.get("topologyKey", ""), other.get("whenUnsatisfiable", ""))
            for other in constraints[index + 1 :]
        ):
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += selector_errors(each.get("labelSelector"), f"{here}.labelSelector")
    return errors


def toleration_errors(tolerations: list[Data], path: str) -> Errors:
    """Check tolerations."""
    errors: Errors = []
    for index, each in enumerate(tolerations):
        here, key, operator, value = (
            f"{path}[{index}]",
            each.get("key", ""),
            each.get("operator", ""),
            each.get("value", ""),
        )
        if key:
            errors += text_errors(f"{here}.key", key, names.label_key)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{here}.operator", operator, text))
        if each.get("tolerationSeconds") is not None and each.get("effect", "") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{here}.effect", each.get("effect", ""), text))
        if operator in ("", "Equal"):
            if found := names.label_value(value):
                errors.append(invalid(f"{here}.operator", value, ";".join(found)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            errors.append(not_supported(f"{here}.operator", operator, allowed))
        if each.get("effect"):
            errors += taint_effect_errors(each["effect"], f"{here}.effect")
    return errors


def taint_effect_errors(effect: str, path: str) -> Errors:
    """Check the effect of a taint."""
    return [] if effect in _EFFECTS else [not_supported(path, effect, _EFFECTS)]


def _affinity(affinity: Data, path: str) -> Errors:
    errors: Errors = []
    nodes = affinity.get("nodeAffinity") or {}
    if nodes.get(_REQUIRED) is not None:
        errors += node_selector_errors(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, each in enumerate(nodes.get(_PREFERRED) or ()):
        here = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        errors += _weight(each, here) + _node_term(each.get("preference") or {}, f"{here}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        for index, term in enumerate(found.get(_REQUIRED) or ()):
            errors += _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, each in enumerate(found.get(_PREFERRED) or ()):
            here = f"{path}.{kind}.{_PREFERRED}[{index}]"
            errors += _weight(each, here) + _pod_term(each.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return errors


def node_selector_errors(selector: Data, path: str) -> Errors:
    """Check the terms of a selector of nodes."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        error for index, term in enumerate(terms) for error in _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    ]


def _weight(each: Data, path: str) -> Errors:
    weight = each.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_term(term: Data, path: str) -> Errors:
    errors: Errors = []
    for index, each in enumerate(term.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{index}]", each.get("operator", ""), each.get("values") or []
        if operator in ("In", "NotIn"):
            errors += (
                [] if values else [required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
            )
        elif operator in ("Exists", "DoesNotExist"):
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors += [forbidden(f"{here}.values", text)] if values else []
        elif operator in ("Gt", "Lt"):
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors += [] if len(values) == 1 else [required(f"{here}.values", text)]
        else:
            errors.append(invalid(f"{here}.operator", operator, "not a valid selector operator"))
        errors += text_errors(f"{here}.key", each.get("key", ""), names.label_key)
        for number, value in enumerate(values):
            errors += text_errors(f"{here}.values[{number}]", value, names.label_value)
    return errors


def _pod_term(term: Data, path: str) -> Errors:
    errors = selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    errors += selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += text_errors(f"{path}.namespace", name, names.dns1123_label)
    key = term.get("topologyKey", "")
    errors += [] if key else [required(f"{path}.topologyKey", "can not be empty")]
    return errors + text_errors(f"{path}.topologyKey", key, names.label_key)
