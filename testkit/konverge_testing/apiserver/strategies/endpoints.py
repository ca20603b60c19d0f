"""Endpoints and EndpointSlice.

Source: `pkg/apis/core/validation/validation.go`, `pkg/apis/discovery/{v1/defaults,validation/validation}.go`,
`pkg/registry/discovery/endpointslice/strategy.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import endpoint_ip_errors, family, ip_errors
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    duplicate,
    immutable,
    invalid,
    not_supported,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.services import PROTOCOLS

__all__ = ["EndpointSlice", "Endpoints"]


class Endpoints(BuiltInStrategy):
    """Addresses behind a service, in the old form."""

    allow_create_on_update = True

    def _default(self, new: Data) -> None:
        for subset in new.get("subsets") or ():
            for port in subset.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"

    def _errors(self, new: Data, old: Data | None) -> Errors:
        if old is not None and new.get("subsets") == old.get("subsets"):
            return []
        errors: Errors = []
        for index, subset in enumerate(new.get("subsets") or ()):
            here, ports = f"subsets[{index}]", subset.get("ports") or []
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(here, "must specify `addresses` or `notReadyAddresses`"))
            for name in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(name) or ()):
                    errors += _endpoint_errors(address, f"{here}.{name}[{number}]")
            for number, port in enumerate(ports):
                errors += _endpoint_port(port, f"{here}.ports[{number}]", named=len(ports) > 1)
        return errors


def _endpoint_errors(address: Data, path: str) -> Errors:
    ip = address.get("ip", "")
    errors = ip_errors(ip, f"{path}.ip")
    if address.get("hostname"):
        errors += text_errors(f"{path}.hostname", address["hostname"], names.dns1123_label)
    if address.get("nodeName") is not None:
        errors += text_errors(f"{path}.nodeName", address["nodeName"], names.dns1123_subdomain)
    return errors + endpoint_ip_errors(ip, f"{path}.ip")


def _endpoint_port(port: Data, path: str, *, named: bool) -> Errors:
    errors: Errors = []
    if port.get("name"):
        errors += text_errors(f"{path}.name", port["name"], names.dns1123_label)
    elif named:
        errors.append(required(f"{path}.name"))
    errors += [
        invalid(f"{path}.port", port.get("port", 0), text) for text in texts.between(port.get("port", 0), 1, 65535)
    ]
    if port.get("protocol") not in PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS))
    return errors


class EndpointSlice(BuiltInStrategy):
    """Some of the addresses behind a service."""

    generation = True

    def _warnings(self, new: Data, _old: Data | None) -> list[str]:
        deprecated = "spec.addressType: FQDN endpoints are deprecated"
        return [deprecated] if new.get("addressType") == "FQDN" else []

    def _intent_changed(self, new: Data, old: Data) -> bool:
        labels = (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
        return labels or any(new.get(name) != old.get(name) for name in ("addressType", "endpoints", "ports"))

    def _default(self, new: Data) -> None:
        for port in new.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def _create(self, new: Data) -> None:
        for endpoint in new.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def _update(self, new: Data, old: Data) -> None:
        if new.get("endpoints") != old.get("endpoints"):
            self._create(new)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        kind, allowed = new.get("addressType", ""), ("FQDN", "IPv4", "IPv6")
        errors: Errors = []
        if kind not in allowed:
            errors.append(not_supported("addressType", kind, allowed) if kind else required("addressType"))
        errors += _slice_ports(new.get("ports") or [])
        if old is None or new.get("endpoints") != old.get("endpoints"):
            for index, endpoint in enumerate(new.get("endpoints") or ()):
                errors += _slice_endpoint(endpoint, kind, f"endpoints[{index}]")
        return errors if old is None else errors + immutable("addressType", kind, old.get("addressType", ""))


def _slice_ports(ports: list[Data]) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name, here = port.get("name", ""), f"ports[{index}]"
        errors += text_errors(f"{here}.name", name, names.dns1123_label) if name else []
        errors += [duplicate(f"{here}.name", name)] if name in seen else []
        seen.add(name)
        if port.get("protocol") not in PROTOCOLS:
            errors.append(not_supported(f"{here}.protocol", port.get("protocol", ""), PROTOCOLS))
        if port.get("appProtocol") is not None:
            errors += text_errors(f"{here}.appProtocol", port["appProtocol"], names.label_key)
    return errors


def _slice_endpoint(endpoint: Data, kind: str, path: str) -> Errors:
    addresses = endpoint.get("addresses") or []
    errors: Errors = [] if addresses else [required(f"{path}.addresses", "must contain at least 1 address")]
    for index, address in enumerate(addresses):
        here = f"{path}.addresses[{index}]"
        if kind not in ("IPv4", "IPv6"):
            continue
        wrong = ip_errors(address, here, strict=kind == "IPv6")
        if not wrong:
            if family(address) != kind:
                wrong.append(invalid(f"{path}.addresses", address, f"must be an {kind} address"))
            wrong += endpoint_ip_errors(address, here)
        errors += wrong
    if endpoint.get("nodeName") is not None:
        errors += text_errors(f"{path}.nodeName", endpoint["nodeName"], names.dns1123_subdomain)
    if endpoint.get("hostname") is not None:
        errors += text_errors(f"{path}.hostname", endpoint["hostname"], names.dns1123_label)
    return errors
