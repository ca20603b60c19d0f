"""The planted faults of `make mutants` still fit the tree, and a mutant is located by its syntax and not by its text."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

MODULE = """
class Queue:
    def done(self, key, now):
        held = self.held.pop(key, None)   # the comment does not matter
        if held is not None:
            self.push(
                held,
                now,
            )
            self.wake()
        return held

    async def get(self):
        held = self.first()
        return held


def done(key):
    return key
"""
"""A module with two functions of the same name and with code that stands once, twice or never."""


@pytest.fixture(scope="module")
def planting(tree: Tree) -> Any:
    # The tools import each other by their plain names, as in a tool that Python runs as a program.
    sys.path.insert(0, str(tree.root / "tools" / "mutants"))
    try:
        import catalogue  # noqa: F401  # the mistakes of operators import it
        import planting
    finally:
        del sys.path[0]
    return planting


@pytest.fixture(scope="module")
def mistakes(planting: Any, tree: Tree) -> Any:
    return tree.load("tools/mutants/operator_mistakes.py")


@pytest.fixture(scope="module")
def catalogue(planting: Any, tree: Tree) -> Any:
    return tree.load("tools/mutants/catalogue.py")


@pytest.mark.parametrize(
    ("function", "old", "new", "changed"),
    [
        ("Queue.done", "self.push(held, now)", "self.push(key, now)", "self.push(key, now)\n"),
        ("Queue.done", "held is not None", "held is None", "if held is None:\n"),
        ("Queue.done", "self.push(held, now)\nself.wake()", "", "if held is not None:\n            pass\n"),
        ("Queue.done", "self.wake()", "if now:\n    self.wake()", "            if now:\n                self.wake()\n"),
        ("Queue.get", "return held", "return None", "held = self.first()\n        return None\n"),
        ("done", "return key", "return None", "def done(key):\n    return None\n"),
    ],
    ids=["a call", "an expression", "two statements", "a statement by another", "a method", "a function"],
)
def test_code_is_replaced_where_the_function_has_it(
    planting: Any, function: str, old: str, new: str, changed: str
) -> None:
    mutant = planting.Mutant("one", "something", "a.queue", function, old, new)
    found = planting.mutated(MODULE, mutant)
    assert changed in found
    assert changed not in ast.unparse(ast.parse(MODULE)) + "\n"


@pytest.mark.parametrize(
    ("function", "old", "said"),
    [
        ("Queue.done", "self.push(held)", "stands 0 times in a.queue.Queue.done"),
        ("Queue.done", "self", "stands 3 times in a.queue.Queue.done"),
        ("Queue", "return held", "stands 2 times in a.queue.Queue"),
        ("Queue.gone", "held", "a.queue has 0 definitions Queue.gone"),
        ("done", "", "nothing is changed"),
    ],
)
def test_error_for_code_that_does_not_occur_once_names_the_mutant(
    planting: Any, function: str, old: str, said: str
) -> None:
    with pytest.raises(ValueError, match=rf"^mutant one: .*{said}"):
        planting.mutated(MODULE, planting.Mutant("one", "something", "a.queue", function, old, "None"))


def test_every_mutant_fits_the_tree_and_still_parses(planting: Any, tree: Tree, catalogue: Any) -> None:
    for mutant in catalogue.MUTANTS:
        file = planting.file_of(mutant, tree.root)
        ast.parse(planting.mutated(file.read_text(), mutant), str(file))


def test_every_mistake_of_an_operator_fits_the_tree_and_names_an_oracle(
    planting: Any, tree: Tree, mistakes: Any
) -> None:
    for mistake in mistakes.MISTAKES:
        file = planting.file_of(mistake.mutant, tree.root)
        ast.parse(planting.mutated(file.read_text(), mistake.mutant), str(file))
        assert mistake.oracle in mistakes.ORACLES, mistake.mutant.name
        place, _, name = mistake.scenario.partition(":")
        scenarios = tree.root.joinpath(*place.split(".")).with_suffix(".py").read_text()
        assert f"async def {name}(lab: Lab)" in scenarios, mistake.mutant.name
    names = [mistake.mutant.name for mistake in mistakes.MISTAKES]
    assert len(names) == len(set(names)) >= 20


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


def test_every_test_that_a_mutant_names_exists(tree: Tree, catalogue: Any) -> None:
    for mutant in catalogue.MUTANTS:
        if mutant.test:
            file, _, name = mutant.test.partition("::")
            definitions = [
                node.name for node in ast.walk(ast.parse((tree.root / file).read_text())) if hasattr(node, "name")
            ]
            assert name.partition("[")[0] in definitions, f"{mutant.name}: {mutant.test}"
