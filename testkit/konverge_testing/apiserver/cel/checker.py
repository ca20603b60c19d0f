"""The type check of a rule, and its errors with a real server's messages.

Guarantees: pure. Order, reach and wording follow cel-go `checker/checker.go` and `checker/errors.go` (0.26, as in Kubernetes 1.36), with
homogeneous list and map literals as Kubernetes requires. `Checked.calls` has the overload of each call, so that the rewriter can
direct it to its implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from konverge_testing.apiserver.cel import kinds
from konverge_testing.apiserver.cel.kinds import CelType, Unifier
from konverge_testing.apiserver.cel.signatures import TYPE_NAMES, Overload, functions
from konverge_testing.apiserver.cel.syntax import CallExpr, Comprehension, Const, Expr, Ident, ListOf, MapOf, SelectExpr

__all__ = ["Checked", "TypeProblem", "Resolved", "check", "qualified"]

_LITERALS: Final[Mapping[str, CelType]] = {
    "null": kinds.NULL,
    "bool": kinds.BOOL,
    "int": kinds.INT,
    "uint": kinds.UINT,
    "double": kinds.DOUBLE,
    "string": kinds.STRING,
    "bytes": kinds.BYTES,
}


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """An error in the expression with this id."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The resolution of a call: the function's qualified name, whether its target was only a part of that name, and whether the
    implementation is in this package.
    """

    function: str
    namespaced: bool
    own: bool
    overloads: tuple[Overload, ...] = ()
    """The matching overloads; their costs are estimated."""


@dataclass(slots=True)
class Checked:
    """The types of all subexpressions by id, the errors, and the resolved calls."""

    kinds: dict[int, CelType] = field(default_factory=dict)
    problems: list[TypeProblem] = field(default_factory=list)
    calls: dict[int, Resolved] = field(default_factory=dict)
    type_names: dict[int, str] = field(default_factory=dict)
    """Selections that are names of types, such as google.protobuf.Timestamp."""
    names: set[str] = field(default_factory=set)
    """The used variables."""


def check(expr: Expr, variables: Mapping[str, CelType]) -> Checked:
    """Check an expression over variables of these types."""
    checker = _Checker(variables)
    checker.visit(expr)
    done = checker.done
    done.kinds = {id_: checker.unifier.resolve(kind, final=True) for id_, kind in done.kinds.items()}
    return done


def qualified(expr: Expr) -> str | None:
    """Return `a.b.c` if an expression consists only of names and dots."""
    if isinstance(expr, Ident):
        return expr.name
    if isinstance(expr, SelectExpr) and not expr.test and (head := qualified(expr.operand)) is not None:
        return f"{head}.{expr.field}"
    return None


def _absent(target: CelType, name: str) -> str:
    opaque = target.name.startswith("kubernetes.") and (not target.fields or ".authorization." in target.name)
    return f"unexpected failed resolution of '{target.name}'" if opaque else f"undefined field '{name}'"


class _Checker:
    def __init__(self, variables: Mapping[str, CelType]) -> None:
        self.variables = variables
        self.scopes: list[dict[str, CelType]] = []
        self.unifier = Unifier()
        self.done = Checked()

    def visit(self, expr: Expr) -> CelType:
        match expr:
            case Const(_, tag, _):
                kind = _LITERALS[tag]
            case Ident():
                kind = self._ident(expr)
            case SelectExpr():
                kind = self._select(expr)
            case CallExpr():
                kind = self._call(expr)
            case ListOf():
                kind = self._list(expr)
            case MapOf():
                kind = self._map(expr)
            case Comprehension():
                kind = self._comprehension(expr)
        self.done.kinds[expr.id] = kind
        return kind

    def complain(self, id_: int, text: str) -> CelType:
        self.done.problems.append(TypeProblem(id_, text))
        return kinds.ERROR

    def _undeclared(self, id_: int, name: str) -> CelType:
        return self.complain(id_, f"undeclared reference to '{name}' (in container '')")

    def _lookup(self, name: str) -> CelType | None:
        name = name.removeprefix(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if (found := self.variables.get(name)) is not None:
            self.done.names.add(name)
            return found
        return TYPE_NAMES.get(name)

    def _ident(self, expr: Ident) -> CelType:
        found = self._lookup(expr.name)
        return self._undeclared(expr.id, expr.name) if found is None else found

    def _select(self, expr: SelectExpr) -> CelType:
        name = qualified(expr)
        if name is not None and (found := TYPE_NAMES.get(name)) is not None:
            self.done.type_names[expr.id] = name
            return found
        kind = self._field(expr.id, expr.operand, expr.field, optional=False)
        return kinds.BOOL if expr.test else self.unifier.resolve(kind)

    def _field(self, id_: int, operand: Expr, name: str, *, optional: bool) -> CelType:
        target, unwrapped = kinds.unwrapped(self.unifier.resolve(self.visit(operand)))
        result = kinds.DYN
        match target.kind:
            case "map":
                result = target.params[1]
            case "struct":
                result = target.fields.get(name) or self.complain(id_, _absent(target, name))
            case "param":
                self.unifier.fits([kinds.DYN], [target])
            case _ if not target.loose:
                self.complain(id_, f"type '{target}' does not support field selection")
        return kinds.optional_of(result) if unwrapped or optional else result

    def _call(self, expr: CallExpr) -> CelType:
        if expr.function == "_?._":
            return self._optional_select(expr)
        given = [self.visit(arg) for arg in expr.args]
        known = functions()
        name = expr.function.removeprefix(".")
        if expr.target is None:
            if name not in known:
                return self._undeclared(expr.id, expr.function)
            return self._resolve(expr, name, given, member=False)
        head = qualified(expr.target)
        if head is not None and f"{head}.{name}" in known:
            return self._resolve(expr, f"{head}.{name}", given, member=False, namespaced=True)
        target = self.visit(expr.target)
        if name not in known:
            return self._undeclared(expr.id, name)
        return self._resolve(expr, name, [target, *given], member=True)

    def _optional_select(self, expr: CallExpr) -> CelType:
        operand, field_ = expr.args
        if not isinstance(field_, Const) or field_.tag != "string":
            return self.complain(field_.id, "unsupported optional field selection")
        self.done.kinds[field_.id] = kinds.STRING
        self.done.calls[expr.id] = Resolved("_?._", namespaced=False, own=False)
        return self.unifier.resolve(self._field(expr.id, operand, field_.value, optional=True))

    def _resolve(
        self, expr: CallExpr, name: str, given: list[CelType], *, member: bool, namespaced: bool = False
    ) -> CelType:
        if name in ("_&&_", "_||_"):
            return self._logical(expr, name, given)
        result: CelType | None = None
        matched: list[Overload] = []
        for overload in functions()[name]:
            if overload.member != member:
                continue
            *wanted, gives = self.unifier.instance([*overload.args, overload.result])
            if not self.unifier.fits(given, wanted):
                continue
            matched.append(overload)
            gives = self.unifier.resolve(gives)
            if result is None:
                result = gives
            elif result.kind != "dyn" and gives != result:
                result = kinds.DYN
        if result is None:
            return self._no_overload(expr.id, name, given, member=member)
        own = all(one.own for one in matched) if name == "string" else any(one.own for one in matched)
        self.done.calls[expr.id] = Resolved(name, namespaced, own, tuple(matched))
        return self._merged(name, given, result)

    def _merged(self, name: str, given: list[CelType], result: CelType) -> CelType:
        """Let a sum of lists have the list type of its left operand."""
        if name == "_+_" and result.kind == "list" and given[0].keys is not None:
            return kinds.list_of(result.params[0], given[0].keys)
        return result

    def _logical(self, expr: CallExpr, name: str, given: list[CelType]) -> CelType:
        self.done.calls[expr.id] = Resolved(name, False, False, tuple(functions()[name]))
        wrong = False
        for arg, kind in zip(expr.args, given, strict=True):
            if not self.unifier.fits([kind], [kinds.BOOL]):
                self._mismatch(arg.id, kinds.BOOL, kind)
                wrong = True
        return kinds.ERROR if wrong else kinds.BOOL

    def _no_overload(self, id_: int, name: str, given: list[CelType], *, member: bool) -> CelType:
        shown = [str(self.unifier.resolve(kind, final=True)) for kind in given]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self.complain(id_, f"found no matching overload for '{name}' applied to '{signature}'")

    def _mismatch(self, id_: int, wanted: CelType, found: CelType) -> CelType:
        return self.complain(id_, f"expected type '{wanted}' but found '{found}'")

    def _join(self, before: CelType | None, kind: CelType) -> CelType:
        """Return the common type. Mixed types become dyn and are reported later, since the arguments of `format` may be mixed."""
        if before is None:
            return kind
        if not self.unifier.fits([before], [kind]):
            return kinds.DYN
        return kind if kind.kind in ("dyn", "param") and before.kind not in ("dyn", "param") else before

    def _unwrap(self, expr: Expr, kind: CelType) -> CelType:
        inner, optional = kinds.unwrapped(kind)
        if not optional and inner.kind != "dyn":
            self._mismatch(expr.id, kinds.optional_of(inner), inner)
        return inner

    def _list(self, expr: ListOf) -> CelType:
        item: CelType | None = None
        for index, element in enumerate(expr.elements):
            kind = self.visit(element)
            if index in expr.optional:
                kind = self._unwrap(element, kind)
            item = self._join(item, kind)
        return kinds.list_of(self.unifier.fresh() if item is None else item)

    def _map(self, expr: MapOf) -> CelType:
        if expr.name:
            return self._undeclared(expr.id, expr.name)
        key: CelType | None = None
        value: CelType | None = None
        for entry in expr.entries:
            assert entry.key is not None
            key = self._join(key, self.visit(entry.key))
            kind = self.visit(entry.value)
            value = self._join(value, self._unwrap(entry.value, kind) if entry.optional else kind)
        if key is None or value is None:
            return kinds.map_of(self.unifier.fresh(), self.unifier.fresh())
        return kinds.map_of(key, value)

    def _comprehension(self, expr: Comprehension) -> CelType:
        over = self.unifier.resolve(self.visit(expr.range))
        start = self.visit(expr.start)
        self.scopes.append({expr.accumulator: start})
        first, second = self._loop(expr, over)
        self.scopes.append({expr.variable: first, **({expr.second: second} if expr.second else {})})
        self._expect(expr.condition, kinds.BOOL)
        self._expect(expr.step, start)
        self.scopes.pop()
        result = self.visit(expr.result)
        self.scopes.pop()
        return self.unifier.resolve(result)

    def _loop(self, expr: Comprehension, over: CelType) -> tuple[CelType, CelType]:
        match over.kind:
            case "list":
                item = over.params[0]
                return (kinds.INT, item) if expr.second else (item, item)
            case "map":
                return over.params[0], over.params[1]
            case "dyn" | "error" | "param":
                self.unifier.fits([kinds.DYN], [over])
                return kinds.DYN, kinds.DYN
            case _:
                text = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
                return self.complain(expr.range.id, text), kinds.ERROR

    def _expect(self, expr: Expr, wanted: CelType) -> None:
        kind = self.visit(expr)
        if not self.unifier.fits([wanted], [kind]):
            self._mismatch(expr.id, wanted, kind)
