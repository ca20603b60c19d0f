"""Rewrites a checked expression for the CEL library.

Guarantees: the given tree may be changed in place; the result means the same as the rule on a real server. Functions of Kubernetes are
mapped to `functions.py` under names of their own; dotted names of functions become simple names; a validation's result becomes an optional;
lists that are sets or maps compare and add without regard to order (k8s.io/apiserver `pkg/cel/common/valuesunstructured.go`); an optional
oldSelf is wrapped here, because Python values cannot be optionals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge_testing.apiserver.cel.checker import Checked, qualified
from konverge_testing.apiserver.cel.kinds import CelType
from konverge_testing.apiserver.cel.reads import EACH, THERE
from konverge_testing.apiserver.cel.syntax import (
    CallExpr,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListOf,
    MapEntry,
    MapOf,
    SelectExpr,
)

__all__ = ["OWN", "expand", "inner", "paths", "rewrite", "wrap_old"]

OWN: Final = "@kubernetes."
"""Prefix of the names of our functions at run time."""

_TIMES: Final = ("timestamp", "duration")
_OPTIONAL_RESULTS: Final = frozenset({"validate", "format.named"})


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Apply a change to every subexpression, the innermost first."""
    match expr:
        case SelectExpr():
            expr.operand = transform(expr.operand, change)
        case CallExpr():
            expr.target = transform(expr.target, change) if expr.target is not None else None
            expr.args = [transform(arg, change) for arg in expr.args]
        case ListOf():
            expr.elements = [transform(element, change) for element in expr.elements]
        case MapOf():
            expr.entries = [_entry(entry, change) for entry in expr.entries]
        case Comprehension():
            expr.range = transform(expr.range, change)
            expr.start = transform(expr.start, change)
            expr.condition = transform(expr.condition, change)
            expr.step = transform(expr.step, change)
            expr.result = transform(expr.result, change)
        case _:
            pass
    return change(expr)


def _entry(entry: MapEntry, change: Callable[[Expr], Expr]) -> MapEntry:
    key = transform(entry.key, change) if entry.key is not None else None
    return MapEntry(entry.id, entry.name, key, transform(entry.value, change), entry.optional)


def expand(expr: Expr) -> Expr:
    """Expand the only macro of a real server that the library lacks: `exists_one` over two variables."""
    ids = iter(range(1_000_000, 2_000_000))

    def change(part: Expr) -> Expr:
        match part:
            case CallExpr(id_, target, "exists_one", [Ident(_, first), Ident(_, second), condition]) if (
                target is not None
            ):
                count = "@result"
                more = CallExpr(next(ids), None, "_+_", [Ident(next(ids), count), Const(next(ids), "int", 1)])
                step = CallExpr(next(ids), None, "_?_:_", [condition, more, Ident(next(ids), count)])
                result = CallExpr(next(ids), None, "_==_", [Ident(next(ids), count), Const(next(ids), "int", 1)])
                start, always = Const(next(ids), "int", 0), Const(next(ids), "bool", True)
                return Comprehension(id_, first, second, target, count, start, always, step, result)
            case _:
                return part

    return transform(expr, change)


def rewrite(expr: Expr, checked: Checked) -> Expr:
    """Return the rewritten expression."""
    return transform(expr, lambda part: _timed(_rewritten(part, checked), checked.kinds.get(part.id)))


def _timed(expr: Expr, kind: CelType | None) -> Expr:
    """Parse times and durations from data or from our functions, which represent them as text."""
    if (
        kind is None
        or isinstance(expr, (Const, ListOf, MapOf, Comprehension))
        or (isinstance(expr, SelectExpr) and expr.test)
    ):
        return expr
    if isinstance(expr, CallExpr) and expr.function in _TIMES:
        return expr
    if kind.kind in _TIMES:
        return CallExpr(expr.id, None, kind.kind, [expr])
    if kind.kind == "list" and kind.params[0].kind in _TIMES:
        item, result = Ident(expr.id, "@time"), Ident(expr.id, "@times")
        step = CallExpr(
            expr.id, None, "_+_", [result, ListOf(expr.id, [CallExpr(expr.id, None, kind.params[0].kind, [item])])]
        )
        return Comprehension(
            expr.id, "@time", "", expr, "@times", ListOf(expr.id, []), Const(expr.id, "bool", True), step, result
        )
    return expr


