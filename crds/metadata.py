"""`metadata` inside a pydantic model: the frozen struct that the caches hold, read and written by msgspec.

Promises: reading ignores what the struct does not know (managedFields above all); writing leaves out what is empty.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from konverge.objects import Metadata

__all__ = ["MetadataField", "read_metadata", "write_metadata"]


def read_metadata(value: Any) -> Metadata:
    """Return the metadata of a decoded object; raises ValueError (of msgspec) where it is none."""
    return value if isinstance(value, Metadata) else msgspec.convert(value or {}, Metadata, strict=False)


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
