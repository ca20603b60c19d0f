"""Endpoints.

Source: `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.addresses import endpoint_ip_errors, ip_errors
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, required
from konverge_testing.apiserver.strategies.rules import among, at, each, filled, given, need, port, struct, text

__all__ = ["Endpoints", "protocol"]

protocol: Final = among("SCTP", "TCP", "UDP")
_label: Final = text(names.dns1123_label)
_address: Final = struct(
    at("ip", ip_errors),
    filled("hostname", _label),
    given("nodeName", text(names.dns1123_subdomain)),
    lambda address, path: endpoint_ip_errors(address.get("ip", ""), f"{path}.ip"),
)
_port: Final = struct(at("port", port), at("protocol", protocol))


def _ports(subset: Data, path: str) -> Errors:
    ports = subset.get("ports") or []
    name = need("name", _label) if len(ports) > 1 else filled("name", _label)
    return each(name, _port)(ports, f"{path}.ports")


def _addressed(subset: Data, path: str) -> Errors:
    words = "must specify `addresses` or `notReadyAddresses`"
    return [] if subset.get("addresses") or subset.get("notReadyAddresses") else [required(path, words)]


class Endpoints(BuiltInStrategy):
    """Endpoints: the addresses behind a service, in the deprecated API."""

    allow_create_on_update = True
    defaults = (("subsets[].ports[].protocol+", "TCP"),)
    rules = struct(at("subsets", each(_addressed, at("addresses notReadyAddresses", each(_address)), _ports)))

    def _errors(self, new: Data, old: Data | None) -> Errors:
        return [] if old is not None and new.get("subsets") == old.get("subsets") else super()._errors(new, old)
