"""Constructors of the field errors that built-in kinds have, and their shared messages. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from konverge_testing.apiserver.statuses import FieldError

__all__ = [
    "IMMUTABLE",
    "NOT_NEGATIVE",
    "Data",
    "Errors",
    "below",
    "duplicate",
    "forbidden",
    "immutable",
    "invalid",
    "not_found",
    "not_supported",
    "required",
    "too_long",
]

Data = dict[str, Any]
Errors = list[FieldError]

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def below(path: str, name: str) -> str:
    """Return the path of a field of the struct at `path`."""
    return f"{path}.{name}" if path else name


def required(path: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError("Required", path, "", detail)


def invalid(path: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a wrong value."""
    return FieldError("Invalid", path, value, detail)


def forbidden(path: str, detail: str = "") -> FieldError:
    """Return the error of a field that must be empty, or must not change."""
    return FieldError("Forbidden", path, "", detail)


def duplicate(path: str, value: Any) -> FieldError:
    """Return the error of a value that an earlier item of the list has."""
    return FieldError("Duplicate", path, value)


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a name that nothing has."""
    return FieldError("NotFound", path, value, detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error of a value of more bytes than the limit."""
    return FieldError("TooLong", path, "", f"may not be more than {limit} bytes")


def not_supported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """Return the error of a value that is not allowed; the allowed values are shown in their order."""
    return FieldError("NotSupported", path, value, f"supported values: {', '.join(map(json.dumps, allowed))}")


def immutable(path: str, new: Any, old: Any) -> Errors:
    """Check that a value did not change."""
    return [invalid(path, new, IMMUTABLE)] if new != old else []
