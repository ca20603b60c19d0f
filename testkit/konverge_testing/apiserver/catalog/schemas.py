"""Schemas of the built-in kinds, read from `definitions.json` at the first use of any of them.

Guarantees: the schemas of a real server's /openapi/v3, word by word except descriptions: types, formats, enums, required fields,
defaults, list types and keys, map types, patch keys, unions. `tools/record/catalog.py` records it. The parsed file is shared by all
servers of a process and must not be changed.

Caveats: `default` of a built-in field is as often Go's zero value (`{}`, `""`, `0`) as a default of the API, so it must not be filled in
from here; it is right for the map keys of lists (`protocol: TCP`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.nodes import Definitions, Node

__all__ = ["definition_of", "definitions", "reachable", "schema_node"]

_REF: Final = "#/components/schemas/"


class _Lazy(Mapping[str, Mapping[str, Any]]):
    """The definitions; the file is read at the first access."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, Any]] | None = None

    def _load(self) -> dict[str, dict[str, Any]]:
        if self._read is None:
            text = (resources.files("konverge_testing.apiserver.catalog") / "definitions.json").read_bytes()
            self._read = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        return self._read

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())


@cache
def definitions() -> Definitions:
    """Return the definitions by name (`io.k8s.api.apps.v1.Deployment`); the file is read at the first access to the result."""
    return _Lazy()


@cache
def schema_node(name: str) -> Node:
    """Return the schema of a definition; the file is read at the first access to the result."""
    return Node({"$ref": _REF + name}, definitions())


@cache
def _by_kind() -> Mapping[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], str] = {}
    for name, schema in definitions().items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            found.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    return found


def definition_of(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition, or "" if there is none; kinds without a resource of their own included (`Scale`,
    `Eviction`).
    """
    return _by_kind().get((group, version, kind), "")


def reachable(roots: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return these definitions and all definitions that they refer to, sorted by name."""
    known = definitions()
    found: dict[str, Mapping[str, Any]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and name in known:
            found[name] = known[name]
            waiting += _references(known[name])
    return dict(sorted(found.items()))


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(_REF)
    for key in ("items", "additionalProperties"):
        below = schema.get(key)
        if isinstance(below, Mapping):
            yield from _references(below)
    for below in (schema.get("properties") or {}).values():
        yield from _references(below)
    for key in ("allOf", "anyOf", "oneOf"):
        for below in schema.get(key) or ():
            yield from _references(below)
