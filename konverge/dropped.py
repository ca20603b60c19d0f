"""Fields that a cache leaves out of each object, named by their paths.

Guarantees: pure. Only the levels of the object on the way to a dropped field are decoded. A dropped field cannot be mistaken for an absent
field: `covers` finds a read of it, `named_in` finds an intent that sets it, and `check_model` refuses a model that has it.

Not droppable: identity, labels, owner references and finalizers, since the runtime itself decides by them. managedFields are never cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel

from konverge.errors import FieldDropped, UsageError
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata, MetadataObject, Object

__all__ = ["DroppedFields", "PartialObject", "decode_stored"]

R = TypeVar("R", bound=Resource)

Tree: TypeAlias = "dict[str | None, Tree | None]"
"""Fields by the names on the way to them: the key None is each item of a list, the value None a dropped field."""

_STEP: Final = re.compile(r"\.?(?P<name>[\w$-]+)|(?P<item>\[\*\])|\[(?P<quote>['\"])(?P<key>[^'\"]+)(?P=quote)\]")
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RUNTIME_DOMAIN: Final = "konverge.dev/"


def _steps(path: str, what: str) -> tuple[str | None, ...]:
    """Return the names on the way to a field; None is each item of a list."""
    steps: list[str | None] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            break
        steps.append(None if step["item"] else step["name"] or step["key"])
        at = step.end()
    problem = ""
    match steps:
        case _ if at < len(path) or not steps or steps[-1] is None:
            problem = (
                "write a path as status.images, spec.containers[*].env or metadata.annotations['example.com/notes']"
            )
        case ["metadata", "managedFields", *_]:
            problem = "no cache holds managedFields; leave the path out"
        case ["metadata", "annotations", str(key)] if _RUNTIME_DOMAIN not in key:
            pass
        case ["metadata" | "apiVersion" | "kind", *_]:
            problem = "the runtime reads it; of the metadata only single annotations can be dropped"
    if problem:
        raise UsageError(f"{what}: drop of {path!r}: {problem}")
    return tuple(steps)


def _tree(paths: Iterable[tuple[str | None, ...]]) -> Tree:
    tree: Tree = {}
    for *way, last in sorted(paths, key=len):
        node: Tree | None = tree
        for step in way:
            node = None if node is None else node.setdefault(step, {})
        if node is not None:
            node[last] = None
    return tree


class DroppedFields(msgspec.Struct, frozen=True):
    """The dropped fields of one selection; equal for equal paths.

    >>> dropped = DroppedFields.of(["status.images", "spec.containers[*].env"], "the cache of Pod")
    >>> dropped.strip(b'{"spec":{"containers":[{"name":"a","env":[]}]},"status":{"images":[],"phase":"Running"}}')
    b'{"spec":{"containers":[{"name":"a"}]},"status":{"phase":"Running"}}'
    """

    paths: tuple[str, ...]
    _fields: Tree
    """The paths as a tree, which does not count in a comparison."""

    @classmethod
    def of(cls, paths: Iterable[str], what: str) -> DroppedFields | None:
        """Return the dropped fields, None without a path; raises UsageError, which names `what`, for a path that cannot be dropped."""
        if isinstance(paths, str):
            raise UsageError(f'{what}: drop={paths!r}: give a list of paths, drop=("{paths}",)')
        chosen = tuple(sorted(set(paths)))
        return cls(chosen, _tree(_steps(path, what) for path in chosen)) if chosen else None

    def __eq__(self, other: object) -> bool:
        return self.paths == other.paths if isinstance(other, DroppedFields) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.paths)

    def __str__(self) -> str:
        return ", ".join(self.paths)

    def strip(self, body: bytes) -> bytes:
        """Return an object's JSON without the fields."""
        return _without(body, self._fields)

    def strip_metadata(self, metadata: Metadata) -> Metadata:
        """Return decoded metadata without the dropped annotations."""
        below = self._fields.get("metadata")
        dropped = below.get("annotations") if below else None
        if not dropped or dropped.keys().isdisjoint(metadata.annotations or ()):
            return metadata
        left = {key: value for key, value in (metadata.annotations or {}).items() if key not in dropped}
        return msgspec.structs.replace(metadata, annotations=left)

    def strip_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a decoded object without the fields."""
        stripped: dict[str, Any] = msgspec.json.decode(self.strip(msgspec.json.encode(data)))
        return stripped

    def covers(self, path: Sequence[str | int]) -> bool:
        """Return whether a path is, or is below, a dropped field."""
        node: Tree | None = self._fields
        for step in path:
            key = None if isinstance(step, int) else step
            if node is None or key not in node:
                return node is None
            node = node[key]
        return node is None

    def named_in(self, intent: Mapping[str, Any]) -> str:
        """Return the path of a dropped field that an intent sets, "" if it sets none."""
        return next(_named(intent, self._fields, ""), "")

    def decode(self, kind: Kind[Any], data: dict[str, Any]) -> Any:
        """Return a cached object as an instance of this kind; a thin view refuses to read the fields."""
        if kind.model is None:
            data.setdefault("apiVersion", kind.api_version)
            data.setdefault("kind", kind.kind)
            return PartialObject(data, self)
        return kind.decode(data)

    def check_model(self, kind: Kind[Any]) -> None:
        """Raise UsageError if the kind has a model with one of the fields, which it would report as absent."""
        model = kind.model
        readable = next((path for path in self.paths if _has_field(model, _steps(path, ""))), "")
        if model is not None and readable:
            raise UsageError(
                f"the cache of {kind.group_kind} drops {readable}, and {model.__name__} has this field, which would read as "
                "absent: drop it from the model too, or take the path out of drop"
            )


def _has_field(type_: Any, steps: Sequence[str | None]) -> bool:
    """Return whether objects of a type show the field at a path; any type but a model shows everything."""
    for number, step in enumerate(steps):
        if step == "metadata" and number == 0:
            return False  # the metadata of a model is the cache's own
        models = [part for part in _parts(type_) if isinstance(part, type) and issubclass(part, BaseModel)]
        if not models:
            return True
        if step is None:
            continue  # the item of a list: `_parts` has looked into it
        types = [
            info.annotation
            for model in models
            for name, info in model.model_fields.items()
            if step in (name, info.alias)
        ]
        if not types:
            return False
        type_ = types[0]
    return True


def _parts(type_: Any) -> Iterable[Any]:
    """Return a type, or the types that it consists of: `list[X] | None` is X and None. A dict shows every key."""
    if get_origin(type_) in (dict, Mapping):
        return [dict]
    return [part for inner in get_args(type_) for part in _parts(inner)] if get_origin(type_) is not None else [type_]


def _without(raw: bytes | msgspec.Raw, fields: Tree) -> bytes:
    below = fields.get(None)
    if below:
        try:
            return msgspec.json.encode([msgspec.Raw(_without(item, below)) for item in _ITEMS.decode(raw)])
        except msgspec.ValidationError:
            pass
    try:
        members = _MEMBERS.decode(raw)
    except msgspec.ValidationError:  # another type than the path expects: nothing to drop
        return bytes(raw)
    for name, below in fields.items():
        if name is None or name not in members:
            continue
        if below is None:
            del members[name]
        else:
            members[name] = msgspec.Raw(_without(members[name], below))
    return msgspec.json.encode(members)


def _named(intent: Any, fields: Tree, path: str) -> Iterator[str]:
    for name, below in fields.items():
        if name is None:
            values = [(f"{path}[*]", item) for item in intent] if isinstance(intent, list) else []
        else:
            values = [(f"{path}.{name}", intent[name])] if isinstance(intent, Mapping) and name in intent else []
        for where, value in values:
            if below is None:
                yield where.lstrip(".")
            else:
                yield from _named(value, below, where)


class PartialObject(Object):
    """A thin view of an object that is cached without some fields: `get` of such a field raises FieldDropped, and so does `to_dict`.

    Caveats: `data` and the maps that `get`, `spec` and `status` return lack the fields without an error.
    """

    __slots__ = ("_dropped",)

    def __init__(self, data: dict[str, Any], dropped: DroppedFields) -> None:
        super().__init__(data)
        self._dropped = dropped

    def get(self, *path: str | int, default: Any = None) -> Any:
        """Return the value at a path; raises FieldDropped for a dropped field."""
        if self._dropped.covers(path):
            raise FieldDropped(
                f"{'.'.join(map(str, path))} of {self.kind_name} {self.metadata.path} was read, but its cache drops {self._dropped}: "
                f"take the path out of drop, or read it live: await ctx.live(...).get({self.namespace!r}, {self.name!r})"
            )
        return super().get(*path, default=default)

    def to_dict(self) -> dict[str, Any]:
        """Raise FieldDropped: a write of this object would remove the dropped fields."""
        raise FieldDropped(
            f"{self.kind_name} {self.metadata.path} is cached without {self._dropped}, and a write of this copy would remove these "
            f"fields: read it live: await ctx.live(...).get({self.namespace!r}, {self.name!r})"
        )


def decode_stored(kind: Kind[R], stored: Object) -> R:
    """Return a new copy of a stored object as an instance of this kind; a view that refuses reads stays such a view."""
    if isinstance(stored, MetadataObject) or (isinstance(stored, PartialObject) and kind.model is None):
        return cast(R, copy(stored))
    return kind.decode(Object(stored.data).to_dict())
