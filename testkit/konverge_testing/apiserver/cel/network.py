"""The ip and cidr libraries: addresses as netip reads them, without zones and without IPv4-mapped IPv6.

Guarantees: pure. Addresses and networks are passed through rules as text in canonical form. Source: k8s.io/apiserver
`pkg/cel/library/ip.go` and `cidr.go`; messages for malformed IPv6 addresses are Go's only in the common cases.
"""

from __future__ import annotations

import ipaddress
import json
import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias

__all__ = [
    "BadAddress",
    "address",
    "contains_ip",
    "contains_network",
    "family",
    "global_unicast",
    "masked",
    "network",
    "split",
]

Address: TypeAlias = IPv4Address | IPv6Address

_PREFIX: Final = "network address parse error during conversion from string: "


class BadAddress(ValueError):
    """The text is not an address or network; the message is the server's."""


def address(text: str) -> Address:
    """Read an address."""
    if "%" in text and ":" in text:
        _parse(text.partition("%")[0], text)
        raise BadAddress(f"IP address {json.dumps(text)} with zone value is not allowed")
    found = _parse(text, text)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        raise BadAddress(f"IPv4-mapped IPv6 address {json.dumps(text)} is not allowed")
    return found


def _parse(text: str, shown: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        quoted = json.dumps(shown, ensure_ascii=False)
        raise BadAddress(
            f"IP Address {quoted} parse error during conversion from string: {_why(text, shown)}"
        ) from None


def _why(text: str, shown: str) -> str:
    head = f"ParseAddr({json.dumps(shown, ensure_ascii=False)}): "
    if "." in text and ":" not in text:
        return head + _why4(text)
    if ":" in text:
        return head + _why6(text)
    return f"{head}unable to parse IP"


def _why4(text: str) -> str:
    if (odd := re.search(r"[^0-9.]", text)) is not None:
        return f"unexpected character (at {json.dumps(text[odd.start() :])})"
    fields = text.split(".")
    at = 0
    for index, field in enumerate(fields[:4]):
        if not field:
            at -= index == len(fields) - 1
            return f"IPv4 field must have at least one digit (at {json.dumps(text[at:])})"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if int(field) > 255:
            return "IPv4 field has value >255"
        at += len(field) + 1
    return "IPv4 address too long" if len(fields) > 4 else "IPv4 address too short"


def _why6(text: str) -> str:
    if (odd := re.search(r"[^0-9a-fA-F:.]", text)) is not None:
        start = text.rfind(":", 0, odd.start()) + 1
        words = (
            "each colon-separated field must have at least one digit"
            if start == odd.start()
            else "unexpected character, want colon"
        )
        return f"{words} (at {json.dumps(text[odd.start() :])})"
    return "address string too short" if text.count(":") < 7 and "::" not in text else "trailing garbage after address"


def split(text: str) -> tuple[Address, int]:
    """Read `address/bits`; the address keeps its host bits."""
    at = text.rfind("/")
    quoted = json.dumps(text, ensure_ascii=False)
    if at < 0:
        raise BadAddress(f"{_PREFIX}{_PREFIX}netip.ParsePrefix({quoted}): no '/'")
    head, bits = text[:at], text[at + 1 :]
    try:
        found = ipaddress.ip_address(head)
    except ValueError:
        why = _why(head, head)
        raise BadAddress(f"{_PREFIX}{_PREFIX}netip.ParsePrefix({quoted}): {why}") from None
    if isinstance(found, IPv6Address) and found.scope_id is not None:
        raise BadAddress(f"{_PREFIX}{_PREFIX}netip.ParsePrefix({quoted}): IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]*", bits, re.ASCII):
        raise BadAddress(f"{_PREFIX}{_PREFIX}netip.ParsePrefix({quoted}): bad bits after slash: {json.dumps(bits)}")
    if int(bits) > found.max_prefixlen:
        raise BadAddress(f"{_PREFIX}{_PREFIX}netip.ParsePrefix({quoted}): prefix length out of range")
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        raise BadAddress(f"{_PREFIX}IPv4-mapped IPv6 address {quoted} is not allowed")
    return found, int(bits)


def network(text: str) -> str:
    """Read a network; return it in canonical form, host bits kept."""
    found, bits = split(text)
    return f"{found}/{bits}"


def masked(text: str) -> str:
    """Return a network without host bits."""
    return str(ipaddress.ip_network(text, strict=False))


def contains_ip(text: str, other: str) -> bool:
    """Tell whether a network contains an address."""
    return address(other) in ipaddress.ip_network(text, strict=False)


def contains_network(text: str, other: str) -> bool:
    """Tell whether a network contains another network."""
    outer, inner = (ipaddress.ip_network(one, strict=False) for one in (text, network(other)))
    return outer.version == inner.version and outer.overlaps(inner) and outer.prefixlen <= inner.prefixlen


def family(text: str) -> int:
    """Return 4 or 6."""
    return ipaddress.ip_address(text).version


def global_unicast(text: str) -> bool:
    """Tell whether an address is global unicast: the address of a single host, private addresses included."""
    found = ipaddress.ip_address(text)
    if found == IPv4Address("255.255.255.255"):
        return False
    return not (found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local)
