"""The differences between two generated modules that matter to a program.

Guarantees: pure. Comments, docstrings, the order of definitions and the layout of the text do not matter, so the file may be formatted by
any tool.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from konverge.errors import UsageError

__all__ = ["differences"]


def differences(before: str, after: str) -> list[str]:
    r"""Return a line for each class, field or constant that differs; `after` is the newly generated text.

    Raises UsageError if the first text has a syntax error.

    >>> differences("class JobSpec(PartialModel):\n    suspend: bool", "class JobSpec(PartialModel):\n    suspend: bool | None = None")
    ['JobSpec.suspend: bool is now bool | None = None']
    """
    try:
        old = dict(_definitions(ast.parse(before)))
    except SyntaxError as error:
        raise UsageError(f"line {error.lineno} is not Python: {error.msg}") from error
    new = dict(_definitions(ast.parse(after)))
    lines = [f"{name}: {old[name]} is no longer in the API" for name in old if name not in new]
    lines += [f"{name}: {old[name]} is now {new[name]}" for name in new if name in old and old[name] != new[name]]
    lines += [f"{name}: {new[name]} is new" for name in new if name not in old]
    return sorted(lines)


def _definitions(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each class, field and constant with its source text."""
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            yield statement.name, f"class {statement.name}({', '.join(map(ast.unparse, statement.bases))})"
            for member in statement.body:
                if isinstance(member, ast.AnnAssign):
                    default = f" = {ast.unparse(member.value)}" if member.value is not None else ""
                    yield f"{statement.name}.{ast.unparse(member.target)}", ast.unparse(member.annotation) + default
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield ast.unparse(target), ast.unparse(statement.value)
