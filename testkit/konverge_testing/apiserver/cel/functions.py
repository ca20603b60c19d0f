"""Kubernetes' own functions, for the CEL library to call.

Guarantees: pure functions over plain values. Values of types that Kubernetes has and the library lacks (quantities, addresses, URLs,
versions, formats) are passed through rules as a map with one entry, the type's name, whose value is in canonical form: equal things are
equal maps. Every exception becomes an error of the rule, and its text is the server's message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from math import inf
from typing import Any, Final

from konverge_testing.apiserver.cel import (
    authorizing,
    formats,
    network,
    patterns,
    quantities,
    templates,
    urls,
    versions,
)
from konverge_testing.apiserver.cel.values import spelled

__all__ = ["FUNCTIONS"]

Value = Any

_QUANTITY: Final = "kubernetes.Quantity"
_URL: Final = "kubernetes.URL"
_SEMVER: Final = "kubernetes.Semver"
_FORMAT: Final = "kubernetes.NamedFormat"
_IP: Final = "net.IP"
_CIDR: Final = "net.CIDR"
_NO_OVERLOAD: Final = "no such overload"
_MOST: Final = 1 << 63


def _content_of(value: Value, name: str) -> Value:
    """Return the content of a value of our own type."""
    if not isinstance(value, dict) or name not in value:
        raise TypeError(_NO_OVERLOAD)
    return value[name]


def _valid(read: Callable[..., object], errors: type[Exception]) -> Callable[..., bool]:
    def valid(*args: Value) -> bool:
        try:
            read(*args)
        except errors:
            return False
        return True

    return valid


# strings


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise IndexError(f"index out of range: {at}")
    return text[at : at + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise IndexError(f"invalid substring range. start: {start}, end: {end}")
    for at in (start,) if end is None else (start, end):
        if not 0 <= at <= len(text):
            raise IndexError(f"index out of range: {at}")
    return text[start:end]


# quantities


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: quantities.parse(text)}


def _worth(value: Value) -> Fraction:
    return quantities.worth(_content_of(value, _QUANTITY))


def _approximate(amount: Fraction) -> float:
    try:
        return float(amount)
    except OverflowError:  # Go multiplies by a power of ten, which is infinite from 10^309 on
        return inf if amount > 0 else -inf


def _amount(value: Value) -> Fraction:
    return Fraction(value) if isinstance(value, int) else _worth(value)


def _as_integer(value: Value) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(_worth(value))


def _is_integer(value: Value) -> bool:
    text = str(_content_of(value, _QUANTITY))
    return "/" not in text and not text.endswith("!")


def _sum_of(value: Value, other: Value, sign: int) -> dict[str, str]:
    total = _worth(value) + sign * _amount(other)
    return {_QUANTITY: quantities.spelled(total, whole=abs(total) < _MOST)}


def _compare(value: Value, other: Value) -> int:
    if isinstance(value, dict) and _SEMVER in value:
        one, two = (versions.parse(_content_of(side, _SEMVER)) for side in (value, other))
        return (one > two) - (one < two)
    first, second = _worth(value), _worth(other)
    return (first > second) - (first < second)


# lists


def _items(values: Value) -> list[Value]:
    if not isinstance(values, list):
        raise TypeError(_NO_OVERLOAD)
    return values


def _order(one: Value, two: Value) -> int:
    comparable = type(one) is type(two) or all(
        isinstance(side, (int, float)) and not isinstance(side, bool) for side in (one, two)
    )
    if not comparable or isinstance(one, (dict, list)) or one is None:
        raise TypeError(_NO_OVERLOAD)
    first, second = (side.encode() if isinstance(side, str) else side for side in (one, two))
    return (first > second) - (first < second)


def _is_sorted(values: Value) -> bool:
    return all(_order(one, two) <= 0 for one, two in pairwise(_items(values)))


def _total(values: Value) -> Value:
    items = _items(values)
    if not items:
        return 0
    total = sum(items, start=timedelta() if isinstance(items[0], timedelta) else type(items[0])())
    if isinstance(total, int) and not -_MOST <= total < _MOST:
        raise OverflowError("integer overflow")
    return total


def _extreme(name: str, pick: Callable[..., Value]) -> Callable[[Value], Value]:
    def extreme(values: Value) -> Value:
        if not _items(values):
            raise ValueError(f"{name} called on empty list")
        return pick(values, key=cmp_to_key(_order))

    return extreme


def _same_kind(one: Value, two: Value) -> bool:
    """Whether CEL considers two plain values equal: true is not 1."""
    return isinstance(one, bool) == isinstance(two, bool) and bool(one == two)


def _index(values: Value, item: Value, start: int | None = None) -> int:
    if isinstance(values, str):
        return values.find(item, start or 0)
    return next((at for at, one in enumerate(_items(values)) if _same_kind(one, item)), -1)


def _last_index(values: Value, item: Value, start: int | None = None) -> int:
    if isinstance(values, str):
        return values.rfind(item) if start is None else values.rfind(item, 0, start + len(item))
    return max((at for at, one in enumerate(_items(values)) if _same_kind(one, item)), default=-1)


# lists with their own equality: sets, and maps by their keys


def _identity(item: Value, keys: Sequence[str]) -> object:
    return tuple(item.get(key) for key in keys) if keys and isinstance(item, dict) else (type(item) is bool, item)


def _same(one: Value, two: Value, keys: str) -> bool:
    names = keys.split(",") if keys else []
    if not isinstance(one, list) or not isinstance(two, list) or len(one) != len(two):
        return False
    known = {_identity(item, names): item for item in one}
    return all(_same_kind(known.get(_identity(item, names)), item) for item in two)


def _union(one: Value, two: Value, keys: str) -> list[Value]:
    names = keys.split(",") if keys else []
    found = {_identity(item, names): item for item in _items(one)}
    found.update((_identity(item, names), item) for item in _items(two))
    return list(found.values())


def _map_insert(into: Mapping[Value, Value], *more: Value) -> dict[Value, Value]:
    added = {more[0]: more[1]} if len(more) == 2 else dict(more[0])
    for key in added:
        if key in into:
            raise ValueError(f"insert failed: key {key} already exists")
    return {**into, **added}


# addresses, URLs, formats


def _ip(value: Value) -> dict[str, str]:
    if isinstance(value, dict):
        return {_IP: str(network.split(_content_of(value, _CIDR))[0])}
    return {_IP: str(network.address(value))}


def _ip_is(name: str) -> Callable[[Value], bool]:
    return lambda value: bool(getattr(network.address(_content_of(value, _IP)), name))


def _link_local(value: Value, *, multicast: bool) -> bool:
    found = network.address(_content_of(value, _IP))
    if not multicast:
        return found.is_link_local
    return (
        str(found).startswith("224.0.0.")
        if found.version == 4
        else found.packed[0] == 0xFF and found.packed[1] & 0xF == 2
    )


def _contains_ip(value: Value, other: Value) -> bool:
    return network.contains_ip(_content_of(value, _CIDR), other if isinstance(other, str) else _content_of(other, _IP))


def _contains_cidr(value: Value, other: Value) -> bool:
    return network.contains_network(
        _content_of(value, _CIDR), other if isinstance(other, str) else _content_of(other, _CIDR)
    )


def _url(text: str) -> dict[str, str]:
    try:
        urls.parse(text)
    except urls.BadURL as bad:
        raise ValueError(f"URL parse error during conversion from string: {bad}") from None
    return {_URL: text}


def _url_part(name: str) -> Callable[[Value], Value]:
    return lambda value: getattr(urls.parse(_content_of(value, _URL)), name)


def _string(value: Value) -> str:
    return str(value.get(_IP) or value.get(_CIDR))


def _format(name: str) -> Callable[[], dict[str, str]]:
    return lambda: {_FORMAT: name}


def _version_part(name: str) -> Callable[[Value], int]:
    return lambda value: int(getattr(versions.parse(_content_of(value, _SEMVER)), name))


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "charAt": _char_at,
    "format": templates.format_text,
    "substring": _substring,
    "quantity": _quantity,
    "isQuantity": _valid(_quantity, quantities.BadQuantity),
    "sign": lambda value: (_worth(value) > 0) - (_worth(value) < 0),
    "isGreaterThan": lambda value, other: _compare(value, other) > 0,
    "isLessThan": lambda value, other: _compare(value, other) < 0,
    "compareTo": _compare,
    "asApproximateFloat": lambda value: _approximate(_worth(value)),
    "asInteger": _as_integer,
    "isInteger": _is_integer,
    "add": lambda value, other: _sum_of(value, other, 1),
    "sub": lambda value, other: _sum_of(value, other, -1),
    "isSorted": _is_sorted,
    "sum": _total,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "indexOf": _index,
    "lastIndexOf": _last_index,
    "same": _same,
    "spelled": spelled,
    "union": _union,
    "mapInsert": _map_insert,
    "find": patterns.find,
    "findAll": patterns.find_all,
    "ip": _ip,
    "isIP": _valid(network.address, network.BadAddress),
    "ip.isCanonical": lambda text: str(network.address(text)) == text,
    "family": lambda value: network.family(_content_of(value, _IP)),
    "isUnspecified": _ip_is("is_unspecified"),
    "isLoopback": _ip_is("is_loopback"),
    "isLinkLocalMulticast": lambda value: _link_local(value, multicast=True),
    "isLinkLocalUnicast": lambda value: _link_local(value, multicast=False),
    "isGlobalUnicast": lambda value: network.global_unicast(_content_of(value, _IP)),
    "string": _string,
    "cidr": lambda text: {_CIDR: network.network(text)},
    "isCIDR": _valid(network.network, network.BadAddress),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: network.split(_content_of(value, _CIDR))[1],
    "masked": lambda value: {_CIDR: network.masked(_content_of(value, _CIDR))},
    "url": _url,
    "isURL": _valid(urls.parse, urls.BadURL),
    "getScheme": _url_part("scheme"),
    "getHost": _url_part("host"),
    "getHostname": _url_part("hostname"),
    "getPort": _url_part("port"),
    "getEscapedPath": _url_part("escaped_path"),
    "getQuery": _url_part("values"),
    "semver": lambda text, *normalize: {_SEMVER: str(versions.parse(text, *normalize))},
    "isSemver": _valid(versions.parse, versions.BadVersion),
    "major": _version_part("major"),
    "minor": _version_part("minor"),
    "patch": _version_part("patch"),
    "validate": lambda value, text: formats.validate(_content_of(value, _FORMAT), text),
    "format.named": lambda name: {_FORMAT: name} if name in formats.CHECKS else {},
    **{f"format.{name}": _format(name) for name in formats.CHECKS},
    **authorizing.FUNCTIONS,
}
"""Our functions by their names in rules, and the internal functions of the rewriter: `same`, `spelled`, `union`, `mapInsert`."""
