"""Selected fields of kinds -> the classes to write, in such an order that each class follows the classes of its fields.

Guarantees: pure. A definition of a document is one class, wherever it is used, with every field that any path selects. The keys of a list's
items are selected with any of their fields: without the keys neither a program nor server-side apply identifies an item. A recursive
schema is a class that names itself.

Errors: UsageError for a field that no kind has, with similar names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, TypeAlias

from konverge.crds.foreign.documents import ForeignKind, Schema, near
from konverge.crds.foreign.naming import CLASS_NAMES_IN_USE, class_word
from konverge.crds.foreign.schemas import is_model, resolved
from konverge.crds.foreign.selection import FieldPath, Selection, tree_of
from konverge.errors import UsageError

__all__ = ["Classes", "ModelKey", "Node", "collected", "items_of"]

ModelKey: TypeAlias = tuple[str, ...]
"""The definition of a class, or the path to its schema in the class of a kind."""

_OF_EVERY_RESOURCE = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(slots=True)
class Node:
    """A schema that becomes a class."""

    name: str
    schema: Schema
    kind: ForeignKind
    is_root: bool
    fields: set[str] = field(default_factory=set)
    """The names of the selected fields, as in the API."""
    is_complete: bool = False

    def properties(self) -> list[tuple[str, Schema]]:
        """Return the selected fields by name, sorted."""
        return [(name, self.schema["properties"][name]) for name in sorted(self.fields)]


@dataclass(slots=True)
class Classes:
    """The classes by key, and the keys of the kinds' own classes."""

    nodes: dict[ModelKey, Node] = field(default_factory=dict)
    roots: list[ModelKey] = field(default_factory=list)

    def key_of(self, schema: Schema, place: ModelKey, kind: ForeignKind) -> ModelKey | None:
        """Return the key of the class of a schema, None for a schema without declared fields."""
        component, target = resolved(schema, kind.definitions)
        if not is_model(target):
            return None
        return (component,) if component else place

    def models_in(self, schema: Schema, place: ModelKey, kind: ForeignKind) -> Iterator[ModelKey]:
        """Yield the keys of the classes that the annotation of a field names."""
        key = self.key_of(schema, place, kind)
        if key is not None:
            yield key
        elif inner := items_of(resolved(schema, kind.definitions).schema):
            yield from self.models_in(inner, place, kind)

    def add(self, kind: ForeignKind, selection: Selection) -> None:
        """Add the selected fields of a kind."""
        key = (f"{kind.api_version}.{kind.kind}",)
        self.roots.append(key)
        self._visit_model(key, kind.schema, selection, kind, root=True)

    def _visit(self, schema: Schema, place: ModelKey, selection: Selection, kind: ForeignKind) -> None:
        component, target = resolved(schema, kind.definitions)
        if is_model(target):
            self._visit_model((component,) if component else place, target, selection, kind)
        elif inner := items_of(target):
            keys = target.get("x-kubernetes-list-map-keys") or ()
            chosen = {**{key: {} for key in keys}, **selection} if selection else selection
            self._visit(inner, place, chosen, kind)

    def _visit_model(
        self, key: ModelKey, schema: Schema, selection: Selection, kind: ForeignKind, *, root: bool = False
    ) -> None:
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(self._name(key, kind, root=root), schema, kind, root)
        if node.is_complete:
            return
        node.is_complete = not selection
        for name, below in schema.get("properties", {}).items():
            if (not selection or name in selection) and not (root and name in _OF_EVERY_RESOURCE):
                node.fields.add(name)
                self._visit(below, (*key, name), selection.get(name, {}), kind)

    def _name(self, key: ModelKey, kind: ForeignKind, *, root: bool) -> str:
        """Return the name of a class: as in the API, with version and group if another class has that name."""
        if root:
            group, _, version = kind.api_version.rpartition("/")
            steps = [group.partition(".")[0], version, kind.kind]
        elif len(key) == 1:
            steps = key[0].split(".")
        else:
            steps = [self.nodes[key[:-1]].name + class_word(key[-1])]
        *before, name = map(class_word, steps)
        taken = CLASS_NAMES_IN_USE | {node.name for node in self.nodes.values()}
        version, group = "".join(before[-1:]), "".join(before[-2:-1])
        candidates = chain((name, name + version, name + group + version), (f"{name}{number}" for number in count(2)))
        return next(candidate for candidate in candidates if candidate not in taken)


def items_of(schema: Schema) -> Schema | None:
    """Return the schema of the items of a list or of the values of a map, None if it has none."""
    inner = schema.get("items") or schema.get("additionalProperties")
    return inner if isinstance(inner, dict) and inner else None


def collected(kinds: Sequence[ForeignKind], paths: Sequence[FieldPath]) -> Classes:
    """Return the classes of kinds with the selected fields; a kind has all its fields if no path applies to it.

    Raises UsageError for a path that applies to no kind.
    """
    unknown = {path: problem for path in paths if (problem := _problem(kinds, path))}
    if unknown:
        raise UsageError("\n".join(unknown.values()))
    classes = Classes()
    for kind in kinds:
        classes.add(kind, tree_of(path for path in paths if _applies(kind, path)))
    return classes


def _applies(kind: ForeignKind, path: FieldPath) -> bool:
    return path.kind in ("", kind.kind) and not any(_missing(kind, path))


def _problem(kinds: Sequence[ForeignKind], path: FieldPath) -> str:
    """Return why a path applies to no kind, "" if it applies to any of them."""
    problems = [next(_missing(kind, path), "") for kind in kinds if path.kind in ("", kind.kind)]
    return "" if "" in problems else problems[0]


def _missing(kind: ForeignKind, path: FieldPath) -> Iterator[str]:
    """Yield the reason why a kind does not have a field, nothing if it has the field."""
    schema: Any = kind.schema
    for position, step in enumerate(path.steps):
        _, schema = resolved(schema, kind.definitions)
        while not is_model(schema) and (inner := items_of(schema)):
            _, schema = resolved(inner, kind.definitions)
        properties = schema.get("properties") or {}
        if step not in properties:
            before = ".".join(path.steps[:position])
            where = f"{kind.api_version} {kind.kind} has no field {path}"
            declared = near(step, properties) if properties else "no field below it is declared"
            yield f"{where}; {before or 'the kind'}: {declared}"
            return
        schema = properties[step]
