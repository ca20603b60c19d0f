"""The provider ids that stay in a pool although no shard lists them: Cluster API deletes the Node of an id that leaves the pool.

An instance that is being drained still runs. A listing without it may arrive before the event of its drain, and a server that has just
started may list too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["UnlistedIds", "unlisted_ids"]


def unlisted_ids(published: Iterable[str], listed: Iterable[str]) -> tuple[str, ...]:
    """Return the published ids whose instance no shard lists.

    >>> unlisted_ids(["aws:///z/i-1", "i-2"], ["i-1"])
    ('i-2',)
    """
    ids = set(listed)
    return tuple(provider_id for provider_id in published if not ids & {provider_id, provider_id.rpartition("/")[2]})


class UnlistedIds:
    """The time since which each published id is unlisted, by the uid of its pool."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}

    def kept(
        self, pool: str, unlisted: Iterable[str], now: float, *, retire_after: float, drains: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Return the ids that stay: they are unlisted for at most `retire_after` seconds, or their instance is being drained."""
        before = self._since.get(pool, {})
        since = {provider_id: before.get(provider_id, now) for provider_id in unlisted}
        if since:
            self._since[pool] = since
        else:
            self.forget(pool)
        fresh = now - retire_after
        return tuple(
            provider_id
            for provider_id, begun in since.items()
            if begun > fresh or drains(provider_id.rpartition("/")[2])
        )

    def forget(self, pool: str) -> None:
        """Forget the ids of a pool."""
        self._since.pop(pool, None)
