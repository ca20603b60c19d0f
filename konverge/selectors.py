"""Label and field selectors, as the API server understands them.

Guarantees: `LabelSelector.parse` accepts the grammar of `metav1.LabelSelector` strings (`a=b`, `a==b`, `a!=b`, `a`, `!a`,
`a in (x,y)`, `a notin (x,y)`, joined by commas) and `matches` decides as the server does; the source of the rules is
k8s.io/apimachinery `pkg/labels/selector.go`. Field selectors support `=`, `==` and `!=`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from konverge.errors import UsageError

__all__ = ["FieldSelector", "LabelSelector", "Requirement"]

Operator = Literal["exists", "absent", "in", "notin"]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUALITY = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)$")
_EXISTENCE = re.compile(r"^(?P<not>!?)\s*(?P<key>[^\s!=,()]+)$")
_NAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_PREFIX = re.compile(r"^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")


class Requirement(msgspec.Struct, frozen=True):
    """One clause of a label selector; all clauses must hold."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the clause; a missing key satisfies `notin`."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in (*parts, current)]


def _requirement(clause: str) -> Requirement:
    requirement = _read(clause)
    prefix, slash, name = requirement.key.rpartition("/")
    if not _NAME.match(name) or (slash and not _PREFIX.match(prefix)):
        raise ValueError(
            f"{clause!r}: {requirement.key!r} is not a label key; write a name of up to 63 letters, digits, '-', '_' and '.', "
            "with a domain and a slash before it if there is one (example.com/tier)"
        )
    wrong = sorted(value for value in requirement.values if value and not _NAME.match(value))
    if wrong:
        raise ValueError(
            f"{clause!r}: {wrong[0]!r} is not a label value; write up to 63 letters, digits, '-', '_' and '.'"
        )
    return requirement


def _read(clause: str) -> Requirement:
    if (match := _SET.match(clause)) and match["values"].strip():
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "in" if match["op"] == "in" else "notin", values)
    if match := _EQUALITY.match(clause):
        return Requirement(match["key"], "notin" if match["op"] == "!=" else "in", frozenset({match["value"]}))
    if match := _EXISTENCE.match(clause):
        return Requirement(match["key"], "absent" if match["not"] else "exists")
    raise ValueError(
        f"{clause!r} is not a clause of a label selector; write key=value, key!=value, key in (a,b), key or !key"
    )


class LabelSelector(msgspec.Struct, frozen=True):
    """A parsed label selector.

    >>> LabelSelector.parse("app=shop,tier notin (test)").matches({"app": "shop"})
    True
    """

    text: str
    requirements: tuple[Requirement, ...]

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Parse a selector; raises ValueError that quotes the clause it could not read."""
        return cls(text, tuple(_requirement(clause) for clause in _split(text)) if text.strip() else ())

    @classmethod
    def given(cls, text: str, where: str) -> LabelSelector:
        """Parse a selector that a program gives; raises UsageError that names the place, `where`, and what to write."""
        try:
            return cls.parse(text)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from error

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether all clauses hold for these labels."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class FieldSelector(msgspec.Struct, frozen=True):
    """A parsed field selector: `path=value` and `path!=value` clauses joined by commas."""

    text: str
    clauses: tuple[tuple[str, bool, str], ...]

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Parse a selector; raises ValueError that quotes the clause it could not read."""
        clauses = []
        for clause in (part.strip() for part in text.split(",")):
            if not clause:
                continue
            match = re.match(r"^(?P<path>[^=!]+?)\s*(?P<op>==|=|!=)\s*(?P<value>.*)$", clause)
            if match is None:
                raise ValueError(f"{clause!r} is no clause of a field selector; write path=value or path!=value")
            clauses.append((match["path"], match["op"] != "!=", match["value"]))
        return cls(text, tuple(clauses))

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether all clauses hold for these values by path; a missing path reads as the empty text."""
        return all((fields.get(path, "") == value) is equal for path, equal, value in self.clauses)
