"""The times of a session with a shard."""

from __future__ import annotations

import msgspec

__all__ = ["SessionPace"]


class SessionPace(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a session, in seconds."""

    call: float = 10.0
    """The limit of one call."""
    poll: float = 30.0
    """Between two listings."""
    settle: float = 0.1
    """From an event of a group to the listing that follows it: one listing serves all events of that time."""
    first_delay: float = 1.0
    longest_delay: float = 30.0
