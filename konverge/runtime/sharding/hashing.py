"""Rendezvous hashing: each key goes to the member with the highest score. Pure.

A member that joins takes its share from all others alike, and the keys of one that leaves are spread over all others; no other key moves.
blake2b, since scores must not correlate between members: CRC-32 is linear, and with it three members get up to 1.5 times their share.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

__all__ = ["owner_of"]

_BYTES = 8


def owner_of(key: str, members: Iterable[str]) -> str:
    """Return the member that should own a key; "" if the ring is empty.

    >>> owner_of("0b9ee9a4", ("a", "b", "c")) == owner_of("0b9ee9a4", ("c", "b", "a"))
    True
    """
    state = blake2b(key.encode(), digest_size=_BYTES)
    best, owner = b"", ""
    for member in members:
        score = state.copy()
        score.update(b"\0" + member.encode())
        found = score.digest()
        if found > best or (found == best and member > owner):
            best, owner = found, member
    return owner
