"""IP addresses and blocks of them as kube-apiserver checks them.

Guarantees: pure. kube-apiserver is lenient about IPv4 with leading zeros, and so is this. Source: k8s.io/apimachinery
`pkg/util/validation/ip.go`.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

from konverge_testing.apiserver.strategies.errors import Errors, invalid

__all__ = ["cidr_errors", "endpoint_ip_errors", "family", "ip_errors", "is_ip", "legacy_ip_errors", "network"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def _lenient(text: str) -> str:
    return ".".join(str(int(part)) for part in text.split(".")) if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text) else text


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(_lenient(text)) if "%" not in text else None
    except ValueError:
        return None


def network(text: str) -> Network | None:
    """Read a CIDR block; None for any other text."""
    address, slash, length = text.partition("/")
    try:
        return (
            ipaddress.ip_network(f"{_lenient(address)}/{length}", strict=False) if slash and length.isdigit() else None
        )
    except ValueError:
        return None


def is_ip(text: str) -> bool:
    """Tell whether a text is an IP address."""
    return _address(text) is not None


def family(text: str) -> str:
    """Return `IPv4` or `IPv6`."""
    return "IPv6" if ":" in text else "IPv4"


def ip_errors(text: str | None, path: str, *, strict: bool = False) -> Errors:
    """Check an IP address; `strict`: only the canonical spelling is valid."""
    text = text or ""
    address = _address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if strict and str(address) != text:
        return [invalid(path, text, f'must be in canonical form ("{address}")')]
    return []


def legacy_ip_errors(text: str | None, path: str) -> Errors:
    """Check an IP address of a field that once took more spellings than are safe."""
    text = text or ""
    errors = ip_errors(text, path)
    if errors:
        return errors
    if _lenient(text) != text:
        errors.append(invalid(path, text, "must not have leading 0s"))
    if isinstance(address := _address(text), ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        errors.append(invalid(path, text, "must not be an IPv4-mapped IPv6 address"))
    return errors


def cidr_errors(text: str, path: str) -> Errors:
    """Check a CIDR block."""
    if network(text) is not None:
        return []
    return [invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def endpoint_ip_errors(text: str, path: str) -> Errors:
    """Check that an endpoint can have an address."""
    address = _address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    errors: Errors = []
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if address in (ipaddress.ip_network("224.0.0.0/24") if address.version == 4 else ipaddress.ip_network("ff02::/16")):
        errors.append(invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
    return errors
