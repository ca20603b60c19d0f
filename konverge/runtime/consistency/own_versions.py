"""The own-write filter: an event that shows nothing but our own status write, or our own apply of a child, enqueues nothing."""

from __future__ import annotations

from konverge.keys import Key, compare_versions

__all__ = ["OwnVersions"]


class OwnVersions:
    """The versions that our own writes gave to each object, until an event shows them.

    All of them are kept: the event of one write may be delivered after the next write was made, and is an echo all the same. Bounded:
    objects that were not written for longest are forgotten first, and of each object only the last few versions are kept.

    >>> from konverge.kinds import kind
    >>> own, key = OwnVersions(), Key("", kind("v1", "Pod"), "web", "a")
    >>> own.add(key, "7"), own.add(key, "9"), own.seen(key, "7"), own.of(key)
    (None, None, None, ('9',))
    """

    def __init__(self, *, objects: int = 100_000, versions: int = 8) -> None:
        self._objects = objects
        self._versions = versions
        self._known: dict[Key, tuple[str, ...]] = {}

    def add(self, key: Key, version: str) -> None:
        """Keep the version that a write of ours made."""
        known = self._known
        before = known.pop(key, None)  # put back last: a dict keeps the order of insertion
        known[key] = (version,) if before is None else (*before, version)[-self._versions :]
        if len(known) > self._objects:
            del known[next(iter(known))]

    def of(self, key: Key) -> tuple[str, ...]:
        """Return the versions of an object whose events are still to come."""
        return self._known.get(key, ())

    def seen(self, key: Key, version: str) -> None:
        """Drop this version and those before it: events of one object come in their order."""
        known = self._known.get(key)
        if known is None:
            return
        if known[-1] == version:  # nearly always
            del self._known[key]
            return
        left = tuple(own for own in known if own != version and (compare_versions(own, version) or 1) > 0)
        if left:
            self._known[key] = left
        else:
            del self._known[key]

    def take(self, key: Key, version: str) -> tuple[str, ...]:
        """Return the versions whose events are still to come, and drop those up to the one that this event shows."""
        known = self._known.get(key, ())
        if known:
            self.seen(key, version)
        return known

    def forget(self, key: Key) -> None:
        """Drop everything of an object."""
        self._known.pop(key, None)

    def __len__(self) -> int:
        return len(self._known)
