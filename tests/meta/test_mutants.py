"""The planted faults of `make mutants` still fit the tree."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


@pytest.fixture(scope="module")
def catalogue(tree: Tree) -> Any:
    return tree.load("tools/mutants/catalogue.py")


def test_every_mutant_fits_the_tree_and_still_parses(tree: Tree, catalogue: Any) -> None:
    for mutant in catalogue.MUTANTS:
        ast.parse(catalogue.mutated((tree.root / mutant.file).read_text(), mutant), mutant.file)


def test_there_are_at_least_forty_mutants_of_different_names(catalogue: Any) -> None:
    names = [mutant.name for mutant in catalogue.MUTANTS]
    assert len(names) >= 40
    assert sorted(set(names)) == sorted(names)


def test_every_story_that_a_mutant_names_exists(tree: Tree, catalogue: Any) -> None:
    functions = {
        node.name
        for stories in (tree.root / "tools/mutants").glob("stories_*.py")
        for node in ast.parse(stories.read_text()).body
        if isinstance(node, ast.AsyncFunctionDef)
    }
    assert set(catalogue.STORIES) <= functions
    assert {story for mutant in catalogue.MUTANTS for story in mutant.stories} <= set(catalogue.STORIES)
