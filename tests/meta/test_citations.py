"""Citations: every page, heading or numbered row that a file of the repository cites exists.

Comments cite headings as `docs/reference/runtime.md#events`, documents link to each other, tests are named by the rows of
docs/reference/capsule.md#rows. Knowledge outside of the repository is not cited at all: write it down in docs/reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

OUTSIDE = {
    "DESIGN": "docs/reference/runtime.md, or a decision in docs/adr",
    "runtime-semantics": "docs/reference/runtime.md",
    "shared/(?:reference|seeds|recordings)": "docs/reference",
    r"seed \d{3}": "docs/reference/apps.md or docs/reference/capsule.md",
    "(?:the requirement|requirement document)": "docs/reference/capsule.md#the-page-of-capsule, or the heading in question",
    r"(?:apps|quota|pools|machines|sharding|face)\.md (?:section )?\d": "docs/reference, by heading instead of by number",
}
"""Names of documents that the repository does not hold, and what to cite instead."""

ABROAD = re.compile("|".join(rf"\b{word}\b" for word in OUTSIDE))

TABLES = {
    "rows of pools": (
        r"(?<![0-9A-Za-z\\])[Xx](\d\d)(?![0-9A-Za-z-])",
        "quota",
        "docs/reference/capsule.md",
        r'<a id="x(\d\d)">',
    ),
    "defects of apps": (r"def test_defect_(\d+)_", "apps/", "docs/reference/apps.md", r'<a id="defect-(\d+)">'),
    "traps of Flux": (r"def test_trap_(\d+)_", "apps/", "docs/reference/flux.md", r'<a id="trap-(\d+)">'),
}
"""Ids of rows: how they are written, in files of which path, the page with the table, and how a row begins there."""

RECORDED = {".json", ".jsonl", ".sum", ".lock", ".txt"}
"""Files with recorded content, or data."""

URL = re.compile(r"\b[a-z+]+://[^\s)>\"'`]+")
LINKED = re.compile(r"\]\((?P<page>[\w./-]*\.md)?(?:#(?P<anchor>[\w-]+))?\)")
NAMED = re.compile(
    r"(?:(?<![\w./*{}$\"'-])|(?<=[\"'])(?=(?:testkit/docs|docs/(?:guide|reference|adr))/))(?P<page>(?:[\w.-]+/)*[\w-]+\.md)\b(?:#(?P<anchor>[\w-]+))?"
)
"""A page in running text; after a quotation mark only one of those folders, since programs write files of any name."""

FILED = re.compile(
    r"(?<![\w./*{}$-])(?P<file>(?:testkit|tests|tools|konverge|reconcilers|informers|workqueue|crds|cmd|deploy|docs|examples)"
    r"/[\w./-]+\.(?:py|yaml|json|jsonl|toml|txt))\b"
)
"""Other files, by their path from the root. Tests of tools name files that they make; only what stands outside of tests is looked at."""

HEADING = re.compile(r"^#{1,6} (?P<text>.+?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)", re.MULTILINE | re.DOTALL)


OF_THE_SITE = ("mkdocs.yml", "tools/pages/", "tests/e2e/site/")
"""Files that name pages of the site, which are other paths; the build of the site checks these."""


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a document: GitHub's anchors of its headings, and explicit anchors."""
    found: dict[str, int] = {}
    made = set(re.findall(r'<a id="([\w-]+)">', text))
    for heading in HEADING.finditer(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?", r"\1", heading["text"])
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        made.add(slug if not found[slug] else f"{slug}-{found[slug]}")
    return made


def texts_of(root: Path, paths: Iterable[Path]) -> dict[Path, str]:
    """Return the texts of the files that can cite something, by their path below the root."""
    texts = {}
    for path in paths:
        if path.suffix in RECORDED or path == Path(__file__):  # this file plants what it forbids
            continue
        if path.relative_to(root).as_posix().startswith(OF_THE_SITE):
            continue
        try:
            texts[path.relative_to(root)] = path.read_text()
        except UnicodeDecodeError:
            continue
    return texts


def citations_that_lead_nowhere(root: Path, texts: dict[Path, str]) -> list[str]:
    """Return a line for each cited page, heading and outside document that does not exist."""
    anchors = {path: anchors_of(text) for path, text in texts.items() if path.suffix == ".md"}
    problems = []
    for path, whole in texts.items():
        document = path.suffix == ".md"
        for number, raw in enumerate(whole.splitlines(), start=1):
            where = f"{path}:{number}"
            if ABROAD.search(raw) is not None:
                problems += [
                    f"{where}: {match[0]!r} is not in this repository; cite {instead}"
                    for word, instead in OUTSIDE.items()
                    for match in re.finditer(rf"\b{word}\b", raw)
                ]
            if "tests" not in path.parts[:2]:
                problems += [
                    f"{where}: there is no {match['file']}"
                    for match in FILED.finditer(URL.sub("", raw))
                    if not any((root / base / match["file"]).exists() for base in (Path(), path.parent))
                ]
            if ".md" not in raw and not (document and "](#" in raw):
                continue
            line = URL.sub("", raw)
            for match in (*NAMED.finditer(line), *(LINKED.finditer(line) if document else ())):
                page, anchor = match["page"], match["anchor"]
                if page or anchor:
                    problems += _problems(root, path, page, anchor, anchors, where)
    return list(dict.fromkeys(problems))


def _problems(
    root: Path, path: Path, page: str | None, anchor: str | None, anchors: dict[Path, set[str]], where: str
) -> list[str]:
    bases = [path.parent, Path(), Path("docs")]
    places = [path] if page is None else [_plain(base / page) for base in bases]
    there = [place for place in places if (root / place).is_file()]
    if not there:
        return [f"{where}: there is no {page}; a citation begins at the root: docs/reference/..., docs/guide/..."]
    if anchor and not any(anchor in anchors.get(place, set()) for place in there):
        return [f"{where}: {page or path} has no heading #{anchor}"]
    return []


def _plain(path: Path) -> Path:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def test_every_page_and_heading_that_is_cited_is_there(tree: Tree) -> None:
    found = citations_that_lead_nowhere(tree.root, texts_of(tree.root, tree.files()))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("written", "files", "page", "row"), TABLES.values(), ids=TABLES)
