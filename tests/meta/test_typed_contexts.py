"""A reconciler's context names the model of its object: `Context[Any]` would type neither `ctx.object` nor `ctx.status.draft`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

ROOMS = ("reconcilers", "examples", "cmd", "konverge", "testkit/konverge_testing", "tools")

HOSTS = ("konverge/runtime/builder", "konverge/runtime/controller", "konverge/runtime/reconcile")
"""The runtime reconciles objects of every kind with the same code, so the model is erased there; its public signatures name the model."""


def untyped(tree: ast.Module) -> list[int]:
    """The lines with `Context[Any]`; mypy rejects a `Context` without a parameter."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value).rpartition(".")[2] == "Context"
        and ast.unparse(node.slice) == "Any"
    ]


def test_an_untyped_context_is_found() -> None:
    assert untyped(ast.parse("def f(a: kv.Context[Any], b: Context[Nextcloud]): ...")) == [1]


def test_every_context_names_its_model(tree: Tree) -> None:
    files = {path for room in ROOMS for path in tree.below(room, ".py")}
    hosts = {path for host in HOSTS for path in tree.below(host, ".py")}
    places = [
        f"{path.relative_to(tree.root)}:{line}"
        for path in sorted(files - hosts)
        for line in untyped(ast.parse(path.read_text()))
    ]
    assert places == [], (
        "write Context[Model], Context[Resource] for any object, Context[HasStatus[object]] for any status"
    )
