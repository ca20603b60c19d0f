"""docs/guide/support.md names the versions that the package and the chart declare and that CI runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from konverge_testing.binaries import KUBERNETES_VERSION

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


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
    newer = re.search(r"TESTED=\((.*?)\)", (tree.root / ".ci/test-newest").read_text())
    assert newer is not None
    assert sorted(pythons) == sorted([lowest, *newer[1].split()])
    oldest = yaml.safe_load((tree.root / "charts/konverge/Chart.yaml").read_text())["kubeVersion"]
    assert rows["Kubernetes"] == f"{oldest.removeprefix('>=').removesuffix('.0-0')} and newer"
    assert f"tests run on {KUBERNETES_VERSION.rpartition('.')[0]} only" in page
    helm = re.search(r"helm\.sh/helm/v(\d+) v", (tree.root / "tests/support/go_clients/go.mod").read_text())
    assert helm is not None
    assert rows["Helm"] == helm[1]
