"""The part of a family in the daemon's chart: its places, files, values and schema."""

import json

import yaml

from konverge.charts import ChartPlaces, OperatorChart, Part, daemon_files, own_chart

PLACES = ChartPlaces(
    home="namespace",
    setting="plots",
    default="gardens",
    values=("more",),
    options={"water": {"pipes": {"source": "well"}}},
)
FILES = {
    "values.yaml": "# Gardens.\nenabled: true\nmore: []\n",
    "values.schema.json": '{"more": {"type": "array"}}',
    "alerts.yaml": "groups: []\n",
    "templates/pump.yaml": "# a pump\n",
}


def files(*parts: Part) -> dict[str, str]:
    chart = OperatorChart(
        name="konverge", version="1.0.0", app_version="1.0.0", description="d", manager="konverge", parts=parts
    )
    return daemon_files(chart, own_chart())


def test_places_of_a_family_are_data_of_the_templates() -> None:
    found = files(Part(name="gardens", places=PLACES), Part(name="rows"))
    assert yaml.safe_load(found["files/operator.yaml"])["families"] == {
        "gardens": {
            "home": "namespace",
            "namespaces": {"setting": "plots", "default": "gardens"},
            "options": {"water": {"path": ["pipes", "source"], "value": "well"}},
            "values": ["more"],
        }
    }


def test_files_of_a_family_are_parts_of_the_chart() -> None:
    found = files(Part(name="gardens", files=FILES))
    assert found["files/gardens/alerts.yaml"] == FILES["alerts.yaml"]
    assert found["templates/gardens-pump.yaml"] == FILES["templates/pump.yaml"]
    assert not {"files/gardens/values.yaml", "files/gardens/values.schema.json"} & found.keys()


def test_values_and_schema_of_a_family_are_below_its_name() -> None:
    found = files(Part(name="gardens", files=FILES), Part(name="rows"))
    values = yaml.safe_load(found["values.yaml"])
    schema = json.loads(found["values.schema.json"])["properties"]["families"]["properties"]
    assert values["families"] == {"gardens": {"enabled": True, "more": []}, "rows": {"enabled": False}}
    assert values["replicas"] == 2
    assert "  gardens:\n    # Gardens.\n    enabled: true\n" in found["values.yaml"]
    assert schema["gardens"]["properties"] == {"enabled": {"type": "boolean"}, "more": {"type": "array"}}
    assert schema["rows"]["properties"] == {"enabled": {"type": "boolean"}}


def test_readme_lists_each_family_with_its_page() -> None:
    web = Part(name="gardens", summary="Gardens", documentation="https://example.com/gardens")
    text = files(web, Part(name="rows", summary="Rows"))["README.md"]
    assert "| `gardens` | [Gardens](https://example.com/gardens) |\n| `rows` | Rows |\n" in text
