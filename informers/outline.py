"""Objects with so many values that decoding them once would hold the event loop.

Guarantees: pure. Each reconcile, index and count decodes an object again; 1.5 MB of brackets take a tenth of a second each time, and other
objects wait. So the large members of such an object are replaced by `LEFT_OUT` before it is cached, and its reconcile reports that. Long
texts cost nothing and are kept: the number of values counts.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from konverge.client import LEFT_OUT
from konverge.objects import Metadata

__all__ = ["MOST_VALUES", "has_too_many_values", "outline"]

MOST_VALUES: Final = 100_000
_SMALL: Final = 1 << 16
"""Bytes of a member that is kept in any case."""
_KEPT: Final = ("apiVersion", "kind", "metadata")
_SEPARATORS: Final = (b",", b"[", b"{")
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_TOP: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def has_too_many_values(body: bytes) -> bool:
    """Return whether an object has more than `MOST_VALUES` values; each value but the first follows a bracket or a comma.

    >>> has_too_many_values(b"[" + b"0," * 100_001 + b"0]"), has_too_many_values(b'["' + b"0," * 100_001 + b'"]')
    (True, False)
    """
    if len(body) <= MOST_VALUES or _separators(body) <= MOST_VALUES:
        return False
    strings = (body.count(b'"') - body.count(b'\\"')) // 2
    return strings > 2 * MOST_VALUES or _separators(_STRINGS.sub(b"", body)) > MOST_VALUES


def _separators(text: bytes) -> int:
    return sum(map(text.count, _SEPARATORS))


def outline(body: bytes, metadata: Metadata) -> bytes:
    """Return an object without its large members; `metadata` is the object's own, decoded.

    >>> outline(b'{"kind":"Pod","metadata":{"name":"a"},"spec":[' + b"0," * 100_000 + b"0]}", Metadata(name="a"))[:60]
    b'{"kind":"Pod","metadata":{"name":"a"},"spec":"konverge left '
    """
    try:
        members = _TOP.decode(body)
    except RecursionError:  # nested too deeply as well
        return msgspec.json.encode({"metadata": metadata, "spec": msgspec.Raw(LEFT_OUT)})
    for name, value in members.items():
        if name not in _KEPT and len(bytes(value)) > _SMALL:
            members[name] = msgspec.Raw(LEFT_OUT)
    return msgspec.json.encode(members)
