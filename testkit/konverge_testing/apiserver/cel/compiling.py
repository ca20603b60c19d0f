"""Compiles the text of an expression to a program: parse, check, rewrite.

Guarantees: `compile_text` raises CompileError with a real server's text behind "compilation failed: ", positions included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from konverge_testing.apiserver.cel import formats, templates
from konverge_testing.apiserver.cel.checker import Checked, TypeProblem, check
from konverge_testing.apiserver.cel.costs import estimate
from konverge_testing.apiserver.cel.engine import Executable, SyntaxProblem, parse
from konverge_testing.apiserver.cel.errors import CompileError
from konverge_testing.apiserver.cel.kinds import CelType, unwrapped
from konverge_testing.apiserver.cel.prices import price_of
from konverge_testing.apiserver.cel.rewrite import expand, inner, paths, rewrite, transform, wrap_old
from konverge_testing.apiserver.cel.sizes import Sized
from konverge_testing.apiserver.cel.syntax import CallExpr, Const, Expr, ListOf, MapOf
from konverge_testing.apiserver.cel.values import duration

__all__ = ["Compiled", "compile_text", "Priced"]

_MOST_PROBLEMS: Final = 100
_CHEAP: Final = 1000


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled expression, with the type of its value and the paths that it reads."""

    runs: Executable
    kind: CelType
    names: frozenset[str]
    reads: Mapping[str, frozenset[tuple[str, ...]]]
    """Per variable, the paths that are read; () is the whole value."""
    without_old: Executable | None = None
    """The program that runs if `optional_old` has no value."""


def compile_text(text: str, variables: Mapping[str, CelType], *, optional_old: str = "") -> Compiled:
    """Compile an expression; `optional_old` names the variable that is wrapped in an optional."""
    expr, checked = _checked(text, variables)
    reads = {name: frozenset(paths(expr, name)) for name in variables}
    kind, names = checked.kinds[expr.id], frozenset(checked.names)
    expr = rewrite(expr, checked)
    without = None
    if optional_old and optional_old in names:
        bare, again = _checked(text, variables)
        without = Executable(wrap_old(rewrite(bare, again), optional_old, there=False), variables)
        expr = wrap_old(expr, optional_old, there=True)
    return Compiled(Executable(expr, variables), kind, names, reads, without)


class Priced:
    """The costs of a valid expression."""

    def __init__(self, text: str, variables: Mapping[str, CelType], sizes: Sized) -> None:
        self._expr, self._checked = _checked(text, variables)
        self._variables = variables
        self._sizes = sizes
        self._bounds: dict[int, int] = {}

    @cached_property
    def worst(self) -> int:
        """The estimated cost in the worst case that the schema allows."""
        return estimate(self._expr, self._checked, self._sizes)

    def bound(self, size: int) -> int:
        """Return an upper bound of the cost on values whose JSON has at most this size."""
        if self.worst <= _CHEAP:
            return self.worst
        bits = size.bit_length()
        found = self._bounds.get(bits)
        if found is None:
            found = self._bounds[bits] = estimate(self._expr, self._checked, self._sizes.capped(1 << bits))
        return found

    @cached_property
    def exact(self) -> Executable:
        """Computes the cost on the values of an activation."""
        return Executable(price_of(self._expr, self._checked), self._variables)


def _checked(text: str, variables: Mapping[str, CelType]) -> tuple[Expr, Checked]:
    try:
        parsed = parse(text, variables)
    except SyntaxProblem as problem:
        raise CompileError(str(problem)) from None
    expr = expand(parsed.expr)
    checked = check(expr, variables)
    problems = checked.problems or [*_literals(expr), *_mixed(expr, checked.kinds), *_templates(expr, checked.kinds)]
    if problems:
        raise CompileError(_report(text, problems, parsed.positions))
    return expr, checked


