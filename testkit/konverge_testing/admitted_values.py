"""Values that a structural schema admits, as hypothesis strategies: of any kind with a model, since its schema is generated.

Caveats: CEL rules and validators of a model are not part of a structural schema and may still reject a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

__all__ = ["admitted"]

_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
"""Without NUL: the CEL library of the server in memory ends texts there, and takes two such keys for one."""
_TEXT = st.text(_CHARACTERS, max_size=12)
_TIMES = st.sampled_from(
    [
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2030-01-01T00:00:00.5+14:00",
    ]
)
_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
Schema = Mapping[str, Any]


def admitted(schema: Schema) -> st.SearchStrategy[Any]:
    """Draw a value that the schema admits; CEL rules may still reject it."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(-5, 10**18) | _text(schema)
    match schema.get("type"):
        case "object":
            return _object(schema)
        case "array":
            return _array(schema)
        case "string":
            return _text(schema)
        case "integer":
            return st.integers(int(schema.get("minimum", -(2**31))), int(schema.get("maximum", 2**31 - 1)))
        case "number":
            return st.floats(schema.get("minimum", -1e300), schema.get("maximum", 1e300))
        case "boolean":
            return st.booleans()
    return _ANY


def _array(schema: Schema) -> st.SearchStrategy[list[Any]]:
    """Draw a list; items of a set or of a list map are distinct, as the server demands."""
    most, items = min(schema.get("maxItems", 3), 3), schema.get("items", {})
    least = min(schema.get("minItems", 0), most)
    defaults = {name: part.get("default") for name, part in items.get("properties", {}).items()}
    identity: Callable[[Any], Any] | None = None
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = schema["x-kubernetes-list-map-keys"]

            def identity(item: Any) -> Any:
                return msgspec.json.encode([item.get(key, defaults.get(key)) for key in keys])
        case "set":
            identity = msgspec.json.encode
    return st.lists(admitted(items), min_size=least, max_size=most, unique_by=identity)


def _text(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return _TIMES
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10**6)
    if "pattern" in schema:
        result = st.from_regex(str(schema["pattern"]), fullmatch=True)
        return result.filter(lambda text: least <= len(text) <= most)
    return st.text(_CHARACTERS, min_size=least, max_size=max(least, min(most, 12)))


def _object(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    members = schema.get("properties")
    if members:
        required = set(schema.get("required", ()))
        return st.fixed_dictionaries(
            {name: admitted(inner) for name, inner in members.items() if name in required},
            optional={name: admitted(inner) for name, inner in members.items() if name not in required},
        )
    values = schema.get("additionalProperties")
    return st.dictionaries(_TEXT, admitted(values) if isinstance(values, Mapping) else _ANY, max_size=3)
