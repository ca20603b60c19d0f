"""The version and the public addresses are in pyproject.toml; every other place is a copy that `make generate` writes."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import render_deploy
import yaml
from release import copies, versions

from konverge.charts import OperatorChart, chart_files, own_chart

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

RECORDED = {"examples/test_queue_recorded.py", "docs/guide/replay.md", "docs/guide/benchmark.md"}
"""Files that name the version of a former run."""


def test_every_copy_equals_the_version_and_the_addresses(tree: Tree) -> None:
    assert copies.check(tree.root) == {}, "make generate"


def test_no_file_without_a_row_names_the_version(tree: Tree) -> None:
    version = re.escape(copies.facts_of(tree.root).version)
    named = re.compile(rf"konverge(?:-testing)?(?:[:=\s-]|==){version}\b|(?i:version|tag)\W+{version}\b")
    rows = {*copies.wanted(tree.root), copies.PROJECT, *RECORDED}
    beside = [
        path.relative_to(tree.root).as_posix()
        for path in tree.files(".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".json", "")
        if named.search(path.read_text()) and path.relative_to(tree.root).as_posix() not in rows
    ]
    assert beside == [], "derive the version, or add a row to tools/release/copies.py"


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files with another version, and with addresses."""
    root = copies.ROOT
    folder = tmp_path_factory.mktemp("stamped")
    names = [*copies.wanted(root), render_deploy.DIGESTS, *render_deploy.inputs(root)]
    names += [path.relative_to(root).as_posix() for path in (root / "deploy").glob("*.yaml")]
    for name in {*names, copies.PROJECT}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    project = folder / copies.PROJECT
    text = copies.with_version(project.read_text(), "7.8.9")
    text = re.sub(r'^repository = ""', 'repository = "https://forge.example.com/a/k"', text, flags=re.MULTILINE)
    project.write_text(re.sub(r'^registry = ""', 'registry = "registry.example.com/a"', text, flags=re.MULTILINE))
    copies.stamp(folder)
    return folder


def toml(folder: Path, name: str) -> Any:
    return tomllib.loads((folder / name).read_text())["project"]


def test_packages_have_version_and_links_of_the_source(stamped: Path) -> None:
    project, kit = toml(stamped, copies.PROJECT), toml(stamped, copies.KIT)
    assert project["optional-dependencies"]["testing"] == ["konverge-testing==7.8.9"]
    assert kit["version"] == project["version"] == "7.8.9"
    assert "konverge==7.8.9" in kit["dependencies"]
    assert project["urls"] == kit["urls"] == copies.urls(copies.facts_of(stamped))
    assert project["urls"]["Issues"] == "https://forge.example.com/a/k/issues"


def test_the_chart_names_the_published_image(stamped: Path) -> None:
    chart = yaml.safe_load((stamped / copies.CHART).read_text())
    assert (chart["version"], chart["appVersion"]) == ("7.8.9", "7.8.9")
    assert (chart["home"], chart["sources"]) == ("https://forge.example.com/a/k", ["https://forge.example.com/a/k"])
    image = yaml.safe_load((stamped / "charts/konverge/values.yaml").read_text())["image"]
    assert (image["registry"], image["repository"], image["tag"]) == ("registry.example.com/a", "konverge", "")


def test_the_chart_of_another_operator_names_no_address_of_konverge(stamped: Path) -> None:
    """By the generator of `konverge chart`, with the pieces of a konverge that has addresses."""
    other = OperatorChart(
        name="other",
        version="1.0.0",
        app_version="1.0.0",
        description="Another operator",
        manager="other",
        parts=(),
        settings={"type": "object"},
        arguments=("run", "other:build"),
    )
    changed = (copies.CHART, "charts/konverge/values.yaml")
    pieces = own_chart() | {name.removeprefix("charts/konverge/"): (stamped / name).read_text() for name in changed}
    assert any("registry.example.com/a" in text for text in pieces.values())
    named = [name for name, text in chart_files(other, pieces).items() if "example.com/a" in text]
    assert named == []


def test_manifests_are_those_that_helm_would_render(stamped: Path) -> None:
    """Without helm: the digests are fresh; tests/e2e/test_release.py renders with helm."""
    assert render_deploy.is_fresh(stamped)
    [deployment] = yaml.safe_load_all((stamped / "deploy/deployment.yaml").read_text())
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example.com/a/konverge:7.8.9"
    [images] = yaml.safe_load((stamped / "deploy/kustomization.yaml").read_text())["images"]
    assert f"{images['newName']}:{images['newTag']}" == image
    assert images["name"] == images["newName"]


def test_a_second_stamp_changes_nothing_and_empty_addresses_leave_no_trace(stamped: Path) -> None:
    assert copies.stamp(stamped) == []
    project = stamped / copies.PROJECT
    former = project.read_text()
    try:
        project.write_text((copies.ROOT / copies.PROJECT).read_text())
        copies.stamp(stamped)
        names = copies.wanted(copies.ROOT)
        assert {n: (stamped / n).read_text() for n in names} == {n: (copies.ROOT / n).read_text() for n in names}
    finally:
        project.write_text(former)
        copies.stamp(stamped)


def test_a_stale_deploy_folder_stays_stale(stamped: Path, tmp_path: Path) -> None:
    """A stamp must not hide that the chart was changed without rendering."""
    folder = shutil.copytree(stamped, tmp_path / "tree")
    with (folder / "charts/konverge/values.yaml").open("a") as values:
        values.write("# changed\n")
    project = folder / copies.PROJECT
    project.write_text(copies.with_version(project.read_text(), "7.9.0"))
    copies.stamp(folder)
    assert not render_deploy.is_fresh(folder)


def test_a_row_without_a_line_is_an_error_that_names_the_row(stamped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stamped, tmp_path / "tree")
    chart = folder / copies.CHART
    chart.write_text(chart.read_text().replace("appVersion", "app"))
    with pytest.raises(LookupError, match=r"Chart\.yaml has no line .*tools/release/copies\.py"):
        copies.check(folder)


def test_the_next_version_is_above_each_release() -> None:
    assert [versions.following(v) for v in ("0.9.0", "0.9.1", "1.0.0")] == ["0.10.0.dev0", "0.9.2.dev0", "1.1.0.dev0"]
