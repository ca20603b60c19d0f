"""values.yaml with its comments: the table of values for a README, and the same text with a value set or left out. Pure.

A comment above a key is its documentation; a key whose value is a mapping with keys has no row of its own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["Value", "table", "values_of", "with_families", "with_value", "without"]


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its path (`image.tag`), its default and its comment."""

    path: str
    default: Any
    doc: str


def values_of(text: str) -> tuple[Value, ...]:
    r"""Return the values of a values.yaml, in its order.

    >>> values_of("image:\n  # The tag.\n  tag: latest\n")
    (Value(path='image.tag', default='latest', doc='The tag.'),)
    """
    return tuple(_below(_root(text), text.splitlines(), "", ""))


def _root(text: str) -> yaml.MappingNode:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "a values.yaml is a mapping"
    return root


def _below(node: yaml.MappingNode, lines: list[str], prefix: str, inherited: str) -> Iterator[Value]:
    for key, value in node.value:
        path, doc = f"{prefix}{key.value}", _comment(lines, key.start_mark.line) or inherited
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            yield from _below(value, lines, f"{path}.", doc)
        else:
            default = yaml.safe_load(yaml.serialize(value))
            yield Value(path, default, doc)


def _comment(lines: list[str], line: int) -> str:
    comment: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        comment.insert(0, lines[line].strip().removeprefix("#").strip())
    return " ".join(comment)


def table(text: str) -> str:
    """Return the values as a Markdown table."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    for value in values_of(text):
        default = json.dumps(value.default, ensure_ascii=False)
        rows.append(f"| `{value.path}` | `{default}` | {value.doc.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def without(text: str, key: str) -> str:
    """Return the text without a top-level key, its comment, and the empty line after it."""
    start, end = _lines_of(text, key)
    lines = text.splitlines(keepends=True)
    while end < len(lines) and not lines[end].strip():
        end += 1
    return "".join((*lines[:start], *lines[end:]))


def with_value(text: str, path: str, value: Any) -> str:
    """Return the text with another default of a value whose default is written on one line."""
    node: yaml.Node = _root(text)
    for part in path.split("."):
        node = next(below for key, below in node.value if key.value == part)
    written = json.dumps(value, ensure_ascii=False)
    return text[: node.start_mark.index] + written + text[node.end_mark.index :]


def _lines_of(text: str, key: str) -> tuple[int, int]:
    root = _root(text)
    lines = text.splitlines()
    keys = [node.start_mark.line for node, _ in root.value]
    start = next(node.start_mark.line for node, _ in root.value if node.value == key)
    end = next((line for line in keys if line > start), len(lines))
    first = _first_of_comment(lines, start)
    return first, _first_of_comment(lines, end)


def _first_of_comment(lines: list[str], line: int) -> int:
    while line > 0 and lines[line - 1].startswith("#"):
        line -= 1
    return line


def with_families(text: str, families: Mapping[str, str]) -> str:
    r"""Return a values.yaml whose first key is `families`, with the values of these families.

    >>> with_families("families:\n  a:\n    enabled: true\n\nport: 1\n", {"b": "enabled: false\n"})
    'families:\n  b:\n    enabled: false\n\nport: 1\n'
    """
    head, _, rest = text.partition("families:\n")
    block = "".join(f"  {name}:\n{textwrap.indent(values, '    ')}" for name, values in families.items())
    after = rest.partition("\n\n")[2]
    return f"{head}families:\n{block}\n{after}"
