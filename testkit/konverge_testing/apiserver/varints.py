"""Variable-length numbers of protobuf's wire format, for the two packages that read it: CEL's syntax trees and kubectl's request bodies."""

from __future__ import annotations

__all__ = ["varint"]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset behind it. Raises IndexError or ValueError for an invalid number."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
