"""Each dependency names a lowest version, which `.ci/test-lowest` installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lowest
import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


@pytest.mark.parametrize("name", ["core", "machines", "otel", "pools", "speed", "testing"])
def test_each_dependency_of_a_user_has_a_lowest_version(name: str, tree: Tree) -> None:
    dependencies = lowest.requirements(name, tree.root)
    own = sum(text.startswith("konverge==") for text in dependencies)
    assert len(list(lowest.lowest(dependencies))) == len(dependencies) - own


def test_a_bound_becomes_a_constraint() -> None:
    assert list(lowest.lowest(["konverge==1", "PyYAML>=6.0.2,<7", "rich >= 13"])) == ["PyYAML==6.0.2", "rich==13"]


def test_a_dependency_without_a_lowest_version_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"rich<14 has no lowest version: write rich>=VERSION"):
        list(lowest.lowest(["rich<14"]))
