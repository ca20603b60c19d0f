"""The distribution of a pool's replicas over its shards."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["distribute"]


def distribute(replicas: int | None, shards: Iterable[str]) -> dict[str, int]:
    """Return the size of each shard: equal shares, and one more for the first shards in the order of their names.

    Guarantees: the sizes add up to the replicas, differ by one at most, and do not depend on the order of the shards; one replica more or
    less changes one shard. Replicas that are absent or negative count as none.

    >>> distribute(10, ["c", "a", "b"])
    {'a': 4, 'b': 3, 'c': 3}
    """
    names = sorted(set(shards))
    if not names:
        return {}
    share, rest = divmod(max(replicas or 0, 0), len(names))
    return {name: share + (place < rest) for place, name in enumerate(names)}
