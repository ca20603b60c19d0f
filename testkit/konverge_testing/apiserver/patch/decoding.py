"""The body of a patch request as data.

Guarantees: pure. A JSON patch is a list of operations, the other two are objects; any other value is refused with encoding/json's message.
`strict_problems` returns the errors of strict decoding; for values in a JSON patch, without the final path of a repeated field.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.patch.wording import word_of
from konverge_testing.apiserver.schemas.jsonread import NotJson, beyond_floats, read_json
from konverge_testing.apiserver.schemas.jsontext import duplicates
from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["JSON", "MERGE", "STRATEGIC", "decode_patch", "operations_of", "strict_problems"]

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

_OPERATION: Final = frozenset({"op", "path", "from", "value"})
_PREFIX: Final = "error decoding patch: "


def decode_patch(body: bytes, media_type: str) -> Any:
    """Decode a patch: a list for JSON patches, a dict for merges. Raises StatusError 400."""
    prefix = "" if media_type == STRATEGIC else _PREFIX
    if number := beyond_floats(body):
        where = "struct field jsonPatchOp.value" if media_type == JSON else "value"
        raise bad_request(f"{prefix}json: cannot unmarshal number {number} into Go {where} of type float64")
    try:
        document, _ = read_json(body)
    except NotJson as error:
        raise bad_request(f"{prefix}{error}") from None
    if media_type == JSON:
        return operations_of(document)
    if document is None:
        if media_type == MERGE:
            raise bad_request("Invalid JSON Patch")
        return {}
    if not isinstance(document, dict):
        raise bad_request(
            f"{prefix}json: cannot unmarshal {word_of(document)} into Go value of type map[string]interface {{}}"
        )
    return document


def strict_problems(body: bytes, media_type: str) -> list[str]:
    """Return the errors of repeated fields in a decodable patch, and of unknown fields of a JSON patch.

    >>> strict_problems(b'[{"op": "remove", "path": "/a", "path": "/b", "x": 1}]', JSON)
    ['json patch duplicate field "[0].path"', 'json patch unknown field "[0].x"']
    """
    document, text = read_json(body)
    found = duplicates(text, document)
    if media_type != JSON:
        return found
    unknown = [
        f'unknown field "[{index}].{name}"'
        for index, operation in enumerate(document or ())
        for name in operation or ()
        if name not in _OPERATION
    ]
    return [f"json patch {problem}" for problem in (*found, *unknown)]


def operations_of(document: Any) -> list[Any]:
    """Check that a document is a list of operations."""
    if document is None:
        return []
    if not isinstance(document, list):
        raise _unfit(document, "value of type []handlers.jsonPatchOp")
    for operation in document:
        if operation is not None and not isinstance(operation, dict):
            raise _unfit(operation, "value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            value = (operation or {}).get(name)
            if value is not None and not isinstance(value, str):
                raise _unfit(value, f"struct field jsonPatchOp.{name} of type string")
    return document


def _unfit(value: Any, where: str) -> StatusError:
    return bad_request(f"{_PREFIX}json: cannot unmarshal {word_of(value)} into Go {where}")
