"""Service.

Addresses and ports are given by `Service.allocate`, which the registry calls after validation, as kube-apiserver does. Source:
`pkg/apis/core/validation/validation.go`, `pkg/registry/core/service/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.draws import ObjectDraws
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import cidr_errors, endpoint_ip_errors, family, ip_errors, is_ip
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    label_errors,
    not_supported,
    required,
    restore,
    text_errors,
)
from konverge_testing.apiserver.strategies.pods.probes import port_or_name_errors
from konverge_testing.apiserver.strategies.service_numbers import (
    allocate,
    keep_allocated,
    needs_address,
    needs_health_port,
    needs_ports,
    pair_addresses,
)

__all__ = ["PROTOCOLS", "Service"]

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
"""The protocols of ports."""

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_DAY: Final = 86400


def _external(spec: Data) -> bool:
    return spec.get("type") in ("LoadBalancer", "NodePort") or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )


class Service(BuiltInStrategy):
    """A name and an address for pods."""

    has_status = True
    allow_create_on_update = True
    name_rule = "label"

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        spec["type"] = spec.get("type") or "ClusterIP"
        for port in spec.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"
            port["targetPort"] = port.get("targetPort") or port.get("port", 0)
        if _external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if needs_address(spec):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for each in ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                if each.get("ip"):
                    each.setdefault("ipMode", "VIP")

    def _create(self, new: Data) -> None:
        new["status"] = {"loadBalancer": {}}
        pair_addresses(new.setdefault("spec", {}), None)

    def _update(self, new: Data, old: Data) -> None:
        restore(new, old, "status")
        spec, before = new.setdefault("spec", {}), old.get("spec") or {}
        keep_allocated(spec, before)
        pair_addresses(spec, before)
        _drop_dependent(spec, before)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def allocate(self, new: Data, old: Data | None, others: Iterable[Data], draws: ObjectDraws) -> Errors:
        """Give addresses and ports to a valid service, in place; `others` are all services but this one, `old` is None at creation."""
        before = None if old is None else old.get("spec") or {}
        return allocate(new["spec"], before, [other.get("spec") or {} for other in others], draws)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = [] if old is None else _address_change(spec, old.get("spec") or {})
        errors += _type_errors(spec)
        ports = spec.get("ports") or []
        seen: set[str] = set()
        for index, port in enumerate(ports):
            errors += _port_errors(port, f"spec.ports[{index}]", named=len(ports) > 1, seen=seen)
        errors += label_errors(spec.get("selector"), "spec.selector") + _affinity_errors(spec)
        errors += _family_errors(spec)
        for index, ip in enumerate(spec.get("externalIPs") or ()):
            path = f"spec.externalIPs[{index}]"
            errors += ip_errors(ip, path) or endpoint_ip_errors(ip, path)
        if spec.get("type") not in _TYPES:
            errors.append(not_supported("spec.type", spec.get("type", ""), _TYPES))
        return (
            errors
            + _repeated(spec, ports)
            + _balancer_errors(spec, None if old is None else old.get("spec") or {})
            + _traffic_errors(spec)
        )

    def _status_errors(self, new: Data, _old: Data) -> Errors:
        ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        path = "status.loadBalancer.ingress"
        if ingress and (new.get("spec") or {}).get("type") != "LoadBalancer":
            return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        errors: Errors = []
        for index, each in enumerate(ingress):
            here = f"{path}[{index}]"
            if each.get("ip"):
                errors += ip_errors(each["ip"], f"{here}.ip")
            if each.get("hostname"):
                errors += text_errors(f"{here}.hostname", each["hostname"], names.dns1123_subdomain)
                if is_ip(each["hostname"]):
                    errors.append(
                        invalid(f"{here}.hostname", each["hostname"], "must be a DNS name, not an IP address")
                    )
        return errors

    def _warnings(self, new: Data, _old: Data | None) -> list[str]:
        spec = new.get("spec") or {}
        headless, kind = spec.get("clusterIP") == "None", spec.get("type")
        found = []
        if headless and spec.get("externalIPs"):
            found.append("spec.externalIPs is ignored for headless services")
        if headless and spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
        if spec.get("externalIPs") and not headless and kind != "ExternalName":
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if kind == "ExternalName" and spec.get("externalIPs"):
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if kind != "ExternalName" and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def _labels(self, object_: Data) -> dict[str, str]:
        spec = object_.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _drop_dependent(spec: Data, old: Data) -> None:
    """Drop what the new type has no use for, if it was not changed besides."""
    if needs_address(old) and not needs_address(spec):
        if spec.get("clusterIPs") == old.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_same(spec, old, "ipFamilies", "ipFamilyPolicy")
    if needs_ports(old) and not needs_ports(spec):
        before = [port.get("nodePort", 0) for port in old.get("ports") or ()]
        if before == [port.get("nodePort", 0) for port in spec.get("ports") or ()]:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_port(old) and not needs_health_port(spec):
        _drop_same(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_same(spec, old, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _external(old) and not _external(spec):
        _drop_same(spec, old, "externalTrafficPolicy")
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _drop_same(spec: Data, old: Data, *fields: str) -> None:
    for name in fields:
        if spec.get(name) == old.get(name):
            spec.pop(name, None)


def _address_change(spec: Data, old: Data) -> Errors:
    if "ExternalName" in (spec.get("type"), old.get("type")):
        return []
    now, before = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if now[:1] == ["None"] == before[:1]:
        return []
    if len(before) > len(now) and not now:
        return [invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")]
    changed = [index for index, (one, other) in enumerate(zip(now, before, strict=False)) if one != other]
    if len(now) != len(before):
        changed = [index for index in changed if index == 0]
    return [invalid(f"spec.clusterIPs[{index}]", now, "may not change once set") for index in changed]


def _type_errors(spec: Data) -> Errors:
    errors: Errors = []
    headless, kind = spec.get("clusterIP") == "None", spec.get("type")
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name):
                errors.append(forbidden(f"spec.{name}", "may not be set for ExternalName services"))
        host = spec.get("externalName", "").removesuffix(".")
        path = "spec.externalName"
        errors += text_errors(path, host, names.dns1123_subdomain) if host else [required(path)]
    return errors


def _port_errors(port: Data, path: str, *, named: bool, seen: set[str]) -> Errors:
    name, protocol = port.get("name", ""), port.get("protocol", "")
    errors: Errors = []
    if name:
        errors += text_errors(f"{path}.name", name, names.dns1123_label)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    elif named:
        errors.append(required(f"{path}.name"))
    errors += [
        invalid(f"{path}.port", port.get("port", 0), text) for text in texts.between(port.get("port", 0), 1, 65535)
    ]
    if protocol not in PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, PROTOCOLS))
    errors += port_or_name_errors(port.get("targetPort", 0), f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        errors += text_errors(f"{path}.appProtocol", port["appProtocol"], names.label_key)
    return errors


def _affinity_errors(spec: Data) -> Errors:
    kind = spec.get("sessionAffinity", "")
    if kind not in ("ClientIP", "None"):
        return [not_supported("spec.sessionAffinity", kind, ("ClientIP", "None"))]
    if kind == "None":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [] if 0 < seconds <= _DAY else [invalid(path, seconds, f"must be greater than 0 and less than {_DAY}")]


def _family_errors(spec: Data) -> Errors:
    if spec.get("type") == "ExternalName":
        return []
    one, many, path = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], "spec.clusterIPs"
    errors: Errors = []
    if one and many and many[0] != one:
        errors.append(invalid(path, many, "first value must match `clusterIP`"))
    elif not one and many:
        errors.append(invalid(path, many, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    for index, each in enumerate(families):
        here = f"spec.ipFamilies[{index}]"
        errors += [] if each in ("IPv4", "IPv6") else [not_supported(here, each, ("IPv4", "IPv6"))]
        errors += [duplicate(here, each)] if each in families[:index] else []
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if spec.get("ipFamilyPolicy") not in (None, *policies):
        errors.append(not_supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], policies))
    if many[:1] == ["None"]:
        return [*errors, invalid(path, many, "'None' must be the first and only value")] if len(many) > 1 else errors
    wrong = [error for index, ip in enumerate(many) for error in ip_errors(ip, f"{path}[{index}]")]
    if len(many) > 2:
        wrong.append(invalid(path, many, "may only hold up to 2 values"))
    if wrong:
        return errors + wrong
    if len(many) == 2 and family(many[0]) == family(many[1]):
        errors.append(invalid(path, many, "may specify no more than one IP for each IP family"))
    for index, (ip, wanted) in enumerate(zip(many, families, strict=False)):
        if family(ip) != wanted:
            text = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", ip, text))
    return errors


def _repeated(spec: Data, ports: list[Data]) -> Errors:
    errors: Errors = []
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", text) for index, port in enumerate(ports) if port.get("nodePort")
        ]
    for field in ("nodePort", "port"):
        seen: set[tuple[str, int]] = set()
        for index, port in enumerate(ports):
            number, protocol = port.get(field, 0), port.get("protocol", "")
            path = f"spec.ports[{index}]"
            if (protocol, number) in seen:
                shown = Struct(Name="", Protocol=protocol, AppProtocol=None, Port=number, TargetPort=0, NodePort=0)
                errors.append(duplicate(f"{path}.nodePort", number) if field == "nodePort" else duplicate(path, shown))
            if number:
                seen.add((protocol, number))
    return errors


def _balancer_errors(spec: Data, was: Data | None) -> Errors:
    balanced = spec.get("type") == "LoadBalancer"
    errors: Errors = []
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and not balanced:
        errors.append(forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED))
    for index, block in enumerate(ranges):
        errors += cidr_errors(block.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(name) is not None and not balanced:
            errors.append(forbidden(f"spec.{name}", _ONLY_BALANCED))
    if balanced and was is not None and was.get("type") == "LoadBalancer":
        wanted = spec.get("loadBalancerClass")
        if wanted != was.get("loadBalancerClass"):
            errors.append(invalid("spec.loadBalancerClass", wanted, "may not change once set"))
    if balanced and spec.get("loadBalancerClass") is not None:
        errors += text_errors("spec.loadBalancerClass", spec["loadBalancerClass"], names.label_key)
    return errors


def _traffic_errors(spec: Data) -> Errors:
    outer, inner, spread = (
        spec.get("externalTrafficPolicy", ""),
        spec.get("internalTrafficPolicy"),
        spec.get("trafficDistribution"),
    )
    errors: Errors = []
    if not _external(spec):
        text = "may only be set for externally-accessible services"
        errors += [invalid("spec.externalTrafficPolicy", outer, text)] if outer else []
    elif outer not in ("Cluster", "Local"):
        errors.append(not_supported("spec.externalTrafficPolicy", outer, ("Cluster", "Local")))
    if not needs_health_port(spec) and spec.get("healthCheckNodePort"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text))
    if inner is not None and inner not in ("Cluster", "Local"):
        errors.append(not_supported("spec.internalTrafficPolicy", inner, ("Cluster", "Local")))
    if spread is not None and spread not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))
    return errors
