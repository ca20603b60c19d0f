"""Bodies of successful responses, decoded as far as each is needed.

Guarantees: pure. A body of another type than the requested one raises `ServerFailure`, which names the size and not the content: a proxy or
gateway between client and API server sent the body.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from konverge.client.depth import flattened, flattened_in_turns
from konverge.client.resources import Page
from konverge.errors import ServerFailure
from konverge.objects import Metadata

__all__ = ["Stored", "decode_as", "decode_metadata", "decode_object", "decode_page", "decode_stored"]

T = TypeVar("T")


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _WithMetadata(msgspec.Struct):
    metadata: Metadata


class _Written(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _WithWritten(msgspec.Struct):
    metadata: _Written


class Stored(NamedTuple):
    """Identity and version of the object in the response to a write. `ended`: the write removed the last finalizer, so the object no longer
    exists.

    The response to such a write shows the version from before the write. A pod within its grace period has not ended.
    """

    name: str
    uid: str
    version: str
    ended: bool


_OBJECT = msgspec.json.Decoder(dict[str, Any])
_LIST = msgspec.json.Decoder(_List)
_METADATA = msgspec.json.Decoder(_WithMetadata)
_WRITTEN = msgspec.json.Decoder(_WithWritten)


def decode_as(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Decode a body by this decoder; `what` names the expected type in the error."""
    try:
        try:
            return decoder.decode(body)
        except RecursionError:
            return decoder.decode(flattened(bytes(body)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerFailure(
            f"the body of a successful response is {len(bytes(body))} bytes that are no {what}"
        ) from error


def decode_object(body: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode an object whole."""
    return decode_as(_OBJECT, body, "object")


def decode_metadata(body: bytes) -> Metadata:
    """Decode only the metadata of an object."""
    return decode_as(_METADATA, body, "object with metadata").metadata


def decode_stored(body: bytes) -> Stored:
    """Decode name, uid and version from the response to a write, and whether the write ended the object."""
    metadata = decode_as(_WRITTEN, body, "object with metadata").metadata
    ended = bool(metadata.deletion_timestamp and not metadata.deletion_grace_period_seconds and not metadata.finalizers)
    return Stored(metadata.name, metadata.uid, metadata.resource_version, ended)


async def decode_page(body: bytes) -> Page:
    """Cut a page of a list into its items."""
    try:
        page = _LIST.decode(body)
    except RecursionError:
        page = decode_as(_LIST, await flattened_in_turns(body), "list")
    except (msgspec.DecodeError, UnicodeDecodeError):
        page = decode_as(_LIST, body, "list")  # raises, in the words for every body
    return Page(
        items=page.items or [],
        resource_version=page.metadata.resource_version,
        continue_=page.metadata.continue_,
        remaining=page.metadata.remaining_item_count,
    )
