"""The world below the Velero stand-in: the object store, and the outcomes of Backups and Restores."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from konverge_testing.standin import Json

__all__ = ["VeleroWorld", "readable_duration"]

_GO = re.compile(r"([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+|0")


def readable_duration(text: Any) -> bool:
    """Return whether Go reads this duration.

    >>> readable_duration("720h0m0s"), readable_duration("30d")
    (True, False)
    """
    return isinstance(text, str) and _GO.fullmatch(text) is not None


@dataclass(slots=True)
class VeleroWorld:
    """Outcomes by the namespace that is backed up. Change it while the server runs."""

    items: int = 5
    """Objects in each namespace."""
    missing_namespaces: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long the items of a namespace take; 2 unless written here."""
    failing: dict[str, int] = field(default_factory=dict)
    """How many items of a namespace cannot be backed up."""
    failing_restores: dict[str, int] = field(default_factory=dict)
    existing: set[str] = field(default_factory=set)
    """Namespaces where a restored object already exists with other content: a warning, unless the policy is `update`."""
    operations: dict[str, float] = field(default_factory=dict)
    """Seconds that an asynchronous operation of a plugin takes in a namespace."""
    failing_operations: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    """Locations whose object store does not respond."""
    unnoticed: bool = False
    """Locations are not validated again, so a location that does not respond still has the phase Available."""
    validates_each_minute: bool = False
    """The time of a location's last validation is written once a minute, as by the real server; a lab then never settles."""
    slow_queue: bool = False
    """Velero checks its queue only once a minute, as it does after it missed the end of a Backup."""
    bucket: dict[str, Json] = field(default_factory=dict)
    """Finished Backups by name, as they were stored. Written by the server."""
    names: set[str] = field(default_factory=set)
    """Names in the object store, including names of Backups that never finished. Written by the server."""
