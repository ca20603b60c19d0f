"""The comparison with peers names a test for each feature of ours, and each of these tests exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

TEST = re.compile(r"`((?:testkit/)?tests/[\w/]+\.py)(?:::(test_\w+))?`")


def rows_of(text: str) -> list[str]:
    """Return the rows of the first table, without its head."""
    table = text.partition("\n| Feature |")[2].partition("\n\n")[0]
    return table.splitlines()[2:]


def problem_of(row: str, root: Path) -> str:
    """Return why a row is not shown by a test, "" if it is."""
    tests = TEST.findall(row)
    if len(tests) != 1:
        return f"names {len(tests)} tests, and not one"
    [(path, name)] = tests
    if not (root / path).exists():
        return f"there is no {path}"
    return "" if not name or f"def {name}(" in (root / path).read_text() else f"{path} has no {name}"


def test_each_feature_of_the_comparison_is_shown_by_a_test(tree: Tree) -> None:
    rows = rows_of((tree.root / "docs/comparison.md").read_text())
    problems = [f"{row.split('|')[1].strip()}: {problem}" for row in rows if (problem := problem_of(row, tree.root))]
    assert len(rows) > 20
    assert problems == []


def test_a_row_without_an_existing_test_is_found(tree: Tree) -> None:
    assert problem_of("| A | yes |", tree.root) == "names 0 tests, and not one"
    assert problem_of("| A | `tests/meta/absent.py::test_a` |", tree.root) == "there is no tests/meta/absent.py"
    assert "has no test_absent" in problem_of("| A | `tests/meta/test_comparison.py::test_absent` |", tree.root)


def test_page_side_by_side_counts_the_lines_of_each_program(tree: Tree) -> None:
    examples, go = tree.root / "examples", tree.root / "examples" / "page_kubebuilder"
    programs = (
        [examples / "page_kopf.py"],
        [go / name for name in ("controller.go", "types.go", "main.go")],
        [examples / "page_kube_rs" / "src" / "main.rs"],
        [examples / "page_operator.py"],
    )
    lines = " | ".join(str(sum(len(path.read_text().splitlines()) for path in files)) for files in programs)
    page = (tree.root / "docs/guide/side-by-side.md").read_text()
    assert f"| Lines of the author | {lines} |" in page
    assert f"| {len((go / 'zz_generated.deepcopy.go').read_text().splitlines())}, and manifests |" in page
