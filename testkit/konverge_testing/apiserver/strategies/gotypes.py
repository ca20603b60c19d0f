"""Properties of Kubernetes' fields that Go's struct definitions have and OpenAPI lacks, read from `gotypes.txt`.

Guarantees: facts only, read lazily; tools/record/go_types.py generates the file. A line names a struct (group, version, name) and its
marked fields; an indented line continues it. `*` is a pointer, so that a zero value stays; `?` is dropped when zero though the schema has
a default or requires it; `!` is always written, as null if it is absent; `=T` is its Go type if OpenAPI lacks it; `^E` is the embedded
struct that declares it, which decode errors name.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from konverge_testing.apiserver.nodes import Node

__all__ = ["Mark", "go_name", "marks"]


class Mark(NamedTuple):
    """The properties of one field in Go."""

    pointer: bool = False
    omitted: bool = False
    kept: bool = False
    type: str = ""
    embedded: str = ""


def go_name(node: Node) -> tuple[str, str, str]:
    """Return (group, version, struct) of a definition of Kubernetes' own, ("", "v1", name) of any other."""
    parts = node.reference.split(".")
    if len(parts) >= 3 and re.fullmatch(r"v\d\w*", parts[-2]):
        return parts[-3], parts[-2], parts[-1]
    return "", "v1", parts[-1]


def marks(node: Node) -> dict[str, Mark]:
    """Return the marks of the fields of a struct; {} if there are none."""
    return _table().get(".".join(go_name(node)), {})


@cache
def _table() -> dict[str, dict[str, Mark]]:
    text = files(__package__).joinpath("gotypes.txt").read_text(encoding="utf-8")
    lines = text.replace("\n  ", " ").splitlines()
    return {line.partition(" ")[0]: _marks(line.split()[1:]) for line in lines}


def _marks(words: list[str]) -> dict[str, Mark]:
    marked = {}
    for word in words:
        rest, _, embedded = word.partition("^")
        rest, _, type_ = rest.partition("=")
        name = rest.rstrip("*?!")
        signs = rest[len(name) :]
        marked[name] = Mark("*" in signs, "?" in signs, "!" in signs, type_, embedded)
    return marked
