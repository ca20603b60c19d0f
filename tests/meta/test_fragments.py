"""The changelog is built by towncrier from fragments of one to three sentences."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import fragments
import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


def test_the_fragments_of_this_tree_are_short(tree: Tree) -> None:
    assert fragments.main(tree.root) == 0


@pytest.mark.parametrize(
    ("name", "text", "mistake"),
    [
        ("015.feature.md", "Leases. They expire.", None),
        ("015.feature.2.md", "Leases.", None),
        ("015.docs.md", "Leases.", "is not named"),
        ("15.fix.md", "Leases.", "is not named"),
        ("015.fix.md", "", "0 sentences"),
        ("015.fix.md", "One. Two. Three. Four.", "4 sentences"),
        ("015.fix.md", "word " * 81, "81 words"),
        ("015.fix.md", "- Leases.\n- Shards.", "more than one paragraph"),
        ("015.fix.md", "Leases.\n\nShards.", "more than one paragraph"),
    ],
)
def test_a_fragment_is_one_paragraph_of_one_to_three_sentences(name: str, text: str, mistake: str | None) -> None:
    mistakes = fragments.mistakes(name, text)
    assert [mistake in text for text in mistakes] == [True] if mistake else mistakes == []


@pytest.fixture
def root(tmp_path: Path, tree: Tree) -> Path:
    folder = tmp_path / "changes.d"
    folder.mkdir()
    shutil.copy(tree.root / "pyproject.toml", tmp_path)
    shutil.copy(tree.root / "changes.d" / "template.md", folder)
    for name, text in {
        "README.md": "How to.",
        "014.fix.md": "A fix\nof two lines.",
        "015.fix.md": "Another fix.",
        "003.fix.md": "An old fix.",
        "014.feature.md": "A feature.",
    }.items():
        (folder / name).write_text(text)
    return tmp_path


def test_the_check_names_a_malformed_fragment(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "changes.d" / "016.fix.md").write_text("")
    assert fragments.main(root) == 1
    assert capsys.readouterr().err.startswith("changes.d/016.fix.md has 0 sentences")


def towncrier(root: Path, *arguments: str) -> str:
    program = Path(sys.executable).with_name("towncrier")
    return subprocess.run([program, "build", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


ENTRIES = "### Added\n\n- A feature.\n\n### Fixed\n\n- An old fix.\n- A fix of two lines.\n- Another fix.\n"


def test_entries_are_printed_by_kind_and_by_issue(root: Path) -> None:
    assert ENTRIES in towncrier(root, "--draft", "--version", "Unreleased")


def test_a_release_adds_a_section_and_removes_the_fragments(root: Path, tree: Tree) -> None:
    before = (tree.root / "CHANGELOG.md").read_text()
    (root / "CHANGELOG.md").write_text(before)
    towncrier(root, "--yes", "--version", "0.2.0", "--date", "2026-12-01")
    preamble, marker, releases = before.partition("<!-- towncrier release notes start -->\n")
    released = (root / "CHANGELOG.md").read_text()
    assert released == f"{preamble}{marker}\n## [0.2.0] - 2026-12-01\n\n{ENTRIES}\n{releases.lstrip()}"
    assert sorted(path.name for path in (root / "changes.d").iterdir()) == ["README.md", "template.md"]
