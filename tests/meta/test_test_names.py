"""A name of a test states the rule in at most twelve words; a docstring or the ids of its cases hold the rest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meta.conftest import Tree

MOST_WORDS = 12

FOLDERS = ("tests", "testkit/tests", "examples")


def words_of(name: str) -> list[str]:
    return [word for word in name.split("_")[1:] if word]


def names_of_tests(module: ast.Module) -> Iterator[str]:
    """Return the names of the tests of a module, at its top and in its classes."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


@pytest.mark.parametrize("folder", FOLDERS)
def test_test_name_has_at_most_twelve_words(tree: Tree, folder: str) -> None:
    long = [
        f"{path.relative_to(tree.root)}: {name} ({len(words_of(name))} words)"
        for path in tree.below(folder, ".py")
        for name in names_of_tests(ast.parse(path.read_text()))
        if len(words_of(name)) > MOST_WORDS
    ]
    assert not long, "\n".join(("state the rule in at most 12 words", *long))


def test_words_of_a_name_are_its_parts_without_test() -> None:
    assert words_of("test_a_backup_waits") == ["a", "backup", "waits"]
    module = ast.parse("class TestA:\n    async def test_b_c(self): ...\n\ndef test_d(): ...\n\ndef other(): ...")
    assert sorted(names_of_tests(module)) == ["test_b_c", "test_d"]
