"""`build(manager)`, the list of a project's controllers, webhooks and conversions: a part is added to its text. Pure.

Guarantees: the import is added to the imports of the package in their order, and the call as the last statement of `build`. No other line
changes. A text of another form is left unchanged, because a wrong guess would cost more than two lines by hand.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["BuildPart", "with_part"]


@dataclass(frozen=True, slots=True)
class BuildPart:
    """A value of a module that `build` adds to the manager.

    >>> BuildPart("shop.carts.reconciler", "CONTROLLER", "CARTS").call
    'manager.add(CARTS)'
    """

    module: str
    attribute: str
    alias: str

    @property
    def statement(self) -> str:
        """The import."""
        return f"from {self.module} import {self.attribute} as {self.alias}"

    @property
    def call(self) -> str:
        """The call in `build`."""
        return f"manager.add({self.alias})"


def with_part(text: str, part: BuildPart) -> str | None:
    """Return the text of a module with a part added to `build`; None if the module leaves a choice.

    The module needs exactly one plain function `build(manager)` without a return, an import, and no other use of the alias.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    builds = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "build"]
    if len(builds) != 1 or not _is_plain(builds[0]) or part.alias in _names(tree):
        return None
    after = _last_import(tree, part.module)
    if after is None:
        return None
    lines = text.splitlines()
    last = builds[0].body[-1]
    indent = lines[last.lineno - 1][: last.col_offset]
    if not indent.isspace():  # the statement shares its line
        return None
    lines.insert(last.end_lineno or last.lineno, f"{indent}{part.call}")
    own = any(_of_package(node, part.module) for node in tree.body)
    lines[after:after] = [part.statement] if own else ["", part.statement]
    return "\n".join(lines) + "\n"


def _is_plain(build: ast.FunctionDef) -> bool:
    """Return whether the last statement of the function is certain to run, and its argument is the manager."""
    arguments = build.args
    named = [argument.arg for argument in arguments.args] == ["manager"]
    others = arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    leaves = any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in ast.walk(build))
    return named and not others and not build.decorator_list and not leaves and isinstance(build.body[-1], ast.Expr)


def _names(tree: ast.Module) -> set[str]:
    """Return the names that a module uses or binds."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return imported | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _of_package(node: ast.stmt, module: str) -> bool:
    """Return whether a statement imports from the package of a module."""
    package = module.partition(".")[0]
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package


def _last_import(tree: ast.Module, module: str) -> int | None:
    """Return the number of the line after which the import of a module belongs."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    own = [node for node in imports if isinstance(node, ast.ImportFrom) and _of_package(node, module)]
    before = [node for node in own if (node.module or "") < module]
    if before:
        return before[-1].end_lineno
    if own:
        return own[0].lineno - 1
    return imports[-1].end_lineno if imports else None
