"""Build CHANGELOG.md from the fragments in changes.d/: `make changelog` writes, `make lint` checks.

    python tools/changelog.py                       rewrites the section Unreleased
    python tools/changelog.py --check               fails if a fragment is malformed or CHANGELOG.md is stale
    python tools/changelog.py --release 0.1.0 2026-12-01   closes the section and removes the fragments

Guarantees: running it again changes nothing; sections of releases are never touched. The format is that of https://keepachangelog.com.
A fragment is named `NNN.kind.md` or `NNN.kind.2.md` (issue, kind, and a number from the second on) and is one paragraph.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import prose

ROOT = Path(__file__).resolve().parent.parent

HEADINGS = {"feature": "Added", "change": "Changed", "fix": "Fixed"}
"""The section of each kind of fragment, in the order of the changelog."""

SENTENCES = 3
WORDS = 80

PREAMBLE = """# Changelog

Changes that a user can see, in the form of [Keep a Changelog](https://keepachangelog.com/en/1.1.0/). The section Unreleased is built from
[changes.d](changes.d/README.md) by `make changelog`; do not edit it here.
"""

UNRELEASED = "## [Unreleased]"

_NAME = re.compile(r"(?P<issue>\d{3})\.(?P<kind>feature|change|fix)(?:\.(?P<number>[2-9]|[1-9]\d))?\.md")
_RELEASE = re.compile(r"^## \[(?!Unreleased\])", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, order=True, slots=True)
class Fragment:
    """One entry of the changelog: sorted by issue, then by number."""

    issue: int
    number: int
    kind: str
    text: str


def mistakes(name: str, text: str) -> list[str]:
    """Say what is wrong with a fragment and how to mend it."""
    found = []
    if not _NAME.fullmatch(name):
        found.append(f"is not named NNN.kind.md with a kind of {', '.join(HEADINGS)} (more of one kind: NNN.kind.2.md)")
    if re.search(r"^\s*(?:[-*#|]|```)|\n\s*\n", text.strip(), re.MULTILINE):
        found.append("is more than one paragraph: put each point into a fragment of its own")
    sentences = prose.sentences_of_markdown(text)
    words = len(text.split())
    if not 1 <= len(sentences) <= SENTENCES or words > WORDS:
        found.append(
            f"has {len(sentences)} sentences and {words} words: write 1 to {SENTENCES} sentences of at most {WORDS} words in all"
        )
    return found


def fragment(name: str, text: str) -> Fragment:
    """Read a fragment; raises ValueError if it is malformed."""
    named = _NAME.fullmatch(name)
    if wrong := mistakes(name, text):
        raise ValueError("; ".join(f"changes.d/{name} {what}" for what in wrong))
    assert named
    return Fragment(int(named["issue"]), int(named["number"] or 1), named["kind"], " ".join(text.split()))


def section(heading: str, fragments: Iterable[Fragment]) -> str:
    """Return a section of the changelog with its entries by kind."""
    ordered = sorted(fragments)
    parts = [heading]
    for kind, title in HEADINGS.items():
        if entries := [f"- {one.text}" for one in ordered if one.kind == kind]:
            parts.append(f"### {title}\n\n" + "\n".join(entries))
    return "\n\n".join(parts) + "\n"


def changelog(previous: str, fragments: Sequence[Fragment], release: tuple[str, str] | None = None) -> str:
    """Return the changelog with these fragments as unreleased, or as a release of this version and date."""
    released = match.start() if (match := _RELEASE.search(previous)) else len(previous)
    parts = [PREAMBLE]
    if release is None:
        parts.append(section(UNRELEASED, fragments))
    else:
        parts += [section(UNRELEASED, []), section(f"## [{release[0]}] - {release[1]}", fragments)]
    return "\n".join(parts) + ("\n" + previous[released:] if previous[released:] else "")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write or check the changelog, or make a release; return the exit code."""
    release = None
    match arguments:
        case [] | ["--check"]:
            pass
        case ["--release", version, date] if _DATE.fullmatch(date):
            release = version, date
        case _:
            print("usage: python tools/changelog.py [--check | --release VERSION YYYY-MM-DD]", file=sys.stderr)
            return 2
    paths = sorted(path for path in (root / "changes.d").glob("*") if path.name != "README.md")
    fragments, wrong = [], []
    for path in paths:
        try:
            fragments.append(fragment(path.name, path.read_text()))
        except ValueError as error:
            wrong.append(str(error))
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    file = root / "CHANGELOG.md"
    previous = file.read_text() if file.exists() else ""
    fresh = changelog(previous, fragments, release)
    if arguments == ["--check"]:
        if fresh != previous:
            print("CHANGELOG.md is older than changes.d; run: make changelog", file=sys.stderr)
        return int(fresh != previous)
    file.write_text(fresh)
    if release:
        for path in paths:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
