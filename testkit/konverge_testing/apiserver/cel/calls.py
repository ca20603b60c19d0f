"""The estimated cost of one call: of the language, of its extensions, and of Kubernetes' own functions.

Guarantees: pure. Follows cel-go `checker/cost.go` and `ext/{sets,lists}.go` (0.26), k8s.io/apiserver `pkg/cel/library/cost.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from konverge_testing.apiserver.cel.kinds import CelType
from konverge_testing.apiserver.cel.ranges import MOST, ONE, TRAVERSAL, UNKNOWN, Range, fixed, times, total
from konverge_testing.apiserver.cel.signatures import Overload
from konverge_testing.apiserver.cel.syntax import Const, Expr

__all__ = ["LIST_COST", "Cost", "Value", "core", "kubernetes"]

_PATTERN: Final = 0.25
LIST_COST: Final = 10
"""The cost of a new list."""
_FORMAT_PATTERN: Final = 128
_LONGEST_FORMAT: Final = 64
_ADDRESS: Final = Range(4, 16)
"""The bytes of an IP address."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """An operand of a call."""

    expr: Expr
    kind: CelType
    path: Path
    known: Range | None

    @property
    def size(self) -> Range:
        """The size, or the range of possible sizes."""
        return UNKNOWN if self.known is None else self.known


class Cost(NamedTuple):
    """The cost of a call, and the size of its result if known."""

    cost: Range
    size: Range | None = None


def core(
    function: str, overload: Overload, target: Value | None, args: Sequence[Value], costs: Sequence[Range]
) -> Cost:
    """Return the cost of a function of the language itself."""
    first, others = overload.args[0].kind if overload.args else "", total(costs)
    match function:
        case "format" if target is not None:
            return Cost(target.size.scaled(TRAVERSAL).plus(others))
        case "bytes" if first == "string":
            size = args[0].size
            return Cost(size.scaled(TRAVERSAL).plus(others), Range(size.least, times(size.most, 4)))
        case "string" if first == "bytes":
            size = args[0].size
            return Cost(size.scaled(TRAVERSAL).plus(others), Range(size.least // 4, size.most))
        case "strings.quote":
            size = args[0].size
            return Cost(size.scaled(TRAVERSAL).plus(others), Range(size.least + 2, min(times(size.most, 2) + 2, MOST)))
        case "startsWith" | "endsWith":
            return Cost(args[0].size.scaled(TRAVERSAL).plus(others))
        case "@in" | "in" if overload.args[1].kind == "list":
            return Cost(args[1].size.plus(others))
        case "matches" if target is not None:
            text = target.size.plus(ONE).scaled(TRAVERSAL)
            return Cost(text.times(args[0].size.scaled(_PATTERN)).plus(others))
        case "contains" if target is not None:
            text = target.size.scaled(TRAVERSAL)
            return Cost(text.times(args[0].size.scaled(TRAVERSAL)).plus(others))
        case "_==_" | "_!=_":
            return Cost(_compared(args).plus(others))
        case "_<_" | "_<=_" | "_>_" | "_>=_" if overload.args[0] == overload.args[1] and first in ("string", "bytes"):
            return Cost(_compared(args).plus(others))
        case _:
            return Cost(ONE.plus(others))


def _compared(args: Sequence[Value]) -> Range:
    most = min(args[0].size.most, args[1].size.most)
    return Range(1 if most else 0, most).scaled(TRAVERSAL)


_ACCESSORS: Final = (
    "masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast format.named",
    "sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch",
    "getScheme getHostname getHost getPort getEscapedPath getQuery",
)
_NOMINAL: Final = frozenset(name for line in _ACCESSORS for name in line.split())
_PARSED: Final = frozenset(["cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"])
_SETS: Final = {"sets.contains": 1.0, "sets.intersects": 1.0, "sets.equivalent": 2.0}
_ELEMENTWISE: Final = frozenset(["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"])


def kubernetes(
    function: str,
    overload: Overload,
    target: Value | None,
    args: Sequence[Value],
    element_size: Callable[[Value], Range],
) -> Cost | None:
    """Return the cost of a function of an extension or of Kubernetes, without its arguments; None for others."""
    if function in _SETS:
        return Cost(args[0].size.times(args[1].size).scaled(_SETS[function]).plus(ONE))
    if function in _NOMINAL:
        return Cost(ONE)
    if function in _PARSED and args:
        return Cost(args[0].size.scaled(TRAVERSAL))
    if function in _ELEMENTWISE and target is not None:
        return _elementwise(target, element_size)
    if function == "_==_" and args[0].kind == args[1].kind:
        if args[0].kind.name == "kubernetes.URL":  # both sizes are the right operand's in the original too
            return Cost(Range(1, (args[1].known or ONE).most).scaled(TRAVERSAL))
        return _EQUAL.get(args[0].kind.name)
    made = _LISTS.get(function) or _TEXTS.get(function)
    return None if made is None else made(overload, target, args, element_size)


_EQUAL: Final[Mapping[str, Cost]] = {
    **{name: Cost(ONE) for name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver")},
    "kubernetes.NamedFormat": Cost(Range(1, _LONGEST_FORMAT).scaled(TRAVERSAL)),
}


def _elementwise(target: Value, element_size: Callable[[Value], Range]) -> Cost:
    if not target.kind.params:
        return Cost(target.size.scaled(TRAVERSAL))
    each = ONE
    if target.kind.params[0].kind in ("string", "bytes"):
        each = each.plus(element_size(target).scaled(TRAVERSAL))
    return Cost(target.size.times(each))


_Maker = Callable[[Overload, Value | None, Sequence[Value], Callable[[Value], Range]], Cost | None]


def _allocated(factor: float, size: Range) -> Cost:
    return Cost(size.scaled(factor).plus(ONE).plus(fixed(LIST_COST)), size)


def _whole(value: Value, default: int) -> int:
    expr = value.expr
    return max(int(expr.value), 0) if isinstance(expr, Const) and expr.tag == "int" else default


def _slice(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    if target is None:
        return None
    count = (_whole(args[1], target.size.most) - _whole(args[0], 0)) & MOST
    return _allocated(1, fixed(count))


def _range(_: Overload, __: Value | None, args: Sequence[Value], ___: object) -> Cost:
    return _allocated(1, fixed(_whole(args[0], MOST)))


def _reverse(_: Overload, target: Value | None, __: Sequence[Value], ___: object) -> Cost | None:
    return None if target is None else _allocated(1, target.size)


def _flatten(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    return None if target is None else _allocated(float(_whole(args[0], MOST)) if args else 1.0, target.size)


def _distinct(_: Overload, target: Value | None, __: Sequence[Value], ___: object) -> Cost | None:
    return None if target is None else _allocated(2, target.size.times(target.size))


def _sorted(overload: Overload, target: Value | None, args: Sequence[Value], _: object) -> Cost | None:
    by = args[0] if args else target
    if by is None:
        return None
    text = overload.args[-1].params[0].kind in ("string", "bytes")
    return _allocated(2 + (TRAVERSAL if text else 0), by.size.times(by.size))


_LISTS: Final[Mapping[str, _Maker]] = {
    "slice": _slice,
    "lists.range": _range,
    "reverse": _reverse,
    "flatten": _flatten,
    "distinct": _distinct,
    "sort": _sorted,
    "@sortByAssociatedKeys": _sorted,
}


def _traversed(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    value = target or (args[0] if args else None)
    return None if value is None else Cost(value.size.scaled(TRAVERSAL), value.size)


def _replace(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    if target is None:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    if old.least == 0:
        most, kept_most = min(size.most + 1, MOST), size.most
    elif new.most <= old.least:
        most, kept_most = 0, size.most
    else:
        most, kept_most = min(math.ceil(float(size.most) / float(old.least)), MOST), 0
    if old.most == 0:
        least, kept_least = min(size.least + 1, MOST), size.least
    elif old.most <= new.least:
        least, kept_least = 0, size.least
    else:
        least, kept_least = math.ceil(float(size.least) / float(old.most)), 0
    made = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return Cost(size.scaled(2 * TRAVERSAL), made)


def _split(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1 and isinstance(args[1].expr, Const) and args[1].expr.tag == "int":
        most = args[1].expr.value & MOST
    return Cost(target.size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(
    _: Overload, target: Value | None, args: Sequence[Value], element_size: Callable[[Value], Range]
) -> Cost | None:
    if target is None:
        return None
    count = target.size
    size = count.times(element_size(target)) if target.kind.params else fixed(0)
    if args:
        between = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(args[0].size.times(between))
    return Cost(size.scaled(TRAVERSAL), size)


def _find(_: Overload, target: Value | None, args: Sequence[Value], __: object) -> Cost | None:
    if target is None:
        return None
    text = target.size.plus(ONE).scaled(TRAVERSAL)
    return Cost(text.times(args[0].size.scaled(_PATTERN)), Range(0, target.size.most))


def _canonical(_: Overload, __: Value | None, args: Sequence[Value], ___: object) -> Cost:
    return Cost(args[0].size.scaled(2 * TRAVERSAL))


def _contains_ip(overload: Overload, _: Value | None, args: Sequence[Value], __: object) -> Cost:
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL)
    return Cost(cost.plus(args[0].size.scaled(TRAVERSAL)) if overload.args[1].kind == "string" else cost)


def _contains_cidr(overload: Overload, _: Value | None, args: Sequence[Value], __: object) -> Cost:
    cost = _ADDRESS.plus(_ADDRESS).scaled(TRAVERSAL).plus(_ADDRESS.scaled(TRAVERSAL)).plus(ONE)
    return Cost(cost.plus(args[0].size.scaled(TRAVERSAL)) if overload.args[1].kind == "string" else cost)


def _validate(_: Overload, __: Value | None, args: Sequence[Value], ___: object) -> Cost:
    return Cost(args[0].size.scaled(TRAVERSAL).scaled(_FORMAT_PATTERN * _PATTERN))


def _member_ip(_: Overload, target: Value | None, __: Sequence[Value], ___: object) -> Cost | None:
    return None if target is None else Cost(ONE)


_TEXTS: Final[Mapping[str, _Maker]] = {
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _traversed),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _member_ip,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
}
