"""Expressions as trees, read from and written to the CEL library's protobuf encoding (cel.expr.ParsedExpr).

Guarantees: pure. `decode` reads the output of the library's parser, macros already expanded; `encode` writes bytes that the library
accepts. Positions are offsets in code points by expression id. The field numbers are those of cel-spec `proto/cel/expr/syntax.proto`; no
protobuf package is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from konverge_testing.apiserver.varints import varint

__all__ = [
    "CallExpr",
    "Comprehension",
    "Const",
    "MapEntry",
    "Expr",
    "Ident",
    "ListOf",
    "MapOf",
    "Parsed",
    "SelectExpr",
    "decode",
    "encode",
]

Tag: TypeAlias = Literal["null", "bool", "int", "uint", "double", "string", "bytes"]

_TAGS: Final[dict[int, Tag]] = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_NUMBERS: Final = {tag: number for number, tag in _TAGS.items()}
_URL: Final = b"type.googleapis.com/cel.expr.ParsedExpr"


@dataclass(slots=True)
class Const:
    """A literal."""

    id: int
    tag: Tag
    value: Any


@dataclass(slots=True)
class Ident:
    """A name."""

    id: int
    name: str


@dataclass(slots=True)
class SelectExpr:
    """`operand.field`, or `has(operand.field)` if `test` is set."""

    id: int
    operand: Expr
    field: str
    test: bool = False


@dataclass(slots=True)
class CallExpr:
    """A function or operator; `target` is the expression before the dot."""

    id: int
    target: Expr | None
    function: str
    args: list[Expr]


@dataclass(slots=True)
class ListOf:
    """A list literal."""

    id: int
    elements: list[Expr]
    optional: list[int] = field(default_factory=list)


@dataclass(slots=True)
class MapEntry:
    """An entry of a map or message literal: `name` in a message, `key` in a map."""

    id: int
    name: str
    key: Expr | None
    value: Expr
    optional: bool = False


@dataclass(slots=True)
class MapOf:
    """A map literal, or a message literal if `name` is not empty."""

    id: int
    name: str
    entries: list[MapEntry]


@dataclass(slots=True)
class Comprehension:
    """The expansion of the macros over lists and maps."""

    id: int
    variable: str
    second: str
    range: Expr
    accumulator: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


Expr: TypeAlias = Const | Ident | SelectExpr | CallExpr | ListOf | MapOf | Comprehension


@dataclass(slots=True)
class Parsed:
    """An expression, and the positions of its parts in the source."""

    expr: Expr
    positions: dict[int, int]


def decode(data: bytes) -> Parsed:
    """Read a serialized ParsedExpr, wrapped in an Any."""
    payload = next(value for number, value in _fields(data) if number == 2)
    expr: Expr | None = None
    positions: dict[int, int] = {}
    for number, value in _fields(payload):
        if number == 2:
            expr = _expr(value)
        elif number == 3:
            for inner, entry in _fields(value):
                if inner == 4:
                    pair = dict(_fields(entry))
                    positions[pair.get(1, 0)] = pair.get(2, 0)
    assert expr is not None
    return Parsed(expr, positions)


def encode(expr: Expr) -> bytes:
    """Write an expression as the library's `deserialize` reads it."""
    return _message((1, _URL), (2, _message((2, _put(expr)))))


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        match key & 7:
            case 0:
                value, at = varint(data, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case other:
                raise ValueError(f"wire type {other} in an expression")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _expr(data: bytes) -> Expr:
    id_ = 0
    kind, body = 0, b""
    for number, value in _fields(data):
        if number == 2:
            id_ = _signed(value)
        else:
            kind, body = number, value
    made: Expr = _READERS[kind](id_, body)
    return made


def _const(id_: int, data: bytes) -> Const:
    number, raw = next(_fields(data))
    tag = _TAGS[number]
    value: Any = raw
    match tag:
        case "null":
            value = None
        case "bool":
            value = bool(raw)
        case "int":
            value = _signed(raw)
        case "double":
            value = struct.unpack("<d", raw)[0]
        case "string":
            value = raw.decode()
        case _:
            pass
    return Const(id_, tag, value)


def _ident(id_: int, data: bytes) -> Ident:
    return Ident(id_, dict(_fields(data)).get(1, b"").decode())


def _select(id_: int, data: bytes) -> SelectExpr:
    found = dict(_fields(data))
    return SelectExpr(id_, _expr(found[1]), found[2].decode(), bool(found.get(3)))


def _call(id_: int, data: bytes) -> CallExpr:
    target: Expr | None = None
    function, args = "", []
    for number, value in _fields(data):
        if number == 1:
            target = _expr(value)
        elif number == 2:
            function = value.decode()
        else:
            args.append(_expr(value))
    return CallExpr(id_, target, function, args)


def _list(id_: int, data: bytes) -> ListOf:
    made = ListOf(id_, [])
    for number, value in _fields(data):
        if number == 1:
            made.elements.append(_expr(value))
        elif isinstance(value, int):
            made.optional.append(value)
        else:
            at = 0
            while at < len(value):
                index, at = varint(value, at)
                made.optional.append(index)
    return made


def _map(id_: int, data: bytes) -> MapOf:
    made = MapOf(id_, "", [])
    for number, value in _fields(data):
        if number == 1:
            made.name = value.decode()
        else:
            made.entries.append(_entry(value))
    return made


def _entry(data: bytes) -> MapEntry:
    found = dict(_fields(data))
    key = _expr(found[3]) if 3 in found else None
    return MapEntry(found.get(1, 0), found.get(2, b"").decode(), key, _expr(found[4]), bool(found.get(5)))


def _comprehension(id_: int, data: bytes) -> Comprehension:
    found = dict(_fields(data))
    names = [found.get(number, b"").decode() for number in (1, 8, 3)]
    start, condition, step, result = (_expr(found[number]) for number in (4, 5, 6, 7))
    return Comprehension(id_, names[0], names[1], _expr(found[2]), names[2], start, condition, step, result)


_READERS: Final[dict[int, Any]] = {
    3: _const,
    4: _ident,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(*fields: tuple[int, Any]) -> bytes:
    """Write fields: an int or bool as a varint, a float as eight bytes, text and bytes with their length; None is left out."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, int):
            out += _number(number << 3) + _number(int(value))
        elif isinstance(value, float):
            out += _number(number << 3 | 1) + struct.pack("<d", value)
        else:
            data = value.encode() if isinstance(value, str) else bytes(value)
            out += _number(number << 3 | 2) + _number(len(data)) + data
    return bytes(out)


def _put(expr: Expr) -> bytes:
    match expr:
        case Const(_, tag, value):
            body = (3, _message((_NUMBERS[tag], 0 if value is None else value)))
        case Ident(_, name):
            body = (4, _message((1, name)))
        case SelectExpr(_, operand, name, test):
            body = (5, _message((1, _put(operand)), (2, name), (3, test or None)))
        case CallExpr(_, target, function, args):
            head = (1, _put(target)) if target is not None else (1, None)
            body = (6, _message(head, (2, function), *((3, _put(arg)) for arg in args)))
        case ListOf(_, elements, optional):
            packed = b"".join(_number(index) for index in optional) or None
            body = (7, _message(*((1, _put(element)) for element in elements), (2, packed)))
        case MapOf(_, name, entries):
            body = (8, _message((1, name or None), *((2, _put_entry(entry)) for entry in entries)))
        case Comprehension() as loop:
            names = ((1, loop.variable), (8, loop.second or None), (3, loop.accumulator))
            parts = ((2, loop.range), (4, loop.start), (5, loop.condition), (6, loop.step), (7, loop.result))
            body = (9, _message(*names, *((number, _put(part)) for number, part in parts)))
    return _message((2, expr.id), body)


def _put_entry(entry: MapEntry) -> bytes:
    key = _put(entry.key) if entry.key is not None else None
    return _message(
        (1, entry.id), (2, entry.name or None), (3, key), (4, _put(entry.value)), (5, entry.optional or None)
    )
