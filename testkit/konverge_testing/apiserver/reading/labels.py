"""Label selectors as the API server reads them: the grammar, the decisions, and the messages of its refusals.

`konverge.selectors` parses what well-meaning clients write; this module accepts everything that the server accepts (`a>1`, `a in ()`), and
refuses the rest with its messages. Source of the rules: k8s.io/apimachinery `pkg/labels/selector.go` and `pkg/api/validate/content`; the
texts were recorded from a server of 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from konverge_testing.apiserver.statuses import FieldError

__all__ = ["ALL_LABELS", "Requirement", "Labels", "SelectorError", "parse_labels"]

Operator: TypeAlias = Literal["exists", "!", "in", "notin", "=", "==", "!=", ">", "<"]

_TOKEN: Final = re.compile(r"!=|==|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SPECIAL: Final = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})
_OPERATORS: Final = frozenset({"in", "notin", "=", "==", "!=", ">", "<"})
_OPERATOR_NAMES: Final = "in, notin, =, ==, !=, gt, lt"

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = 2**63

_LEGAL: Final = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_KEY_RULE: Final = f"{_LEGAL} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
_VALUE_RULE: Final = (
    f"a valid label must be an empty string or {_LEGAL}"
    f" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_PREFIX_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


class SelectorError(ValueError):
    """A selector that the server refuses; the text is the server's."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of a selector; all of them must hold."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether these labels satisfy the selector term."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case ">" | "<":
                number = None if value is None else _int64(value)
                if number is None:
                    return False
                return number > self.bound if self.operator == ">" else number < self.bound


@dataclass(frozen=True, slots=True)
class Labels:
    """A parsed label selector.

    >>> parse_labels("app=shop,tier>1").matches({"app": "shop", "tier": "2"})
    True
    """

    clauses: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether all clauses hold."""
        return all(clause.matches(labels) for clause in self.clauses)


ALL_LABELS: Final = Labels()
"""The selector that matches everything."""


@lru_cache(maxsize=512)
def parse_labels(text: str) -> Labels:
    """Parse a selector. Raises SelectorError."""
    tokens = _Tokens(text)
    clauses: list[Requirement] = []
    while True:
        here = tokens.peek
        if here == "" and not clauses:
            return ALL_LABELS
        if here in _SPECIAL and here != "!":
            raise SelectorError(f"found '{here}', expected: !, identifier, or 'end of string'")
        try:
            clauses.append(_clause(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        end = tokens.take()
        if end == "":
            return Labels(tuple(clauses))
        if end != ",":
            raise SelectorError(f"found '{end}', expected: ',' or 'end of string'")
        if tokens.peek == "" or (tokens.peek in _SPECIAL and tokens.peek != "!"):
            raise SelectorError(f"found '{tokens.peek}', expected: identifier after ','")


class _Tokens:
    """The tokens of a selector, with a lookahead of one; "" is the end."""

    def __init__(self, text: str) -> None:
        self._rest: Iterator[str] = (found[0] for found in _TOKEN.finditer(text))
        self.peek = next(self._rest, "")

    def take(self) -> str:
        taken, self.peek = self.peek, next(self._rest, "")
        return taken

    def word(self) -> str:
        taken = self.take()
        if taken == "" or taken in _SPECIAL:
            raise SelectorError(f"found '{taken}', expected: identifier")
        return taken


def _clause(tokens: _Tokens) -> Requirement:
    absent = tokens.peek == "!"
    if absent:
        tokens.take()
    key = tokens.word()
    if problems := _key_problems(key):
        raise SelectorError(str(FieldError("Invalid", "<nil>", key, "; ".join(problems))))
    if absent:
        return Requirement(key, "!")
    if tokens.peek in ("", ","):
        return Requirement(key, "exists")
    operator = tokens.take()
    if operator not in _OPERATORS:
        raise SelectorError(f"found '{operator}', expected: {_OPERATOR_NAMES}")
    values = _values(tokens) if operator in ("in", "notin") else {_value(tokens)}
    return _checked(key, operator, sorted(values))


def _checked(key: str, operator: str, values: list[str]) -> Requirement:
    errors: list[FieldError] = []
    bound = 0
    if operator in (">", "<"):
        found = _int64(values[0])
        bound = found or 0
        if found is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(FieldError("Invalid", "values[0]", values[0], detail))
    for number, value in enumerate(values):
        if problems := _value_problems(value):
            errors.append(FieldError("Invalid", f"values[{number}][{key}]", value, "; ".join(problems)))
    if errors:
        texts = list(dict.fromkeys(str(error) for error in errors))
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, frozenset(values), bound)  # type: ignore[arg-type]  # one of _OPERATORS


def _value(tokens: _Tokens) -> str:
    return "" if tokens.peek in ("", ",") else tokens.word()


def _values(tokens: _Tokens) -> set[str]:
    opened = tokens.take()
    if opened != "(":
        raise SelectorError(f"found '{opened}' expected: '('")
    if tokens.peek == ")":
        tokens.take()
        return {""}
    if tokens.peek == "" or (tokens.peek in _SPECIAL and tokens.peek != ","):
        raise SelectorError(f"found '{tokens.peek}', expected: ',', ')' or identifier")
    values = _identifiers(tokens)
    tokens.take()
    return values


def _identifiers(tokens: _Tokens) -> set[str]:
    """Read up to the closing bracket, which is not consumed; an empty place between commas is the empty value."""
    values: set[str] = set()
    while True:
        here = tokens.take()
        if here == ",":
            if not values:
                values.add("")
            if tokens.peek == ")":
                return values | {""}
            if tokens.peek == ",":
                tokens.take()
                values.add("")
        elif here == "" or here in _SPECIAL:
            raise SelectorError(f"found '{here}', expected: ',', or identifier")
        else:
            values.add(here)
            if tokens.peek == ")":
                return values
            if tokens.peek != ",":
                raise SelectorError(f"found '{tokens.peek}', expected: ',' or ')'")


def _key_problems(key: str) -> list[str]:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key must {_KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            problems.append("prefix part must be no more than 253 bytes")
        if not re.fullmatch(_SUBDOMAIN, prefix):
            problems.append(f"prefix part {_PREFIX_RULE}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part must {_KEY_RULE}")
    return problems


def _value_problems(value: str) -> list[str]:
    problems = []
    if len(value.encode()) > 63:
        problems.append("must be no more than 63 bytes")
    if value and not re.fullmatch(_NAME, value):
        problems.append(_VALUE_RULE)
    return problems


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None
