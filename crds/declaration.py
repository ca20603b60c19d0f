"""The declaration of a resource beside its model: names, scope, columns, conditions, rules.

Guarantees: a `Declaration` is frozen data, checked in its constructor; a name that the API server would refuse raises UsageError with the
correct form. This module depends neither on pydantic nor on the schema.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from konverge.crds.markers import Cel
from konverge.errors import UsageError

__all__ = ["Column", "ColumnType", "Declaration", "Scale", "Scope", "Writer", "plural_of"]

Scope = Literal["Namespaced", "Cluster"]
Writer = Literal["tenants", "administrators"]
ColumnType = Literal["string", "integer", "number", "boolean", "date"]

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_CONDITION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`; `json_path` starts with a dot. Columns with a priority above 0 show with `-o wide` only.

    >>> Column("Schedule", ".spec.schedule").entry()
    {'name': 'Schedule', 'type': 'string', 'jsonPath': '.spec.schedule'}
    """

    name: str
    json_path: str
    type: ColumnType = "string"
    priority: int = 0
    description: str = ""
    format: str = ""

    def __post_init__(self) -> None:
        if not self.name or not self.json_path.startswith(".") or self.priority < 0:
            raise UsageError(
                f"Column({self.name!r}, {self.json_path!r}): a column has a name, a path that starts with a dot, as in "
                "'.spec.schedule', and a priority of at least 0"
            )

    @classmethod
    def condition(cls, type_: str, *, priority: int = 0) -> Column:
        """Return the column that shows a condition's status.

        >>> Column.condition("Ready").json_path
        '.status.conditions[?(@.type=="Ready")].status'
        """
        return cls(type_, f'.status.conditions[?(@.type=="{type_}")].status', priority=priority)

    def entry(self) -> dict[str, Any]:
        """Return the column as an entry of `additionalPrinterColumns`."""
        optional = {"format": self.format, "priority": self.priority, "description": self.description}
        return {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
            **{key: value for key, value in optional.items() if value},
        }


AGE = Column("Age", ".metadata.creationTimestamp", type="date")


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource: the fields that `kubectl scale` and autoscalers read and write.

    >>> Scale(".spec.replicas", ".status.replicas").entry()
    {'specReplicasPath': '.spec.replicas', 'statusReplicasPath': '.status.replicas'}
    """

    spec_replicas: str
    status_replicas: str
    selector: str = ""

    def __post_init__(self) -> None:
        if not self.spec_replicas.startswith(".spec.") or not self.status_replicas.startswith(".status."):
            raise UsageError("Scale: write the paths as in Scale('.spec.replicas', '.status.replicas')")

    def entry(self) -> dict[str, Any]:
        """Return the subresource as the CRD writes it."""
        paths = {"specReplicasPath": self.spec_replicas, "statusReplicasPath": self.status_replicas}
        return {**paths, "labelSelectorPath": self.selector} if self.selector else paths


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `@resource` for a class, with every default filled in."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    scope: Scope
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    """The labels of the CustomResourceDefinition, sorted."""
    conditions: tuple[str, ...]
    columns: tuple[Column, ...]
    rules: tuple[Cel, ...]
    scale: Scale | None
    served: bool
    storage: bool
    deprecated: str | None
    written_by: Writer = "administrators"
    """The users who may write the kind with the role `edit` of the operator's chart, or only with its role `admin`."""
    viewable: bool = True
    """Whether the role `view` of the chart reads the kind; False if the spec may hold a secret."""
    selectable: tuple[str, ...] = ()
    """The JSON paths of the fields that field selectors may name."""

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise UsageError(f"@resource of {self.kind}: {problem}")

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}"

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""
        return self.scope == "Namespaced"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition: `plural.group`."""
        return f"{self.plural}.{self.group}"

    @property
    def subresources(self) -> tuple[str, ...]:
        """The subresources beside the object itself."""
        return ("status",) if self.scale is None else ("status", "scale")

    def all_columns(self) -> tuple[Column, ...]:
        """Return the columns as kubectl shows them: Age is the last column, unless a column of that name is declared."""
        return self.columns if any(column.name == "Age" for column in self.columns) else (*self.columns, AGE)

    def _problems(self) -> list[str]:
        problems = [
            f"{name} is a tuple of several; write {name}=({getattr(self, name)!r},)"
            for name in ("short_names", "categories", "conditions", "columns", "rules", "selectable")
            if isinstance(getattr(self, name), str | Column | Cel)
        ]
        if problems:
            return problems
        if not _GROUP.fullmatch(self.group):
            problems.append(f"the group {self.group!r} is a domain with a dot, as in 'example.com/v1'")
        if not _VERSION.fullmatch(self.version):
            problems.append(f"the version {self.version!r} is written as in v1, v1beta1 or v1alpha1")
        if not _KIND.fullmatch(self.kind):
            problems.append("the kind is CamelCase, 63 characters at most; name it with kind='...'")
        problems += [
            f"{name!r} is no name of the API: lower-case letters, digits and dashes, 63 characters at most"
            for name in (self.plural, self.singular, *self.short_names, *self.categories)
            if not _LABEL.fullmatch(name)
        ]
        problems += [
            f"{name!r} is no condition type; write it in CamelCase"
            for name in self.conditions
            if not _CONDITION.fullmatch(name)
        ]
        problems += [
            f"the label {key}={value!r} is not valid: a name of at most 63 characters after an optional domain, and such a value"
            for key, value in self.labels
            if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value)
        ]
        problems += _repeated("condition", self.conditions)
        problems += _repeated("column", [column.name for column in self.columns])
        if self.storage and not self.served:
            problems.append("a version that is stored but not served cannot be read; set storage=False or served=True")
        return problems


def _repeated(what: str, names: Sequence[str]) -> list[str]:
    return [f"the {what} {name!r} is declared twice" for name in sorted(set(names)) if list(names).count(name) > 1]


def plural_of(kind: str) -> str:
    """Return the English plural; an irregular plural is an argument of `@resource`.

    >>> plural_of("Backup"), plural_of("Policy"), plural_of("Gateway"), plural_of("Mesh")
    ('backups', 'policies', 'gateways', 'meshes')
    """
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in set("aeiou"):
        return f"{word[:-1]}ies"
    return f"{word}s"
