"""Ingress and NetworkPolicy.

Source: `pkg/apis/networking/{v1/defaults,validation/validation}.go`, `pkg/registry/networking/*/strategy.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import cidr_errors, is_ip, network
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    invalid,
    not_supported,
    required,
    selector_errors,
    text_errors,
)

__all__ = ["Ingress", "NetworkPolicy"]

_ANNOTATION: Final = "kubernetes.io/ingress.class"
_PATHS: Final = ("Exact", "ImplementationSpecific", "Prefix")
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_POLICY_TYPES: Final = ("Ingress", "Egress")
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


class Ingress(BuiltInStrategy):
    """Where requests from outside go."""

    generation = True
    has_status = True

    def _create(self, new: Data) -> None:
        new["status"] = {"loadBalancer": {}}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = _ingress_errors(spec)
        annotation, class_ = (new["metadata"].get("annotations") or {}).get(_ANNOTATION), spec.get("ingressClassName")
        if old is None and annotation is not None and class_ is not None and annotation != class_:
            text = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{_ANNOTATION}", annotation, text))
        return errors

    def _status_errors(self, new: Data, _old: Data) -> Errors:
        errors: Errors = []
        for index, each in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()):
            path = f"status.loadBalancer.ingress[{index}].hostname"
            if each.get("hostname"):
                errors += text_errors(path, each["hostname"], names.dns1123_subdomain)
                errors += _no_ip(each["hostname"], path)
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        annotations = new["metadata"].get("annotations") or {}
        if old is not None or _ANNOTATION not in annotations:
            return []
        return [f"annotation \"{_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _no_ip(host: str, path: str) -> Errors:
    return [invalid(path, host, "must be a DNS name, not an IP address")] if is_ip(host) else []


def _host_errors(host: str, path: str) -> Errors:
    return text_errors(path, host, texts.wildcard_subdomain if "*" in host else names.dns1123_subdomain)


def _ingress_errors(spec: Data) -> Errors:
    errors: Errors = []
    rules = spec.get("rules") or []
    if not rules and spec.get("defaultBackend") is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        errors += _backend_errors(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules):
        path, host = f"spec.rules[{index}]", rule.get("host", "")
        if host:
            errors += _no_ip(host, f"{path}.host") + _host_errors(host, f"{path}.host")
        if rule.get("http") is not None:
            errors += _http_errors(rule["http"], f"{path}.http")
    for index, each in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(each.get("hosts") or ()):
            errors += _host_errors(host, f"spec.tls[{index}].hosts[{number}]")
        if each.get("secretName"):
            errors += text_errors(f"spec.tls[{index}].secretName", each["secretName"], names.dns1123_subdomain)
    if spec.get("ingressClassName") is not None:
        errors += text_errors("spec.ingressClassName", spec["ingressClassName"], names.dns1123_subdomain)
    return errors


def _http_errors(http: Data, path: str) -> Errors:
    paths = http.get("paths") or []
    errors: Errors = [] if paths else [required(f"{path}.paths")]
    for index, each in enumerate(paths):
        errors += _path_errors(each, f"{path}.paths[{index}]")
    return errors


def _path_errors(each: Data, path: str) -> Errors:
    kind, target, where = each.get("pathType"), each.get("path", ""), f"{path}.path"
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: Errors = []
    if kind in ("Exact", "Prefix"):
        if not target.startswith("/"):
            errors.append(invalid(where, target, "must be an absolute path"))
        errors += [invalid(where, target, f"must not contain '{part}'") for part in _SEQUENCES if part in target]
        errors += [
            invalid(where, target, f"cannot end with '{part}'") for part in ("/..", "/.") if target.endswith(part)
        ]
    elif kind == "ImplementationSpecific":
        if target and not target.startswith("/"):
            errors.append(invalid(where, target, "must be an absolute path"))
    else:
        errors.append(not_supported(f"{path}.pathType", kind, _PATHS))
    return errors + _backend_errors(each.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: Data, path: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference_errors(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port") or {}
    where = f"{path}.service.name"
    errors = text_errors(where, name, names.dns1123_label) if name else [required(where)]
    if port.get("name") and port.get("number"):
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += text_errors(f"{path}.service.port.name", port["name"], texts.port_name)
    elif port.get("number"):
        found = texts.between(port["number"], 1, 65535)
        errors += [invalid(f"{path}.service.port.number", port["number"], text) for text in found]
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _reference_errors(reference: Data, path: str) -> Errors:
    errors: Errors = []
    if reference.get("apiGroup") is not None:
        errors += text_errors(f"{path}.apiGroup", reference["apiGroup"], names.dns1123_subdomain)
    for name in ("kind", "name"):
        value, where = reference.get(name, ""), f"{path}.{name}"
        errors += text_errors(where, value, names.path_segment) if value else [required(where)]
    return errors


class NetworkPolicy(BuiltInStrategy):
    """NetworkPolicy: the allowed peers of pods."""

    generation = True

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        for direction in ("ingress", "egress"):
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def _errors(self, new: Data, _old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = selector_errors(spec.get("podSelector") or {}, "spec.podSelector")
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or ()):
                path = f"spec.{direction}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    errors += _policy_port(port, f"{path}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    errors += _peer_errors(peer, f"{path}.{peers}[{number}]")
        kinds = spec.get("policyTypes") or []
        if len(kinds) > 2:
            return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
        wrong = [(index, kind) for index, kind in enumerate(kinds) if kind not in _POLICY_TYPES]
        return errors + [not_supported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES) for index, kind in wrong]


def _policy_port(each: Data, path: str) -> Errors:
    protocol, port, end = each.get("protocol"), each.get("port"), each.get("endPort")
    errors: Errors = []
    if protocol not in ("TCP", "UDP", "SCTP"):
        errors.append(not_supported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP")))
    where = f"{path}.endPort"
    if isinstance(port, int):
        errors += [invalid(f"{path}.port", port, text) for text in texts.between(port, 1, 65535)]
        if end is not None and end < port:
            errors.append(invalid(where, port, "must be greater than or equal to `port`"))
        errors += [] if end is None else [invalid(where, end, text) for text in texts.between(end, 1, 65535)]
        return errors
    if end is not None:
        text = "may not be specified when `port` is " + ("not specified" if port is None else "non-numeric")
        errors.append(invalid(where, end, text))
    return errors if port is None else errors + text_errors(f"{path}.port", port, texts.port_name)


def _peer_errors(peer: Data, path: str) -> Errors:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    errors: Errors = []
    for name in given:
        here: Any = peer[name]
        errors += (
            _block_errors(here, f"{path}.{name}") if name == "ipBlock" else selector_errors(here, f"{path}.{name}")
        )
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block_errors(block: Data, path: str) -> Errors:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    errors, whole = cidr_errors(cidr, f"{path}.cidr"), network(cidr)
    for index, text in enumerate(block.get("except") or () if whole is not None else ()):
        where, part = f"{path}.except[{index}]", network(text)
        errors += cidr_errors(text, where)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and int(whole[0]) <= int(part[0]) <= int(whole[-1])
        if not inside or whole.prefixlen >= part.prefixlen:
            errors.append(invalid(where, text, "must be a strict subset of `cidr`"))
    return errors
