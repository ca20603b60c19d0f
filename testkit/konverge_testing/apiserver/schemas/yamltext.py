"""YAML as the server reads it: YAML 1.1 with go-yaml's rules for plain scalars, then converted to JSON.

Guarantees: pure. Keys become strings, whole floats integers, timestamps stay text; anchors and merges work, binary is decoded to text.
Source: sigs.k8s.io/yaml `yaml.go`, go-yaml v2 `resolve.go`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final

import yaml

from konverge_testing.apiserver.golang import float_text, quote, syntax
from konverge_testing.apiserver.schemas.nesting import MAX_DEPTH, depth

__all__ = ["YAMLError", "load"]


class YAMLError(ValueError):
    """A text is not YAML; the message is go-yaml's."""


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_FLOATS: Final = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INT: Final = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")


_LONGEST_NUMBER: Final = 400
_SMALL_DOCUMENT: Final = 400_000
_LARGE_DOCUMENT: Final = 4_000_000
_TYPE_NAMES: Final = {bool: "bool", float: "float", int: "int", type(None): "null", str: "str"}
_ANCHOR: Final = re.compile(rb"&([^\s,\[\]{}]+)")
_ALIAS: Final = re.compile(r"\*([^\s,\[\]{}]+)")

_PLAIN: Final = "plain"
_TYPED: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "null"))


class _Loader(_Base):  # type: ignore[misc]  # the C class if available
    """Only composes nodes; `_Maker` creates the values."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """Mark plain scalars, whose type depends on their text; quoted scalars are strings."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else "tag:yaml.org,2002:str"
        found: str = super().resolve(kind, value, implicit)
        return found


def load(body: bytes) -> tuple[Any, list[str]]:
    """Return the JSON value of the first document, and go-yaml's strict errors of keys given twice, a line each."""
    if depth(body) > MAX_DEPTH:
        raise YAMLError(f"yaml: exceeded max depth of {MAX_DEPTH}")
    try:
        loader = _Loader(body)
        try:
            root = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YAMLError(_message_of(error, body)) from None
    if root is None:
        return None, []
    maker = _Maker(body)
    value = maker.make(root)
    return value, maker.repeated


def _message_of(error: yaml.YAMLError, body: bytes) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    if error.problem == "found undefined alias" and error.problem_mark is not None:
        alias = _ALIAS.match(body.decode("utf-8", "replace"), error.problem_mark.index)
        return f"yaml: unknown anchor '{alias[1] if alias else ''}' referenced"
    scanner = isinstance(error, yaml.scanner.ScannerError)
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + scanner
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem or error.context}"


class _Maker:
    """Converts nodes to JSON values. An alias is converted like the node that it refers to; copies are counted, since there may be very
    many.
    """

    def __init__(self, body: bytes) -> None:
        self.repeated: list[str] = []
        self._body = body
        self._open: set[int] = set()
        self._made: set[int] = set()
        self._within_alias = 0
        self._count = 0
        self._copies = 0

    def make(self, node: Any) -> Any:
        if isinstance(node, yaml.ScalarNode):
            self._counted()
            return _finite(_scalar(node))
        key = id(node)
        if key in self._open:
            anchor = _ANCHOR.search(self._body)
            raise YAMLError(
                f"yaml: anchor '{anchor[1].decode('utf-8', 'replace') if anchor else ''}' value contains itself"
            )
        again = key in self._made
        self._open.add(key)
        self._within_alias += again
        self._counted()
        if isinstance(node, yaml.MappingNode):
            found: Any = self._mapping(node)
        else:
            found = [self.make(item) for item in node.value]
        self._within_alias -= again
        self._open.discard(key)
        self._made.add(key)
        return found

    def _counted(self) -> None:
        """Count a value, and refuse a small text that expands to a huge document."""
        self._count += 1
        self._copies += self._within_alias > 0
        if self._copies > 100 and self._count > 1000 and self._copies / self._count > _allowed_copies(self._count):
            raise YAMLError("yaml: document contains excessive aliasing")

    def _mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        seen = set()
        for key_node, value_node in node.value:
            if key_node.value == "<<" and key_node.tag == _PLAIN:
                many = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for one in reversed(many):
                    if not isinstance(one, yaml.MappingNode):
                        raise YAMLError("yaml: map merge requires map or sequence of maps as the value")
                    merged.update(self.make(one))
                continue
            key = _scalar(key_node)
            self._counted()
            if key is None:
                shown = syntax(self.make(value_node))
                raise YAMLError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}")
            name = _key(key)
            if name in seen:
                shown = quote(key) if isinstance(key, str) else name
                self.repeated.append(f"line {value_node.start_mark.line + 1}: key {shown} already set in map")
            seen.add(name)
            found[name] = self.make(value_node)
        return {**merged, **found}


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return float_text(key) if isinstance(key, float) else str(key)


def _scalar(node: Any) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise YAMLError("yaml: invalid map key")
    text: str = node.value
    if node.tag == _PLAIN:
        return _plain(text)
    if node.tag in _TYPED:
        return _typed(_plain(text), text, node.tag.rpartition(":")[2])
    return _binary(text) if node.tag == "tag:yaml.org,2002:binary" else text


def _finite(value: Any) -> Any:
    """Return a value as in JSON: whole floats are integers, and infinities are refused."""
    if not isinstance(value, float):
        return value
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    raise YAMLError(f"json: unsupported value: {'NaN' if math.isnan(value) else '+Inf' if value > 0 else '-Inf'}")


def _typed(value: Any, text: str, wanted: str) -> Any:
    """Return a scalar of the type in its tag; raises YAMLError if its text has another type."""
    if wanted == "float" and value.__class__ is int:
        return float(value)
    if _TYPE_NAMES[value.__class__] != wanted:
        raise YAMLError(f"yaml: cannot decode !!{_TYPE_NAMES[value.__class__]} `{text}` as a !!{wanted}")
    return value


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise YAMLError("yaml: !!binary value contains invalid base64 data") from None


def _plain(text: str) -> Any:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _NULL:
        return None
    if text in _FLOATS:
        return _FLOATS[text]
    if text[:1] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if found := _INT.fullmatch(plain):
        digits = found[2].lower()
        if len(digits) > _LONGEST_NUMBER:
            return text
        base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
        number = int(digits[2:] if digits[1:2] in ("x", "b", "o") else digits, base)
        number = -number if found[1] == "-" else number
        return number if -(2**63) <= number < 2**64 or not _FLOAT.fullmatch(plain) else _float(plain, text)
    return _float(plain, text) if _FLOAT.fullmatch(plain) else text


def _float(plain: str, text: str) -> Any:
    """Return a number, or its text if it is out of range."""
    number = float(plain)
    return number if math.isfinite(number) else text


def _allowed_copies(count: int) -> float:
    """Return the part of a document's values that may be copies by alias: nearly all of a small document, a tenth of a large document."""
    if count <= _SMALL_DOCUMENT:
        return 0.99
    if count >= _LARGE_DOCUMENT:
        return 0.10
    return 0.99 - 0.89 * (count - _SMALL_DOCUMENT) / (_LARGE_DOCUMENT - _SMALL_DOCUMENT)