def _rewritten(expr: Expr, checked: Checked) -> Expr:
    if isinstance(expr, SelectExpr) and (name := checked.type_names.get(expr.id)) is not None:
        return Ident(expr.id, name)
    if not isinstance(expr, CallExpr):
        return expr
    resolved = checked.calls.get(expr.id)
    if resolved is None:
        return expr
    if resolved.own:
        args = expr.args if expr.target is None or resolved.namespaced else [expr.target, *expr.args]
        made = CallExpr(expr.id, None, OWN + resolved.function, args)
        if resolved.function in _OPTIONAL_RESULTS:
            return CallExpr(expr.id, None, "optional.ofNonZeroValue", [made])
        return made
    if resolved.namespaced:
        return CallExpr(expr.id, None, resolved.function, expr.args)
    if resolved.function == "cel.@mapInsert":
        return CallExpr(expr.id, None, f"{OWN}mapInsert", expr.args)
    if (
        resolved.function == "string"
        and (kind := checked.kinds.get(expr.args[0].id)) is not None
        and kind.kind in _TIMES
    ):
        return CallExpr(expr.id, None, f"{OWN}spelled", expr.args)
    return _merging(expr, checked)


def _merging(expr: CallExpr, checked: Checked) -> CallExpr:
    """Call our functions for comparisons and sums of lists that are sets or maps."""
    if expr.function not in ("_==_", "_!=_", "_+_"):
        return expr
    keys = _keys([checked.kinds.get(arg.id) for arg in expr.args], either=expr.function != "_+_")
    if keys is None:
        return expr
    how = Const(expr.id, "string", ",".join(keys))
    if expr.function == "_+_":
        return CallExpr(expr.id, None, f"{OWN}union", [*expr.args, how])
    same = CallExpr(expr.id, None, f"{OWN}same", [*expr.args, how])
    return same if expr.function == "_==_" else CallExpr(expr.id, None, "!_", [same])


def _keys(kinds: list[CelType | None], *, either: bool) -> tuple[str, ...] | None:
    for kind in kinds if either else kinds[:1]:
        if kind is not None and kind.kind == "list" and kind.keys is not None:
            return kind.keys
    return None


def wrap_old(expr: Expr, name: str, *, there: bool) -> Expr:
    """Convert a variable to an optional: with its value, or empty."""

    def change(part: Expr) -> Expr:
        if isinstance(part, Ident) and part.name == name:
            return (
                CallExpr(part.id, None, "optional.of", [part])
                if there
                else CallExpr(part.id, None, "optional.none", [])
            )
        return part

    return transform(expr, change)


def paths(expr: Expr, name: str) -> set[tuple[str, ...]]:
    """Return the read paths of a variable (see `reads.py`)."""
    found: set[tuple[str, ...]] = set()

    def visit(part: Expr) -> None:
        here = _path(part, name)
        if here is not None:
            found.add((*here, THERE) if isinstance(part, SelectExpr) and part.test else here)
            return
        below = inner(part)
        if isinstance(part, Comprehension):
            looped = _path(part.range, name)
            if looped is not None:
                read = _of_items(part)
                found.update((*looped, *rest) for rest in read)
                below = below[1:]
            if name in (part.variable, part.second):
                below = [one for one in below if one is part.range or one is part.start]
        for one in below:
            visit(one)

    visit(expr)
    return found


def _path(part: Expr, name: str) -> tuple[str, ...] | None:
    text = qualified(SelectExpr(0, part.operand, part.field)) if isinstance(part, SelectExpr) else qualified(part)
    if text is None:
        return None
    head, *rest = text.split(".")
    return tuple(rest) if head == name else None


def _of_items(loop: Comprehension) -> set[tuple[str, ...]]:
    """Return the paths that a loop reads of a list: paths that begin with EACH, or () for the whole list."""
    if loop.second:
        return {()}
    read = {path for part in (loop.condition, loop.step) for path in paths(part, loop.variable)}
    return {(EACH, *path) for path in read} or {(EACH, THERE)}


def inner(expr: Expr) -> list[Expr]:
    """Return the direct subexpressions."""
    match expr:
        case SelectExpr(_, operand):
            return [operand]
        case CallExpr(_, target, _, args):
            return [*args, *([target] if target is not None else [])]
        case ListOf(_, elements):
            return elements
        case MapOf(_, _, entries):
            return [part for entry in entries for part in (entry.key, entry.value) if part is not None]
        case Comprehension() as loop:
            return [loop.range, loop.start, loop.condition, loop.step, loop.result]
        case _:
            return []
