"""Partial models of kinds that are not ours: name the fields that you read, keep those that you do not know.

Promises: what a `PartialModel` does not name survives a round trip at every level, in its place and as it was; so does the whole
metadata. `PartialResource` is what `konverge.kind(..., model=...)` takes.

Does not promise: a named field is written as its type writes it, so a `datetime` may come back in another spelling. Where the exact
text matters, name it as `str`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from konverge.crds.decoding import misfit, misfits, name_of
from konverge.crds.metadata import MetadataField
from konverge.errors import UsageError
from konverge.kinds import Kind
from konverge.model import Model
from konverge.objects import Metadata

__all__ = ["PartialModel", "PartialResource"]


class PartialModel(Model):
    """A part of an object of which only some fields are named; the others survive.

    >>> class JobSpec(PartialModel):
    ...     suspend: bool = False
    >>> JobSpec.model_validate({"suspend": True, "parallelism": 2}).wire()
    {'suspend': True, 'parallelism': 2}
    """

    model_config = ConfigDict(extra="allow")


class _KindOf:
    """`kind_of_resource` of an object; the class has none, because it may stand for several kinds."""

    def __get__(self, instance: PartialResource | None, owner: type[PartialResource]) -> Any:
        if instance is None:
            raise UsageError(
                f"{owner.__name__} is a view of a kind that is not ours; name it: kv.kind('group/v1', 'Kind', model={owner.__name__})"
            )
        return lambda: Kind(instance.api_version, instance.kind, owner.decode_resource)


class PartialResource(PartialModel):
    """A partial model of a whole object of a kind that is not ours; nest `PartialModel`s in it.

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
        """Turn a decoded JSON object into this model; the dict becomes the object's own.

        Raises InvalidObject with the path of the first misfit.
        """
        try:
            decoded = cls.model_validate(data)
        except ValidationError as error:
            found = misfits(error)[0]
        else:
            decoded._metadata_as_read = data.get("metadata")
            return decoded
        raise misfit(name_of(str(data.get("kind") or cls.__name__), data), found)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, "" where the object is cluster-scoped or has none yet."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """`metadata.uid`, "" for an object that was never stored."""
        return self.metadata.uid

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`, empty where there are none."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`, empty where there are none."""
        return self.metadata.annotations or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the object as the API server reads it: what was read, with the changes that were made."""
        written = self.wire()
        if self._metadata_as_read is not None:
            written["metadata"] = msgspec.json.decode(msgspec.json.encode(self._metadata_as_read))
        return written

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [("kind", self.kind), ("path", self.metadata.path)]

    def __str__(self) -> str:
        return repr(self)
