"""Names of field managers: the default name, and the rules for names.

Facts: apiserver `pkg/endpoints/handlers/create.go`, apimachinery `pkg/apis/meta/v1/validation/validation.go`.
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.statuses import FieldError

__all__ = ["manager_name", "require_manager", "validate_manager"]

_LONGEST: Final = 128


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the field manager: the given name, else the user agent up to its first slash, as far as it is printable, at most 128 bytes.

    >>> manager_name("", "kubectl/v1.36.3 (linux/amd64)")
    'kubectl'
    """
    if field_manager:
        return field_manager
    out, size = "", 0
    for letter in user_agent.split("/", 1)[0]:
        if letter.isprintable():
            size += len(letter.encode())
            if size > _LONGEST:
                break
            out += letter
    return out


def validate_manager(field_manager: str) -> list[FieldError]:
    """Return the errors of a given name; "" means that no name was given, which is valid."""
    found = []
    if len(field_manager.encode()) > _LONGEST:
        found.append(FieldError("TooLong", "fieldManager", detail=f"may not be more than {_LONGEST} bytes"))
    position = 0
    for letter in field_manager:
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {position})"
            found.append(FieldError("Invalid", "fieldManager", field_manager, why))
        position += len(letter.encode())
    return found


def require_manager(field_manager: str) -> list[FieldError]:
    """Return the errors of an applier's name, which is required."""
    missing = [] if field_manager else [FieldError("Required", "fieldManager", detail="is required for apply patch")]
    return [*missing, *validate_manager(field_manager)]
