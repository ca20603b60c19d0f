"""Plant one fault: find a piece of code by its syntax tree in one function of one module, and put another piece in its place. Pure.

Guarantees: formatting, comments and the place within the function do not matter. A piece that is found nowhere or twice raises a
`ValueError` with the name of the mutant: a change of the tree that breaks a mutant is noticed at once (`tests/meta/test_mutants.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault. `stories` and `hints` (parts of names of plans) only set the order of the hunt.

    `test` (`tests/unit/test_fields.py::test_name`) is for a fault that no plan of a story reaches, for instance a fault of a socket or of a
    single decision: this test has to fail, and no story is tried.

    `function` is a qualified name within the module (`QueueCore.done`; empty for the module itself). `old` is one expression, or one or more
    statements that follow each other; `new` takes its place, and is empty where statements are only removed.
    """

    name: str
    breaks: str
    module: str
    function: str
    old: str
    new: str
    stories: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    test: str = ""


def file_of(mutant: Mutant, root: Path) -> Path:
    """Return the file of the mutant's module below a folder that holds konverge, and the test kit in `testkit`."""
    parts = mutant.module.split(".")
    path = root.joinpath(*(["testkit"] if parts[0] == "konverge_testing" else []), *parts)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def mutated(text: str, mutant: Mutant) -> str:
    """Return the text of the module with the fault in it, formatted by `ast.unparse`. Raises ValueError if the mutant does not fit."""
    module = ast.parse(text)
    function = _function(module, mutant)
    old, new = ast.parse(mutant.old).body, ast.parse(mutant.new).body
    if not old or _same(old, new):
        raise ValueError(f"mutant {mutant.name}: nothing is changed: old and new are alike, or old is empty")
    if _is_expression(old) and _is_expression(new):
        _replace_expression(function, _value(old), _value(new), mutant)
    else:
        _replace_statements(function, old, new, mutant)
    return ast.unparse(ast.fix_missing_locations(module)) + "\n"


def _function(module: ast.Module, mutant: Mutant) -> ast.AST:
    """Return the function, the class or the module that the mutant names."""
    result: ast.AST = module
    for name in filter(None, mutant.function.split(".")):
        inner = [
            node
            for node in _inside(result)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name == name
            and "overload" not in map(ast.unparse, node.decorator_list)
        ]
        if len(inner) != 1:
            raise ValueError(f"mutant {mutant.name}: {mutant.module} has {len(inner)} definitions {mutant.function}")
        result = inner[0]
    return result


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without the inside of the functions and classes that it defines."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _inside(node)


def _is_expression(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr)


def _value(body: list[ast.stmt]) -> ast.expr:
    [statement] = body
    assert isinstance(statement, ast.Expr)
    return statement.value


def _same(results: list[ast.stmt], other: list[ast.stmt]) -> bool:
    return len(results) == len(other) and all(ast.dump(a) == ast.dump(b) for a, b in zip(results, other, strict=True))


def _replace_expression(function: ast.AST, old: ast.expr, new: ast.expr, mutant: Mutant) -> None:
    wanted = ast.dump(old)
    places: list[tuple[ast.AST, str, int | None]] = []
    for node in ast.walk(function):
        for name, value in ast.iter_fields(node):
            many = value if isinstance(value, list) else [value]
            places += [
                (node, name, index if isinstance(value, list) else None)
                for index, each in enumerate(many)
                if isinstance(each, ast.expr) and ast.dump(each) == wanted
            ]
    _once(len(places), mutant)
    [(node, name, index)] = places
    if index is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[index] = new


def _replace_statements(function: ast.AST, old: list[ast.stmt], new: list[ast.stmt], mutant: Mutant) -> None:
    places: list[tuple[str, list[ast.stmt], int]] = [
        (name, body, start)
        for node in ast.walk(function)
        for name, body in ast.iter_fields(node)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt)
        for start in range(len(body) - len(old) + 1)
        if _same(body[start : start + len(old)], old)
    ]
    _once(len(places), mutant)
    [(name, body, start)] = places
    body[start : start + len(old)] = new
    if not body and name == "body":
        body.append(ast.Pass())


def _once(times: int, mutant: Mutant) -> None:
    if times != 1:
        where = f"{mutant.module}.{mutant.function}".rstrip(".")
        raise ValueError(f"mutant {mutant.name}: its old code stands {times} times in {where}, not once: {mutant.old}")
