"""`Resource`: names, scope, served versions, subresources and schemas of a resource. Pure data.

A built-in kind and a CustomResourceDefinition both become `Resource`s, and from there on the same code serves them; what is special about a
built-in kind is its `Strategy` (defaults and checks that its schema cannot say).
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
    """A column of a table: name, type, and where the cell comes from (JSONPath as in additionalPrinterColumns; "" for built-in cells)."""

    name: str
    type: str = "string"
    path: str = ""
    format: str = ""
    description: str = ""
    priority: int = 0


class Printed:
    """The columns of a resource in a table. Built-in kinds override `cells`; a CRD's columns are read by their paths (room `tables`)."""

    columns: tuple[Column, ...] = ()


class Strategy:
    """The behaviour of one kind beyond its schema. The default does nothing special; built-in kinds and CRDs override what they need.

    `old` and `new` are whole objects as plain data; `new` may be changed in place. Hooks are synchronous and decide from what they are
    given.
    """

    generation: bool = True
    """Whether metadata.generation is kept: 1 at creation, and more with every change outside metadata and status."""

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
        """Clear and set what a client has no say in (status, derived fields), after defaulting, before validation."""

    def prepare_update(self, new: Data, old: Data) -> None:
        """Put back what an update through the main resource may not change."""

    def prepare_status(self, new: Data, old: Data) -> None:
        """Put back what an update through `/status` may not change: everything but status, by default."""
        for name in [name for name in new if name not in ("status", "metadata", "apiVersion", "kind")]:
            del new[name]
        new.update(
            {name: value for name, value in old.items() if name not in ("status", "metadata", "apiVersion", "kind")}
        )

    def default(self, new: Data) -> None:
        """Fill in the defaults that the schema does not hold."""

    def validate(self, new: Data, old: Data | None, subresource: str = "") -> list[FieldError]:  # noqa: ARG002  # a hook
        """Tell what is wrong beyond the schema; `old` is None at creation."""
        return []

    def warnings(self, new: Data, old: Data | None) -> list[str]:  # noqa: ARG002  # a hook
        """Return what the client is to be warned of (the Warning header)."""
        return []

    def convert(self, data: Data, api_version: str) -> Data:
        """Return an object in another version of its kind; the one that is given may be changed. Most kinds have only one."""
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
    """How a resource is another view of objects that are stored as something else's (events of v1 as events.k8s.io's)."""

    stored: tuple[str, str]
    """Group and plural under which the objects are stored."""
    read: Callable[[Data], Data]
    """Makes the view of a stored object."""
    write: Callable[[Data], Data]
    """Makes the stored object of a view."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Resource:
    """A resource, as routing, discovery and storage need it."""

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
    """Whether it comes from a CustomResourceDefinition."""
    alias: Alias | None = None
    twin: Alias | None = None
    """The resource of another group that shows the same objects; `read` makes this one's view of the other's, `write` is the reverse."""
    stored: bool = True
    """False for requests that are answered and not kept (SubjectAccessReview, TokenReview)."""
    conversion: Mapping[str, Any] | None = None
    """The webhook that converts between the versions (`spec.conversion.webhook`); None if a conversion changes only apiVersion."""

    @property
    def name(self) -> tuple[str, str]:
        """Group and plural, as its URL has them."""
        return self.group, self.plural

    @property
    def id(self) -> tuple[str, str]:
        """Group and plural that its objects are stored under: the key of storage and of its readers."""
        return self.name if self.alias is None else self.alias.stored

    @property
    def qualified(self) -> str:
        """`plural.group`, or the plural alone."""
        return qualified(self.group, self.plural)

    @property
    def storage(self) -> Version:
        """The version in which objects are stored."""
        return next(version for version in self.versions if version.storage)

    def version(self, name: str) -> Version | None:
        """Return a served version."""
        return next((version for version in self.versions if version.name == name and version.served), None)

    def written_in(self, api_version: str) -> Version | None:
        """Return the version of an apiVersion, served or not; None if the resource has no such version."""
        group, _, name = api_version.rpartition("/")
        return next((version for version in self.versions if version.name == name and group == self.group), None)

    def api_version(self, name: str) -> str:
        """Return `group/version`, or the version alone in the core group."""
        return f"{self.group}/{name}" if self.group else name
