"""charts/konverge equals the output of its generator, and its switches are the families of the daemon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hosted import NAMES

from konverge.charts.other_names import OTHER_NAMES
from konverge.charts.values import values_of

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


@pytest.fixture
def tool(tree: Tree) -> Any:
    return tree.load("tools/chart_files.py")


def test_the_generated_files_of_the_chart_are_fresh(tree: Tree, tool: Any) -> None:
    assert tool.outdated(tool.expected(), tree.root / "charts/konverge") == [], "make generate"


def test_there_is_a_switch_for_each_family(tree: Tree) -> None:
    chart = tree.root / "charts/konverge"
    values = yaml.safe_load((chart / "values.yaml").read_text())
    assert list(values["families"]) == list(NAMES)


def test_the_schema_knows_exactly_the_values_that_exist(tree: Tree) -> None:
    chart = tree.root / "charts/konverge"
    schema = json.loads((chart / "values.schema.json").read_text())
    assert not schema["additionalProperties"]
    known, refused = set(schema["properties"]), {name for name in OTHER_NAMES if "." not in name}
    assert known - refused == set(yaml.safe_load((chart / "values.yaml").read_text()))
    described = {value.path: value.doc for value in values_of((chart / "values.yaml").read_text())}
    assert schema["properties"]["image"]["properties"]["digest"]["description"] == described["image.digest"]
    assert {name for name in described if "." not in name and "description" not in schema["properties"][name]} == set()


def test_each_name_of_another_chart_leads_to_a_value_that_exists(tree: Tree) -> None:
    described = [value.path for value in values_of((tree.root / "charts/konverge/values.yaml").read_text())]
    known = {".".join(path.split(".")[:length]) for path in described for length in range(1, 4)}
    ours = {name for text in OTHER_NAMES.values() for name in text.split(" or ")}
    assert {name for name in ours - known if not name.startswith("settings.")} == set()
    assert not OTHER_NAMES.keys() & known, "a value is refused under its own name"


def test_a_file_that_nothing_generates_any_more_is_outdated(tool: Any, tmp_path: Any) -> None:
    (tmp_path / "files/old").mkdir(parents=True)
    (tmp_path / "files/old/rules.yaml").write_text("")
    (tmp_path / "README.md").write_text("by hand")
    assert tool.outdated({"README.md": "generated"}, tmp_path) == ["README.md", "files/old/rules.yaml"]
    assert tool.outdated({"README.md": "by hand"}, tmp_path) == ["files/old/rules.yaml"]


def test_the_version_of_the_application_is_that_of_the_package(tree: Tree) -> None:
    described = yaml.safe_load((tree.root / "charts/konverge/Chart.yaml").read_text())
    assert described["appVersion"] == tree.project["project"]["version"]
