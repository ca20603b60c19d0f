"""Documents show programs as they are in the tree, and a test runs these programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

DOCUMENT = "# A\n\n<!-- include: examples/a.py -->\nold\n<!-- end include -->\n\nend\n"
FRESH = "# A\n\n<!-- include: examples/a.py -->\n```python\nprint(1)\n```\n<!-- end include -->\n\nend\n"
FILES = {"examples/a.py": "print(1)\n", "b.yaml": "a: 1\n"}


@pytest.fixture
def tool(tree: Tree) -> Any:
    return tree.load("tools/readme.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "examples" / "a.py").write_text("print(1)\n")
    (tmp_path / "README.md").write_text(DOCUMENT)
    (tmp_path / "docs" / "guide.md").write_text(FRESH)
    (tmp_path / "testkit").mkdir()
    (tmp_path / "testkit" / "README.md").write_text(FRESH)
    return tmp_path


def test_an_included_file_replaces_what_stood_there(tool: Any) -> None:
    assert tool.included(DOCUMENT, FILES.__getitem__) == FRESH


def test_including_again_changes_nothing(tool: Any) -> None:
    assert tool.included(FRESH, FILES.__getitem__) == FRESH


def test_two_blocks_of_one_document_are_told_apart(tool: Any) -> None:
    second = "<!-- include: b.yaml -->\n```yaml\na: 1\n```\n<!-- end include -->\n"
    before = DOCUMENT + "<!-- include: b.yaml -->\n<!-- end include -->\n"
    assert tool.included(before, FILES.__getitem__) == FRESH + second


@pytest.mark.parametrize("document", [DOCUMENT.replace("<!-- end include -->", ""), "<!-- include: a b -->\n"])
def test_a_block_that_cannot_be_read_is_refused(tool: Any, document: str) -> None:
    with pytest.raises(ValueError, match="end include"):
        tool.included(document, FILES.__getitem__)


def test_checking_names_the_stale_document_and_writes_nothing(
    tool: Any, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--check"], root) == 1
    assert capsys.readouterr().err.startswith("README.md shows an older state")
    assert (root / "README.md").read_text() == DOCUMENT


def test_writing_makes_the_check_pass(tool: Any, root: Path) -> None:
    assert tool.main([], root) == 0
    assert (root / "README.md").read_text() == FRESH
    assert tool.main(["--check"], root) == 0


def test_the_documents_of_this_tree_show_files_as_they_are(tool: Any, tree: Tree) -> None:
    assert [str(path.relative_to(tree.root)) for path in tool.stale(tree.root)] == [], "make readme"


def test_the_readme_shows_a_program_that_the_tests_run(tool: Any, tree: Tree) -> None:
    shown = [match["path"] for match in tool.BLOCK.finditer((tree.root / "README.md").read_text())]
    assert shown, "the README shows at least one program"
    tests = "".join(path.read_text() for path in tree.below("tests", ".py") if path.parent.name != "meta")
    assert [name for name in shown if Path(name).stem not in tests] == []