def _literals(expr: Expr) -> list[TypeProblem]:
    """Report literals that are always invalid: durations, timestamps and patterns."""
    found: list[TypeProblem] = []

    def visit(part: Expr) -> Expr:
        if isinstance(part, CallExpr) and part.function in _LITERALS and part.args:
            first = part.args[0]
            if isinstance(first, Const) and first.tag == "string" and not _LITERALS[part.function](first.value):
                found.append(TypeProblem(first.id, f"invalid {part.function} argument"))
        return part

    transform(expr, visit)
    return found


def _mixed(expr: Expr, types: Mapping[int, CelType]) -> list[TypeProblem]:
    """Report list and map literals of mixed types, except the arguments of `format`."""
    if isinstance(expr, CallExpr) and expr.function == "format":
        return _mixed(expr.target, types) if expr.target is not None else []
    found = [problem for part in inner(expr) for problem in _mixed(part, types)]
    groups: list[list[tuple[Expr, bool]]] = []
    if isinstance(expr, ListOf):
        groups = [[(element, index in expr.optional) for index, element in enumerate(expr.elements)]]
    elif isinstance(expr, MapOf):
        keys = [(entry.key, False) for entry in expr.entries if entry.key is not None]
        groups = [keys, [(entry.value, entry.optional) for entry in expr.entries]]
    for group in groups:
        seen = [(part.id, unwrapped(types[part.id])[0] if optional else types[part.id]) for part, optional in group]
        wrong = [
            TypeProblem(id_, f"expected type '{seen[0][1]}' but found '{kind}'")
            for id_, kind in seen
            if kind != seen[0][1]
        ]
        found += wrong[:1] if isinstance(expr, ListOf) else wrong
    return found


def _templates(expr: Expr, types: Mapping[int, CelType]) -> list[TypeProblem]:
    """Check literal templates that have literal lists of arguments."""
    found = [problem for part in inner(expr) for problem in _templates(part, types)]
    match expr:
        case CallExpr(id_, Const(_, "string", template), "format", [ListOf(_, elements)]):
            wrong = templates.problem(template, [types[element.id].kind for element in elements])
            if wrong is not None:
                found.append(TypeProblem(id_ if wrong[0] is None else elements[wrong[0]].id, wrong[1]))
        case _:
            pass
    return found


def _is_duration(text: str) -> bool:
    return duration(text, go=True) is not None


def _is_timestamp(text: str) -> bool:
    return not formats.validate("datetime", text)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(re.sub(r"\[:\w+:\]", "a", re.sub(r"\\z", r"\\Z", text)))
    except re.error:
        return bool(re.search(r"\\[pPQC]|\[\[:|\(\?[a-zU-]+\)", text))
    return re.search(r"\(\?(=|!|<=|<!|P=)|\\[1-9]", text) is None


_LITERALS: Final = {"duration": _is_duration, "timestamp": _is_timestamp, "matches": _is_pattern}


def _report(text: str, problems: list[TypeProblem], positions: Mapping[int, int]) -> str:
    starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
    placed = []
    for problem in problems:
        offset = positions.get(problem.id, 0)
        line = sum(1 for start in starts if start <= offset)
        placed.append((line, offset - starts[line - 1], problem.text))
    shown = [
        _format_error(text.split("\n")[line - 1], line, column, words)
        for line, column, words in sorted(placed, key=lambda at: at[:2])
    ]
    if len(shown) > _MOST_PROBLEMS:
        shown = [*shown[:_MOST_PROBLEMS], f"{len(problems) - _MOST_PROBLEMS} more errors were truncated"]
    return "\n".join(shown)


def _format_error(source: str, line: int, column: int, words: str) -> str:
    source = source.replace("\t", " ")
    dots = "".join("." if char.isascii() else "\uff0e" for char in source[:column])
    mark = "\uff3e" if column < len(source) and not source[column].isascii() else "^"
    return f"ERROR: <input>:{line}:{column + 1}: {words}\n | {source}\n | {dots}{mark}"
