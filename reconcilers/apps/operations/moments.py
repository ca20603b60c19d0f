"""Moments in a status, which another writer may have put there: unreadable ones and those in the future are replaced."""

from __future__ import annotations

from datetime import datetime

from konverge.clock import from_rfc3339

__all__ = ["LastWrites", "LocalStarts", "Memory", "moment"]


def moment(text: str | None, now: datetime, *, otherwise: datetime) -> datetime:
    """Return a moment that is not in the future; `otherwise` in place of one that cannot be true.

    >>> from datetime import UTC
    >>> made, now = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    >>> moment("9999-12-31T23:59:59Z", now, otherwise=made).year
    2030
    """
    try:
        found = otherwise if text is None else from_rfc3339(text)
    except (ValueError, OverflowError):
        return otherwise
    return found if found <= now else otherwise


class LocalStarts:
    """When Operations started, by the clock of this process: a deadline must not wait until a clock that is a day behind has caught up.

    Memory: an entry for each running Operation whose start and creation are in the future of this process.
    """

    def __init__(self) -> None:
        self._first_seen: dict[str, datetime] = {}

    def of(self, uid: str, text: str | None, created: datetime | None, now: datetime) -> datetime:
        """Return the start; when the Operation was first seen, if the start and the creation are in the future.

        >>> from datetime import UTC, timedelta
        >>> starts, now, later = LocalStarts(), datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, 1, tzinfo=UTC)
        >>> future = now + timedelta(days=1)
        >>> [starts.of("a", "2030-01-02T00:00:00Z", future, at).hour for at in (now, later)]
        [0, 0]
        """
        found = moment(text, now, otherwise=created or now)
        if found > now:
            return self._first_seen.setdefault(uid, now)
        self._first_seen.pop(uid, None)
        return found

    def forget(self, uid: str) -> None:
        """Drop what is remembered of an Operation that has ended."""
        self._first_seen.pop(uid, None)


class LastWrites:
    """When the objects of running Operations were last written, as far as this process has seen.

    Memory: an entry for each running Operation.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, datetime]] = {}

    def of(self, uid: str, version: str, now: datetime) -> datetime | None:
        """Return the last write of an object of this version; now if the version is new, None if the object is not known.

        >>> from datetime import UTC
        >>> writes, early, late = LastWrites(), datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
        >>> writes.note("a", "1", early)
        >>> [writes.of("b", "1", late), writes.of("a", "1", late).year, writes.of("a", "2", late).year]
        [None, 2030, 2031]
        """
        known = self._known.get(uid)
        if known is None:
            return None
        if known[0] != version:
            known = self._known[uid] = (version, now)
        return known[1]

    def note(self, uid: str, version: str, written: datetime) -> None:
        """Record when the object was written last."""
        self._known[uid] = (version, written)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of an Operation that has ended."""
        self._known.pop(uid, None)


class Memory:
    """The memory of a process about Operations that run. A restart loses it, and delays at most what depends on it."""

    def __init__(self) -> None:
        self.starts = LocalStarts()
        self.writes = LastWrites()

    def forget(self, uid: str) -> None:
        """Drop what is remembered of an Operation that has ended."""
        self.starts.forget(uid)
        self.writes.forget(uid)
