"""Cluster addresses and node ports of services, which the server allocates.

Guarantees: pure: allocated numbers and draws are arguments. The ranges are the defaults of kube-apiserver with one IPv4 family
(`KUBERNETES_RANGE`, 30000-32767). Source: `pkg/registry/core/service/storage/{storage,alloc}.go`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from konverge_testing.apiserver.draws import ObjectDraws
from konverge_testing.apiserver.strategies.addresses import family
from konverge_testing.apiserver.strategies.errors import Data, Errors, invalid

__all__ = ["KUBERNETES_RANGE", "allocate", "keep_allocated", "pair_addresses"]

KUBERNETES_RANGE: Final = ipaddress.IPv4Network("10.0.0.0/24")
_PORTS: Final = range(30000, 32768)
_DUAL: Final = "this cluster is not configured for dual-stack services"


def needs_address(spec: Data) -> bool:
    """Tell whether a type of service has an address in the cluster."""
    return spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer")


def needs_ports(spec: Data) -> bool:
    """Tell whether a service opens ports on nodes."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts", True) is not False
    return spec.get("type") == "NodePort"


def needs_health_port(spec: Data) -> bool:
    """Tell whether a service has a port for health checks by a load balancer."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def pair_addresses(spec: Data, old: Data | None) -> None:
    """Make clusterIP and clusterIPs of a new or changed spec consistent, in place."""
    address = spec.get("clusterIP", "")
    if old is None:
        if address and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [address]
        return
    before = old.get("clusterIP", "")
    if old.get("clusterIPs") and not spec.get("clusterIPs") and address == before:
        spec["clusterIPs"] = list(old["clusterIPs"])
    if address != before and spec.get("clusterIPs") == old.get("clusterIPs"):
        if before and not address:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [address]


def keep_allocated(spec: Data, old: Data) -> None:
    """Fill in, in place, the old values that an update omits."""
    if needs_address(spec) and needs_address(old):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and old.get(name):
                spec[name] = old[name]
    if needs_ports(spec) and needs_ports(old):
        used = _node_ports(spec) & _node_ports(old)
        known = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = known.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
    if (
        needs_health_port(spec)
        and needs_health_port(old)
        and not spec.get("healthCheckNodePort")
        and old.get("healthCheckNodePort")
    ):
        spec["healthCheckNodePort"] = old["healthCheckNodePort"]


def _node_ports(spec: Data) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def allocate(spec: Data, old: Data | None, others: Iterable[Data], draws: ObjectDraws) -> Errors:
    """Allocate the missing families, addresses and ports of a spec, in place. `others` are the specs of all other services."""
    pair_addresses(spec, old)
    if spec.get("type") == "ExternalName":
        return []
    errors = _families(spec, old)
    if errors:
        return errors
    rest = list(others)
    if needs_address(spec) and spec.get("clusterIP") != "None":
        errors += _address(spec, old, {ip for other in rest for ip in other.get("clusterIPs") or ()}, draws)
    if needs_ports(spec):
        taken = {number for other in rest for number in (*_node_ports(other), other.get("healthCheckNodePort", 0))}
        errors += _ports(spec, old, taken, draws)
    return errors


def _families(spec: Data, old: Data | None) -> Errors:
    headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        before = (old or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = before or ("RequireDualStack" if headless else "SingleStack")
    single = spec["ipFamilyPolicy"] == "SingleStack"
    path, errors = "spec.ipFamilyPolicy", Errors()
    for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        if single and len(spec.get(name) or ()) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            errors.append(invalid(path, spec["ipFamilyPolicy"], text))
    families = list(spec.get("ipFamilies") or ())
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip == "None":
            break
        if index >= len(families):
            families.append(family(ip))
            if family(ip) != "IPv4":
                text = f"{family(ip)} is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], text))
    if errors:
        return errors
    if headless:
        families = families or ["IPv4"]
        if len(families) < 2 and not single:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    else:
        if spec["ipFamilyPolicy"] == "RequireDualStack":
            errors.append(invalid(path, spec["ipFamilyPolicy"], _DUAL))
        for index, each in enumerate(families):
            if each != "IPv4":
                errors.append(invalid(f"spec.ipFamilies[{index}]", each, "not configured on this cluster"))
        families = families or ["IPv4"]
    spec["ipFamilies"] = families
    return errors


def _address(spec: Data, old: Data | None, taken: set[str], draws: ObjectDraws) -> Errors:
    wanted = (spec.get("clusterIPs") or [""])[0]
    if wanted and wanted in ((old or {}).get("clusterIPs") or ()):
        return []
    if wanted:
        shown, path = spec["clusterIPs"], "spec.clusterIPs"
        if ipaddress.ip_address(wanted) not in KUBERNETES_RANGE:
            text = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {KUBERNETES_RANGE}"
            return [invalid(path, shown, f"failed to allocate IP {wanted}: {text}")]
        if wanted in taken:
            return [invalid(path, shown, f"failed to allocate IP {wanted}: provided IP is already allocated")]
        return []
    free = [str(ip) for ip in KUBERNETES_RANGE.hosts() if str(ip) not in taken]
    later = [ip for ip in free if int(ip.rpartition(".")[2]) > 16] or free
    if not later:
        return [invalid("spec.clusterIPs", [], "failed to allocate IP: range is full")]
    spec["clusterIP"] = draws.pick("clusterIP", later)
    spec["clusterIPs"] = [spec["clusterIP"]]
    return []


def _ports(spec: Data, old: Data | None, taken: set[int], draws: ObjectDraws) -> Errors:
    errors: Errors = []
    kept = _node_ports(old or {})
    for index, port in enumerate(spec.get("ports") or ()):
        number, path = port.get("nodePort", 0), f"spec.ports[{index}].nodePort"
        if not number:
            port["nodePort"] = draws.pick(
                "nodePort", [each for each in _PORTS if each not in taken | _node_ports(spec)]
            )
        elif number not in kept:
            if number not in _PORTS:
                text = f"provided port is not in the valid range. The range of valid ports is {_PORTS.start}-{_PORTS.stop - 1}"
                errors.append(invalid(path, number, text))
            elif number in taken:
                errors.append(invalid(path, number, "provided port is already allocated"))
    if needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        free = [each for each in _PORTS if each not in taken | _node_ports(spec)]
        spec["healthCheckNodePort"] = draws.pick("healthCheckNodePort", free)
    return errors
