"""The parameters of LIST and WATCH: parsed, defaulted and checked in the server's order, so that both report the same first error.

Source: k8s.io/apimachinery `pkg/apis/meta/internalversion` (conversion, defaults, `validation/validation.go`), k8s.io/apiserver
`pkg/endpoints/handlers/get.go`; the texts were recorded from a server of 1.36. Ignored: `shardSelector` (off by default).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from konverge_testing.apiserver.reading.fields import check_fields, parse_fields
from konverge_testing.apiserver.reading.labels import SelectorError, parse_labels
from konverge_testing.apiserver.reading.selection import Selection
from konverge_testing.apiserver.requests import Query
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.statuses import FieldError, bad_request, invalid

__all__ = ["EXACT", "NOT_OLDER_THAN", "ReadOptions", "given", "parse_version", "read_options", "wants_watch"]

EXACT: Final = "Exact"
NOT_OLDER_THAN: Final = "NotOlderThan"

_SIGNED: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a LIST or WATCH."""

    selection: Selection
    watch: bool = False
    version: str = ""
    """resourceVersion as it was given; `parse_version` reads it."""
    match: str = ""
    limit: int = 0
    token: str = ""
    """The continue token."""
    bookmarks: bool = False
    timeout: int | None = None
    """Seconds; None or 0: the server chooses."""
    initial: bool | None = None
    """sendInitialEvents, after defaulting."""


def wants_watch(query: Query) -> bool:
    """Tell whether a GET of a collection is a WATCH."""
    return given(query, "watch")


def given(query: Query, name: str) -> bool:
    """Return a boolean of list options: true for everything but "0" and "false", the empty value included."""
    return name in query and query.get(name).lower() not in ("0", "false")


def read_options(query: Query, resource: Resource, version: str, namespace: str = "") -> ReadOptions:
    """Return the options of a request for a collection; `version` is the served version of its path. Raises StatusError (400, 422)."""
    timeout = _int64(query.get("timeoutSeconds")) if "timeoutSeconds" in query else None
    limit = _int64(query.get("limit")) if "limit" in query else 0
    try:
        labels = parse_labels(query.get("labelSelector"))
        fields = parse_fields(query.get("fieldSelector"))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    options = ReadOptions(
        Selection(resource, version, namespace, labels, fields),
        wants_watch(query),
        query.get("resourceVersion"),
        query.get("resourceVersionMatch"),
        max(limit, 0),
        query.get("continue"),
        given(query, "allowWatchBookmarks"),
        timeout,
        given(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    options = _defaulted(options)
    if errors := _watch_errors(options) if options.watch else _list_errors(options):
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    try:
        check_fields(fields, resource, version)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    return options


def parse_version(text: str) -> int:
    """Read a resourceVersion, "" as 0. Raises ValueError with the server's words."""
    if not text:
        return 0
    why = None
    if not _DIGITS.fullmatch(text):
        why = "invalid syntax"
    elif int(text) >= 2**64:
        why = "value out of range"
    if why is not None:
        detail = f'strconv.ParseUint: parsing "{text}": {why}'
        raise ValueError(str(FieldError("Invalid", "resourceVersion", text, detail)))
    return int(text)


def _int64(text: str) -> int:
    if not _SIGNED.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def _defaulted(options: ReadOptions) -> ReadOptions:
    """A watch without a version or from "0" begins with the existing objects."""
    if not options.watch or options.initial is not None or options.match or options.version not in ("", "0"):
        return options
    return ReadOptions(
        options.selection,
        True,
        options.version,
        NOT_OLDER_THAN,
        options.limit,
        options.token,
        options.bookmarks,
        options.timeout,
        True,
    )


def _list_errors(options: ReadOptions) -> list[FieldError]:
    errors = []
    if options.match:
        if not options.version:
            errors.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.token:
            errors.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            errors.append(_unsupported(options.match, EXACT, NOT_OLDER_THAN, ""))
        if options.match == EXACT and options.version == "0":
            errors.append(_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.initial is not None:
        errors.append(FieldError("Forbidden", "sendInitialEvents", None, "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ReadOptions) -> list[FieldError]:
    errors = []
    if options.initial is not None and options.match != NOT_OLDER_THAN:
        errors.append(_forbidden(f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"))
    if options.match:
        if options.initial is None:
            errors.append(
                _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.match != NOT_OLDER_THAN:
            errors.append(_unsupported(options.match, NOT_OLDER_THAN))
        if options.token:
            errors.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    return errors


def _forbidden(why: str) -> FieldError:
    return FieldError("Forbidden", "resourceVersionMatch", None, why)


def _unsupported(value: str, *legal: str) -> FieldError:
    return FieldError(
        "NotSupported", "resourceVersionMatch", value, "supported values: " + ", ".join(f'"{one}"' for one in legal)
    )
