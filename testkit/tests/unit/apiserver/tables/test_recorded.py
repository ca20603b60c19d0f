"""Rows and columns of a real kube-apiserver, reproduced here. See `tools/record/tables.py` and `tools/record/catalog.py`."""

import json
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from definitions import resource_of
from yaml_files import load_yaml

from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.tables import columns, table

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "recorded.json").read_text())
WIDGET_ROWS = json.loads((HERE / "recorded_widgets.json").read_text())
WIDGETS = resource_of(load_yaml(HERE / "widgets.yaml")["definition"])
KINDS = {resource.qualified: resource for resource in builtin({})}
REAL = json.loads(resources.files("konverge_testing.apiserver.tables").joinpath("columns.json").read_text())


def named(row: dict[str, Any]) -> str:
    return f"{row['resource']}-{row['object']['metadata']['name']}"


@pytest.mark.parametrize("recorded", ROWS, ids=named)
def test_the_cells_of_a_built_in_kind_are_the_real_ones(recorded: dict[str, Any]) -> None:
    resource, now = KINDS[recorded["resource"]], datetime.fromisoformat(recorded["now"])
    [row] = table(resource, resource.storage, [recorded["object"]], include="Object", now=now)["rows"]
    expected = {key: recorded[key] for key in ("cells", "conditions", "object") if key in recorded}
    assert row == expected
    assert list(map(type, row["cells"])) == list(map(type, recorded["cells"]))


@pytest.mark.parametrize("recorded", WIDGET_ROWS, ids=named)
def test_the_cells_of_a_custom_kind_are_the_real_ones(recorded: dict[str, Any]) -> None:
    now = datetime.fromisoformat(recorded["now"])
    made = table(WIDGETS, WIDGETS.storage, [recorded["object"]], now=now)
    names = [column["name"] for column in made["columnDefinitions"]]
    assert dict(zip(names, made["rows"][0]["cells"], strict=True)) == dict(zip(names, recorded["cells"], strict=True))


@pytest.mark.parametrize("name", REAL)
def test_the_columns_of_a_built_in_kind_are_the_real_ones(name: str) -> None:
    resource = KINDS[name]
    shown = [
        {"name": column.name, "type": column.type, "format": column.format, "priority": column.priority}
        for column in columns(resource, resource.storage)
    ]
    assert shown == [{"format": "", "priority": 0, **column} for column in REAL[name]]


def test_there_are_rows_for_nearly_every_kind_that_is_listed() -> None:
    assert len({row["resource"] for row in ROWS}) >= 45
    assert len(REAL) >= 50
