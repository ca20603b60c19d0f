"""Placeholders for secret values. Equal values have equal placeholders, under a random key that the process never stores.

Blanked are
- `data` and `stringData` of Secrets, and the copy of a Secret in the annotation of `kubectl apply`
- tokens of TokenRequest and TokenReview
- values of environment variables whose names suggest a secret
- each occurrence, in any text, of a value that a recorded Secret or token holds, plain or in base64

Caveats: a value is known from the first record of its Secret on. Values below `SHORTEST` characters are blanked only in place, and so is
a part or a digest of a value: a program that writes them elsewhere shows them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

__all__ = ["MARK", "SHORTEST", "Blanks", "document_of", "is_placeholder"]

MARK: Final = "(blanked "
SHORTEST: Final = 6
_KNOWN: Final = 600
"""Forms of values that are remembered, two for each value; the oldest are forgotten first."""
_SECRETS: Final = frozenset({"Secret", "SecretList"})
_TOKENS: Final = frozenset({"TokenRequest", "TokenReview"})
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
"""Bytes that are no text, as `surrogateescape` writes them."""
_PLACEHOLDER: Final = re.compile(r"\(blanked [0-9a-f]{12}\)")
_BASE64_MARK: Final = base64.b64encode(MARK.encode()).decode()
_COPY: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NAMES: Final = re.compile(r"pass|secret|token|credential|private|api_?key|access_?key", re.IGNORECASE)
_SUSPECT: Final = re.compile(rb'"Secret(?:List)?"|"Token(?:Request|Review)"|"env"|last-applied-configuration')


def is_placeholder(value: Any) -> bool:
    """Return whether a recorded value stands for a secret value, or contains its placeholder.

    >>> is_placeholder("(blanked 0123456789ab)"), is_placeholder("plain")
    (True, False)
    """
    return isinstance(value, str) and (_PLACEHOLDER.search(value) is not None or value.startswith(_BASE64_MARK))


class Blanks:
    """The placeholders of one process; `key` is its random key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, str] = {}
        """The forms of known values, each with its placeholder."""
        self._escaped: dict[str, tuple[bytes, ...]] = {}
        """The forms as JSON may write them."""
        self._active: dict[str, None] | None = None
        """The forms that the present document contains; None: all."""
        self._lock = threading.RLock()  # blocking reconcilers read caches in threads

    def digest(self, value: bytes, size: int = 12) -> str:
        """Return a digest that nobody without the key can compute."""
        return hashlib.blake2b(value, key=self._key, digest_size=size).hexdigest()

    def placeholder(self, value: str) -> str:
        """Return the placeholder of a secret value, which is known from now on."""
        if _PLACEHOLDER.fullmatch(value):
            return value
        plain = value.encode(errors="surrogateescape")
        text = f"{MARK}{self.digest(plain, 6)})"
        if len(value) >= SHORTEST:
            if not _ESCAPED.search(value):
                for form in {value, value.strip()}:
                    self._learn(form, text)
            self._learn(base64.b64encode(plain).decode(), base64.b64encode(text.encode()).decode())
        return text

    def _learn(self, form: str, text: str) -> None:
        if len(form) < SHORTEST or form in self._known:
            return
        self._known[form], self._escaped[form] = text, _in_json(form)
        if self._active is not None:
            self._active[form] = None
        if len(self._known) > _KNOWN:
            oldest = next(iter(self._known))
            del self._known[oldest], self._escaped[oldest]

    def text(self, text: str) -> str:
        """Return a text without known secret values, and without halves of surrogate pairs, which no JSON holds."""
        with self._lock:
            return self._without(text).encode(errors="replace").decode()

    def _without(self, text: str) -> str:
        forms = [form for form in (self._known if self._active is None else self._active) if form in text]
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, self._known.get(form, MARK + "value)"))
        return text

    def body(self, raw: bytes, *, secret: bool = False) -> bytes:
        """Return the JSON of a document (YAML is read too, and any other text becomes a string) without secret values.

        `secret` declares that the document is about a Secret, or about several, whatever its kind shows.
        """
        with self._lock:
            present = {form: None for form, escaped in self._escaped.items() if any(each in raw for each in escaped)}
            if not secret and not present and not _SUSPECT.search(raw) and _is_json(raw):
                return raw
            self._active = present
            try:
                return msgspec.json.encode(self.data(document_of(raw), secret=secret))
            finally:
                self._active = None

    def data(self, value: Any, *, secret: bool = False) -> Any:
        """Return a document without secret values."""
        if isinstance(value, str):
            return self._without(value)
        if isinstance(value, list):
            return [
                self._operation(item) if secret and _is_operation(item) else self.data(item, secret=secret)
                for item in value
            ]
        if not isinstance(value, Mapping):
            return value
        kind = value.get("kind")
        secret = secret or kind in _SECRETS
        shown: dict[str, Any] = {}
        for name, member in value.items():
            if secret and name in {"data", "stringData"} and isinstance(member, Mapping):
                hide = self._encoded if name == "data" else self._hidden
                shown[name] = {key: hide(part) for key, part in member.items()}
            elif kind in _TOKENS and isinstance(member, Mapping) and "token" in member:
                shown[name] = {**self.data(member), "token": self._hidden(member["token"])}
            elif name == _COPY and secret:
                shown[name] = MARK + "copy)"
            elif name == "env" and isinstance(member, list):
                shown[name] = [self._variable(item) for item in member]
            else:
                shown[name] = self.data(member, secret=secret and name in {"items", "metadata", "annotations"})
        return shown

    def _hidden(self, value: Any) -> Any:
        return self.placeholder(value) if isinstance(value, str) and value else value

    def _encoded(self, value: Any) -> Any:
        """Return the placeholder of a value in base64, in base64."""
        if not isinstance(value, str) or not value:
            return value
        try:
            plain = base64.b64decode(value, validate=True).decode(errors="surrogateescape")
        except (binascii.Error, ValueError):
            return self.placeholder(value)
        return base64.b64encode(self.placeholder(plain).encode()).decode()

    def _variable(self, item: Any) -> Any:
        if isinstance(item, Mapping) and isinstance(item.get("value"), str) and _NAMES.search(str(item.get("name"))):
            return {**item, "value": self._hidden(item["value"])}
        return self.data(item)

    def _operation(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an operation of a JSON patch of a Secret without its value."""
        parts = str(item.get("path", "")).split("/")
        if parts[1:2] not in (["data"], ["stringData"]) or "value" not in item:
            return {name: self.data(member) for name, member in item.items()}
        member = item["value"]
        hide = self._encoded if parts[1] == "data" else self._hidden
        value = {key: hide(part) for key, part in member.items()} if isinstance(member, Mapping) else hide(member)
        return {**item, "value": value}


def _in_json(form: str) -> tuple[bytes, ...]:
    """Return a text as JSON encoders write it: Go's encoder escapes three more characters."""
    plain, ascii_ = (json.dumps(form, ensure_ascii=only)[1:-1] for only in (False, True))
    go = re.sub("[<>&]", lambda match: f"\\u{ord(match.group()):04x}", plain)
    return tuple({each.encode() for each in (plain, ascii_, go)})


def _is_operation(item: Any) -> bool:
    return isinstance(item, Mapping) and "op" in item and "path" in item


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def document_of(raw: bytes) -> Any:
    """Return the content of a body, whatever its type: JSON, the YAML of an apply, or a text."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    text = raw.decode(errors="replace")
    try:
        data = yaml.safe_load(text)  # an apply with a long key
    except yaml.YAMLError:
        return text
    return data if isinstance(data, dict | list) else text
