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
        own = {part.name: f"family.{part.name}" for part in chart.parts}
        properties["families"] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name: {"$ref": f"#/$defs/{values if values in schema['$defs'] else 'family'}"}
                for name, values in own.items()
            },
        }
    else:
        properties.pop("families", None)
        schema["$defs"] = {
            name: definition for name, definition in schema["$defs"].items() if not name.startswith("family")
        }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
