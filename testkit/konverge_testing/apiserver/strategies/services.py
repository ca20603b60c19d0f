"""Service.

`Service.allocate`, which the registry calls after validation as kube-apiserver does, draws addresses and ports. Source:
`pkg/apis/core/validation/validation.go`, `pkg/registry/core/service/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.draws import ObjectDraws
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.addresses import cidr_errors, endpoint_ip_errors, family, ip_errors
from konverge_testing.apiserver.strategies.base import BuiltInStrategy, restore
from konverge_testing.apiserver.strategies.endpoints import protocol
from konverge_testing.apiserver.strategies.errors import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from konverge_testing.apiserver.strategies.labels import label_errors
from konverge_testing.apiserver.strategies.networking import host_name
from konverge_testing.apiserver.strategies.pods.probes import port_or_name
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    barred,
    each,
    filled,
    given,
    need,
    port,
    struct,
    text,
    unique,
    unset,
    when,
)
from konverge_testing.apiserver.strategies.service_numbers import (
    allocate,
    keep_allocated,
    needs_address,
    needs_health_port,
    needs_ports,
    pair_addresses,
)

__all__ = ["Service"]

_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_DAY: Final = 86400

_label: Final = text(names.dns1123_label)
_qualified: Final = text(names.label_key)


def _external(spec: Data) -> bool:
    return spec.get("type") in ("LoadBalancer", "NodePort") or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def _is(kind: str) -> Any:
    return lambda spec: spec.get("type") == kind


def _typed(spec: Data, path: str) -> Errors:
    errors: Errors = []
    headless, kind = spec.get("clusterIP") == "None", spec.get("type")
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.append(required(f"{path}.ports"))
    if kind in ("LoadBalancer", "NodePort") and headless:
        errors.append(invalid(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    return errors


def _external_name(spec: Data, path: str) -> Errors:
    host, where = spec.get("externalName", "").removesuffix("."), f"{path}.externalName"
    return text(names.dns1123_subdomain)(host, where) if host else [required(where)]


_port: Final = struct(
    at("port", port),
    at("protocol", protocol),
    at("targetPort", port_or_name),
    given("appProtocol", _qualified),
)


_named_ports: Final = at("ports", each(need("name", _label), unique("name"), _port))
_single_port: Final = at("ports", each(filled("name", _label), _port))


def _ports(spec: Data, path: str) -> Errors:
    return (_named_ports if len(spec.get("ports") or ()) > 1 else _single_port)(spec, path)


_affinities: Final = at("sessionAffinity", among("ClientIP", "None"))


def _affinity(spec: Data, path: str) -> Errors:
    if unknown := _affinities(spec, path):
        return unknown
    if spec.get("sessionAffinity") == "None":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    where = f"{path}.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [] if 0 < seconds <= _DAY else [invalid(where, seconds, f"must be greater than 0 and less than {_DAY}")]


_ips: Final = each(ip_errors)
_families: Final = struct(
    at("ipFamilies", each(among("IPv4", "IPv6"), unique(empties=False))),
    given("ipFamilyPolicy", among("PreferDualStack", "RequireDualStack", "SingleStack")),
)


def _addresses(spec: Data, parent: str) -> Errors:
    if spec.get("type") == "ExternalName":
        return []
    single, all_, path = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], f"{parent}.clusterIPs"
    errors: Errors = []
    if single and all_ and all_[0] != single:
        errors.append(invalid(path, all_, "first value must match `clusterIP`"))
    elif not single and all_:
        errors.append(invalid(path, all_, "must be empty when `clusterIP` is not specified"))
    errors += _families(spec, parent)
    if all_[:1] == ["None"]:
        return [*errors, invalid(path, all_, "'None' must be the first and only value")] if len(all_) > 1 else errors
    wrong = _ips(all_, path)
    if len(all_) > 2:
        wrong.append(invalid(path, all_, "may only hold up to 2 values"))
    if wrong:
        return errors + wrong
    if len(all_) == 2 and family(all_[0]) == family(all_[1]):
        errors.append(invalid(path, all_, "may specify no more than one IP for each IP family"))
    for index, (ip, wanted) in enumerate(zip(all_, spec.get("ipFamilies") or (), strict=False)):
        if family(ip) != wanted:
            words = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", ip, words))
    return errors


def _repeated(spec: Data, path: str) -> Errors:
    errors: Errors = []
    for field in ("nodePort", "port"):
        seen: set[tuple[str, int]] = set()
        for index, each_port in enumerate(spec.get("ports") or ()):
            number, name, here = each_port.get(field, 0), each_port.get("protocol", ""), f"{path}.ports[{index}]"
            if (name, number) in seen:
                shown = Struct(Name="", Protocol=name, AppProtocol=None, Port=number, TargetPort=0, NodePort=0)
                errors.append(duplicate(f"{here}.nodePort", number) if field == "nodePort" else duplicate(here, shown))
            seen |= {(name, number)} if number else set()
    return errors


def _ranges(spec: Data, parent: str) -> Errors:
    ranges, path = spec.get("loadBalancerSourceRanges") or [], f"{parent}.LoadBalancerSourceRanges"
    errors = [forbidden(path, _ONLY_BALANCED)] if ranges and spec.get("type") != "LoadBalancer" else []
    return errors + [
        error for index, block in enumerate(ranges) for error in cidr_errors(block.strip(), f"{path}[{index}]")
    ]


_balancer: Final = struct(
    _ranges,
    when(
        lambda spec: spec.get("type") != "LoadBalancer",
        given("allocateLoadBalancerNodePorts loadBalancerClass", barred(_ONLY_BALANCED)),
    ),
)


def _traffic(spec: Data, path: str) -> Errors:
    outer, where = spec.get("externalTrafficPolicy", ""), f"{path}.externalTrafficPolicy"
    errors: Errors = []
    if not _external(spec):
        words = "may only be set for externally-accessible services"
        errors += [invalid(where, outer, words)] if outer else []
    elif outer not in ("Cluster", "Local"):
        errors.append(not_supported(where, outer, ("Cluster", "Local")))
    if not needs_health_port(spec) and spec.get("healthCheckNodePort"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid(f"{path}.healthCheckNodePort", spec["healthCheckNodePort"], words))
    return errors


_spec: Final = struct(
    _typed,
    when(
        _is("ExternalName"),
        unset("clusterIPs ipFamilies ipFamilyPolicy", "may not be set for ExternalName services"),
        _external_name,
    ),
    _ports,
    at("selector", label_errors),
    _affinity,
    _addresses,
    at("externalIPs", each(lambda ip, path: ip_errors(ip, path) or endpoint_ip_errors(ip, path))),
    at("type", among("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    when(_is("ClusterIP"), at("ports", each(unset("nodePort", "may not be used when `type` is 'ClusterIP'")))),
    _repeated,
)
_spec_after_class: Final = struct(
    when(_is("LoadBalancer"), given("loadBalancerClass", _qualified)),
    _traffic,
    given("internalTrafficPolicy", among("Cluster", "Local")),
    given("trafficDistribution", among("PreferClose", "PreferSameZone", "PreferSameNode")),
)
_ingress: Final = each(filled("ip", ip_errors), filled("hostname", host_name))


class Service(BuiltInStrategy):
    """Service: a name and an address for pods."""

    has_status = True
    allow_create_on_update = True
    name_rule = "label"
    empty_status: Mapping[str, Any] = {"loadBalancer": {}}
    selectable: Mapping[str, Any] = {"spec.clusterIP": "", "spec.type": ""}
    defaults = (("spec.sessionAffinity+", "None"), ("spec.type+", "ClusterIP"), ("spec.ports[].protocol+", "TCP"))

    def _default(self, new: Data) -> None:
        super()._default(new)
        spec = new["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        for each_port in spec.get("ports") or ():
            each_port["targetPort"] = each_port.get("targetPort") or each_port.get("port", 0)
        if _external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if needs_address(spec):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for each_ingress in ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                if each_ingress.get("ip"):
                    each_ingress.setdefault("ipMode", "VIP")

    def _create(self, new: Data) -> None:
        super()._create(new)
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
        """Allocate addresses and ports of a valid service, in place; `others` are the other services, `old` is None at creation."""
        before = None if old is None else old.get("spec") or {}
        return allocate(new["spec"], before, [other.get("spec") or {} for other in others], draws)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec, before = new.get("spec") or {}, None if old is None else old.get("spec") or {}
        errors = [] if before is None else _address_change(spec, before)
        errors += _spec(spec, "spec") + _balancer(spec, "spec")
        if before is not None and spec.get("type") == "LoadBalancer" == before.get("type"):
            class_ = spec.get("loadBalancerClass")
            if class_ != before.get("loadBalancerClass"):
                errors.append(invalid("spec.loadBalancerClass", class_, "may not change once set"))
        return errors + _spec_after_class(spec, "spec")

    def _status_errors(self, new: Data, _old: Data) -> Errors:
        ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        path = "status.loadBalancer.ingress"
        if ingress and (new.get("spec") or {}).get("type") != "LoadBalancer":
            return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        return _ingress(ingress, path)

    def _warnings(self, new: Data, _old: Data | None) -> list[str]:
        spec = new.get("spec") or {}
        headless, external = spec.get("clusterIP") == "None", spec.get("type") == "ExternalName"
        ips = bool(spec.get("externalIPs"))
        texts = {
            "spec.externalIPs is ignored for headless services": headless and ips,
            "spec.SessionAffinity is ignored for headless services": headless and spec.get("sessionAffinity") != "None",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters": (
                ips and not headless and not external
            ),
            'spec.externalIPs is ignored when spec.type is "ExternalName"': external and ips,
            'spec.externalName is ignored when spec.type is not "ExternalName"': (
                not external and bool(spec.get("externalName"))
            ),
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"': (
                spec.get("trafficDistribution") == "PreferClose"
            ),
        }
        return [words for words, applies in texts.items() if applies]


def _drop_dependent(spec: Data, old: Data) -> None:
    """Drop the fields that the new type does not need, unless they changed."""
    if needs_address(old) and not needs_address(spec):
        if spec.get("clusterIPs") == old.get("clusterIPs"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        _drop_same(spec, old, "ipFamilies", "ipFamilyPolicy")
    if needs_ports(old) and not needs_ports(spec):
        before, now = ([each_.get("nodePort", 0) for each_ in part.get("ports") or ()] for part in (old, spec))
        for each_port in spec.get("ports") or () if now == before else ():
            each_port.pop("nodePort", None)
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
    changed = [index for index, (ip, other) in enumerate(zip(now, before, strict=False)) if ip != other]
    if len(now) != len(before):
        changed = [index for index in changed if index == 0]
    return [invalid(f"spec.clusterIPs[{index}]", now, "may not change once set") for index in changed]
