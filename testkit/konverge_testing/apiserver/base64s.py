"""Base64 as Go's encoding/json reads it into bytes: newlines are ignored, and the error names the first wrong byte.

Guarantees: pure. Source: Go's encoding/base64 `decodeQuantum`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

__all__ = ["canonical_base64", "decoded_size", "wrong_base64"]

_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def canonical_base64(text: str) -> str:
    r"""Return legal base64 as the server writes it back.

    >>> canonical_base64("Y\nQ==")
    'YQ=='
    """
    return base64.b64encode(base64.b64decode(text)).decode()


def decoded_size(text: str) -> int:
    """Return the decoded length of legal base64."""
    return len(text) // 4 * 3 - text[-2:].count("=") if text else 0


def wrong_base64(text: str) -> str | None:
    """Return Go's error for text that is not base64, None for base64.

    >>> wrong_base64("!!!"), wrong_base64("YQ=="), wrong_base64("YWFhYQ")
    ('illegal base64 data at input byte 0', None, 'illegal base64 data at input byte 4')
    """
    plain = re.sub(r"[\r\n]", "", text)
    try:
        base64.b64decode(plain, validate=True)
        if len(plain) % 4 == 0:
            return None
    except (binascii.Error, ValueError):
        pass
    found = _wrong_byte(text.encode())
    return None if found is None else f"illegal base64 data at input byte {found}"


def _wrong_byte(source: bytes) -> int | None:
    at = place = 0
    while True:
        if at == len(source):
            return None if place == 0 else at - place
        byte, at = source[at], at + 1
        if byte in _ALPHABET:
            place = (place + 1) % 4
        elif byte not in b"\r\n":
            return at - 1 if byte != ord("=") or place < 2 else _wrong_padding(source, at, place)


def _wrong_padding(source: bytes, at: int, place: int) -> int | None:
    at = _past_newlines(source, at)
    if place == 2:
        if at == len(source):
            return at
        if source[at] != ord("="):
            return at - 1
        at = _past_newlines(source, at + 1)
    return at if at < len(source) else None


def _past_newlines(source: bytes, at: int) -> int:
    while at < len(source) and source[at] in b"\r\n":
        at += 1
    return at
