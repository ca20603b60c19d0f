"""Data for rules: reduced to the read parts, names escaped, numbers, times and bytes typed by the schema.

Guarantees: pure; the given data is never changed, and passed unchanged if nothing needs conversion. Follows k8s.io/apiserver
`pkg/cel/common/valuesunstructured.go`: a null field of an object is absent, a number is a double, formats make timestamps, durations (both
as text, to be read again by the rewritten rule; kept to microseconds) and bytes. Equality of lists that merge needs `aligned`, which sorts
an old list like the new list.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.cel.escaping import escape
from konverge_testing.apiserver.cel.kinds import rooted
from konverge_testing.apiserver.cel.reads import EACH, THERE, tree_of
from konverge_testing.apiserver.nodes import Node

__all__ = ["BadData", "aligned", "duration", "key_of", "merges", "merging", "reader", "spelled"]

Reader: TypeAlias = Callable[[Any], Any]

_GO: Final = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[-+]?0", re.ASCII)
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LOOSE: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LOOSE_SECONDS: Final = (
    (("ns", "nano"), 1e-9),
    (("us", "µs", "micro"), 1e-6),
    (("ms", "milli"), 1e-3),
    (("s", "sec"), 1.0),
    (("m", "min"), 60.0),
    (("h", "hr", "hour"), 3600.0),
    (("d", "day"), 86400.0),
    (("w", "wk", "week"), 604800.0),
)


class BadData(ValueError):
    """Data that does not fit its schema; the message is the server's."""


def duration(text: str, *, go: bool = False) -> timedelta | None:
    """Read a duration as Go does, or as the OpenAPI format does, with days and unit names; None for an invalid duration.

    >>> duration("1h30m"), duration("2 days"), duration("2 days", go=True)
    (datetime.timedelta(seconds=5400), datetime.timedelta(days=2), None)
    """
    if _GO.fullmatch(text):
        seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
        return timedelta(seconds=-seconds if text[0] == "-" else seconds)
    if go:
        return None
    parts = [
        int(amount) * factor
        for amount, unit in _LOOSE.findall(text)
        for variants, factor in _LOOSE_SECONDS
        if unit.lower() in variants or unit.lower().startswith(variants[-1])
    ]
    return timedelta(seconds=sum(parts)) if parts else None


def spelled(value: datetime | timedelta) -> str:
    """Write a time or a duration as text for rules, which parse it again.

    >>> spelled(timedelta(minutes=-90)), spelled(datetime(2024, 1, 1, tzinfo=UTC))
    ('-5400s', '2024-01-01T00:00:00Z')
    """
    if isinstance(value, datetime):
        head, point, fraction = value.astimezone(UTC).isoformat().removesuffix("+00:00").partition(".")
        return f"{head}{point}{fraction.rstrip('0')}Z"
    micros = value // timedelta(microseconds=1)
    whole, rest = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{whole}{f'.{rest:06}'.rstrip('0') if rest else ''}s"


def _duration(text: Any) -> str:
    found = duration(text) if isinstance(text, str) else None
    if found is None:
        raise BadData(f"Invalid duration {text}: unable to parse {text} as duration")
    return spelled(found)


def _time(text: Any) -> str:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadData(f"Invalid date-time formatted string {text}") from None
    try:
        return spelled(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except OverflowError:  # the year in UTC is 0 or 10000, which Go supports and datetime does not
        return spelled(found.replace(tzinfo=UTC))


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, binascii.Error):
        raise BadData(f"Invalid byte formatted string {text}") from None


