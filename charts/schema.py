"""The JSON schema of values: the pieces' own, with the settings and families of one operator, and descriptions from values.yaml. Pure."""

from __future__ import annotations

import json
from typing import Any

from konverge.charts.other_names import OTHER_NAMES
from konverge.charts.parts import OperatorChart
from konverge.charts.values import values_of

__all__ = ["schema_text"]


def schema_text(pieces: str, chart: OperatorChart, values: str, *, families: bool) -> str:
    """Return the text of values.schema.json: the pieces' schema, with this chart's families (or none) and settings.

    The schema lets names of other charts pass, so that the templates can refuse them with the right name.
    """
    schema: dict[str, Any] = json.loads(pieces)
    properties = schema["properties"]
    properties["settings"] = dict(chart.settings)
    properties.pop("families", None)
    for value in values_of(values):
        if (node := _node(schema, value.path)) is not None:
            node["description"] = value.doc
    if families:
        described = {part.name: {"description": part.summary, **_object(part.schemas)} for part in chart.parts}
        properties["families"] = _object(described)
    for path, ours in OTHER_NAMES.items():
        parent, _, name = path.rpartition(".")
        place = _node(schema, parent) if parent else schema
        assert place is not None, f"the schema of {parent} is shared"
        place["properties"][name] = {"description": f"Refused: write {ours}."}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _node(schema: dict[str, Any], path: str) -> dict[str, Any] | None:
    """Return the schema of a value; None below a definition that several values share."""
    node = schema
    for name in path.split("."):
        if "properties" not in node or name not in node["properties"]:
            return None
        node = node["properties"][name]
    return node


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}
