"""How the places of an object merge: `Shape`, one for each `Node`, with up to three readings (scalar, list, map); the value decides which
is used.

Guarantees: pure; compiled lazily and kept with its node. A schema without `definitions` is a CustomResourceDefinition's: its metadata, and
the metadata of embedded resources, follow ObjectMeta and not the schema. Facts: kube-openapi `pkg/schemaconv`, apiextensions-apiserver
`pkg/controller/openapi/builder`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from konverge_testing.apiserver.apply.fieldset import Fields
from konverge_testing.apiserver.nodes import MISSING, Node

__all__ = ["DEDUCED", "ListShape", "MapShape", "Shape", "blank", "shape_of"]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"


@dataclass(slots=True)
class MapShape:
    """An object or a map."""

    fields: dict[str, Shape]
    element: Shape | None
    """The shape of the values under other names; None if other names are not allowed."""
    atomic: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def deduced(self) -> bool:
        """Whether the schema of this place is unknown."""
        return (
            not self.fields and self.element is not None and (self.element is DEDUCED or self.element.inlined_untyped)
        )


@dataclass(slots=True)
class ListShape:
    """A list: owned as a whole, or item by item (by keys, or by value if there are none)."""

    element: Shape
    associative: bool = False
    keys: tuple[str, ...] = ()
    """As declared; `sorted_keys` is their order in an element."""
    sorted_keys: tuple[str, ...] = ()
    known: dict[str, str] = field(default_factory=dict)
    """Elements by the only key's value: the cache of `element_of`."""


class _Home:
    """Shared by the shapes of one schema: named types, and a cache of field sets that need no change."""

    def __init__(self, custom: bool) -> None:
        self.custom = custom
        self.named: dict[tuple[str, str], Shape] = {}


class Shape:
    """How one place merges."""

    def __init__(self, node: Node, home: _Home, *, unknown: bool = False, whole: bool = False) -> None:
        self._node = node
        self._home = home
        self._unknown = unknown or node.preserves_unknown
        self._whole = whole or (node.embedded and home.custom)
        self.settled: dict[bytes, Fields | None] = {}
        """For the outermost shape: the results of `reconcile`, by the JSON of the field set."""

    @cached_property
    def takes_text(self) -> bool:
        """Whether a string is valid here."""
        return self.scalar in ("string", "untyped")

    @cached_property
    def plain(self) -> bool:
        """Whether `==` compares values correctly: neither this place nor any below is untyped, so true is never compared with 1."""
        vars(self)["plain"] = False  # until the result is known, for recursive types
        if self.map is not None and self.list is not None:
            return self._node.int_or_string
        if self.map is not None:
            others = self.map.element
            return all(field.plain for field in self.map.fields.values()) and (others is None or others.plain)
        return self.list is None or self.list.element.plain

    @cached_property
    def inlined_untyped(self) -> bool:
        """Whether the schema is inline (no reference) and untyped."""
        return not self._node.reference and self.scalar == "untyped"

    @cached_property
    def scalar(self) -> str:
        """`numeric`, `string`, `boolean`, `untyped`; "" if no scalar is valid."""
        node = self._node
        if node.reference in (_QUANTITY, _RAW_EXTENSION) or node.type == "":
            return "untyped"
        if node.type in ("integer", "number"):
            return "numeric"
        if node.type == "string":
            return "string" if node.schema.get("format", "") in ("", "byte") else "untyped"
        return node.type if node.type == "boolean" else ""

    @cached_property
    def list(self) -> ListShape | None:
        """How a list merges here, or None if no list is valid."""
        node = self._node
        if node.reference == _RAW_EXTENSION:
            return ListShape(UNTYPED)
        if node.reference == _QUANTITY or node.type not in ("", "array"):
            return None
        associative, keys = _relation(node)
        element = self._below(node.items) if node.items is not None else UNTYPED
        return ListShape(element, associative, keys, tuple(sorted(keys)))

    @cached_property
    def map(self) -> MapShape | None:
        """How an object merges here, or None if no object is valid."""
        node = self._node
        if node.reference == _RAW_EXTENSION:
            return MapShape({}, UNTYPED, True)
        if node.reference == _QUANTITY or node.type not in ("", "object"):
            return None
        fields = {name: self._below(child) for name, child in node.properties.items()}
        defaults = {name: child.default for name, child in node.properties.items()}
        if self._whole:
            fields |= {"metadata": _METADATA, "apiVersion": _STRING, "kind": _STRING}
        return MapShape(
            fields,
            self._others(node, bool(fields)),
            node.schema.get("x-kubernetes-map-type") == "atomic",
            {name: value for name, value in defaults.items() if value is not MISSING and value is not None},
        )

    def _others(self, node: Node, named: bool) -> Shape | None:
        found = node.schema.get("additionalProperties")
        if found is None:
            return DEDUCED if self._unknown or not named else None
        if isinstance(found, dict):
            below = node.additional
            return self._below(below) if below is not None else None
        return DEDUCED if found else None

    def _below(self, node: Node) -> Shape:
        if not node.reference:
            return Shape(node, self._home, unknown=self._unknown)
        key = (node.reference, str(node.raw.get("x-kubernetes-map-type", "")))
        if (found := self._home.named.get(key)) is None:
            found = self._home.named[key] = Shape(node, self._home)
        return found


