"""The JSON schema of values: the pieces' own, with the settings and the families of one operator. Pure."""

from __future__ import annotations

import json
from typing import Any

from konverge.charts.parts import OperatorChart

__all__ = ["schema_text"]


def schema_text(pieces: str, chart: OperatorChart, *, families: bool) -> str:
    """Return the text of values.schema.json: the pieces' schema, with this chart's families (or none) and settings."""
    schema: dict[str, Any] = json.loads(pieces)
    properties = schema["properties"]
    properties["settings"] = dict(chart.settings)
    if families:
        properties["families"] = _object({part.name: _object(part.schemas) for part in chart.parts})
    else:
        properties.pop("families", None)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}
