"""The errors of patches.

Guarantees: pure. The server reports every JSON patch that does not apply with the same message (422); strategic merges report the error
(500, no reason). Source: k8s.io/apiserver `pkg/endpoints/handlers/patch.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.statuses import StatusError

__all__ = ["go_type", "refused", "unprocessable", "word_of"]

_REFUSED: Final = "the server rejected our request due to an error in our request"
_TYPES: Final = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
}
_WORDS: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def unprocessable() -> StatusError:
    """422: the patch does not apply to this object."""
    return StatusError(422, "Invalid", _REFUSED, details={})


def refused(text: str) -> StatusError:
    """500: the merge cannot interpret the patch."""
    return StatusError(500, "", text)


def go_type(value: Any) -> str:
    """Return the Go type of decoded JSON."""
    return _TYPES.get(type(value), "%!s(<nil>)")


def word_of(value: Any) -> str:
    """Return the name that encoding/json uses for a value of the wrong type."""
    return _WORDS.get(type(value), "null")
