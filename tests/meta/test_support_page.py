"""docs/guide/support.md names the versions that the package and the chart declare and that CI runs."""

from __future__ import annotations

import re
import symtable
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pythons
import yaml

from konverge_testing.binaries import KUBERNETES_VERSION

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


LINUX = re.compile(r"""["']/proc/?|"unshare\b""")
"""Files and programs of Linux in a test."""


def test_the_classifiers_of_both_distributions_are_what_ci_runs(tree: Tree) -> None:
    own, kit = (
        tomllib.loads((tree.root / path).read_text())["project"]
        for path in ("pyproject.toml", "testkit/pyproject.toml")
    )
    versions, systems = (
        [[line for line in each["classifiers"] if line.startswith(prefix)] for each in (own, kit)]
        for prefix in ("Programming Language", "Operating System")
    )
    assert versions[0] == versions[1]
    assert own["requires-python"] == kit["requires-python"]
    assert systems == [["Operating System :: POSIX :: Linux"]] * 2, "CI runs on Linux"
    workflow = (tree.root / "cmd/konverged/scaffold/templates/project/github.yaml.in").read_text()
    numbers = [line.rpartition(" ")[2] for line in versions[0]]
    assert f'python: ["{numbers[0]}", "{numbers[-1]}"]' in workflow
    assert pythons.supported(tree.root) == numbers


def _mixed(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a comprehension of a function binds and another comprehension of it reads from the module."""
    children = table.get_children()
    inner = [each for each in children if each.get_name() in {"listcomp", "setcomp", "dictcomp"}]
    if table.get_type() == "function":
        bound = {symbol.get_name() for each in inner for symbol in each.get_symbols() if symbol.is_assigned()}
        read = {symbol.get_name() for each in inner for symbol in each.get_symbols() if symbol.is_global()}
        yield from (f"{table.get_name()}, line {table.get_lineno()}: {name}" for name in sorted(bound & read))
    for child in children:
        yield from _mixed(child)


@pytest.mark.parametrize(
    ("code", "found"), [("[x for x in y] + [x(z) for z in y]", ["f, line 1: x"]), ("[x for x in y]", [])]
)
def test_a_mixed_name_is_found(code: str, found: list[str]) -> None:
    assert list(_mixed(symtable.symtable(f"def f(y): return {code}", "a.py", "exec"))) == found


def test_no_comprehension_reads_a_name_that_another_binds(tree: Tree) -> None:
    """Python 3.12.1 inlines both, and the second one raises UnboundLocalError."""
    programs = [(str(path.relative_to(tree.root)), path.read_text()) for path in tree.below("examples", ".py")]
    files = [(source.where, source.text) for source in tree.sources] + programs
    assert [(name, mixed) for name, text in files for mixed in _mixed(symtable.symtable(text, name, "exec"))] == []


def test_files_of_tests_that_need_linux_mark_these_tests(tree: Tree) -> None:
    tests = [path for folder in ("tests", "testkit/tests") for path in (tree.root / folder).rglob("test_*.py")]
    texts = {path: path.read_text() for path in tests if path != Path(__file__)}
    need = {path for path, text in texts.items() if LINUX.search(text)}
    assert need, "the pattern matches no test"
    assert {str(path) for path in need if "mark.linux" not in texts[path]} == set()


def test_the_support_page_has_the_declared_and_tested_versions(tree: Tree) -> None:
    page = (tree.root / "docs/guide/support.md").read_text()
    rows = dict(re.findall(r"^\| (\w+)[^|]*\| ([^|]+) \|", page, re.MULTILINE))
    project = tree.project["project"]
    pythons = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    kit = tree.kit_project["project"]
    assert [line for line in kit["classifiers"] if "Python ::" in line] == [
        f"Programming Language :: Python :: {python}" for python in pythons
    ]
    assert kit["requires-python"] == project["requires-python"]
    lowest = project["requires-python"].removeprefix(">=")
    assert rows["Python"] == f"{lowest} to {pythons[-1]}"
    newer = re.search(r"TESTED=\((.*?)\)", (tree.root / ".ci/test-wheel").read_text())
    assert newer is not None
    assert sorted(pythons) == sorted([lowest, *newer[1].split()])
    oldest = yaml.safe_load((tree.root / "charts/konverge/Chart.yaml").read_text())["kubeVersion"]
    assert rows["Kubernetes"] == f"{oldest.removeprefix('>=').removesuffix('.0-0')} and newer"
    assert f"tests run on {KUBERNETES_VERSION.rpartition('.')[0]} only" in page
    helm = re.search(r"helm\.sh/helm/v(\d+) v", (tree.root / "tests/support/go_clients/go.mod").read_text())
    assert helm is not None
    assert rows["Helm"] == helm[1]
