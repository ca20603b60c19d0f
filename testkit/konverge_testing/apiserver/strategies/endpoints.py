"""Endpoints.

Source: `pkg/apis/core/validation/validation.go`, `pkg/apis/discovery/{v1/defaults,validation/validation}.go`,
`pkg/registry/discovery/endpointslice/strategy.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.addresses import endpoint_ip_errors, ip_errors
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    invalid,
    not_supported,
    required,
    text_errors,
)
from konverge_testing.apiserver.strategies.services import PROTOCOLS

__all__ = ["Endpoints"]


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
