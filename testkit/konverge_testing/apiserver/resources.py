"""`Resource`: names, scope, served versions, subresources and schemas of a resource. Pure data.

A built-in kind and a CustomResourceDefinition both become `Resource`s, which the same code serves; the special behaviour of a
built-in kind is its `Strategy` (defaults and checks that its schema cannot express).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import FieldError, qualified

__all__ = ["VERBS", "Alias", "Column", "Printed", "Resource", "Strategy", "Version"]

VERBS: Final = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: name, type, and the JSONPath of its cells, as in additionalPrinterColumns ("" for built-in cells)."""

    name: str
    type: str = "string"
    path: str = ""
    format: str = ""
    description: str = ""
    priority: int = 0


class Printed:
    """The columns of a resource in a table. Built-in kinds override `cells`; a CRD's columns are read by their paths (package `tables`)."""

    columns: tuple[Column, ...] = ()


class Strategy:
    """The behaviour of one kind beyond its schema. The default does nothing special; built-in kinds and CRDs override single methods.

    `old` and `new` are whole objects as plain data; `new` may be changed in place. Hooks are synchronous and decide only from their
    arguments.
    """

    generation: bool = True
    """Whether the server maintains metadata.generation: 1 at creation, incremented by every change outside metadata and status."""

    status_on_create: bool = False
    """Whether `status` may be set when the object is created (kinds without a status subresource)."""

    allow_create_on_update: bool = False
    """Whether a PUT of an absent object creates it (Leases, RBAC objects and others)."""

    unconditional_update: bool = True
    """Whether a PUT without resourceVersion is accepted."""

    grace_period: int | None = None
    """Default seconds of graceful deletion; None if the kind has none (pods: 30)."""

    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {}
    """Per subresource ("" is the main one): paths that a write through it does not own, for managedFields; e.g. {"": (("status",),)}."""

    def prepare_create(self, new: Data) -> None:
        """Clear and set the fields that a client cannot set (status, derived fields), after defaulting, before validation."""

    def prepare_update(self, new: Data, old: Data) -> None:
        """Restore the fields that an update through the main resource cannot change."""

    def prepare_status(self, new: Data, old: Data) -> None:
        """Restore the fields that an update through `/status` cannot change: by default, all but status."""
        for name in [name for name in new if name not in ("status", "metadata", "apiVersion", "kind")]:
            del new[name]
        new.update(
            {name: value for name, value in old.items() if name not in ("status", "metadata", "apiVersion", "kind")}
        )

    def default(self, new: Data) -> None:
        """Set the defaults that the schema does not contain."""

    def validate(self, new: Data, old: Data | None, subresource: str = "") -> list[FieldError]:  # noqa: ARG002  # a hook
        """Return the errors beyond the schema; `old` is None at creation."""
        return []

    def warnings(self, new: Data, old: Data | None) -> list[str]:  # noqa: ARG002  # a hook
        """Return the warnings for the client (the Warning header)."""
        return []

    def convert(self, data: Data, api_version: str) -> Data:
        """Return an object in another version of its kind; the given object may be changed. Most kinds have a single version."""
        data["apiVersion"] = api_version
        return data

    def field_labels(self, object_: Data) -> dict[str, str]:  # noqa: ARG002  # a hook
        """Return the field-selector fields beyond metadata.name and metadata.namespace."""
        return {}


@dataclass(frozen=True, eq=False)
class Version:
    """One served version of a resource."""

    name: str
    schema: Node
    served: bool = True
    storage: bool = True
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    """JSON paths that a field selector may name beyond metadata.name and metadata.namespace (`.spec.color`)."""
    scale: Mapping[str, str] | None = None
    """specReplicasPath, statusReplicasPath, labelSelectorPath of the scale subresource; None if there is none."""
    has_status: bool = False
    deprecated: str = ""
    """The warning for users of this version, or "" if it is not deprecated."""


@dataclass(frozen=True, eq=False)
class Alias:
    """How a resource presents objects that are stored as another resource (events of events.k8s.io, stored as events of v1)."""

    stored: tuple[str, str]
    """Group and plural of the stored objects."""
    read: Callable[[Data], Data]
    """Converts a stored object to the view."""
    write: Callable[[Data], Data]
    """Converts a view to the stored object."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Resource:
    """A resource, with the data for routing, discovery and storage."""

    group: str
    plural: str
    kind: str
    singular: str = ""
    list_kind: str = ""
    namespaced: bool = True
    versions: tuple[Version, ...]
    """In discovery's order of preference."""
    verbs: frozenset[str] = VERBS
    subresources: frozenset[str] = frozenset()
    """Names such as `status`, `scale`, `eviction`, `token`."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    custom: bool = False
    """Whether a CustomResourceDefinition defines the resource."""
    alias: Alias | None = None
    twin: Alias | None = None
    """The resource of another group that stores the objects; `read` converts from its objects, `write` to them."""
    stored: bool = True
    """False for kinds that are never stored (SubjectAccessReview, TokenReview)."""
    conversion: Mapping[str, Any] | None = None
    """The webhook that converts between the versions (`spec.conversion.webhook`); None if a conversion changes only apiVersion."""

    @property
    def name(self) -> tuple[str, str]:
        """Group and plural, as in its URL."""
        return self.group, self.plural

    @property
    def id(self) -> tuple[str, str]:
        """Group and plural of its stored objects: the key of storage and of its readers."""
        return self.name if self.alias is None else self.alias.stored

    @property
    def qualified(self) -> str:
        """`plural.group`, or only the plural in the core group."""
        return qualified(self.group, self.plural)

    @property
    def storage(self) -> Version:
        """The version of stored objects."""
        return next(version for version in self.versions if version.storage)

    def version(self, name: str) -> Version | None:
        """Return a served version."""
        return next((version for version in self.versions if version.name == name and version.served), None)

    def written_in(self, api_version: str) -> Version | None:
        """Return the version of an apiVersion, served or not; None if the resource has no such version."""
        group, _, name = api_version.rpartition("/")
        return next((version for version in self.versions if version.name == name and group == self.group), None)

    def api_version(self, name: str) -> str:
        """Return `group/version`, or only the version in the core group."""
        return f"{self.group}/{name}" if self.group else name
