"""The public face: its names, and that each name has a docstring with an example."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import types
from typing import TYPE_CHECKING, Any

import pytest

import konverge

if TYPE_CHECKING:
    from tests.meta.conftest import Source, Tree

PINNED = "tests/meta/public_names.txt"


DOCUMENTED = re.compile(r"(?<![\w.])kv((?:\.[A-Za-z_]\w*)+)")
"""A name of the facade in a document, a docstring or an example."""


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order of tools that sort `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def documented_assignments(source: Source) -> dict[str, str]:
    """The names that a module assigns at its top level with a docstring below, as editors read them."""
    found = {}
    for statement, below in zip(source.tree.body, source.tree.body[1:], strict=False):
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            found.update({target.id: below.value.value for target in targets if isinstance(target, ast.Name)})
    return found


def docstring(tree: Tree, name: str) -> str:
    """The documentation of a public name: the docstring of a class or function, else the text below its assignment."""
    value: Any = getattr(konverge, name)
    if isinstance(value, type | types.FunctionType):
        return inspect.cleandoc(value.__doc__ or "")
    return next((words for source in tree.sources if (words := documented_assignments(source).get(name))), "")


def has_example(words: str) -> bool:
    """An example that runs (`>>>`), or an example in a block of code."""
    return ">>> " in words or "::\n\n    " in words or "```" in words


def test_the_public_names_are_the_pinned_ones(tree: Tree) -> None:
    pinned = (tree.root / PINNED).read_text().split()
    added, gone = sorted(set(konverge.__all__) - set(pinned)), sorted(set(pinned) - set(konverge.__all__))
    assert (added, gone) == ([], []), f"if this is meant, write it into {PINNED} and add a fragment to changes.d/"
    assert list(konverge.__all__) == pinned


def test_the_public_names_are_sorted_and_unique() -> None:
    assert list(konverge.__all__) == sorted(set(konverge.__all__), key=order)


def test_every_public_name_can_be_had_and_is_offered_by_dir() -> None:
    assert [name for name in konverge.__all__ if getattr(konverge, name, None) is None] == []
    assert set(konverge.__all__) <= set(dir(konverge))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = konverge.no_such_name


def test_type_checkers_and_the_interpreter_find_the_same_names(tree: Tree) -> None:
    """The facade imports lazily; the imports under TYPE_CHECKING must equal the lazy imports."""
    facade = next(source for source in tree.sources if source.module == "konverge")
    checked = {
        alias.asname or alias.name: node.module
        for node in ast.walk(facade.tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("konverge.")
        for alias in node.names
    }
    assert set(checked) == set(konverge.__all__)
    strays = [
        name
        for name, module in checked.items()
        if getattr(importlib.import_module(module), name) is not getattr(konverge, name)
    ]
    assert not strays, "\n".join(strays)


def test_every_public_name_is_in_a_guide(tree: Tree) -> None:
    guides = [*(tree.root / "docs/guide").glob("*.md"), tree.root / "README.md"]
    used = {dotted.split(".")[1] for path in guides for dotted in DOCUMENTED.findall(path.read_text())}
    assert sorted(set(konverge.__all__) - used) == []


def test_every_public_name_has_a_docstring_with_an_example(tree: Tree) -> None:
    bare = [name for name in konverge.__all__ if not has_example(docstring(tree, name))]
    assert not bare, "\n".join(("users meet these names first: say what each promises, and show it in use", *bare))


def test_the_examples_in_docstrings_are_true(tree: Tree) -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    wrong: list[str] = []
    ran = 0
    for source in tree.sources:
        if ">>> " not in source.text:
            continue
        module = importlib.import_module(source.module)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        for test in finder.find(module, source.module):
            ran += len(test.examples)
            # Flags 0: an example reads like a user's file, without this module's `from __future__ import annotations`.
            runner.run(test, compileflags=0, out=wrong.append)
    assert ran > 0
    assert wrong == [], "\n".join(wrong)


def test_each_name_that_a_document_uses_exists(tree: Tree) -> None:
    missing = []
    for path in tree.files():
        if path.suffix not in (".md", ".py") or "tests" in path.relative_to(tree.root).parts[:2]:
            continue
        for dotted in sorted(set(DOCUMENTED.findall(path.read_text()))):
            value: Any = konverge
            for name in dotted.split(".")[1:]:
                value = getattr(value, name, None)
            if value is None:
                missing.append(f"{path.relative_to(tree.root)}: kv{dotted}")
    assert not missing, "\n".join(missing)
