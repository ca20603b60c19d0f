"""Decisions of a release: reasons to refuse, the changelog, archives, the chart as an artifact, the provenance, the forge's workflow."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pages import links
from release.archives import packed, repacked
from release.copies import Facts
from release.files import Refused, section
from release.oci import chart_annotations, layout
from release.refusals import Situation, dated, refusals
from release.statement import base_image, checksums, provenance

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

FACTS = Facts("0.3.0.dev0", "https://forge.example.com/k", "registry.example.com/k")
CHANGELOG = (
    "# Changelog\n\n## [0.2.0] - 2030-01-01\n\n### Added\n\n- Leases.\n\n## [0.1.0] - 2029-01-01\n\nThe first.\n"
)
READY = Situation(
    facts=FACTS,
    branch="main",
    changed=(),
    tags=frozenset({"v0.1.0", "v0.2.0", "v0.2.1", "other"}),
    merged=frozenset({"v0.1.0", "v0.2.0", "other"}),
    fragments=3,
    changelog=CHANGELOG,
    folder_exists=False,
)
ADDRESSES = (
    (
        "repository",
        "https://forge.example.com/team/konverge",
        ("", "https://a.example.com/k/", "https://a.example.com", "http://a.b/k"),
    ),
    (
        "registry",
        "registry.example.com/team",
        ("", "https://r.example.com", "r.example.com/k/", "r.example.com/Team", "team"),
    ),
)
"""Addresses that are refused, with the example in the refusal."""
BY_HAND = "## [0.3.0] - not released\n\nThe third.\n"


@pytest.mark.parametrize(
    ("version", "situation"),
    [
        ("0.3.0", READY),
        ("1.0.0", READY),
        ("0.2.2", replace(READY, branch="support/0.2", merged=frozenset({"v0.2.0", "v0.2.1"}))),
        ("0.10.0", replace(READY, merged=frozenset({"v0.9.0"}))),
        ("0.1.0", replace(READY, tags=frozenset(), merged=frozenset())),
        ("0.3.0", replace(READY, fragments=0, changelog=BY_HAND + CHANGELOG)),
    ],
)
def test_a_release_in_order_is_not_refused(version: str, situation: Situation) -> None:
    assert list(refusals(version, situation)) == []


@pytest.mark.parametrize(
    ("version", "situation", "reason"),
    [
        ("", READY, "VERSION= is no version x.y.z: make release VERSION=0.2.0"),
        ("0.3.0.dev0", READY, "is no version x.y.z"),
        ("v0.3.0", READY, "is no version x.y.z"),
        ("0.3.0", replace(READY, branch="work"), "HEAD is on work: git switch main, or support/0.3"),
        ("0.3.0", replace(READY, branch=""), "HEAD is on no branch: git switch main"),
        ("0.3.1", replace(READY, branch="support/0.2"), "or support/0.3 for a patch release"),
        ("0.3.0", replace(READY, changed=("a.py",)), "the tree has changes: commit or remove them (a.py)"),
        ("0.2.1", READY, "the tag v0.2.1 exists: choose the next version"),
        ("0.1.9", READY, "0.1.9 is not above 0.2.0, the last release of this branch: choose a higher version"),
        ("0.3.0", replace(READY, fragments=0), "changes.d/ has no fragment"),
        ("0.3.0", replace(READY, changelog=BY_HAND), "3 fragments: add to the section"),
        ("0.4.0", replace(READY, changelog=BY_HAND), "release 0.3.0 first"),
        *(
            (
                "0.3.0",
                replace(READY, facts=replace(FACTS, **{name: address})),
                f'{name} = "{address}" in [tool.release] of pyproject.toml is no address: write for instance {name} = "{example}" (no',
            )
            for name, example, addresses in ADDRESSES
            for address in addresses
        ),
        ("0.3.0", replace(READY, folder_exists=True), "build/release/0.3.0 exists: remove it"),
    ],
)
def test_a_refusal_names_the_reason_and_the_remedy(version: str, situation: Situation, reason: str) -> None:
    [found] = refusals(version, situation)
    assert reason in found


def test_every_reason_is_named_at_once() -> None:
    situation = replace(READY, changed=("a",), fragments=0, facts=Facts("0.3.0.dev0", "", ""), branch="work")
    assert len(list(refusals("0.3.0", situation))) == 5


def test_a_section_by_hand_gets_its_date() -> None:
    assert dated(BY_HAND + CHANGELOG, "0.3.0", "2030-02-03") == ("## [0.3.0] - 2030-02-03\n\nThe third.\n" + CHANGELOG)


def test_the_notes_are_the_section_of_the_version() -> None:
    assert section(CHANGELOG, "0.2.0") == "### Added\n\n- Leases.\n"
    assert section(CHANGELOG, "0.1.0") == "The first.\n"
    with pytest.raises(Refused, match=r"no section of 0\.3\.0"):
        section(CHANGELOG, "0.3.0")


# --- archives and artifacts ----------------------------------------------------------------------------------------------------


def sdist(user: str, time: int, names: list[str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.uid = len(name), time, user, time
            member.mode = 0o755 if name.endswith(".sh") else 0o600
            archive.addfile(member, io.BytesIO(name.encode()))
        folder = tarfile.TarInfo("k-1/empty")
        folder.type, folder.mtime = tarfile.DIRTYPE, time
        archive.addfile(folder)
    return stream.getvalue()


def test_an_sdist_of_another_user_and_time_has_the_same_bytes() -> None:
    names = ["k-1/b.py", "k-1/a.sh", "k-1/" + "long/" * 40 + "c.py"]
    first, second = repacked(sdist("a", 1, names), 9), repacked(sdist("b", 2, names[::-1]), 9)
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        members = archive.getmembers()
        assert [member.name for member in members] == sorted(names)
        assert {member.mtime for member in members} == {9}
        assert [member.mode for member in members] == [0o755, 0o644, 0o644]


def test_a_link_in_an_sdist_is_refused() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        link = tarfile.TarInfo("k-1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(link)
    with pytest.raises(ValueError, match="k-1/link"):
        repacked(stream.getvalue(), 0)


CHART = {
    "name": "k",
    "version": "0.3.0",
    "description": "A chart",
    "home": "https://forge.example.com/k",
    "sources": ["https://forge.example.com/k"],
}


def test_each_descriptor_of_the_artifact_has_digest_and_size_of_its_blob() -> None:
    """tests/e2e/test_release.py lets helm pull the artifact."""
    annotations = chart_annotations(CHART, "2030-01-01T00:00:00Z", "ab12")
    files = layout(CHART, packed({"k/Chart.yaml": (b"", False)}, 0), annotations)
    index = json.loads(files["index.json"])
    [named] = index["manifests"]
    manifest = json.loads(files["blobs/" + named["digest"].replace(":", "/")])
    for descriptor in (named, manifest["config"], *manifest["layers"]):
        content = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert descriptor["size"] == len(content)
    assert len(files) == 5, "two files of the layout and three blobs"
    assert manifest["annotations"]["org.opencontainers.image.source"] == "https://forge.example.com/k"
    assert manifest["annotations"]["org.opencontainers.image.revision"] == "ab12"


# --- provenance ----------------------------------------------------------------------------------------------------------------


def test_the_statement_has_each_required_field_of_slsa() -> None:
    statement = provenance(
        {"b": "22", "a": "11"},
        repository="https://forge.example.com/k",
        tag="v0.3.0",
        commit="ab12",
        builder="",
        materials={"pkg:docker/python@3.12-slim": "33"},
    )
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert statement["subject"] == [{"name": n, "digest": {"sha256": d}} for n, d in (("a", "11"), ("b", "22"))]
    definition = statement["predicate"]["buildDefinition"]
    assert set(definition) == {"buildType", "externalParameters", "resolvedDependencies"}
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://forge.example.com/k@refs/tags/v0.3.0", "digest": {"gitCommit": "ab12"}},
        {"uri": "pkg:docker/python@3.12-slim", "digest": {"sha256": "33"}},
    ]
    assert checksums({"b": "22", "a": "11"}) == "11  a\n22  b\n"


def test_anchors_of_the_statement_are_headings_of_the_page(tree: Tree) -> None:
    statement = provenance({}, repository="r", tag="t", commit="c", builder="", materials={})
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    page = (tree.root / "docs/maintaining.md").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    assert {definition["buildType"].partition("#")[2], details["builder"]["id"].partition("#")[2]} <= headings


def test_the_base_image_is_named_by_digest(tree: Tree) -> None:
    name, digest = base_image((tree.root / "deploy/Containerfile").read_text())
    assert re.fullmatch(r"pkg:docker/python@3\.\d+-slim", name)
    assert len(digest) == 64
    with pytest.raises(ValueError, match="names no base by digest"):
        base_image("ARG PYTHON=python:3.12-slim\n")


def test_links_of_a_readme_work_outside_of_the_repository() -> None:
    text = "[a](../docs/glossary.md#our-own-words) [c](#d) [e](https://example.com)\n```\n[f](g)\n```\n"
    assert links.relinked("testkit/README.md", text, lambda path: f"P/{path}") == text.replace(
        "../docs/glossary.md#our-own-words", "P/docs/glossary.md#our-own-words"
    )


# --- the workflow of the forge -------------------------------------------------------------------------------------------------

WORKFLOW = ".github/workflows/release.yml"


@pytest.fixture
def workflow(tree: Tree) -> Any:
    return yaml.safe_load((tree.root / WORKFLOW).read_text())


def test_the_workflow_calls_only_verbs_of_the_makefile(tree: Tree, workflow: Any) -> None:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    called = {verb for step in steps for verb in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    verbs = set(re.findall(r"^([a-z-]+):", (tree.root / "Makefile").read_text(), re.MULTILINE))
    assert called == {"release-files"}
    assert called <= verbs
    assert workflow[True]["push"]["tags"] == ["v[0-9]+.[0-9]+.[0-9]+"]  # YAML 1.1 reads `on` as true


def test_each_action_of_the_workflow_is_pinned_by_commit(tree: Tree) -> None:
    used = re.findall(r"uses: (.+)$", (tree.root / WORKFLOW).read_text(), re.MULTILINE)
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_each_job_of_the_workflow_has_only_the_rights_that_it_needs(workflow: Any) -> None:
    assert workflow["permissions"] == {}
    sign = {"id-token": "write", "attestations": "write"}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == {
        "files": {"contents": "read"},
        "signatures": {"contents": "read", **sign},
        "packages": {"id-token": "write"},
        "image": {"contents": "read", "packages": "write"},
        "registry": {"contents": "read", "packages": "write", **sign},
        "page": {"contents": "write"},
    }


def test_nothing_is_published_before_the_files_are_built_and_signed(workflow: Any) -> None:
    needs = {name: job.get("needs") for name, job in workflow["jobs"].items()}
    assert needs == {
        "files": None,
        "signatures": "files",
        "packages": "signatures",
        "image": "signatures",
        "registry": "image",
        "page": ["packages", "registry"],
    }


def test_no_expression_is_put_into_a_script(workflow: Any) -> None:
    """A script gets values by its environment, so that no value becomes a command."""
    scripts = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []
