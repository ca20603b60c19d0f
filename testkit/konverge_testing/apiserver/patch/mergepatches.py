"""Merge patches (RFC 7386) as gopkg.in/evanphx/json-patch.v4 applies them.

Guarantees: pure. Null deletes a field; a value that replaces something other than an object loses its own nulls, including nulls of objects
in lists (a null item of a list stays).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from konverge_testing.apiserver.patch.wording import word_of
from konverge_testing.apiserver.schemas.copying import copied
from konverge_testing.apiserver.statuses import bad_request

__all__ = ["merge_patch"]

Data: TypeAlias = dict[str, Any]


def merge_patch(document: Data, patch: Any) -> Data:
    """Merge a patch into a document; raise StatusError 400 if it is not an object.

    >>> merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "d": {"e": None}})
    {'a': {'c': 2}, 'd': {}}
    """
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        text = f"error decoding patch: json: cannot unmarshal {word_of(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(text)
    return _merged(document, patch)


def _merged(document: Data, patch: Data) -> Data:
    merged = copied({name: value for name, value in document.items() if name not in patch})
    for name, value in patch.items():
        if value is None:
            continue
        found = document.get(name)
        merged[name] = (
            _merged(found, value) if isinstance(found, dict) and isinstance(value, dict) else _pruned(value, found)
        )
    return {name: merged[name] for name in [*document, *patch] if name in merged}


def _pruned(value: Any, found: Any) -> Any:
    """Return a value of the patch; only a value that replaces an object keeps its nulls."""
    if isinstance(found, dict):
        return copied(value)
    return _without_nulls(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value
