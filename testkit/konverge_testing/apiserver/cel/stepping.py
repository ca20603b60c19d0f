"""Expressions with more iterations than the library runs at once, evaluated in pieces.

Guarantees: pure. A loop is run over parts of its list; each part begins with the accumulated value of the part before it. The loops inside
one element are run the same way if they are too long. An error in one part counts only if the value is read, as in a single run.

Caveats: values between two parts are plain data, so a loop that accumulates times, durations or optional values cannot be divided.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.cel.errors import EvalError, TooCostly, TooManyIterations
from konverge_testing.apiserver.cel.rewrite import inner, transform
from konverge_testing.apiserver.cel.syntax import Comprehension, Expr, Ident

__all__ = ["Stepper"]

_PART: Final = 2_000
"""The number of elements of the first part; if a part is still too long, a shorter part is tried."""

_SHRINK: Final = 8
_MOST_RUNS: Final = 20_000
"""Only nested loops that cost far more than the limit of a call can reach this number."""
_MISSING: Final = 'No value with name "'
_ITEMS: Final = "@items"
_BEFORE: Final = "@before"

Compile: TypeAlias = Callable[[Expr, tuple[str, ...]], Callable[[Mapping[str, Any]], Any]]
"""Compiles an expression over the named variables to a program."""


class Stepper:
    """One evaluation; `most` ends a loop that accumulates costs; the cost is the first of its two values."""

    def __init__(self, compile_: Compile, most: int | None) -> None:
        self._compile = compile_
        self._most = most
        self._programs: dict[tuple[int, tuple[str, ...]], Any] = {}
        self._kept: list[Expr] = []
        self._divided: dict[int, tuple[Expr, list[tuple[str, Comprehension]]]] = {}
        self._names = count()
        self._runs = 0

    def run(self, expr: Expr, values: Mapping[str, Any], errors: Mapping[str, EvalError] | None = None) -> Any:
        """Return the value of an expression; `errors` are raised by reading a variable without a value."""
        errors = errors or {}
        try:
            return self._native(expr, values, errors)
        except TooManyIterations:
            pass
        if isinstance(expr, Comprehension):
            return self._loop(expr, values, errors)
        rest, loops = self._parts(expr)
        known, failed = dict(values), dict(errors)
        for name, loop in loops:
            try:
                known[name] = self.run(loop, values, errors)
            except EvalError as error:
                failed[name] = error
        return self._native(rest, known, failed)

    def _native(self, expr: Expr, values: Mapping[str, Any], errors: Mapping[str, EvalError]) -> Any:
        self._runs += 1
        if self._runs > _MOST_RUNS:
            raise TooCostly
        names = tuple(sorted({*values, *errors}))
        program = self._programs.get((id(expr), names))
        if program is None:
            self._kept.append(expr)  # the id is kept
            program = self._programs[id(expr), names] = self._compile(expr, names)
        try:
            return program(values)
        except EvalError as error:
            name = str(error).partition(_MISSING)[2].partition('"')[0]
            raise errors.get(name, error) from None

    def _parts(self, expr: Expr) -> tuple[Expr, list[tuple[str, Comprehension]]]:
        """Return an expression with variables in place of its outermost loops, and the loops."""
        found = self._divided.get(id(expr))
        if found is None:
            rest = copy.deepcopy(expr)
            loops = [(f"@part{next(self._names)}", loop) for loop in _outermost(rest)]
            for name, loop in loops:
                _replace(rest, loop, Ident(loop.id, name))
            self._kept.append(expr)
            found = self._divided[id(expr)] = (rest, loops)
        return found

    def _loop(self, loop: Comprehension, values: Mapping[str, Any], errors: Mapping[str, EvalError]) -> Any:
        items = self.run(loop.range, values, errors)
        pairs = _pairs(items) if loop.second else list(items)
        known, failed = dict(values), dict(errors)
        self._accumulate(known, failed, loop.accumulator, partial(self.run, loop.start, values, errors))
        part = self._part(loop)
        at, size = 0, _PART
        while at < len(pairs):
            some = pairs[at : at + size]
            given, problems = {**values, _ITEMS: dict(some) if loop.second else some}, dict(errors)
            if loop.accumulator in known:
                given[_BEFORE] = known[loop.accumulator]
            else:
                problems[_BEFORE] = failed[loop.accumulator]
            try:
                self._accumulate(known, failed, loop.accumulator, partial(self._native, part, given, problems))
            except TooManyIterations:
                if size > 1:
                    size = max(1, size // _SHRINK)
                    continue
                names = (loop.variable, loop.second) if loop.second else (loop.variable,)
                scope = {**known, **dict(zip(names, pairs[at] if loop.second else some, strict=True))}
                if self.run(loop.condition, scope, failed) is False:
                    break
                self._accumulate(known, failed, loop.accumulator, partial(self.run, loop.step, scope, failed))
            self._require(known.get(loop.accumulator))
            at += len(some)
        return self.run(loop.result, known, failed)

    @staticmethod
    def _accumulate(known: dict[str, Any], failed: dict[str, EvalError], name: str, compute: Callable[[], Any]) -> None:
        """Set the value of a variable, or the error of reading it."""
        try:
            value = compute()
        except EvalError as error:
            known.pop(name, None)
            failed[name] = error
        else:
            failed.pop(name, None)
            known[name] = value

    def _part(self, loop: Comprehension) -> Expr:
        """Return a loop over `@items` that continues from `@before`, and returns its accumulator."""
        found = self._divided.get(-id(loop))
        if found is None:
            made = Comprehension(
                loop.id,
                loop.variable,
                loop.second,
                Ident(loop.id, _ITEMS),
                loop.accumulator,
                Ident(loop.id, _BEFORE),
                loop.condition,
                loop.step,
                Ident(loop.id, loop.accumulator),
            )
            self._kept.append(loop)
            found = self._divided[-id(loop)] = (made, [])
        return found[0]

    def _require(self, accumulated: Any) -> None:
        if self._most is not None and isinstance(accumulated, list) and accumulated:
            cost = accumulated[0]
            if isinstance(cost, int) and not isinstance(cost, bool) and cost > self._most:
                raise TooCostly


def _pairs(items: Any) -> list[tuple[Any, Any]]:
    return list(items.items() if isinstance(items, dict) else enumerate(items))


def _outermost(expr: Expr) -> Iterator[Comprehension]:
    if isinstance(expr, Comprehension):
        yield expr
        return
    for part in inner(expr):
        yield from _outermost(part)


def _replace(expr: Expr, old: Expr, new: Expr) -> None:
    """Replace a subexpression of an expression."""
    transform(expr, lambda part: new if part is old else part)
