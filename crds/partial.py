"""Partial models of foreign kinds: they name the fields that a program reads and keep all others.

Guarantees: fields that a `PartialModel` does not name survive a round trip unchanged, at every level and in their place; so does the whole
metadata. A `PartialResource` is the `model` of `konverge.kind(..., model=...)`.

Caveats: a named field is written by its type, so a `datetime` may change its spelling. If the exact text matters, use `str`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

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
            details = misfits(error)[0]
        else:
            decoded._metadata_as_read = data.get("metadata")
            return decoded
        raise misfit(name_of(str(data.get("kind") or cls.__name__), data), details)

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
