"""Rendezvous hashing: each key belongs to the member with the highest score. Pure.

A member that joins takes its share from all others alike, and the keys of a leaving member are spread over all others; no other key moves.
blake2b, since scores must not correlate between members: CRC-32 is linear, and with it three members get up to 1.5 times their share.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

__all__ = ["Rendezvous", "owner_of"]

_BYTES = 8
_REMEMBERED = 1 << 16
"""Keys whose owners are remembered, some 10 MB: an event needs its object's owner several times. A million objects would take 200 MB."""
_LONGEST_REMEMBERED = 64
"""Characters of a remembered key: a uid has 36; a uid in an owner reference has as many as its writer likes."""


class Rendezvous:
    """The hash over one set of members, with a memory of results.

    >>> Rendezvous(("a", "b", "c")).owner_of("0b9ee9a4") == owner_of("0b9ee9a4", ("c", "b", "a"))
    True
    """

    def __init__(self, members: Iterable[str] = (), *, remembered: int = _REMEMBERED) -> None:
        self.members = tuple(members)
        self._encoded = tuple((member, b"\0" + member.encode()) for member in self.members)
        self._owners: dict[str, str] = {}
        self._remembered = remembered

    def owner_of(self, key: str) -> str:
        """Return the member that should own a key; "" if the ring is empty."""
        known = self._owners.get(key)
        if known is not None:
            return known
        copy = blake2b(key.encode(), digest_size=_BYTES).copy
        best, owner = b"", ""
        for member, encoded in self._encoded:
            score = copy()
            score.update(encoded)
            digest = score.digest()
            if digest > best or (digest == best and member > owner):
                best, owner = digest, member
        if len(key) > _LONGEST_REMEMBERED:
            return owner
        if len(self._owners) >= self._remembered:
            self._owners.clear()
        self._owners[key] = owner
        return owner


def owner_of(key: str, members: Iterable[str]) -> str:
    """Return the member that should own a key; "" if the ring is empty.

    >>> owner_of("0b9ee9a4", ("a", "b", "c")) == owner_of("0b9ee9a4", ("c", "b", "a"))
    True
    """
    return Rendezvous(members, remembered=0).owner_of(key)
