"""Static types of expressions: the types that a schema declares to CEL, and the assignability of types.

Guarantees: pure. `declared` follows k8s.io/apiserver `pkg/cel/common/schemas.go`: places of unknown type are not declared at all, an
int-or-string is dynamic, strings of format date, date-time, duration and byte have types of their own, nullable changes nothing. The rules
of assignability are those of cel-go `checker/types.go`. The sizes of values are in `sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from konverge_testing.apiserver.cel.escaping import escape
from konverge_testing.apiserver.nodes import Node

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "CelType",
    "Unifier",
    "declared",
    "list_of",
    "map_of",
    "opaque",
    "optional_of",
    "param",
    "rooted",
    "struct",
    "type_of",
    "unwrapped",
]


@dataclass(frozen=True, slots=True)
class CelType:
    """A type: `kind` is its sort, `name` distinguishes structs, opaques and type parameters.

    >>> str(map_of(STRING, list_of(INT)))
    'map(string, list(int))'
    """

    kind: str
    params: tuple[CelType, ...] = ()
    name: str = ""
    fields: Mapping[str, CelType] = field(default_factory=dict, compare=False, repr=False)
    keys: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """For a list that is a set: (); for a list that is a map: its keys; None if the order counts."""

    def __str__(self) -> str:
        if self.kind == "error":
            return "!error!"
        name = self.name or self.kind
        return f"{name}({', '.join(map(str, self.params))})" if self.params else name

    @property
    def loose(self) -> bool:
        """Whether the type fits any other: dyn, or the type of an expression with an error."""
        return self.kind in ("dyn", "error")


BOOL: Final = CelType("bool")
BYTES: Final = CelType("bytes")
DOUBLE: Final = CelType("double")
DURATION: Final = CelType("duration")
DYN: Final = CelType("dyn")
ERROR: Final = CelType("error")
INT: Final = CelType("int")
NULL: Final = CelType("null")
STRING: Final = CelType("string")
TIMESTAMP: Final = CelType("timestamp")
UINT: Final = CelType("uint")


def list_of(item: CelType, keys: tuple[str, ...] | None = None) -> CelType:
    """A list."""
    return CelType("list", (item,), keys=keys)


def map_of(key: CelType, value: CelType) -> CelType:
    """A map."""
    return CelType("map", (key, value))


def type_of(kind: CelType) -> CelType:
    """The type of a type."""
    return CelType("type", (kind,))


def opaque(name: str, *params: CelType) -> CelType:
    """An opaque type, which only functions can read."""
    return CelType("opaque", params, name)


def optional_of(kind: CelType) -> CelType:
    """A value that may be absent."""
    return opaque("optional_type", kind)


def struct(name: str, fields: Mapping[str, CelType] | None = None) -> CelType:
    """An object with named fields."""
    return CelType("struct", (), name, fields or {})


def param(name: str) -> CelType:
    """A type parameter of an overload."""
    return CelType("param", (), name)


def unwrapped(kind: CelType) -> tuple[CelType, bool]:
    """Return the type inside an optional, and whether the type is optional."""
    return (kind.params[0], True) if kind.kind == "opaque" and kind.name == "optional_type" else (kind, False)


_FORMATS: Final = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_SCALARS: Final = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_META: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
_TYPE_META: Final = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": _META}


def rooted(node: Node) -> Node:
    """Return the schema of a whole object, with apiVersion, kind and the two fields of metadata that rules can always read."""
    schema = node.schema
    return Node({**schema, "properties": {**(schema.get("properties") or {}), **_TYPE_META}}, node.definitions)


def declared(node: Node, name: str, root: bool = False) -> CelType | None:
    """Return the type of a place in rules, or None if rules cannot read it. `name` is the name of structs."""
    if node.int_or_string:
        return DYN
    if root:
        node = rooted(node)
    match node.type:
        case "array":
            return _list(node, name)
        case "object" if isinstance(node.schema.get("additionalProperties"), Mapping):
            return _map(node, name)
        case "object":
            found = {}
            for key, child in node.properties.items():
                escaped = escape(key)
                if escaped is not None and (kind := declared(child, f"{name}.{escaped}", child.embedded)) is not None:
                    found[escaped] = kind
            return struct(name, found)
        case "string":
            return _FORMATS.get(str(node.schema.get("format", "")), STRING)
        case other:
            return _SCALARS.get(other)


def _list(node: Node, name: str) -> CelType | None:
    if node.items is None:
        return None
    item = declared(node.items, f"{name}.@idx", node.items.embedded)
    keys = {"atomic": None, "set": (), "map": node.list_keys}[node.list_type]
    return None if item is None else list_of(item, keys)


def _map(node: Node, name: str) -> CelType | None:
    child = node.additional
    assert child is not None
    value = declared(child, f"{name}.@elem", child.embedded)
    return None if value is None else map_of(STRING, value)


class Unifier:
    """Type parameters and their current substitutions."""

    def __init__(self) -> None:
        self._known: dict[CelType, CelType] = {}
        self._count = 0

    def fresh(self) -> CelType:
        """Return a new type parameter."""
        self._count += 1
        return param(f"_var{self._count - 1}")

    def fits(self, given: Sequence[CelType], wanted: Sequence[CelType]) -> bool:
        """Tell whether all pairs of types are assignable; their substitutions are kept only in that case."""
        before = dict(self._known)
        if len(given) == len(wanted) and all(self._assignable(a, b) for a, b in zip(given, wanted, strict=True)):
            return True
        self._known = before
        return False

    def resolve(self, kind: CelType, *, final: bool = False) -> CelType:
        """Substitute type parameters; at the end (`final`), unknown parameters become dyn."""
        if (known := self._known.get(kind)) is not None:
            return self.resolve(known, final=final)
        if kind.kind == "param":
            return DYN if final else kind
        if kind.params and kind.kind in ("opaque", "list", "map", "type"):
            params = tuple(self.resolve(one, final=final) for one in kind.params)
            return kind if params == kind.params else CelType(kind.kind, params, kind.name, keys=kind.keys)
        return kind

    def instance(self, kinds: Sequence[CelType]) -> list[CelType]:
        """Give the parameters of an overload fresh names."""
        fresh: dict[str, CelType] = {}

        def renamed(kind: CelType) -> CelType:
            if kind.kind == "param":
                return fresh.setdefault(kind.name, self.fresh()) if kind.name not in fresh else fresh[kind.name]
            return CelType(kind.kind, tuple(map(renamed, kind.params)), kind.name, kind.fields) if kind.params else kind

        return [renamed(kind) for kind in kinds]

    def _assignable(self, one: CelType, other: CelType) -> bool:
        if other.kind == "param":
            valid, known = self._substitutes(one, other)
            if valid or known:
                return valid
        if one.kind == "param":
            return self._substitutes(other, one)[0]
        if one.loose or other.loose:
            return True
        if one.kind == "null":
            return _nullable(other)
        if other.kind == "null":
            return _nullable(one)
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in ("opaque", "list", "map"):
            same = one.kind == other.kind and one.name == other.name and len(one.params) == len(other.params)
            return same and all(self._assignable(a, b) for a, b in zip(one.params, other.params, strict=True))
        return one == other

    def _substitutes(self, one: CelType, other: CelType) -> tuple[bool, bool]:
        """Tell whether `one` can substitute the parameter `other`, and whether that parameter already had a substitution."""
        if one == other:
            return True, True
        known = self._known.get(other)
        if known is None:
            if self._absent(other, one):
                self._known[other] = one
                return True, False
            return False, False
        if one == known:
            return True, True
        if self._assignable(one, known):
            wider = one if _wider(one, known) else known
            if self._absent(other, wider):
                self._known[other] = wider
            return True, True
        return False, True

    def _absent(self, wanted: CelType, within: CelType) -> bool:
        if wanted == within:
            return False
        if within.kind == "param":
            known = self._known.get(within)
            return known is None or self._absent(wanted, known)
        return all(self._absent(wanted, one) for one in within.params)


def _nullable(kind: CelType) -> bool:
    return kind.kind in ("opaque", "struct", "duration", "timestamp", "null")


def _wider(one: CelType, other: CelType) -> bool:
    """Whether `one` is equal to or less specific than `other`."""
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind in ("opaque", "list", "map"):
        return one.name == other.name and all(_wider(a, b) for a, b in zip(one.params, other.params, strict=True))
    return one.kind == "type" or one == other
