"""JSON that is nested deeper than a decoder of this process can follow.

Guarantees: linear in the bytes. The API server admits objects of 10,000 levels (in fields whose unknown members are preserved),
and decoders here end at about 1,000 with RecursionError. Parts below `LEVELS` are then replaced by a text, `LEFT_OUT`, so that
such an object does not spoil its list or watch. A reconcile looks for that text before it acts on an object. The bytes of
a list or watch are searched in slices, because 1.5 MB of brackets take half a second, and the event loop belongs to other objects too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from typing import Final

__all__ = ["LEFT_OUT", "LEVELS", "flattened", "flattened_in_turns"]

LEVELS: Final = 300
LEFT_OUT: Final = b'"konverge left out what is nested too deeply here"'
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]')
_OPENING: Final = frozenset((b"{", b"["))
_TURN: Final = 20_000
"""Tokens of one slice: some 10 ms."""


def flattened(text: bytes, levels: int = LEVELS) -> bytes:
    """Return JSON, or lines of it, with every part below that many levels replaced by `LEFT_OUT`.

    >>> flattened(b'{"a": [1, "}"]}'), len(flattened(b"[" * 5000 + b"]" * 5000)) < 1000
    (b'{"a": [1, "}"]}', True)
    """
    search = _search(text, levels)
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: bytes = end.value
            return result


async def flattened_in_turns(text: bytes, levels: int = LEVELS) -> bytes:
    """Do as `flattened` does, and let other tasks run between two slices."""
    search = _search(text, levels)
    while True:
        try:
            next(search)
        except StopIteration as end:
            result: bytes = end.value
            return result
        await asyncio.sleep(0)


def _search(text: bytes, levels: int) -> Generator[None, None, bytes]:
    """Return the flattened text; yields at the end of each slice."""
    parts: list[bytes] = []
    depth = done = start = 0
    for number, token in enumerate(_TOKENS.finditer(text), start=1):
        if not number % _TURN:
            yield
        mark = token.group()
        if mark in _OPENING:
            depth += 1
            if depth == levels + 1:
                start = token.start()
        elif len(mark) == 1:
            if depth == levels + 1:
                parts += (text[done:start], LEFT_OUT)
                done = token.end()
            depth -= 1
    parts.append(text[done:])
    return b"".join(parts)
