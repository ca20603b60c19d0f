"""The changelog is built from fragments of one to three sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import changelog
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.meta.conftest import Tree


def test_the_changelog_of_this_tree_is_fresh_and_its_fragments_are_short(tree: Tree) -> None:
    assert changelog.main(["--check"], tree.root) == 0


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
    found = changelog.mistakes(name, text)
    assert [mistake in one for one in found] == [True] if mistake else found == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "changes.d"
    folder.mkdir()
    for name, text in {
        "README.md": "How to.",
        "014.fix.md": "A fix\nof two lines.",
        "014.fix.2.md": "Another fix.",
        "003.fix.md": "An old fix.",
        "014.feature.md": "A feature.",
    }.items():
        (folder / name).write_text(text)
    return tmp_path


def test_entries_stand_by_kind_and_in_the_order_of_their_issues(root: Path) -> None:
    assert changelog.main([], root) == 0
    assert (root / "CHANGELOG.md").read_text() == changelog.PREAMBLE + (
        "\n## [Unreleased]\n\n### Added\n\n- A feature.\n\n### Fixed\n\n- An old fix.\n- A fix of two lines.\n- Another fix.\n"
    )
    assert changelog.main(["--check"], root) == 0


def test_the_check_fails_if_a_fragment_is_new_or_malformed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changelog.main([], root)
    (root / "changes.d" / "015.fix.md").write_text("A new fix.")
    assert changelog.main(["--check"], root) == 1
    assert capsys.readouterr().err == "CHANGELOG.md is older than changes.d; run: make changelog\n"
    (root / "changes.d" / "015.fix.md").write_text("")
    assert changelog.main([], root) == 1
    assert capsys.readouterr().err.startswith("changes.d/015.fix.md has 0 sentences")


def test_a_release_closes_the_section_removes_the_fragments_and_stays_as_it_is(root: Path) -> None:
    assert changelog.main(["--release", "0.1.0", "2026-12-01"], root) == 0
    assert [path.name for path in (root / "changes.d").iterdir()] == ["README.md"]
    released = (root / "CHANGELOG.md").read_text()
    assert "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- A feature.\n" in released
    (root / "changes.d" / "016.fix.md").write_text("A later fix.")
    assert changelog.main([], root) == 0
    later = (root / "CHANGELOG.md").read_text()
    assert later.replace("\n### Fixed\n\n- A later fix.\n", "", 1) == released


@pytest.mark.parametrize("arguments", [["--wrong"], ["--release", "0.1.0"], ["--release", "0.1.0", "today"]])
def test_arguments_that_make_no_sense_are_refused_with_the_usage(
    root: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert changelog.main(arguments, root) == 2
    assert "usage: " in capsys.readouterr().err
    assert not (root / "CHANGELOG.md").exists()
