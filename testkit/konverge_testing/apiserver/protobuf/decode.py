r"""Decodes bodies in protobuf: clients in Go (kubectl, client-go) send built-in kinds in protobuf, and do not fall back to JSON. Pure.

    as_json(b"k8s\x00...")  ->  b'{"apiVersion":"v1","kind":"ConfigMap",...}'

Guarantees: the result is the JSON that the same client would have written: zero values of fields that are not pointers are left out,
inlined messages are merged into their place, times, quantities, raw JSON and int-or-string have their JSON forms. Unknown fields
are skipped.

Caveats: responses are never in protobuf. Such clients accept JSON too, and get it. Custom resources have no protobuf form (nor on a real
server).

In `messages.json` (see `generate.py`) a field is its JSON name and a word: `s` text, `i` integer, `b` boolean, `d` double, `y` bytes,
`t` time, `M` time with microseconds, `q` quantity, `x` int-or-string, `r` raw JSON, `L` list of texts, `a` `o` `p` the alternatives of JSON
schemas, `@name` a message; before it `*` a pointer, `[` a list, `{` a map from texts, `~` inlined.

Source: k8s.io/apimachinery `pkg/runtime/serializer/protobuf` and `pkg/runtime/generated.proto` (the envelope), the protobuf encoding rules.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

import msgspec

from konverge_testing.apiserver import statuses
from konverge_testing.apiserver.varints import varint

__all__ = ["MEDIA_TYPE", "as_json", "decode"]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_OFFERS: Final = ("application/json", "application/yaml")
_SCHEMA: Final = "apiextensions-apiserver/apiextensions/v1.JSONSchemaProps"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Wire: TypeAlias = int | bytes
Field: TypeAlias = tuple[str, str]


class _Tables(msgspec.Struct):
    kinds: dict[str, str]
    messages: dict[str, dict[int, Field]]


@cache
def _tables() -> _Tables:
    return msgspec.json.decode(files(__package__).joinpath("messages.json").read_bytes(), type=_Tables)


def as_json(body: bytes) -> bytes:
    """Convert a body to JSON. Raises StatusError: 415 for kinds without a protobuf form, 400 for bytes that are not a message."""
    return msgspec.json.encode(decode(body))


def decode(body: bytes) -> dict[str, Any]:
    """Decode a body, envelope included, into plain data."""
    if not body.startswith(_MAGIC):
        raise statuses.unsupported_media_type(_OFFERS)
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        about = dict(_fields(_bytes(envelope.get(1, b""))))
        api_version, kind = (_bytes(about.get(number, b"")).decode() for number in (1, 2))
        tables = _tables()
        message = tables.kinds.get(f"{api_version} {kind}") or tables.kinds.get(kind)
        if message is None:
            raise statuses.unsupported_media_type(_OFFERS)
        return {"apiVersion": api_version, "kind": kind, **_message(message, _bytes(envelope.get(2, b"")))}
    except (ValueError, IndexError, OverflowError, RecursionError, TypeError, struct.error) as error:
        raise statuses.bad_request(f"the body is no protobuf message: {error}") from error


# --- the wire ---------------------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """Yield number and value of each field in order; groups do not occur."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, form = key >> 3, key & 7
        if form == 0:
            value, at = varint(data, at)
            yield number, value
            continue
        if form == 2:
            size, at = varint(data, at)
        elif form in (1, 5):
            size = 8 if form == 1 else 4
        else:
            raise ValueError(f"wire type {form}")
        if at + size > len(data):
            raise ValueError("it ends in the middle of a field")
        yield number, data[at : at + size]
        at += size


def _bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a text or message is expected")
    return value


def _signed(value: Wire) -> int:
    if not isinstance(value, int):
        raise ValueError("a text or message stands where a number is expected")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


# --- messages ---------------------------------------------------------------------------------------------------------------------


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = _tables().messages[name]
    found: dict[str, Any] = {}
    for number, raw in _fields(data):
        field = fields.get(number)
        if field is None:
            continue
        key, word = field
        form = word[0]
        if form == "~":
            found |= _value(word[1:], raw)
        elif form == "[":
            found.setdefault(key, []).append(_value(word[1:], raw))
        elif form == "{":
            entry = dict(_fields(_bytes(raw)))
            text = _bytes(entry.get(1, b"")).decode()
            found.setdefault(key, {})[text] = _value(word[1:], entry.get(2, b""))
        elif form == "*":
            found[key] = _value(word[1:], raw)
        else:
            value = _value(word, raw)
            if value not in _ZEROS.get(word, (None, {}, "")):
                found[key] = value
    return found


_ZEROS: Final[dict[str, tuple[Any, ...]]] = {
    "i": (0,), "b": (False,), "d": (0.0,), "s": ("",), "y": ("",), "x": (0,), "q": ("",), "r": (None,), "L": ([],)
}  # fmt: skip


def _value(word: str, raw: Wire) -> Any:
    if word[0] == "@":
        return _message(word[1:], _bytes(raw))
    return _FORMS[word](raw)


def _time(raw: Wire, *, micros: bool = False) -> str | None:
    parts = dict(_fields(_bytes(raw)))
    if not parts:
        return None
    moment = _EPOCH + timedelta(seconds=_signed(parts.get(1, 0)))
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{_signed(parts.get(2, 0)) // 1000:06d}Z" if micros else f"{text}Z"


def _text_of(raw: Wire) -> str:
    return _bytes(dict(_fields(_bytes(raw))).get(1, b"")).decode()


def _int_or_string(raw: Wire) -> int | str:
    parts = dict(_fields(_bytes(raw)))
    if _signed(parts.get(1, 0)) == 1:
        return _bytes(parts.get(3, b"")).decode()
    return _signed(parts.get(2, 0))


def _raw_json(raw: Wire) -> Any:
    held = _bytes(dict(_fields(_bytes(raw))).get(1, b""))
    return msgspec.json.decode(held) if held else None


def _texts(raw: Wire) -> list[str]:
    return [_bytes(one).decode() for _, one in _fields(_bytes(raw))]


def _schemas(raw: Wire) -> Any:
    several = [(number, _message(_SCHEMA, _bytes(one))) for number, one in _fields(_bytes(raw))]
    one = next((schema for number, schema in several if number == 1), None)
    return one if one is not None else [schema for _, schema in several]


def _schema_or_bool(raw: Wire) -> Any:
    parts = dict(_fields(_bytes(raw)))
    return _message(_SCHEMA, _bytes(parts[2])) if 2 in parts else bool(parts.get(1, 0))


def _schema_or_texts(raw: Wire) -> Any:
    parts = list(_fields(_bytes(raw)))
    schema = next((one for number, one in parts if number == 1), None)
    return _message(_SCHEMA, _bytes(schema)) if schema is not None else [_bytes(one).decode() for _, one in parts]


_FORMS: Final[dict[str, Callable[[Wire], Any]]] = {
    "s": lambda raw: _bytes(raw).decode(),
    "i": _signed,
    "b": lambda raw: bool(_signed(raw)),
    "d": lambda raw: struct.unpack("<d", _bytes(raw))[0],
    "y": lambda raw: base64.b64encode(_bytes(raw)).decode("ascii"),
    "t": _time,
    "M": lambda raw: _time(raw, micros=True),
    "q": _text_of,
    "x": _int_or_string,
    "r": _raw_json,
    "L": _texts,
    "a": _schemas,
    "o": _schema_or_bool,
    "p": _schema_or_texts,
}
