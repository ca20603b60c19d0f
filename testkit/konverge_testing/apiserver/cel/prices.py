"""The cost of an expression on actual values, as another expression: the library does not count costs, so this expression computes the
cost.

Guarantees: pure. Follows cel-go `interpreter/runtimecost.go` (0.26) and k8s.io/apiserver `pkg/cel/library/cost.go`: code that is skipped by
`&&`, `||`, a condition or the end of a loop costs nothing. Caveats: approximate for functions that read lists of texts, and for dynamic
values, whose size counts as 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final

from konverge_testing.apiserver.cel.checker import Checked
from konverge_testing.apiserver.cel.rewrite import inner, rewrite
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

__all__ = ["price_of"]

_LIST: Final = 10
_MAP: Final = 30
_SIZED: Final = ("string", "bytes", "list", "map")
_FIRST_ID: Final = 3_000_000


def price_of(expr: Expr, checked: Checked) -> Expr:
    """Return the expression that computes the cost of a checked expression."""
    return _Pricer(checked).price(expr)


class _Pricer:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._ids = count(_FIRST_ID)

    # --- parts of the new expression -----------------------------------------------------------------------------------------

    def _number(self, value: int) -> Expr:
        return Const(next(self._ids), "int", value)

    def _do(self, function: str, *args: Expr) -> Expr:
        return CallExpr(next(self._ids), None, function, list(args))

    def _sum(self, *terms: Expr) -> Expr:
        """Return a sum; constant terms are added up at once."""
        fixed = sum(one.value for one in terms if isinstance(one, Const))
        rest = [one for one in terms if not isinstance(one, Const)]
        if not rest:
            return self._number(fixed)
        total: Expr = rest[0]
        for one in rest[1:]:
            total = self._do("_+_", total, one)
        return self._do("_+_", total, self._number(fixed)) if fixed else total

    def _value(self, expr: Expr) -> Expr:
        """Return the expression in its executable form."""
        return rewrite(copy.deepcopy(expr), self._checked)

    def _size(self, expr: Expr) -> Expr:
        kind = self._checked.kinds[expr.id]
        sized = kind.kind in _SIZED or (kind.kind == "struct" and not kind.name.startswith("kubernetes."))
        return self._do("size", self._value(expr)) if sized else self._number(1)

    def _share(self, size: Expr, part: int) -> Expr:
        """Return a size divided by a number, rounded up."""
        return self._do("_/_", self._sum(size, self._number(part - 1)), self._number(part))

    # --- costs ---------------------------------------------------------------------------------------------------------------

    def price(self, expr: Expr) -> Expr:
        match expr:
            case Const():
                return self._number(0)
            case Ident():
                return self._number(1)
            case SelectExpr(_, operand, _, test):
                return self._sum(self.price(operand), self._number(0 if test else 1))
            case ListOf(_, elements):
                return self._sum(*map(self.price, elements), self._number(_LIST))
            case MapOf():
                return self._sum(*map(self.price, inner(expr)), self._number(_MAP))
            case Comprehension():
                return self._loop(expr)
            case CallExpr():
                return self._call(expr)

    def _loop(self, expr: Comprehension) -> Expr:
        """Return a fold over pairs: the cost so far, and the value of the original loop."""
        name = f"@price{next(self._ids)}"

        def here(part: Expr) -> Expr:
            folded = self._do("_[_]", Ident(next(self._ids), name), self._number(1))
            return _replaced(part, expr.accumulator, folded)

        def cost() -> Expr:
            return self._do("_[_]", Ident(next(self._ids), name), self._number(0))

        pair = ListOf(next(self._ids), [self.price(expr.start), self._value(expr.start)])
        spent = self._sum(cost(), here(self.price(expr.condition)), here(self.price(expr.step)))
        step = ListOf(next(self._ids), [spent, here(self._value(expr.step))])
        result = self._sum(cost(), here(self.price(expr.result)))
        fold = Comprehension(
            next(self._ids),
            expr.variable,
            expr.second,
            self._value(expr.range),
            name,
            pair,
            here(self._value(expr.condition)),
            step,
            result,
        )
        return self._sum(self.price(expr.range), fold)

    def _call(self, expr: CallExpr) -> Expr:
        resolved = self._checked.calls.get(expr.id)
        member = expr.target is not None and not (resolved is not None and resolved.namespaced)
        args = [expr.target, *expr.args] if member and expr.target is not None else expr.args
        function = expr.function if resolved is None else resolved.function
        match function:
            case "_&&_" | "_||_":
                rest, nothing = self.price(args[1]), self._number(0)
                ways = (rest, nothing) if function == "_&&_" else (nothing, rest)
                return self._sum(self.price(args[0]), self._do("_?_:_", self._value(args[0]), *ways))
            case "_?_:_":
                ways = (self._branch(args[1]), self._branch(args[2]))
                return self._sum(self.price(args[0]), self._do("_?_:_", self._value(args[0]), *ways))
            case _:
                made = _CALLS.get(function)
                own = self._number(1) if made is None else made(self, expr, args)
                return self._sum(*map(self.price, args), own)

    def _branch(self, expr: Expr) -> Expr:
        """Return the cost of a branch of a condition: reads of variables and their fields are not counted."""
        here = expr
        while isinstance(here, SelectExpr) and not here.test:
            here = here.operand
        return self._number(0) if isinstance(here, Ident) else self.price(expr)

    def traversed(self, _: Expr, args: Sequence[Expr]) -> Expr:
        return self._share(self._size(args[0]), 10)

    def traversed_twice(self, _: Expr, args: Sequence[Expr]) -> Expr:
        return self._share(self._size(args[0]), 5)

    def joined(self, expr: Expr, _: Sequence[Expr]) -> Expr:
        return self._share(self._size(expr), 5)

    def contained(self, expr: Expr, args: Sequence[Expr]) -> Expr:
        del expr
        return self._size(args[1]) if self._checked.kinds[args[1].id].kind == "list" else self._number(1)

    def compared(self, _: Expr, args: Sequence[Expr]) -> Expr:
        one, other = self._size(args[0]), self._size(args[1])
        if isinstance(one, Const) or isinstance(other, Const):
            return self._number(1)
        less = self._do("_<_", one, other)
        return self._share(self._do("_?_:_", less, self._size(args[0]), self._size(args[1])), 10)

    def ordered(self, expr: Expr, args: Sequence[Expr]) -> Expr:
        text = self._checked.kinds[args[0].id].kind in ("string", "bytes")
        return self.compared(expr, args) if text else self._number(1)

    def added(self, _: Expr, args: Sequence[Expr]) -> Expr:
        if self._checked.kinds[args[0].id].kind not in ("string", "bytes"):
            return self._number(1)
        return self._share(self._sum(self._size(args[0]), self._size(args[1])), 10)

    def matched(self, _: Expr, args: Sequence[Expr]) -> Expr:
        text = self._share(self._sum(self._size(args[0]), self._number(1)), 10)
        return self._do("_*_", text, self._share(self._size(args[1]), 4))

    def searched(self, _: Expr, args: Sequence[Expr]) -> Expr:
        return self._do("_*_", self._share(self._size(args[0]), 10), self._share(self._size(args[1]), 10))

    def visited(self, _: Expr, args: Sequence[Expr]) -> Expr:
        kind = self._checked.kinds[args[0].id]
        numbers = bool(kind.params) and kind.params[0].kind not in ("string", "bytes")
        return self._size(args[0]) if numbers else self._number(0)

    def crossed(self, _: Expr, args: Sequence[Expr]) -> Expr:
        return self._sum(self._do("_*_", self._size(args[0]), self._size(args[1])), self._number(1))

    def squared(self, _: Expr, args: Sequence[Expr]) -> Expr:
        pairs = self._do("_*_", self._size(args[0]), self._size(args[0]))
        return self._sum(self._do("_*_", pairs, self._number(2)), self._number(_LIST + 1))

    def listed(self, expr: Expr, _: Sequence[Expr]) -> Expr:
        return self._sum(self._size(expr), self._number(_LIST + 1))


def _replaced(expr: Expr, name: str, by: Expr) -> Expr:
    """Return an expression with a variable replaced, in place; a loop that redefines the variable hides it."""

    def here(part: Expr) -> Expr:
        return _replaced(part, name, by)

    match expr:
        case Ident() if expr.name == name:
            return copy.deepcopy(by)
        case SelectExpr():
            expr.operand = here(expr.operand)
        case CallExpr():
            expr.target = None if expr.target is None else here(expr.target)
            expr.args = [here(arg) for arg in expr.args]
        case ListOf():
            expr.elements = [here(element) for element in expr.elements]
        case MapOf():
            expr.entries = [
                MapEntry(one.id, one.name, None if one.key is None else here(one.key), here(one.value), one.optional)
                for one in expr.entries
            ]
        case Comprehension():
            expr.range, expr.start = here(expr.range), here(expr.start)
            if name not in (expr.accumulator, expr.variable, expr.second):
                expr.condition, expr.step, expr.result = here(expr.condition), here(expr.step), here(expr.result)
        case _:
            pass
    return expr


_Call = Callable[[_Pricer, Expr, Sequence[Expr]], Expr]

_NAMES: Final[Mapping[_Call, str]] = {
    _Pricer.traversed: "startsWith endsWith bytes strings.quote format url lowerAscii upperAscii substring trim cidr isIP isCIDR "
    "quantity isQuantity semver isSemver",
    _Pricer.traversed_twice: "replace split ip.isCanonical",
    _Pricer.joined: "join",
    _Pricer.contained: "@in in",
    _Pricer.compared: "_==_ _!=_",
    _Pricer.ordered: "_<_ _<=_ _>_ _>=_",
    _Pricer.added: "_+_",
    _Pricer.matched: "matches find findAll",
    _Pricer.searched: "contains",
    _Pricer.visited: "isSorted sum max min indexOf lastIndexOf",
    _Pricer.crossed: "sets.contains sets.intersects sets.equivalent",
    _Pricer.squared: "distinct sort",
    _Pricer.listed: "slice lists.range reverse flatten",
}
_CALLS: Final[Mapping[str, _Call]] = {name: made for made, names in _NAMES.items() for name in names.split()}
