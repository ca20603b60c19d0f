"""The objects of a kind that a replica watches, if it watches a part: ranges of a hash of the uid, which the API server can select. Pure.

    shardSelector   sent with each list and watch: ranges of the 64-bit FNV-1a hash of the uid, joined by ||
    shardInfo       the echo of a server that selects; a server that does not ignores the parameter, and sends all objects
    contains        the same choice here: of each object that comes it is asked, whatever the server says

Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5866-server-side-sharded-list-and-watch
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from konverge.tasks import Broadcast

__all__ = ["BUCKETS", "UidWindow", "bucket_of", "shard_selector"]

BUCKETS: Final = 256
"""Parts into which the hashes are divided. With more of them the selector of a small ring grows beyond what proxies let through."""
_BITS: Final = 64 - BUCKETS.bit_length() + 1
_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def bucket_of(uid: str) -> int:
    """Return the part that a uid belongs to: the upper bits of its FNV-1a hash.

    >>> bucket_of("0b9ee9a4-6f2e-4a4b-9c93-0d1c7f1e6f35")
    167
    """
    found = _BASIS
    for byte in uid.encode():
        found = (found ^ byte) * _PRIME & _MASK
    return found >> _BITS


def shard_selector(buckets: Iterable[int]) -> str:
    """Return these parts as the API server selects them; neighbours are one range, and none gives the first part.

    kube-apiserver takes 16 digits, and 17 for the end of the last part alone.

    >>> shard_selector([0, 1])
    "shardRange(object.metadata.uid, '0x0000000000000000', '0x0200000000000000')"
    """
    ranges = (
        f"shardRange(object.metadata.uid, '0x{first << _BITS:016x}', '0x{last << _BITS:016x}')"
        for first, last in _ranges(buckets)
    )
    return " || ".join(ranges) or shard_selector([0])


def _ranges(buckets: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for bucket in sorted(buckets):
        if bucket != last:
            if last > first:
                yield first, last
            first = bucket
        last = bucket + 1
    if last > first:
        yield first, last


class UidWindow:
    """The parts that are watched now. The informers that follow it list again when it changes.

    >>> window = UidWindow()
    >>> window.open({167})
    >>> window.contains("0b9ee9a4-6f2e-4a4b-9c93-0d1c7f1e6f35")
    True
    """

    def __init__(self) -> None:
        self.buckets: frozenset[int] = frozenset()
        self.changed = Broadcast()
        """Notified when they change."""

    @property
    def selector(self) -> str:
        """The `shardSelector` of these parts."""
        return shard_selector(self.buckets)

    def open(self, buckets: Iterable[int]) -> None:
        """Watch these parts from now on."""
        chosen = frozenset(buckets)
        if chosen != self.buckets:
            self.buckets = chosen
            self.changed.notify()

    async def left(self, buckets: frozenset[int]) -> None:
        """Return once other parts than these are watched."""
        while self.buckets == buckets:
            await self.changed.wait()

    def contains(self, uid: str) -> bool:
        """Return whether an object is watched."""
        return bucket_of(uid) in self.buckets
