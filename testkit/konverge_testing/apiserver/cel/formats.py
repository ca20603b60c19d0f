"""The format library: named formats, each with a function that returns the errors of a text.

Guarantees: pure; an empty list means a valid text. Source: k8s.io/apiserver `pkg/cel/library/format.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.cel import urls

__all__ = ["CHECKS", "validate"]

_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_DATETIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


def _uri(text: str) -> list[str]:
    try:
        urls.parse(text)
    except urls.BadURL as bad:
        return [str(bad)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def is_date(text: str) -> bool:
    """Tell whether a text is a full date."""
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _date(text: str) -> list[str]:
    return [] if is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    found = _DATETIME.fullmatch(text)
    return [] if found and is_date(found[1]) else ["invalid datetime"]


def _name_check(rule: str, *, prefix: bool = False) -> Callable[[str], Sequence[str]]:
    def check(text: str) -> Sequence[str]:
        return names.name_errors(rule, text, prefix=prefix)

    return check


def _label(kind: str) -> Callable[[str], Sequence[str]]:
    def check(text: str) -> Sequence[str]:
        return names.label_key(text) if kind == "key" else names.label_value(text)

    return check


CHECKS: Final[Mapping[str, Callable[[str], Sequence[str]]]] = {
    "dns1123Label": _name_check("label"),
    "dns1123Subdomain": _name_check("subdomain"),
    "dns1035Label": _name_check("dns1035"),
    "qualifiedName": _label("key"),
    "dns1123LabelPrefix": _name_check("label", prefix=True),
    "dns1123SubdomainPrefix": _name_check("subdomain", prefix=True),
    "dns1035LabelPrefix": _name_check("dns1035", prefix=True),
    "labelValue": _label("value"),
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}
"""The check of each format, which returns the errors of a text."""


def validate(name: str, text: str) -> list[str]:
    """Return the errors of a text in this format."""
    return list(CHECKS[name](text))
