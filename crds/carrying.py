"""The rest of an object in its former version: the spelling of unchanged values, and fields that no version of this program knows.

Guarantees: pure; the arguments are not changed. An operator that is older than the installed definition does not remove a field that
only the definition has, because such a field keeps its place if the other version does not use the place.

Caveats: a list whose length changes is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["carried"]


def carried(raw: Any, before: Any, after: Any, schema: Mapping[str, Any]) -> Any:
    """Return `after` with the spellings and the unknown fields of `raw`, which the model of the former version wrote as `before`.

    `schema` is the schema of `after`: a field that it has is never taken from `raw`.

    >>> carried({"size": 1, "new": 2}, {"size": 1}, {"width": 1}, {"properties": {"width": {}}})
    {'width': 1, 'new': 2}
    """
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(raw, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        unknown = {
            name: value
            for name, value in raw.items()
            if name not in before and name not in after and name not in known and more is None and value is not None
        }
        parts = {
            name: carried(raw[name], before[name], value, known.get(name, more or {}))
            if name in before and name in raw
            else value
            for name, value in after.items()
        }
        return {**parts, **unknown}
    if isinstance(before, list) and isinstance(after, list) and isinstance(raw, list):
        if len(before) == len(after) == len(raw):
            return [carried(*each, schema.get("items", {})) for each in zip(raw, before, after, strict=True)]
        return after
    return raw if type(before) is type(after) and before == after else after
