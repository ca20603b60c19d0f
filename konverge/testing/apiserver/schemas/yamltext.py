"""YAML as the server reads it: YAML 1.1 with Go's idea of plain scalars, then everything as JSON.

Guarantees: pure. Keys become strings, whole floats integers, timestamps stay text; anchors and merges work, binary is decoded to text.
Source: sigs.k8s.io/yaml `yaml.go`, go-yaml v2 `resolve.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import yaml

from konverge.testing.apiserver.golang import float_text, quote

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


_PLAIN: Final = "plain"
_TYPED: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "null"))


class _Loader(_Base):  # type: ignore[misc]  # the class comes from C where it can
    """Composes nodes only; values are made here."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """Tell plain scalars, whose type their text decides, from quoted ones."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else "tag:yaml.org,2002:str"
        found: str = super().resolve(kind, value, implicit)
        return found


def load(body: bytes) -> tuple[Any, list[str]]:
    """Return the JSON value of the first document, and what go-yaml's strict mode says of keys given twice, a line each."""
    try:
        loader = _Loader(body)
        try:
            root = loader.get_single_node() if _is_single_document(body) else loader.get_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YAMLError(_message_of(error)) from None
    if root is None:
        return None, []
    maker = _Maker()
    value = maker.make(root)
    return value, maker.repeated


def _is_single_document(body: bytes) -> bool:
    return b"\n---" not in body and not body.startswith(b"---")


def _message_of(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    scanner = isinstance(error, yaml.scanner.ScannerError)
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        line = error.problem_mark.line + scanner
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem or error.context}"


class _Maker:
    """Makes JSON values of nodes."""

    def __init__(self) -> None:
        self.repeated: list[str] = []

    def make(self, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.make(item) for item in node.value]
        value = _scalar(node)
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value

    def _mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        seen = set()
        for key_node, value_node in node.value:
            if key_node.value == "<<" and key_node.tag == _PLAIN:
                many = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for one in reversed(many):
                    merged.update(self.make(one))
                continue
            key = _scalar(key_node)
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
    if key is None:
        return "null"
    return float_text(key) if isinstance(key, float) else str(key)


def _scalar(node: Any) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        raise YAMLError("yaml: invalid map key")
    text: str = node.value
    if node.tag == _PLAIN or node.tag in _TYPED:
        return _plain(text)
    return _binary(text) if node.tag == "tag:yaml.org,2002:binary" else text


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
        base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 8 if len(digits) > 1 and digits[0] == "0" else 10)
        number = int(digits[2:] if digits[1:2] in ("x", "b", "o") else digits, base)
        return -number if found[1] == "-" else number
    return float(plain) if _FLOAT.fullmatch(plain) else text
