"""Ingress and NetworkPolicy.

Source: `pkg/apis/networking/{v1/defaults,validation/validation}.go`, `pkg/registry/networking/*/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import cidr_errors, is_ip, network
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_supported, required
from konverge_testing.apiserver.strategies.labels import selector_errors
from konverge_testing.apiserver.strategies.rules import among, at, each, filled, given, must, need, port, struct, text

__all__ = ["Ingress", "NetworkPolicy", "host_name"]

_ANNOTATION: Final = "kubernetes.io/ingress.class"
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_POLICY_TYPES: Final = ("Ingress", "Egress")

_subdomain: Final = text(names.dns1123_subdomain)
_no_ip: Final = must(lambda host: not is_ip(host), "must be a DNS name, not an IP address")
host_name: Final = struct(_subdomain, _no_ip)
"""The rules of the name of a load balancer."""


def _host(host: str, path: str) -> Errors:
    return text(texts.wildcard_subdomain if "*" in host else names.dns1123_subdomain)(host, path)


def _ported(service: Data, path: str) -> Errors:
    """Check the port of a service; an error about both fields is at the backend."""
    each_port, backend = service.get("port") or {}, path.removesuffix(".service")
    if each_port.get("name") and each_port.get("number"):
        return [invalid(backend, "", "cannot set both port name & port number")]
    if not each_port.get("name") and not each_port.get("number"):
        return [required(backend, "port name or number is required")]
    return struct(filled("name", text(texts.port_name)), filled("number", port))(each_port, f"{path}.port")


_service: Final = struct(need("name", text(names.dns1123_label)), _ported)
_resource: Final = struct(given("apiGroup", _subdomain), need("kind name", text(names.path_segment)))


def _backend(backend: Data | None, path: str) -> Errors:
    kinds = [name for name in ("service", "resource") if (backend or {}).get(name) is not None]
    if len(kinds) == 1:
        return struct(given("service", _service), given("resource", _resource))(backend, path)
    words = "cannot set both resource and service backends" if kinds else "resource or service backend is required"
    return [invalid(path, "", words)]


def _path(rule: Data, path: str) -> Errors:
    kind, target, where = rule.get("pathType"), rule.get("path", ""), f"{path}.path"
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: Errors = []
    if kind in ("Exact", "Prefix"):
        wrong = [] if target.startswith("/") else ["must be an absolute path"]
        wrong += [f"must not contain '{part}'" for part in _SEQUENCES if part in target]
        wrong += [f"cannot end with '{part}'" for part in ("/..", "/.") if target.endswith(part)]
        errors += [invalid(where, target, words) for words in wrong]
    elif kind != "ImplementationSpecific":
        errors.append(not_supported(f"{path}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix")))
    elif target and not target.startswith("/"):
        errors.append(invalid(where, target, "must be an absolute path"))
    return errors + _backend(rule.get("backend"), f"{path}.backend")


def _either(spec: Data | None, path: str) -> Errors:
    given_ = spec or {}
    if given_.get("rules") or given_.get("defaultBackend") is not None:
        return []
    return [invalid(path, given_.get("rules"), "either `defaultBackend` or `rules` must be specified")]


class Ingress(BuiltInStrategy):
    """Ingress: the routes of requests from outside to services."""

    generation = True
    has_status = True
    empty_status: Mapping[str, Any] = {"loadBalancer": {}}
    rules = struct(
        at(
            "spec",
            _either,
            given("defaultBackend", _backend),
            at("rules", each(filled("host", _no_ip, _host), given("http", need("paths", each(_path))))),
            at("tls", each(at("hosts", each(_host)), filled("secretName", _subdomain))),
            given("ingressClassName", _subdomain),
        )
    )
    status_rules = struct(at("status", at("loadBalancer", at("ingress", each(filled("hostname", host_name))))))

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = super()._errors(new, old)
        annotation = (new["metadata"].get("annotations") or {}).get(_ANNOTATION)
        class_ = (new.get("spec") or {}).get("ingressClassName")
        if old is None and annotation is not None and class_ is not None and annotation != class_:
            words = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{_ANNOTATION}", annotation, words))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None or _ANNOTATION not in (new["metadata"].get("annotations") or {}):
            return []
        return [f"annotation \"{_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _policy_port(rule: Data, path: str) -> Errors:
    number, end, where = rule.get("port"), rule.get("endPort"), f"{path}.endPort"
    if isinstance(number, int):
        errors = port(number, f"{path}.port")
        if end is not None and end < number:
            errors.append(invalid(where, number, "must be greater than or equal to `port`"))
        return errors + given("endPort", port)(rule, path)
    words = "may not be specified when `port` is " + ("not specified" if number is None else "non-numeric")
    errors = [] if end is None else [invalid(where, end, words)]
    return errors + given("port", text(texts.port_name))(rule, path)


def _block(block: Data, path: str) -> Errors:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    errors, whole = cidr_errors(cidr, f"{path}.cidr"), network(cidr)
    for index, part_text in enumerate(block.get("except") or () if whole is not None else ()):
        where, part = f"{path}.except[{index}]", network(part_text)
        errors += cidr_errors(part_text, where)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and int(whole[0]) <= int(part[0]) <= int(whole[-1])
        if not inside or whole.prefixlen >= part.prefixlen:
            errors.append(invalid(where, part_text, "must be a strict subset of `cidr`"))
    return errors


def _kinds(peer: Data, path: str) -> Errors:
    kinds = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not kinds:
        return [required(path, "must specify a peer")]
    both = len(kinds) > 1 and "ipBlock" in kinds
    return [forbidden(path, "may not specify both ipBlock and another peer")] if both else []


def _types(kinds: list[str] | None, path: str) -> Errors:
    if len(kinds or ()) > 2:
        return [invalid(path, kinds, "may not specify more than two policyTypes")]
    wrong = [(index, kind) for index, kind in enumerate(kinds or ()) if kind not in _POLICY_TYPES]
    return [not_supported(f"{path}[{index}]", kind, _POLICY_TYPES) for index, kind in wrong]


_peers: Final = each(given("podSelector namespaceSelector", selector_errors), given("ipBlock", _block), _kinds)
_policy_ports: Final = at("ports", each(at("protocol", among("TCP", "UDP", "SCTP")), _policy_port))


class NetworkPolicy(BuiltInStrategy):
    """NetworkPolicy: the allowed peers of pods."""

    generation = True
    defaults = (("spec.ingress[].ports[].protocol", "TCP"), ("spec.egress[].ports[].protocol", "TCP"))
    rules = struct(
        at(
            "spec",
            at("podSelector", selector_errors),
            at("ingress", each(_policy_ports, at("from", _peers))),
            at("egress", each(_policy_ports, at("to", _peers))),
            at("policyTypes", _types),
        )
    )

    def _default(self, new: Data) -> None:
        super()._default(new)
        spec = new.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
