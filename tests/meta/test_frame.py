"""The frame itself: verbs of the Makefile, what CI calls, documents, decisions and news."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

VERBS = {
    "help",
    "go-suites",
    "conformance",
    "mutants",
    "demo",
    "flakes",
    "pythons",
    "test",
    "lab",
    "test-unit",
    "check",
    "lint",
    "fmt",
    "guard",
    "walk",
    "generate",
    "docs",
    "readme",
    "changelog",
    "record",
    "bench",
    "dist",
    "release",
    "release-files",
    "lock",
    "clean",
}

DECISION = re.compile(r"\d{4}-[a-z0-9-]+\.md")
STATUS = re.compile(r"^Status: (?:proposed|accepted|superseded by \d{4})$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def make(root: Path, *arguments: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "KONVERGE_", "MFLAGS"))
    }
    done = subprocess.run(
        ["make", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_alone_lists_every_verb_with_a_line_of_help(tree: Tree) -> None:
    listed = dict(re.findall(r"^ +make ([a-z-]+) +(\S.*)$", make(tree.root), re.MULTILINE))
    assert set(listed) == VERBS
    assert make(tree.root, "help") == make(tree.root)


@pytest.mark.parametrize("verb", sorted(VERBS - {"help"}))
def test_every_verb_but_cleaning_makes_the_environment_first(tree: Tree, verb: str) -> None:
    steps = [line.lstrip("@ ") for line in make(tree.root, "--dry-run", verb).splitlines() if line.strip()]
    if verb == "clean":
        assert not any(".ci/venv" in step for step in steps)
    else:
        assert steps[0] == ".ci/venv"


@pytest.mark.parametrize(
    ("setting", "present", "absent"),
    [
        ("", "konverge control-plane install ||", "as asked"),
        ("KONVERGE_NO_CONTROL_PLANE=1", "as asked", "control-plane install"),
        ("KONVERGE_REQUIRE_CONTROL_PLANE=1", "konverge control-plane install", "||"),
    ],
    ids=["as it comes", "without a control plane", "a control plane is required"],
)
def test_the_tests_fetch_a_control_plane_as_their_options_say(
    tree: Tree, setting: str, present: str, absent: str
) -> None:
    steps = make(tree.root, "--dry-run", "test", *filter(None, [setting]))
    assert present in steps
    assert absent not in steps


@pytest.mark.parametrize("setting", ["", "KONVERGE_NO_CONTROL_PLANE=1", "KONVERGE_REQUIRE_CONTROL_PLANE=1"])
def test_the_tests_fetch_promtool_and_go_on_without_it(tree: Tree, setting: str) -> None:
    [step] = [
        line
        for line in make(tree.root, "--dry-run", "test", *filter(None, [setting])).splitlines()
        if "promtool" in line
    ]
    assert step.startswith("if ! .venv/bin/python tools/promtool.py; then echo ")


def test_promtool_that_cannot_be_had_is_one_line_and_an_exit_code(tree: Tree, tmp_path: Path) -> None:
    program = [sys.executable, str(tree.root / "tools" / "promtool.py")]
    nowhere = {"PATH": str(tmp_path), "KONVERGE_CACHE": str(tmp_path)}
    done = subprocess.run(program, env=nowhere, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no promtool: it comes with Debian's package prometheus, and this is no Debian\n"


def test_ci_runs_the_same_verbs_as_people_do(tree: Tree) -> None:
    phases = re.findall(r"^phase (\S+) \d+ (.+)$", (tree.root / ".ci" / "run").read_text(), re.MULTILINE)
    assert [command for _, command in phases] == [
        "make venv",
        "make lint",
        "make control-plane",
        "make promtool prometheus versitygw cluster-api other-languages browser",
        "make test ARGS='--deselect=tests/e2e/test_first_hour.py::test_the_page_of_the_first_hour_runs_word_for_word'",
        "make demo",
        ".ci/test-wheel",
        ".ci/test-lowest",
    ]


def test_ci_scripts_are_executable_and_stop_at_the_first_error(tree: Tree) -> None:
    scripts = list(tree.below(".ci"))
    assert {path.name for path in scripts} == {
        "dist",
        "lock",
        "run",
        "test-lowest",
        "test-wheel",
        "venv",
    }
    for path in scripts:
        text = path.read_text()
        assert os.access(path, os.X_OK), path.name
        assert text.startswith("#!/usr/bin/env bash\n# "), path.name
        assert "\nset -euo pipefail\n" in text, path.name
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0, path.name


def test_every_pinned_version_satisfies_what_the_project_asks_for(tree: Tree) -> None:
    lines = (tree.root / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert len(pinned) == sum(1 for line in lines if line and not line.startswith("#"))
    project, kit = tree.project["project"], tree.kit_project["project"]
    required = [
        *tree.project["build-system"]["requires"],
        *project["dependencies"],
        *kit["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[<>=!~\[; ]", requirement)[0].lower().replace("_", "-") for requirement in required}
    assert names - pinned == {project["name"], kit["name"]}, "make lock"


def test_the_test_kit_and_konverge_agree_about_version_and_dependencies(tree: Tree) -> None:
    project, kit = tree.project["project"], tree.kit_project["project"]
    assert project["version"] == kit["version"]
    assert project["optional-dependencies"]["testing"] == [f"konverge-testing=={kit['version']}"]
    assert f"konverge=={project['version']}" in kit["dependencies"]
    lowest = {re.split(r"[<>=]", requirement)[0]: requirement for requirement in project["dependencies"]}
    differing = [row for row in kit["dependencies"] if lowest.get(re.split(r"[<>=]", row)[0], row) != row]
    assert not differing


def test_every_link_between_documents_leads_somewhere(tree: Tree) -> None:
    broken = [
        f"{path.relative_to(tree.root)}: {match['target']}"
        for path in tree.files(".md")
        for match in LINK.finditer(path.read_text())
        if "://" not in match["target"] and not (path.parent / match["target"]).exists()
    ]
    assert not broken, "\n".join(broken)


def test_every_document_is_in_the_index(tree: Tree) -> None:
    docs = tree.root / "docs"
    index = (docs / "README.md").read_text()
    linked = {(docs / match["target"]).resolve() for match in LINK.finditer(index) if "://" not in match["target"]}
    missing = [
        str(path.relative_to(tree.root))
        for folder in ("docs", "testkit/docs")
        for path in tree.below(folder, ".md")
        if path not in linked and path.parent.name != "adr" and path != docs / "README.md"
    ]
    assert not missing, "\n".join(missing)


def test_every_decision_has_a_number_a_status_and_a_list_entry(tree: Tree) -> None:
    folder = tree.root / "docs" / "adr"
    decisions = [path for path in tree.below("docs/adr", ".md") if path.name not in {"README.md", "template.md"}]
    assert decisions
    index = (folder / "README.md").read_text()
    for path in decisions:
        assert DECISION.fullmatch(path.name), path.name
        assert STATUS.search(path.read_text()), f"{path.name} has no line of status"
        assert f"]({path.name})" in index, f"{path.name} is not in docs/adr/README.md"
    numbers = [path.name[:4] for path in decisions]
    assert len(set(numbers)) == len(numbers)


def test_every_decision_has_the_template_headings_and_the_listed_status(tree: Tree) -> None:
    folder = tree.root / "docs" / "adr"
    template = re.findall(r"^## (.+)$", (folder / "template.md").read_text(), re.MULTILINE)
    index = (folder / "README.md").read_text()
    wrong = []
    for path in tree.below("docs/adr", ".md"):
        text = path.read_text()
        status = STATUS.search(text)
        if path.name in {"README.md", "template.md"} or status is None:
            continue
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        title = re.search(rf"^# {path.name[:4]}\. (.+)$", text, re.MULTILINE)
        said = status[0].removeprefix("Status: ")
        if headings not in (template, template[:-1]):
            wrong.append(
                f"{path.name}: its headings are {headings}, the template's {template}; only the last may be left out"
            )
        if title is None or f"| [{path.name[:4]}]({path.name}) | {title[1]} | {said} |" not in index:
            wrong.append(f"{path.name}: docs/adr/README.md has no row with its number, title and status ({said})")
    assert not wrong, "\n".join(wrong)


def test_every_glossary_word_links_an_upstream_definition_or_has_a_reason(tree: Tree) -> None:
    upstream, _, ours = (tree.root / "docs" / "glossary.md").read_text().partition("\n## Our own words\n")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (upstream + ours).splitlines()
        if line.startswith("| ")
    ]
    assert all(len(row) == 3 and all(row) for row in rows)
    defined = [line for line in upstream.splitlines() if line.startswith("| ") and not line.startswith("| Word")]
    assert len(defined) > 40
    assert [
        line for line in defined if not re.search(r"\]\(https://[^)]+\)", line.rstrip("|").rsplit("|", 1)[-1])
    ] == []
