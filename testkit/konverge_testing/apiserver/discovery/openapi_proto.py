"""The OpenAPI v2 document in Protobuf, which `OpenAPISchema()` of client-go and `kubectl explain --output=plaintext-openapiv2` ask for.

Guarantees: pure. Every field of the document that exists in the messages is written; values of any type (extensions, defaults,
enums) are written as JSON text, which those clients read as YAML.

Source: gnostic `openapiv2/OpenAPIv2.proto`, numbers of fields only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["encoded"]

Data: TypeAlias = Mapping[str, Any]
Writer: TypeAlias = Callable[[int, Any], bytes]

_DELIMITED: Final = 2
_FIXED: Final = 1


def encoded(document: Data) -> bytes:
    """Return the document as a message."""
    return _message(_DOCUMENT, document)


# --- the wire ----------------------------------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _held(number: int, body: bytes) -> bytes:
    """Return a field that holds bytes: a text or a message."""
    return _number(number << 3 | _DELIMITED) + _number(len(body)) + body


def _text(number: int, value: Any) -> bytes:
    return _held(number, str(value).encode())


def _whole(number: int, value: Any) -> bytes:
    return _number(number << 3) + _number(int(value)) if value else b""


def _double(number: int, value: Any) -> bytes:
    return _number(number << 3 | _FIXED) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    return _held(number, _held(2, msgspec.json.encode(value)))


def _all(write: Writer) -> Writer:
    return lambda number, values: b"".join(write(number, one) for one in values)


def _one(fields: Callable[[], Table]) -> Writer:
    return lambda number, value: _held(number, _message(fields(), value))


def _named(write: Writer) -> Writer:
    """Return the encoder of entries into messages with a name and a value."""

    def entries(number: int, values: Data) -> bytes:
        return b"".join(_held(number, _text(1, name) + write(2, value)) for name, value in values.items())

    return entries


def _wrapped(write: Writer, number: int = 1) -> Writer:
    """Return the encoder of a value into a submessage, as the field of this number."""
    return lambda outer, value: _held(outer, write(number, value))


Table: TypeAlias = Mapping[str, tuple[int, Writer]]
"""The fields of a message by their names in JSON; `x-` is the field of extensions."""

_EXTENSION: Final = "x-"


def _message(table: Table, value: Data) -> bytes:
    parts = []
    for name, one in value.items():
        field = table.get(_EXTENSION if name.startswith(_EXTENSION) else name)
        if field is not None:
            number, write = field
            parts.append(write(number, {name: one} if name.startswith(_EXTENSION) else one))
    return b"".join(parts)


# --- the messages ------------------------------------------------------------------------------------------------------------


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, one) for one in values)


def _more(number: int, value: Any) -> bytes:
    """Write `additionalProperties`: a schema or a truth value."""
    return _held(number, _whole(2, value) if isinstance(value, bool) else _schema(1, value))


def _types(number: int, value: Any) -> bytes:
    return _held(number, _texts(1, [value] if isinstance(value, str) else value))


def _parameter(number: int, value: Data) -> bytes:
    """Write a parameter: a body parameter, or by its `in` the message of another location."""
    if value.get("in") == "body":
        return _held(number, _held(1, _held(1, _message(_BODY, value))))
    place = _PLACES[value["in"]]
    return _held(number, _held(1, _held(2, _held(place, _message(_OTHERS[place], value)))))


_extensions: Final = _named(_any)
_schema: Final = _one(lambda: _SCHEMA)
_operation: Final = _one(lambda: _OPERATION)

_SCHEMA: Final[Table] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _whole),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _whole),
    "maxLength": (11, _whole),
    "minLength": (12, _whole),
    "pattern": (13, _text),
    "maxItems": (14, _whole),
    "minItems": (15, _whole),
    "uniqueItems": (16, _whole),
    "maxProperties": (17, _whole),
    "minProperties": (18, _whole),
    "required": (19, _texts),
    "enum": (20, _all(_any)),
    "additionalProperties": (21, _more),
    "type": (22, _types),
    "items": (23, _wrapped(_schema)),
    "allOf": (24, _all(_schema)),
    "properties": (25, _wrapped(_named(_schema))),
    "example": (30, _any),
    _EXTENSION: (31, _extensions),
}
_BODY: Final[Table] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _whole),
    "schema": (5, _schema),
    _EXTENSION: (6, _extensions),
}
_PLACES: Final = {"header": 1, "formData": 2, "query": 3, "path": 4}
_COMMON: Final[Table] = {
    "required": (1, _whole),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
}
_PLAIN: Final = {**_COMMON, "type": (5, _text), "format": (6, _text), "uniqueItems": (18, _whole)}
_LENIENT: Final = {**_COMMON, "type": (6, _text), "format": (7, _text), "uniqueItems": (19, _whole)}
_OTHERS: Final[Mapping[int, Table]] = {1: _PLAIN, 2: _LENIENT, 3: _LENIENT, 4: _PLAIN}
"""By the value of `in`: form and query parameters have one more field before the type."""

_RESPONSE: Final[Table] = {"description": (1, _text), "schema": (2, _wrapped(_schema)), _EXTENSION: (5, _extensions)}
_OPERATION: Final[Table] = {
    "tags": (1, _texts),
    "summary": (2, _text),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _all(_parameter)),
    "responses": (9, _wrapped(_named(_wrapped(_one(lambda: _RESPONSE))))),
    "schemes": (10, _texts),
    "deprecated": (11, _whole),
    _EXTENSION: (13, _extensions),
}
_PATH: Final[Table] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "options": (6, _operation),
    "head": (7, _operation),
    "patch": (8, _operation),
    "parameters": (9, _all(_parameter)),
    _EXTENSION: (10, _extensions),
}
_INFO: Final[Table] = {"title": (1, _text), "version": (2, _text)}
_KEY: Final[Table] = {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)}
_DOCUMENT: Final[Table] = {
    "swagger": (1, _text),
    "info": (2, _one(lambda: _INFO)),
    "paths": (8, _wrapped(_named(_one(lambda: _PATH)), 2)),
    "definitions": (9, _wrapped(_named(_schema))),
    "security": (12, _all(_wrapped(_named(_wrapped(_texts))))),
    "securityDefinitions": (13, _wrapped(_named(_wrapped(_one(lambda: _KEY), 2)))),
}
