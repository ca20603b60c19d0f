"""`metadata` inside a pydantic model: the frozen struct that the caches hold, read and written by msgspec.

Guarantees: reading ignores fields that the struct does not have (above all managedFields); writing omits empty fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeAlias

import msgspec
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from konverge.objects import Metadata, read_metadata

__all__ = ["MetadataField", "MetadataProperties", "write_metadata"]


def write_metadata(value: Metadata) -> dict[str, Any]:
    """Return metadata as plain data."""
    written: dict[str, Any] = msgspec.to_builtins(value)
    return written


MetadataField: TypeAlias = Annotated[
    Metadata,
    PlainValidator(read_metadata),
    PlainSerializer(write_metadata),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""The type of `metadata` in the models of whole objects."""


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Metadata: ...


class MetadataProperties:
    """Short names for parts of the metadata, shared by the models of own and of foreign kinds."""

    @property
    def name(self: _HasMetadata) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self: _HasMetadata) -> str:
        """`metadata.namespace`, "" if the object is cluster-scoped or has none yet."""
        return self.metadata.namespace

    @property
    def uid(self: _HasMetadata) -> str:
        """`metadata.uid`, "" for an object that was never stored."""
        return self.metadata.uid

    @property
    def labels(self: _HasMetadata) -> Mapping[str, str]:
        """`metadata.labels`, empty if absent."""
        return self.metadata.labels or {}

    @property
    def annotations(self: _HasMetadata) -> Mapping[str, str]:
        """`metadata.annotations`, empty if absent."""
        return self.metadata.annotations or {}
