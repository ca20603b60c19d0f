"""The examples in the docstrings and in the guide run."""

import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import konverge.crds

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "models.md"
MODULES = sorted(
    module.name.removeprefix("konverge.crds.")
    for module in pkgutil.walk_packages(konverge.crds.__path__, "konverge.crds.")
    if not module.name.rpartition(".")[2].startswith("_")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"konverge.crds.{name}")).failed == 0


def test_every_public_name_has_a_docstring_with_an_example_or_is_data() -> None:
    without = [
        name
        for name in konverge.crds.__all__
        if ">>>" not in (getattr(getattr(konverge.crds, name), "__doc__", None) or "")
    ]
    # Data, and functions that programs which only declare resources never call. Condition belongs to the ground floor.
    rare = {"Declaration", "Duration", "all_manifests", "crd_manifests", "declaration_of", "own_resources", "schema_of"}
    assert set(without) - {"Condition"} == rare


@pytest.mark.skipif(not GUIDE.exists(), reason="the guide is not part of the wheel")
def test_the_programs_of_the_guide_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block runs in the module of the blocks before it; a line `# -> text` has the printed form of the line above."""
    module = ModuleType("guide_models")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    checked = 0
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
        for expression, expected in re.findall(r"^([^\n#]+?)\n# -> (.*)$", block, re.MULTILINE):
            assert repr(eval(expression, module.__dict__)) == expected
            checked += 1
    assert checked > 3
