"""Which caches a controller's code reads, as far as its source says it.

Promises: pure, and never wrong where it speaks: it reports a call `ctx.cache(KIND)` in the reconciler's own methods, or `caches(KIND)` in a
mapper, whose argument is a global or closed-over name (dotted ones too) of a kind. What it cannot follow (a local name, a helper elsewhere,
code without source) it passes over; there the call itself raises CacheNotWatched.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from konverge.errors import UsageError
from konverge.kinds import Kind, kind_of

if TYPE_CHECKING:
    from konverge.runtime.builder.builder import Controller

__all__ = ["undeclared_reads"]

_PASSES = ("reconcile", "finalize")


def undeclared_reads(controller: Controller[Any]) -> Iterator[tuple[str, Kind[Any]]]:
    """Yield the word and the kind of each cache that the controller's code names and the controller does not declare."""
    declared = {controller.kind, *(watched.kind for watched in (*controller.owned, *controller.watched))}
    for function, calls in _functions(controller):
        for word, what in _read(function, calls):
            if what not in declared:
                yield word, what


def _functions(controller: Controller[Any]) -> Iterator[tuple[Any, Callable[[ast.Call, Any], bool]]]:
    for owner in type(controller.reconciler).__mro__[:-1]:
        for found in vars(owner).values():
            if inspect.isfunction(found):
                yield found, _is_cache_of_context
    for watched in controller.watched:
        if inspect.isfunction(watched.mapper):
            yield watched.mapper, _is_caches


def _is_cache_of_context(call: ast.Call, function: Any) -> bool:
    """Whether this is `ctx.cache(...)` on a parameter that is the context."""
    target = call.func
    if not (isinstance(target, ast.Attribute) and target.attr == "cache" and isinstance(target.value, ast.Name)):
        return False
    parameters = list(inspect.signature(function).parameters.values())
    for place, parameter in enumerate(parameters):
        if parameter.name == target.value.id:
            return (function.__name__ in _PASSES and place == 2) or "Context" in str(parameter.annotation)
    return False


def _is_caches(call: ast.Call, function: Any) -> bool:
    """Whether this is `caches(...)` on a mapper's second parameter."""
    parameters = list(inspect.signature(function).parameters)
    return isinstance(call.func, ast.Name) and len(parameters) == 2 and call.func.id == parameters[1]


@lru_cache(maxsize=512)  # a function's source does not change, and reading it takes milliseconds
def _read(function: Any, wanted: Callable[[ast.Call, Any], bool]) -> tuple[tuple[str, Kind[Any]], ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ()
    return tuple(_reads_in(tree, function, wanted))


def _reads_in(
    tree: ast.Module, function: Any, wanted: Callable[[ast.Call, Any], bool]
) -> Iterator[tuple[str, Kind[Any]]]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and wanted(node, function)):
            continue
        found = _resolved(node.args[0], function)
        if found is not None:
            yield ast.unparse(node.args[0]), found


def _resolved(node: ast.expr, function: Any) -> Kind[Any] | None:
    """Return the kind that a name stands for, None where that cannot be told from here."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in function.__code__.co_varnames:
        return None
    closed = inspect.getclosurevars(function)
    here: Any = {**closed.globals, **closed.nonlocals}.get(node.id)
    for name in reversed(path):
        here = getattr(here, name, None)
    try:
        return None if here is None else kind_of(here)
    except (UsageError, TypeError, AttributeError):
        return None
