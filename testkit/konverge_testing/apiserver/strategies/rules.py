"""Rules of validation as data: the tables of the built-in kinds, and the functions that read them.

A rule takes a value and its path, and returns the errors of the value. `struct` is a table of rules for a struct; its rows are rules for
fields of the struct, or functions that compare several fields:

    BACKEND = struct(
        need("name", text(names.dns1123_label)),                    # required; if it is given, a DNS label
        filled("port", between(1, 65535)),                          # checked unless it is empty
        given("protocol", among("SCTP", "TCP", "UDP")),             # checked unless it is absent
        at("hosts", each(text(names.dns1123_subdomain))),           # checked in any case
    )

Guarantees: pure; errors have the order of the rows. A row names one field, or several with a space between. A rule gets {} for an absent
value, and treats it as its zero value: an empty struct or list, "" or 0, as in Go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from konverge_testing.apiserver.strategies.errors import (
    NOT_NEGATIVE,
    Errors,
    below,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

__all__ = [
    "NO_RULES",
    "Rule",
    "Table",
    "among",
    "at",
    "barred",
    "between",
    "each",
    "filled",
    "given",
    "length",
    "must",
    "need",
    "not_negative",
    "port",
    "present",
    "struct",
    "text",
    "unique",
    "unset",
    "when",
    "wrong",
]

Rule = Callable[[Any, str], Errors]


class Table:
    """Rules of one value; an object, so that a class can have it as an attribute without binding it."""

    def __init__(self, rows: Sequence[Rule]) -> None:
        self._rows: list[Rule] = []
        for row in rows:
            self._rows += row._rows if isinstance(row, Table) else [row]

    def __call__(self, data: Any, path: str) -> Errors:
        """Return the errors of all rows, in their order."""
        value = {} if data is None else data
        errors: Errors = []
        for row in self._rows:
            errors += row(value, path)
        return errors


def struct(*rows: Rule) -> Table:
    """Return a table of rules for one value."""
    return Table(rows)


NO_RULES: Final = struct()


def _fields(applies: Callable[[Any], Any], names: str, *rules: Rule) -> Rule:
    table, fields = struct(*rules), names.split()

    def check(data: Any, path: str) -> Errors:
        errors: Errors = []
        for name in fields:
            value = data.get(name) if data else None
            if applies(value):
                errors += table(value, below(path, name))
        return errors

    return check


def at(names: str, *rules: Rule) -> Rule:
    """Check fields, absent fields too."""
    return _fields(lambda _: True, names, *rules)


def given(names: str, *rules: Rule) -> Rule:
    """Check fields that are not absent."""
    return _fields(lambda value: value is not None, names, *rules)


def filled(names: str, *rules: Rule) -> Rule:
    """Check fields that are not empty."""
    return _fields(bool, names, *rules)


def need(names: str, *rules: Rule, detail: str = "") -> Rule:
    """Check fields that must not be empty."""
    table = struct(*rules)
    return at(names, lambda value, path: table(value, path) if value else [required(path, detail)])


def present(name: str, *rules: Rule, detail: str = "") -> Rule:
    """Check a field that must not be absent."""
    absent = when(lambda data: data.get(name) is None, at(name, lambda _, path: [required(path, detail)]))
    return struct(absent, given(name, *rules))


def wrong(detail: str) -> Rule:
    """Return the rule that no value fulfils."""
    return lambda value, path: [invalid(path, value, detail)]


def barred(detail: str) -> Rule:
    """Return the rule of a field that must not be set."""
    return lambda _, path: [forbidden(path, detail)]


def unset(names: str, detail: str) -> Rule:
    """Check that fields are empty."""
    return filled(names, barred(detail))


def when(applies: Callable[[Any], Any], *rules: Rule) -> Rule:
    """Check a value if a condition applies to it."""
    table = struct(*rules)
    return lambda value, path: table(value, path) if applies(value) else []


def must(holds: Callable[[Any], Any], detail: str) -> Rule:
    """Check a condition of a value."""
    return lambda value, path: [] if holds(value) else [invalid(path, value, detail)]


def text(check: Callable[[str], Sequence[str]]) -> Rule:
    """Check a text by a function that returns its errors."""
    return lambda value, path: [invalid(path, value or "", message) for message in check(value or "")]


def among(*allowed: str) -> Rule:
    """Check that a value is among those that are allowed, which are shown in the given order."""
    return lambda value, path: [] if (value or "") in allowed else [not_supported(path, value or "", allowed)]


def between(low: int, high: int, detail: str = "") -> Rule:
    """Check that a number is in a range."""
    words = detail or f"must be between {low} and {high}, inclusive"
    return lambda value, path: [] if low <= (value or 0) <= high else [invalid(path, value or 0, words)]


port: Final = between(1, 65535)


def length(limit: int) -> Rule:
    """Check the number of bytes of a text."""
    return lambda value, path: [too_long(path, limit)] if len((value or "").encode()) > limit else []


def not_negative(names: str) -> Rule:
    """Check that numbers are 0 or more."""
    return given(names, must(lambda value: value >= 0, NOT_NEGATIVE))


class _Unique:
    """See `unique`; it notes the values of one list."""

    def __init__(self, name: str, of_item: bool, empties: bool) -> None:
        self._name, self._of_item, self._empties = name, of_item, empties
        self._seen: set[Any] = set()

    def fresh(self) -> _Unique:
        """Return the rule for another list."""
        return _Unique(self._name, self._of_item, self._empties)

    def __call__(self, item: Any, path: str) -> Errors:
        value = item.get(self._name, "") if self._name else item
        if not value and self._empties:
            return []
        if value in self._seen:
            return [duplicate(below(path, self._name) if self._name and not self._of_item else path, value)]
        self._seen.add(value)
        return []


def unique(name: str = "", *, of_item: bool = False, empties: bool = True) -> Rule:
    """Check that no earlier item of the list has this value, or this value of the named field.

    The error is at the field, or at the item with `of_item`; an empty value may occur again unless `empties` is False.
    """
    return _Unique(name, of_item, empties)


def each(*rules: Rule) -> Rule:
    """Check the items of a list."""
    stateless = None if any(isinstance(rule, _Unique) for rule in rules) else struct(*rules)

    def check(items: Any, path: str) -> Errors:
        if not items:
            return []
        table = stateless or struct(*(rule.fresh() if isinstance(rule, _Unique) else rule for rule in rules))
        return [error for index, item in enumerate(items) for error in table(item, f"{path}[{index}]")]

    return check