def _double(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_FORMATS: Final[Mapping[str, Reader]] = {"date": _time, "date-time": _time, "duration": _duration, "byte": _bytes}


def reader(node: Node, paths: Iterable[tuple[str, ...]], *, root: bool = False) -> Reader:
    """Return the converter of a place's value for rules that read these paths below it."""
    found = _projection(rooted(node) if root else node, tree_of(paths))
    return _identity if found is None else found


def _identity(value: Any) -> Any:
    return value


def _present(value: Any) -> Any:
    """Return a substitute for a value if only its presence counts."""
    return value.__class__() if isinstance(value, (dict, list)) else value


def _projection(node: Node, tree: Mapping[str, Any]) -> Reader | None:
    if not tree or "" in tree:
        return _converter_of(node)
    tree = {name: below for name, below in tree.items() if name != THERE}
    if not tree:
        return _present
    if node.type == "array" and node.items is not None and tree.keys() == {EACH}:
        return _items(_projection(_rooted(node.items), tree[EACH]))
    if node.type != "object" or EACH in tree:
        return _converter_of(node)
    if isinstance(node.schema.get("additionalProperties"), Mapping):
        assert node.additional is not None
        picks = [(name, name, _projection(node.additional, below), True) for name, below in tree.items()]
    else:
        named = {escape(name): (name, child) for name, child in node.properties.items()}
        picks = [
            (named[name][0], name, _projection(_rooted(named[name][1]), below), False)
            for name, below in tree.items()
            if name in named
        ]
    return _picker(picks)


def _items(each: Reader | None) -> Reader | None:
    """Return the converter of a list for rules that read parts of its items."""
    if each is None:
        return None

    def pick(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [one if one is None else each(one) for one in value]

    return pick


def _rooted(node: Node) -> Node:
    return rooted(node) if node.embedded else node


def _picker(picks: list[tuple[str, str, Reader | None, bool]]) -> Reader:
    def pick(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {}
        for source, name, convert, nulls in picks:
            if source in value and ((one := value[source]) is not None or nulls):
                made[name] = one if convert is None or one is None else convert(one)
        return made

    return pick


def _converter_of(node: Node) -> Reader | None:
    """Return the converter of everything at a place, or None if it needs no conversion."""
    if node.int_or_string:
        return None
    match node.type:
        case "string":
            return _FORMATS.get(str(node.schema.get("format", "")))
        case "number":
            return _double
        case "array":
            return _items(_converter_of(node.items) if node.items is not None else None)
        case "object" if isinstance(node.schema.get("additionalProperties"), Mapping):
            assert node.additional is not None
            every = _converter_of(node.additional)
            if every is None:
                return None
            return lambda value: {name: one if one is None else every(one) for name, one in value.items()}
        case "object":
            return _struct(node)
        case _:
            return None


def _struct(node: Node) -> Reader | None:
    known = {name: (escape(name) or name, _converter_of(child)) for name, child in node.properties.items()}
    plain = all(name == escaped and convert is None for name, (escaped, convert) in known.items())
    if plain and not any(child.nullable for child in node.properties.values()):
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {}
        for name, one in value.items():
            escaped, change = known.get(name, (name, None))
            if one is not None:
                made[escaped] = one if change is None else change(one)
        return made

    return convert


@lru_cache(maxsize=4096)
def merges(node: Node) -> bool:
    """Tell whether this place or any place below is a list of type set or map."""
    if node.type == "array":
        return node.list_type != "atomic" or (node.items is not None and merges(node.items))
    below = [*node.properties.values(), *([node.additional] if node.additional is not None else [])]
    return node.type == "object" and any(merges(child) for child in below)


def merging(node: Node, paths: Iterable[tuple[str, ...]], *, root: bool = False) -> bool:
    """Tell whether these paths read a list of type set or map."""
    return any(_merging(rooted(node) if root else node, path) for path in paths)


def _merging(node: Node, path: tuple[str, ...]) -> bool:
    for name in path:
        if name in (EACH, THERE):
            return False  # no list is compared as a whole here
        found = node.additional or next((child for key, child in node.properties.items() if escape(key) == name), None)
        if found is None:
            return False
        node = found
    return merges(node)


def key_of(node: Node, item: Any) -> object | None:
    """Return the identity of an item of a list that is a map; None if the item lacks a key."""
    if not isinstance(item, dict):
        return None
    found = [item.get(name) for name in node.list_keys]
    if any(value is None or isinstance(value, (dict, list)) for value in found):
        return None
    return tuple((isinstance(value, bool), value) for value in found)


def aligned(node: Node, old: Any, new: Any) -> Any:
    """Return the old value with the items of its sets and maps sorted like the new value, so that equal lists compare equal."""
    if old == new:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        changed = dict(old)
        for name, value in old.items():
            child = node.child(name)
            if child is not None and name in new and merges(child):
                changed[name] = aligned(child, value, new[name])
        return changed
    if isinstance(old, list) and isinstance(new, list) and node.list_type != "atomic":
        return _ordered(node, old, new)
    return old


def _ordered(node: Node, old: list[Any], new: list[Any]) -> list[Any]:
    def identity(item: Any) -> object:
        return key_of(node, item) if node.list_type == "map" else (isinstance(item, bool), item)

    try:
        known = {identity(item): item for item in old}
        order = [identity(item) for item in new]
    except TypeError:
        return old
    if len(known) != len(old) or None in known:
        return old
    pairs = zip(order, new, strict=True)
    below = node.items or node
    first = [aligned(below, known.pop(key), item) for key, item in pairs if key in known]
    return [*first, *known.values()]