def _relation(node: Node) -> tuple[bool, tuple[str, ...]]:
    """Return whether a list merges item by item, and its keys."""
    declared = node.schema.get("x-kubernetes-list-type")
    if declared is not None:
        return declared != "atomic", node.list_keys if declared == "map" else ()
    if node.schema.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        return True, (node.merge_key,) if node.merge_key else ()
    return False, ()


def _recursive_shape(scalar: str, atomic: bool) -> Shape:
    """Create a shape that refers to itself: the shape of untyped places."""
    made = Shape(Node({}), _Home(custom=False))
    inner = made if atomic else UNTYPED
    vars(made).update(scalar=scalar, list=ListShape(inner), map=MapShape({}, made, atomic), inlined_untyped=False)
    return made


UNTYPED: Final = _recursive_shape("untyped", atomic=True)
"""Any value, owned as a whole."""
DEDUCED: Final = _recursive_shape("untyped", atomic=False)
"""Any value: maps are owned field by field, lists as a whole."""

_STRING: Final = Shape(Node({"type": "string"}), _Home(custom=False))
_TIME: Final = {"type": "string", "format": "date-time"}
_STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Final = Shape(
    Node(
        {
            "type": "object",
            "properties": {
                "annotations": _STRINGS,
                "creationTimestamp": _TIME,
                "deletionGracePeriodSeconds": {"type": "integer"},
                "deletionTimestamp": _TIME,
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "generateName": {"type": "string"},
                "generation": {"type": "integer"},
                "labels": _STRINGS,
                "managedFields": {"type": "array", "items": {}},
                "name": {"type": "string"},
                "namespace": {"type": "string"},
                "ownerReferences": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "apiVersion": {"type": "string", "default": ""},
                            "blockOwnerDeletion": {"type": "boolean"},
                            "controller": {"type": "boolean"},
                            "kind": {"type": "string", "default": ""},
                            "name": {"type": "string", "default": ""},
                            "uid": {"type": "string", "default": ""},
                        },
                        "x-kubernetes-map-type": "atomic",
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                },
                "resourceVersion": {"type": "string"},
                "selfLink": {"type": "string"},
                "uid": {"type": "string"},
            },
        }
    ),
    _Home(custom=False),
)


def shape_of(node: Node) -> Shape:
    """Return the shape of a whole object's schema; created once a node."""
    found: Shape | None = vars(node).get("_shape")
    if found is None:
        custom = not node.definitions
        found = vars(node)["_shape"] = Shape(node, _Home(custom), whole=custom)
    return found


_BLANK: Final = "_apply_blank"


def blank(node: Node) -> dict[str, Any]:
    """Return the empty object that a creation is compared with.

    A custom resource starts from nothing. A built-in kind starts from the zero value of its Go type, where structs by value and fields
    without `omitempty` are present; in the OpenAPI schema, the former have the default {} and the latter are required.
    """
    if not node.definitions:
        return {}
    found: dict[str, Any] | None = node.__dict__.get(_BLANK)
    if found is None:
        from konverge_testing.apiserver.strategies import normalise  # imported late: a higher layer than this package

        found = _zero(node)
        normalise(node, found)
        node.__dict__[_BLANK] = found
    return found


def _zero(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {}
    required = node.schema.get("required") or ()
    for name, child in node.properties.items():
        if child.raw.get("default") == {} and child.type == "object" and child.properties:
            out[name] = _zero(child)
        elif name in required:
            out[name] = child.raw.get("default")
    return out
