"""The estimated cost of a checked expression, in the worst case that its schema allows.

Guarantees: pure; sums and products end at the largest unsigned number of 64 bits. Follows cel-go `checker/cost.go` (0.26) with the costs of
Kubernetes' own functions (k8s.io/apiserver `pkg/cel/library/cost.go`, presence tests are free) and of the extensions for sets and lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from konverge_testing.apiserver.cel.calls import LIST_COST, Cost, Value, core, kubernetes
from konverge_testing.apiserver.cel.checker import Checked, Resolved
from konverge_testing.apiserver.cel.kinds import CelType, unwrapped
from konverge_testing.apiserver.cel.ranges import ONE, TRAVERSAL, UNKNOWN, Range, fixed, total
from konverge_testing.apiserver.cel.signatures import Overload
from konverge_testing.apiserver.cel.sizes import Sized
from konverge_testing.apiserver.cel.syntax import CallExpr, Comprehension, Const, Expr, Ident, ListOf, MapOf, SelectExpr

__all__ = ["estimate"]

_MAP: Final = 30
_MESSAGE: Final = 40
_ACCUMULATORS: Final = ("__result__", "@result")
_SCALAR: Final = ("bool", "double", "duration", "int", "timestamp", "uint")

Path = tuple[str, ...]


class _Entries(NamedTuple):
    """The sizes of the entries of a list or map literal, or of a computed list or map."""

    kind: str
    key: Range
    value: Range

    def union(self, other: _Entries | None) -> _Entries | None:
        return None if other is None else _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    """A variable of a loop."""

    path: Path
    size: Range | None
    entries: _Entries | None


def estimate(expr: Expr, checked: Checked, sizes: Sized) -> int:
    """Return the highest cost of an expression whose variables have these sizes."""
    return _Coster(checked, sizes).cost(expr).most


class _Coster:
    def __init__(self, checked: Checked, sizes: Sized) -> None:
        self._checked = checked
        self._sizes = sizes
        self._paths: dict[int, Path] = {}
        self._known: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, expr: Expr) -> Range:
        match expr:
            case Const():
                return fixed(0)
            case Ident(id_, name):
                local = self._local(name)
                self._paths[id_] = (name,) if local is None else local.path
                return ONE
            case SelectExpr():
                return self._select(expr)
            case CallExpr():
                return self._call(expr)
            case ListOf():
                return self._list(expr)
            case MapOf():
                return self._map(expr)
            case Comprehension():
                return self._bind(expr) if _is_bind(expr) else self._loop(expr)

    # --- parts of an expression ----------------------------------------------------------------------------------------------

    def _select(self, expr: SelectExpr) -> Range:
        if expr.id in self._checked.type_names:
            return ONE
        cost = self.cost(expr.operand)
        if expr.test:
            return cost
        self._paths[expr.id] = (*self._path(expr.operand), expr.field)
        return cost.plus(ONE) if self._kind(expr.operand).kind in ("map", "struct") else cost

    def _list(self, expr: ListOf) -> Range:
        cost, items = fixed(LIST_COST), list[Range]()
        for element in expr.elements:
            cost = cost.plus(self.cost(element))
            items.append(self._size_or_unknown(element))
        self._entries[expr.id] = _Entries("list", ONE, _spanned(items))
        return cost

    def _map(self, expr: MapOf) -> Range:
        if expr.name:
            return total([self.cost(entry.value) for entry in expr.entries]).plus(fixed(_MESSAGE))
        cost, keys, values = fixed(_MAP), list[Range](), list[Range]()
        for entry in expr.entries:
            assert entry.key is not None
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys.append(self._size_or_unknown(entry.key))
            values.append(self._size_or_unknown(entry.value))
        self._entries[expr.id] = _Entries("map", _spanned(keys), _spanned(values))
        return cost

    def _loop(self, expr: Comprehension) -> Range:
        cost = self.cost(expr.range).plus(self.cost(expr.start))
        self._push(expr.accumulator, self._bound(expr.start))
        names = self._loop_variables(expr)
        each = self.cost(expr.condition)
        each = self.cost(expr.step).plus(each)
        for name in names:
            self._locals[name].pop()
        cost = cost.plus(self.cost(expr.result))
        self._locals[expr.accumulator].pop()
        count = self._size_or_unknown(expr.range)
        match expr.start:
            case Const():
                self._set_size(expr, self._size(expr.start))
            case ListOf() | MapOf():
                self._known[expr.id] = count
                if (entries := self._entries_of(expr.step)) is not None:
                    self._entries[expr.id] = entries
            case _:
                pass
        return cost.plus(count.times(each))

    def _loop_variables(self, expr: Comprehension) -> list[str]:
        entries, path = self._entries_of(expr.range), self._path(expr.range)
        listed = (self._kind(expr.range).kind if entries is None else entries.kind) == "list"
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        if expr.second:
            self._push(expr.variable, _Local((*path, "@indices" if listed else "@keys"), key, None))
            self._push(expr.second, _Local((*path, "@items" if listed else "@values"), value, None))
            return [expr.variable, expr.second]
        self._push(expr.variable, _Local((*path, "@items" if listed else "@keys"), value if listed else key, None))
        return [expr.variable]

    def _bind(self, expr: Comprehension) -> Range:
        cost = self.cost(expr.range).plus(self.cost(expr.start))
        self._push(expr.accumulator, self._bound(expr.start))
        cost = cost.plus(self.cost(expr.result))
        self._locals[expr.accumulator].pop()
        self._copy(expr, expr.result)
        return cost

    # --- calls ---------------------------------------------------------------------------------------------------------------

    def _call(self, expr: CallExpr) -> Range:
        if expr.function == "dyn" and expr.target is None:
            cost = self.cost(expr.args[0]).plus(ONE)
            self._copy(expr, expr.args[0])
            return cost
        resolved = self._checked.calls[expr.id]
        costs = [self.cost(arg) for arg in expr.args]
        args = [self._value(arg) for arg in expr.args]
        member = expr.target is not None and not resolved.namespaced
        start, target = fixed(0), None
        if member:
            assert expr.target is not None
            start = self.cost(expr.target)
            target = self._value(expr.target)
        found: Range | None = None
        size: Range | None = None
        for overload in resolved.overloads:
            one = self._overload(expr, resolved, overload, target, args, costs)
            found = one.cost if found is None else found.union(one.cost)
            if one.size is not None:
                size = one.size if size is None else size.union(one.size)
            if resolved.function == "_[_]" and overload.args[0].kind in ("list", "map"):
                entries = self._entries_of(expr.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload.args[0].kind == "list" else "@values"
                self._paths[expr.id] = (*self._path(expr.args[0]), step)
            if size is None:
                size = self._size(expr)
        self._set_size(expr, size)
        return start.plus(found or ONE.plus(total(costs)))

    def _overload(
        self,
        expr: CallExpr,
        resolved: Resolved,
        overload: Overload,
        target: Value | None,
        args: Sequence[Value],
        costs: Sequence[Range],
    ) -> Cost:
        function = resolved.function
        known = kubernetes(function, overload, target, args, self._element_size)
        if known is not None:
            return Cost(known.cost.plus(total(costs)), known.size)
        first = overload.args[0].kind if overload.args else ""
        match function:
            case "_&&_" | "_||_":
                return Cost(Range(costs[0].least, costs[0].plus(costs[1]).most))
            case "_?_:_":
                entries = self._entries_of(args[1].expr)
                if entries is not None and (both := entries.union(self._entries_of(args[2].expr))) is not None:
                    self._entries[expr.id] = both
                return Cost(costs[0].plus(costs[1].union(costs[2])), args[1].size.union(args[2].size))
            case "_+_" if first in ("string", "bytes", "list"):
                size = args[0].size.plus(args[1].size)
                entries = self._entries_of(args[0].expr)
                if entries is not None and (both := entries.union(self._entries_of(args[1].expr))) is not None:
                    self._entries[expr.id] = both
                return Cost((ONE if first == "list" else size.scaled(TRAVERSAL)).plus(total(costs)), size)
            case _:
                return core(function, overload, target, args, costs)

    def _element_size(self, values: Value) -> Range:
        """Return the size of the items of a list."""
        found = self._sizes.at((*values.path, "@items")[1:]) if values.path else None
        return UNKNOWN if found is None else Range(0, found.most)

    # --- sizes and paths -----------------------------------------------------------------------------------------------------

    def _kind(self, expr: Expr) -> CelType:
        return self._checked.kinds[expr.id]

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _bound(self, expr: Expr) -> _Local:
        return _Local(self._path(expr), self._size(expr), self._entries_of(expr))

    def _path(self, expr: Expr) -> Path:
        if isinstance(expr, Ident) and (local := self._local(expr.name)) is not None:
            return local.path
        return self._paths.get(expr.id, ())

    def _value(self, expr: Expr) -> Value:
        path = self._path(expr)
        return Value(expr, self._kind(expr), () if path[:1] and path[0] in _ACCUMULATORS else path, self._size(expr))

    def _size_or_unknown(self, expr: Expr) -> Range:
        return self._size(expr) or UNKNOWN

    def _size(self, expr: Expr) -> Range | None:
        if (known := self._known.get(expr.id)) is not None:
            return known
        match expr:
            case Const(_, tag, value):
                return fixed(len(value) if tag in ("string", "bytes") else 1)
            case ListOf(_, elements):
                return fixed(len(elements))
            case MapOf(_, name, entries) if not name:
                return fixed(len(entries))
            case _:
                pass
        path = self._path(expr)
        if path and (found := self._sizes.at(path[1:])) is not None:
            self._known[expr.id] = Range(0, found.most)
            return self._known[expr.id]
        if _is_scalar(self._kind(expr)):
            return ONE
        local = self._local(expr.name) if isinstance(expr, Ident) else None
        return None if local is None else local.size

    def _set_size(self, expr: Expr, size: Range | None) -> None:
        if size is not None:
            self._known[expr.id] = size

    def _entries_of(self, expr: Expr) -> _Entries | None:
        if (known := self._entries.get(expr.id)) is not None:
            return known
        local = self._local(expr.name) if isinstance(expr, Ident) else None
        return None if local is None else local.entries

    def _copy(self, to: Expr, of: Expr) -> None:
        self._set_size(to, self._size(of))
        if (entries := self._entries_of(of)) is not None:
            self._entries[to.id] = entries


def _spanned(sizes: Sequence[Range]) -> Range:
    return reduce(Range.union, sizes) if sizes else fixed(0)


def _is_bind(expr: Comprehension) -> bool:
    """Tell whether a loop is the expansion of a macro that only names a value."""
    return (
        isinstance(expr.range, ListOf)
        and not expr.range.elements
        and isinstance(expr.condition, Const)
        and expr.condition.value is False
        and expr.accumulator not in _ACCUMULATORS
    )


def _is_scalar(kind: CelType) -> bool:
    inner, optional = unwrapped(kind)
    return _is_scalar(inner) if optional else kind.kind in _SCALAR
