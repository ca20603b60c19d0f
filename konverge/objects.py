"""Decoded metadata, the order of resource versions, and objects of kinds that have no model: a thin view of the decoded dict.

Guarantees: `Metadata` is immutable. An `Object` owns its dict; reading it from a cache gives a private copy, so changing it
corrupts nothing. Unknown fields survive unchanged. `compare_versions` follows
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version (stable in Kubernetes
1.35): two versions of one resource compare as numbers; anything else is "unknown", and callers fail open.

Caveats: versions of different resources must never be compared, and nothing here can detect that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec

from konverge.clock import from_rfc3339
from konverge.conditions import Condition, condition_entries, read_conditions
from konverge.errors import MetadataOnly

__all__ = [
    "FullMetadata",
    "Metadata",
    "MetadataObject",
    "Object",
    "OwnerReference",
    "compare_versions",
    "reached",
    "read_metadata",
]


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        """The API group, "" for the core group; the version of a reference is never compared."""
        return self.api_version.rpartition("/")[0]


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The metadata of an object, without managedFields.

    >>> Metadata(name="target", namespace="web").path
    'web/target'
    """

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def path(self) -> str:
        """`namespace/name`, or only the name if cluster-scoped."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def deleting(self) -> bool:
        """Whether a deletionTimestamp is set."""
        return self.deletion_timestamp is not None

    @property
    def created(self) -> datetime | None:
        """When the object was created; None if it was never stored."""
        return from_rfc3339(self.creation_timestamp) if self.creation_timestamp else None

    def label(self, name: str, default: str = "") -> str:
        """Return a label's value."""
        return (self.labels or {}).get(name, default)

    def annotation(self, name: str, default: str = "") -> str:
        """Return an annotation's value."""
        return (self.annotations or {}).get(name, default)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object, if one does."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class FullMetadata(Metadata, frozen=True, rename="camel", gc=False):
    """The metadata of an object as the API server sends it; managedFields stay bytes, a slice of the decoded buffer."""

    managed_fields: msgspec.Raw = msgspec.Raw(b"")


def read_metadata(value: Any) -> Metadata:
    """Return the metadata of a decoded object; raises ValueError (of msgspec) if it does not decode."""
    return value if isinstance(value, Metadata) else msgspec.convert(value or {}, Metadata, strict=False)


def _number(version: str) -> bool:
    return version.isascii() and version.isdigit() and (version == "0" or version[0] != "0")


def compare_versions(left: str, right: str) -> int | None:
    """Order two resource versions of one resource: negative, 0, positive; None if they cannot be compared.

    >>> compare_versions("9", "10"), compare_versions("10", "10"), compare_versions("a", "10")
    (-1, 0, None)
    """
    if not (_number(left) and _number(right)):
        return None
    a, b = (len(left), left), (len(right), right)
    return (a > b) - (a < b)


def reached(seen: str, wanted: str) -> bool | None:
    """Whether a cache at version `seen` shows a write of version `wanted`; None if they cannot be compared."""
    order = compare_versions(seen, wanted)
    return None if order is None else order >= 0


class Object:
    """A thin view of a decoded object.

    `data` is the dict itself. `spec` and `status` are its parts, {} if absent (then not connected to it). `get` walks a path.

    >>> Object({"metadata": {"name": "a"}, "spec": {"replicas": 2}}).get("spec", "replicas")
    2
    """

    __slots__ = ("_metadata", "data")

    data: dict[str, Any]

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._metadata: Metadata | None = None

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`, as `group/version`."""
        return str(self.data.get("apiVersion", ""))

    @property
    def kind_name(self) -> str:
        """The object's `kind`."""
        return str(self.data.get("kind", ""))

    @property
    def metadata(self) -> Metadata:
        """The metadata as it was at the first access."""
        if self._metadata is None:
            self._metadata = read_metadata(self.data.get("metadata"))
        return self._metadata

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str((self.data.get("metadata") or {}).get("name", ""))

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, "" if absent."""
        return str((self.data.get("metadata") or {}).get("namespace", ""))

    @property
    def spec(self) -> dict[str, Any]:
        """`spec`, {} if it is absent or not a map: a cache leaves out a spec with too many values."""
        return self._map("spec")

    @property
    def status(self) -> dict[str, Any]:
        """`status`, {} if it is absent or not a map."""
        return self._map("status")

    def _map(self, name: str) -> dict[str, Any]:
        value = self.get(name)
        return value if isinstance(value, (dict, Mapping)) else {}  # type: ignore[return-value]  # the API's own type

    def get(self, *path: str | int, default: Any = None) -> Any:
        """Return the value at a path of keys and list positions, `default` if any step is absent or null."""
        value: Any = self.data
        for step in path:
            if isinstance(step, int):
                if not isinstance(value, list) or not -len(value) <= step < len(value):
                    return default
                value = value[step]
            elif isinstance(value, (dict, Mapping)):
                value = value.get(step)
            else:
                return default
            if value is None:
                return default
        return value

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """`status.conditions`; entries without a type are left out."""
        return read_conditions(self.get("status", "conditions"))

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, None if absent."""
        # Only this entry is converted, because reconcilers read conditions one by one.
        entries = condition_entries(self.get("status", "conditions"))
        return next((Condition.lenient(entry) for entry in entries if str(entry["type"]) == type_), None)

    def condition(self, type_: str) -> Condition:
        """Return the condition of that type; raises LookupError if absent."""
        condition = self.find_condition(type_)
        if condition is None:
            raise LookupError(f"{self.kind_name} {self.metadata.path} has no condition {type_}")
        return condition

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the object that shares nothing with it."""
        copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.data))
        return copied

    def __repr__(self) -> str:
        return f"<{self.kind_name or 'Object'} {self.metadata.path}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable


class MetadataObject(Object):
    """An object that is cached as metadata only: reading anything else raises MetadataOnly, and so does `to_dict`.

    >>> target = MetadataObject({"kind": "Secret", "metadata": {"name": "target", "labels": {"app": "shop"}}})
    >>> target.name, target.metadata.label("app")
    ('target', 'shop')
    """

    __slots__ = ()

    @classmethod
    def of(cls, api_version: str, kind: str, metadata: Metadata) -> Self:
        """Return the object of a kind with this metadata."""
        view = cls({"apiVersion": api_version, "kind": kind, "metadata": msgspec.to_builtins(metadata)})
        view._metadata = metadata
        return view

    def get(self, *path: str | int, default: Any = None) -> Any:
        """Return a value inside `metadata`; raises MetadataOnly for any other path."""
        if not path or path[0] not in {"metadata", "apiVersion", "kind"}:
            raise self._unread(".".join(map(str, path)) or "the body")
        return super().get(*path, default=default)

    def to_dict(self) -> dict[str, Any]:
        """Raise MetadataOnly: a write of this object would remove its body."""
        raise self._unread("the body")

    def _unread(self, what: str) -> MetadataOnly:
        return MetadataOnly(
            f"{what} of {self.kind_name} {self.metadata.path} was read, but only its metadata is cached; "
            f"read it live: await ctx.live(...).get({self.namespace!r}, {self.name!r})"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise self._unread(name)