def test_every_cited_row_is_in_its_table_and_has_a_test(
    tree: Tree, written: str, files: str, page: str, row: str
) -> None:
    texts = texts_of(tree.root, (path for path in tree.files() if files in str(path.relative_to(tree.root))))
    named = {match for text in texts.values() for match in re.findall(written, text)}
    tested = {match for path, text in texts.items() if path.parts[0] == "tests" for match in re.findall(written, text)}
    rows = set(re.findall(row, (tree.root / page).read_text(), re.MULTILINE))
    assert rows, f"{page} has no such table"
    assert named - rows == set(), f"{page} lacks these rows"
    assert rows - tested == set(), f"no test is named by these rows of {page}"


def test_every_kep_that_is_named_is_linked_from_the_reference(tree: Tree) -> None:
    linked = set(re.findall(r"\[KEP-(\d+)\]\(https://", (tree.root / "docs/reference/README.md").read_text()))
    named = {
        (number, str(path))
        for path, text in texts_of(tree.root, tree.files()).items()
        for numbers in re.findall(r"\bKEPs?[ -]?(\d{3,5}(?:, \d{3,5})*)", text)
        for number in numbers.split(", ")
    }
    assert [f"{path}: KEP-{number}" for number, path in sorted(named) if number not in linked] == []


PAGE = '# A page\n\n## What it says\n\n| <a id="x1"></a>X1 | a row |\n'


@pytest.mark.parametrize(
    ("name", "line", "says"),
    {
        "a page that is there": ("a.py", "# docs/reference/page.md", ""),
        "a heading that is there": ("a.py", "# docs/reference/page.md#what-it-says", ""),
        "a row that is there": ("a.py", "# docs/reference/page.md#x1", ""),
        "a link between documents": ("docs/reference/other.md", "[it](page.md#a-page), [a](../reference/page.md)", ""),
        "a page of the web": ("a.py", "# https://example.com/pages/none.md#no", ""),
        "a file that a program writes": ("a.py", 'path = folder / "report.md"', ""),
        "a docstring that begins with a page": (
            "a.py",
            '"""docs/guide/none.md says so."""',
            "there is no docs/guide/none.md",
        ),
        "a page that is not there": ("a.py", "# docs/reference/none.md", "a.py:1: there is no docs/reference/none.md"),
        "a page without its folder": ("a.py", "# the rules (page.md 1.5)", "a.py:1: there is no page.md"),
        "a heading that is not there": (
            "a.py",
            "# docs/reference/page.md#no",
            "docs/reference/page.md has no heading #no",
        ),
        "a heading of the page itself": ("docs/b.md", "see [there](#nowhere)", "docs/b.md has no heading #nowhere"),
        "a link with a wrong heading": (
            "docs/b.md",
            "[it](reference/page.md#no)",
            "reference/page.md has no heading #no",
        ),
        "a test that is not there": ("docs/b.md", "see `tests/unit/test_no.py`", "there is no tests/unit/test_no.py"),
        "a numbered section": ("Makefile", "# quota.md 6.2", "is not in this repository"),
        "a design that stands outside": ("a.py", "# as DESIGN says", "is not in this repository"),
        "a numbered document": ("a.yaml", "# seed 003 says so", "is not in this repository"),
    }.values(),
)
def test_a_planted_citation_is_distinguished_from_one_that_leads_somewhere(
    tmp_path: Path, name: str, line: str, says: str
) -> None:
    files = {"docs/reference/page.md": PAGE, name: line + "\n"}
    for place, text in files.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    found = citations_that_lead_nowhere(tmp_path, texts_of(tmp_path, (tmp_path / place for place in files)))
    assert bool(found) == bool(says), found
    assert not says or any(says in line for line in found), found
