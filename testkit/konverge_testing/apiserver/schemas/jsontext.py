"""The messages of Go's JSON scanner for invalid texts, duplicate fields, and JSON that is not YAML.

Guarantees: pure; run only when a faster decoder has refused, or to find duplicates. Source: Go `encoding/json/scanner.go`,
sigs.k8s.io/json (strict errors: in the order of the text, each once, at most 100).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

__all__ = ["differs_as_yaml", "duplicates", "syntax_error"]

_ENCODE: Final = msgspec.json.Encoder().encode
_LIMIT: Final = 100
_END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_WITHIN: Final = ("in literal", "in string escape", "in \\u", "in numeric", "after decimal", "in exponent")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}


class _Bad(Exception):
    """The text is no longer JSON at this position."""


def syntax_error(text: str) -> str:
    """Return the scanner's message, "" for valid JSON.

    >>> syntax_error('{"a": fals}')
    "invalid character '}' in literal false (expecting 'e')"
    >>> syntax_error('{"a": 1,}')
    "invalid character '}' looking for beginning of object key string"
    """
    try:
        scanner = _Scanner(text)
        scanner.value()
        scanner.space()
        if scanner.at < len(text):
            scanner.fail("after top-level value")
    except _Bad as bad:
        return str(bad)
    return ""


class _Scanner:
    """A walk over a text that stops at the first character that Go's scanner would refuse."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> str:
        """Skip white space and return the next character."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches everywhere
        return self.text[self.at : self.at + 1]

    def fail(self, context: str) -> None:
        """Refuse the current character."""
        char = self.text[self.at : self.at + 1]
        if not char and not context.startswith(_WITHIN):
            raise _Bad(_END)
        char = char or " "  # the input of Go's scanner at the end
        shown = {"'": r"'\''", '"': "'\"'", "\n": r"'\n'", "\t": r"'\t'", "\r": r"'\r'", "\\": r"'\\'"}.get(char)
        if shown is None:
            char = chr(char.encode("utf-8", "surrogatepass")[0])  # Go's scanner reads bytes
            code = ord(char)
            hidden = f"'\\x{code:02x}'" if code < 128 else f"'\\u{code:04x}'"
            shown = f"'{char}'" if char.isprintable() else hidden
        raise _Bad(f"invalid character {shown} {context}")

    def value(self, context: str = "looking for beginning of value") -> None:
        char = self.space()
        if char == "{":
            self.members()
        elif char == "[":
            self.elements()
        elif char == '"':
            self.string()
        elif char in _LITERALS and char:
            self.literal(_LITERALS[char])
        elif char and (char == "-" or "0" <= char <= "9"):
            self.number()
        else:
            self.fail(context)

    def members(self) -> None:
        self.at += 1
        if self.space() == "}":
            self.at += 1
            return
        while True:
            if self.space() != '"':
                self.fail("looking for beginning of object key string")
            self.string()
            if self.space() != ":":
                self.fail("after object key")
            self.at += 1
            self.value()
            if not self.more("}", "after object key:value pair"):
                return

    def elements(self) -> None:
        self.at += 1
        if self.space() == "]":
            self.at += 1
            return
        while True:
            self.value()
            if not self.more("]", "after array element"):
                return

    def more(self, end: str, context: str) -> bool:
        char = self.space()
        if char not in (",", end) or not char:
            self.fail(context)
        self.at += 1
        return char == ","

    def string(self) -> None:
        self.at += 1
        while (char := self.text[self.at : self.at + 1]) != '"':
            if not char or char < " ":
                self.fail("in string literal")
            self.at += 1
            if char == "\\":
                self.escape()
        self.at += 1

    def escape(self) -> None:
        char = self.text[self.at : self.at + 1]
        if not char or char not in '"\\/bfnrtu':
            self.fail("in string escape code")
        self.at += 1
        for _ in range(4 if char == "u" else 0):
            digit = self.text[self.at : self.at + 1]
            if not digit or digit not in "0123456789abcdefABCDEF":
                self.fail(r"in \u hexadecimal character escape")
            self.at += 1

    def literal(self, word: str) -> None:
        for char in word:
            if self.text[self.at : self.at + 1] != char:
                self.fail(f"in literal {word} (expecting '{char}')")
            self.at += 1

    def number(self) -> None:
        if self.text[self.at] == "-":
            self.at += 1
            self.digit("in numeric literal")
        if self.text[self.at] == "0":
            self.at += 1
        else:
            self.digits()
        if self.text[self.at : self.at + 1] == ".":
            self.at += 1
            self.digit("after decimal point in numeric literal")
            self.digits()
        if self.text[self.at : self.at + 1] in ("e", "E"):
            self.at += 1
            if self.text[self.at : self.at + 1] in ("+", "-"):
                self.at += 1
            self.digit("in exponent of numeric literal")
            self.digits()

    def digit(self, context: str) -> None:
        char = self.text[self.at : self.at + 1]
        if not char or not "0" <= char <= "9":
            self.fail(context)

    def digits(self) -> None:
        while "0" <= self.text[self.at : self.at + 1] <= "9":
            self.at += 1


_ODD_IN_YAML: Final = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]|\\u[dD][89a-fA-F]"
)
"""Unescaped DEL, C1, U+2028, U+2029, U+FEFF, U+FFFE and U+FFFF, and surrogates in escapes."""
_LONGEST_KEY: Final = 1000
"""go-yaml searches 1,024 characters for the colon (`yaml_simple_key_is_valid`); a text has at least as many bytes as characters."""


def differs_as_yaml(body: bytes) -> bool:
    r"""Whether a text that may be JSON must be read as YAML, since YAML refuses it or reads another value.

    YAML folds U+0085, U+2028 and U+2029 as line ends, allows neither other control characters nor surrogates in escapes (go-yaml v2
    `readerc.go`, `scannerc.go`), and no keys above 1,024 characters.

    >>> differs_as_yaml('{"a": "b\u2028c"}'.encode()), differs_as_yaml(b'{"a": "b"}')
    (True, False)
    """
    suspect = not body.isascii() or b"\x7f" in body or b"\\u" in body
    if suspect and _ODD_IN_YAML.search(body):
        return True
    return len(body) > _LONGEST_KEY and max(map(len, body.split(b'":'))) > _LONGEST_KEY


class _Twice(Exception):
    """An object has a key twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twice
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object with all its written members, duplicates included."""


_UNCOUNTED: Final = (b'\\"', b'" ', b'"\n', b'"\t', b'"\r')


def duplicates(body: bytes, data: Any) -> list[str]:
    """Return `duplicate field "path"` for every field that valid JSON, decoded to `data`, contains more than once."""
    if _ENCODE(data) == body:
        return []  # the usual encoding of clients, and it contains only the data
    if not any(mark in body for mark in _UNCOUNTED) and body.count(b'":') == _keys(data):
        return []  # every key has a colon directly behind it, and the text has as many such colons as keys
    try:
        json.loads(body, object_pairs_hook=_once)
    except _Twice:
        found: dict[str, None] = {}
        _walk(json.loads(body, object_pairs_hook=_Pairs), "", found)
        return [f'duplicate field "{path}"' for path in found][:_LIMIT]
    return []


def _keys(data: Any) -> int:
    if data.__class__ is dict:
        count = len(data)
        for item in data.values():
            if item.__class__ is dict or item.__class__ is list:
                count += _keys(item)
        return count
    if data.__class__ is list:
        return sum(_keys(item) for item in data if item.__class__ is dict or item.__class__ is list)
    return 0


def _walk(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found[here] = None
            seen.add(key)
            _walk(item, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", found)
