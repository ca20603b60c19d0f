"""Partial models of foreign kinds: they name the fields that a program reads and keep all others.

Guarantees: fields that a `PartialModel` does not name survive a round trip unchanged, at every level and in their place; so does the whole
metadata. A `PartialResource` is the `model` of `konverge.kind(..., model=...)`.

Caveats: a named field is written by its type, so a `datetime` may change its spelling. If the exact text matters, use `str`. A null in a
field that may not be None reads as an empty list or map, which Go writes as null, and is written as an empty list or map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

import msgspec
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from konverge.conditions import Condition, find_condition, read_conditions
from konverge.crds.decoding import misfit, misfits, name_of
from konverge.crds.metadata import MetadataField, MetadataProperties
from konverge.errors import UsageError
from konverge.kinds import Kind
from konverge.model import Model
from konverge.objects import Metadata

__all__ = ["PartialModel", "PartialResource"]


class PartialModel(Model):
    """A part of an object that names some of its fields; the others survive.

    >>> class JobSpec(PartialModel):
    ...     suspend: bool = False
    >>> JobSpec.model_validate({"suspend": True, "parallelism": 2}).wire()
    {'suspend': True, 'parallelism': 2}
    """

    model_config = ConfigDict(extra="allow")


_EMPTY: Final[Mapping[str, type[list[Any] | dict[str, Any]]]] = {
    "list_type": list,
    "tuple_type": list,
    "dict_type": dict,
}
"""The empty value in place of a null, by pydantic's type of the error."""


def _with_empty(data: dict[str, Any], problems: Iterable[ErrorDetails]) -> bool:
    """Write empty lists and maps in place of the nulls that a model refused; return whether there was any."""
    changed = False
    for problem in problems:
        empty = _EMPTY.get(problem["type"])
        if empty is not None and problem["input"] is None:
            *steps, last = problem["loc"]
            try:
                parent: Any = data
                for step in steps:
                    parent = parent[step]
                if parent[last] is None:
                    parent[last], changed = empty(), True
            except (KeyError, IndexError, TypeError):
                continue  # the member of a union is a part of the location, and no part of the object
    return changed


def _field(value: Any, name: str) -> Any:
    """Return a field of a model or of plain data, None if it is absent."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _plain(value: Any) -> Any:
    """Return a list of models or of plain data as plain data."""
    return (
        [entry.wire() if isinstance(entry, Model) else entry for entry in value] if isinstance(value, list) else value
    )


class _KindOf:
    """`kind_of_resource` of an object; the class has none, because it may serve several kinds."""

    def __get__(self, instance: PartialResource | None, owner: type[PartialResource]) -> Any:
        if instance is None:
            raise UsageError(
                f"{owner.__name__} is a view of a kind that is not ours; name it: kv.kind('group/v1', 'Kind', model={owner.__name__})"
            )
        return lambda: Kind(instance.api_version, instance.kind, owner.decode_resource)


class PartialResource(MetadataProperties, PartialModel):
    """A partial model of a whole object of a foreign kind; nest `PartialModel`s in it.

    >>> from konverge.kinds import kind
    >>> class ConfigMapView(PartialResource):
    ...     data: dict[str, str] = Field(default_factory=dict)
    >>> CONFIG_MAP = kind("v1", "ConfigMap", model=ConfigMapView)
    >>> settings = CONFIG_MAP.decode({"metadata": {"name": "settings"}, "data": {"a": "1"}, "immutable": True})
    >>> settings.data["a"], settings.to_dict()["immutable"]
    ('1', True)
    """

    kind_of_resource: ClassVar[Any] = _KindOf()

    api_version: str
    kind: str
    metadata: MetadataField = Field(default_factory=Metadata, frozen=True)

    _metadata_as_read: dict[str, Any] | None = PrivateAttr(default=None)

    @classmethod
    def decode_resource(cls, data: dict[str, Any]) -> Self:
        """Convert a decoded JSON object into this model; the dict becomes the object's own.

        Raises InvalidObject with the path of the first misfit.
        """
        try:
            decoded = cls.model_validate(data)
        except ValidationError as error:
            problems = misfits(error)
        else:
            decoded._metadata_as_read = data.get("metadata")
            return decoded
        if _with_empty(data, problems):
            return cls.decode_resource(data)
        raise misfit(name_of(str(data.get("kind") or cls.__name__), data), problems[0])

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """`status.conditions`, whether or not the model names them; entries without a type are left out."""
        return read_conditions(_plain(_field(_field(self, "status"), "conditions")))

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, None if absent."""
        return find_condition(self.conditions, type_)

    def condition(self, type_: str) -> Condition:
        """Return the condition of that type; raises LookupError if absent."""
        condition = self.find_condition(type_)
        if condition is None:
            raise LookupError(f"{self.kind} {self.metadata.path} has no condition {type_}")
        return condition

    def to_dict(self) -> dict[str, Any]:
        """Return the object in the API's spelling: as it was read, with the changes since."""
        written = self.wire()
        if self._metadata_as_read is not None:
            written["metadata"] = msgspec.json.decode(msgspec.json.encode(self._metadata_as_read))
        return written

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [("kind", self.kind), ("path", self.metadata.path)]

    def __str__(self) -> str:
        return repr(self)
