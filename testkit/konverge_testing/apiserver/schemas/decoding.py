"""Decodes bodies of requests to plain data: JSON with a fast decoder, YAML like go-yaml, and the server's errors for any other text.

Guarantees: pure. The kind and version of an object are not compared with the URL; only their absence and a wrong type are refused.
Source: k8s.io/apimachinery `pkg/runtime/serializer/json`, k8s.io/apiserver `pkg/endpoints/handlers/rest.go` (transformDecodeError).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64, float_json
from konverge_testing.apiserver.schemas.jsonread import NotJson, beyond_floats, read_json
from konverge_testing.apiserver.schemas.jsontext import differs_as_yaml, duplicates
from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["Decoded", "decode", "strict_words", "with_floats"]

_TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_NINETEEN_DIGITS: Final = re.compile(rb"[0-9]{19}")
_VERSION: Final = re.compile(rb'"apiVersion"\s*:\s*"([^"]*)"')
_JSON: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}

_decode_json = msgspec.json.Decoder().decode


def strict_words(problems: Sequence[str]) -> str:
    """Return the message of a refusal by `fieldValidation=Strict`; with Warn, the same problems are warnings."""
    lines = [problem for problem in problems if problem.startswith("line ")]
    found = ["yaml: unmarshal errors:" + "".join(f"\n  {line}" for line in lines)] if lines else []
    found += [problem for problem in problems if not problem.startswith("line ")]
    return f"strict decoding error: {', '.join(found)}"


@dataclass(slots=True)
class Decoded:
    """A body as data, and its fields that were given twice (`duplicate field "spec.x"`, or go-yaml's lines; empty without `strict`)."""

    data: dict[str, Any]
    duplicates: list[str] = field(default_factory=list)


def decode(
    body: bytes, content_type: str = "application/json", *, strict: bool = False, kind: str = "", custom: bool = False
) -> Decoded:
    """Decode a body; `strict` reports fields given twice. `kind` is the URL's kind, for the message of a refusal.

    `custom`: the body is a custom resource and must have a kind (built-in kinds default to the URL's). Raises StatusError 400.
    """
    try:
        if custom and "yaml" not in content_type and (number := beyond_floats(body)):
            raise _out_of_range(body, kind, number)
        data, twice = _read(body, content_type, strict)
        if data is None and not custom and "yaml" in content_type and body.strip():
            data = {}  # an empty document is an object of zero values
        _check(data, custom, body)
    except _Unread as unread:
        raise _unrecognized(body, kind, str(unread)) from None
    return Decoded(data, twice)


def decode_intent(body: bytes, *, strict: bool = False) -> Decoded:
    """Decode the configuration of a server-side apply, which is YAML; raises StatusError 400 with apply's own messages."""
    try:
        data, twice = _read_yaml(body, strict)
    except _Unread as unread:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {unread}") from None
    if data.__class__ is not dict:
        words = f"json: cannot unmarshal {_JSON.get(data.__class__, 'null')} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {words}")
    return Decoded(data, twice)


def with_floats(data: Any, body: bytes) -> Any:
    """Return the data of a custom resource's body with the integers that 64 bits cannot hold rounded to floats, as Go decodes them.

    A rounded integer stays an integer if Go's JSON encoder writes it without an exponent.

    >>> with_floats({"a": 2**63, "b": 2**63 - 1}, b"9223372036854775808")
    {'a': 9223372036854776000, 'b': 9223372036854775807}
    """
    return _rounded(data) if body[:1] not in b"{[" or _NINETEEN_DIGITS.search(body) else data


def _rounded(value: Any) -> Any:
    if value.__class__ is dict:
        return {name: _rounded(member) for name, member in value.items()}
    if value.__class__ is list:
        return [_rounded(item) for item in value]
    if value.__class__ is not int or MIN_INT64 <= value <= MAX_INT64:
        return value
    text = float_json(float(value))
    return float(text) if "e" in text else int(text)


class _Unread(Exception):
    """The body is not an object; the message is the decoder's."""


def _read(body: bytes, content_type: str, strict: bool) -> tuple[Any, list[str]]:
    if "yaml" in content_type:
        return _read_yaml(body, strict)
    try:
        data, body = read_json(body)
    except NotJson as error:
        raise _Unread(f"couldn't get version/kind; json parse error: {error}") from None
    return data, duplicates(body, data) if strict else []


def _read_yaml(body: bytes, strict: bool) -> tuple[Any, list[str]]:
    if body[:1] == b"{" and not differs_as_yaml(body) and not beyond_floats(body):  # most clients send JSON
        try:
            data = _decode_json(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if not strict or not duplicates(body, data):
                return data, []
    # Imported here: the YAML reader is slow to load, and YAML is rare.
    from konverge_testing.apiserver.schemas.yamltext import YAMLError, load

    try:
        return load(body)
    except YAMLError as error:
        raise _Unread(str(error)) from None


def _check(data: Any, custom: bool, body: bytes) -> None:
    if data.__class__ is not dict:
        if data is None:
            raise _Unread(f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'")
        words = f"json: cannot unmarshal {_JSON[data.__class__]} into Go value of type {_TYPE_META}"
        raise _Unread(f"couldn't get version/kind; json parse error: {words}")
    for name in ("apiVersion", "kind"):
        value = data.get(name)
        if value is not None and value.__class__ is not str:
            what = "object" if isinstance(value, dict) else _JSON[value.__class__]
            words = f"json: cannot unmarshal {what} into Go struct field .{name} of type string"
            raise _Unread(f"couldn't get version/kind; json parse error: {words}")
    api_version = data.get("apiVersion") or ""
    if api_version.count("/") > 1:
        raise _Unread(f"unexpected GroupVersion string: {api_version}")
    if custom and not data.get("kind"):
        raise _Unread(f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'")


def _out_of_range(body: bytes, kind: str, number: str) -> StatusError:
    """Return the refusal of a custom resource with a number that is out of range for Go."""
    named = _VERSION.search(body)
    version = named[1].decode().rpartition("/")[2] if named else ""
    words = f"json: cannot unmarshal number {number} into Go value of type float64"
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {words}')


def _unrecognized(body: bytes, kind: str, words: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {words} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    short = body[:30]
    shown = short.decode("utf-8", "replace") if body[:1] == b"{" else short.hex()
    return f"{shown} ..." if len(body) > len(short) else shown
