"""Times in a status, which another writer may have set: unreadable and future times are replaced."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from konverge.clock import from_rfc3339

__all__ = ["LastWrites", "LocalStarts", "Memory", "Refusals", "moment"]


def moment(text: str | None, now: datetime, *, otherwise: datetime) -> datetime:
    """Return a time that is not in the future; `otherwise` in place of an impossible time.

    >>> from datetime import UTC
    >>> created, now = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    >>> moment("9999-12-31T23:59:59Z", now, otherwise=created).year
    2030
    """
    try:
        time = otherwise if text is None else from_rfc3339(text)
    except (ValueError, OverflowError):
        return otherwise
    return time if time <= now else otherwise


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
        time = moment(text, now, otherwise=created or now)
        if time > now:
            return self._first_seen.setdefault(uid, now)
        self._first_seen.pop(uid, None)
        return time

    def forget(self, uid: str) -> None:
        """Forget an Operation that has ended."""
        self._first_seen.pop(uid, None)


@dataclass(slots=True)
class LastSeen:
    """The last change of an engine's object, or of an object that shows the life of its controller."""

    version: str
    """The resource versions of these objects."""
    at: datetime
    """When this process saw them first, by its own clock: the clock of another process may differ from it."""
    stored: datetime | None = None
    """When the object was last written, by its managedFields; read after a restart, and once nothing has changed for long."""


class LastWrites:
    """When the objects of running Operations last changed, as far as this process has seen.

    Memory: an entry for each running Operation.
    """

    def __init__(self) -> None:
        self._known: dict[str, LastSeen] = {}

    def of(self, uid: str, version: str, now: datetime) -> LastSeen:
        """Return the last change; it is now if the version is new.

        >>> from datetime import UTC
        >>> writes, early, late = LastWrites(), datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
        >>> [writes.of("a", version, now).at.year for version, now in (("1", early), ("1", late), ("2", late))]
        [2030, 2030, 2031]
        """
        known = self._known.get(uid)
        if known is None or known.version != version:
            # A change that this process sees happens now; the first read of an object does not show its age.
            known = self._known[uid] = LastSeen(version, now, None if known is None else now)
        return known

    def forget(self, uid: str) -> None:
        """Forget an Operation that has ended."""
        self._known.pop(uid, None)


class Refusals:
    """Since when this process has lacked the right to create, or to read, the object of an Operation.

    Memory: an entry for each such Operation that has not ended.
    """

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def since(self, uid: str, now: datetime) -> datetime:
        """Return when the right was first found missing; it is now for an Operation that is not known.

        >>> from datetime import UTC
        >>> refusals, early, late = Refusals(), datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
        >>> [refusals.since("a", now).year for now in (early, late)]
        [2030, 2030]
        """
        return self._since.setdefault(uid, now)

    def knows(self, uid: str) -> bool:
        """Tell whether the right was missing at its last use."""
        return uid in self._since

    def forget(self, uid: str) -> None:
        """Forget an Operation whose object was created, or may be."""
        self._since.pop(uid, None)


class Memory:
    """The memory of a process about running Operations. A restart loses it, and only delays what depends on it."""

    def __init__(self) -> None:
        self.starts = LocalStarts()
        self.writes = LastWrites()
        self.refusals = Refusals()

    def forget(self, uid: str) -> None:
        """Forget an Operation that has ended."""
        self.starts.forget(uid)
        self.writes.forget(uid)
        self.refusals.forget(uid)
