"""The faults of a shard's double: of its connections, and of single calls."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["CallFault", "Network", "ShardFaults"]


class Network(enum.Enum):
    """The reaction of a shard to connections."""

    OPEN = "open"
    REFUSED = "refused"
    """A new connection is refused at once."""
    SILENT = "silent"
    """A new connection gets no response, and bytes on existing connections vanish: a half-open connection."""


class CallFault(enum.Enum):
    """The fate of one call."""

    UNAVAILABLE = "unavailable"
    """UNAVAILABLE, and the server did nothing."""
    HANG = "hang"
    """No response ever, and the server did nothing."""
    HANG_AFTER = "hang after"
    """The server acted, and never responds."""
    CUT_BEFORE = "cut before"
    """The connection ends, and the server did nothing."""
    CUT_AFTER = "cut after"
    """The server acted, then the connection ends without a response."""
    GARBAGE = "garbage"
    """A response that is not a message."""
    LOST_LEADERSHIP = "lost leadership"
    """The server acted, and returns UNAVAILABLE: it lost its leadership during the call."""


@dataclass
class ShardFaults:
    """The faults that the next calls and connections meet. Change it while the shard is served."""

    network: Network = Network.OPEN
    next_calls: dict[str, list[CallFault]] = field(default_factory=dict)
    """By the name of a method: the faults of its next calls, in order. "*" is every method."""

    chooser: Callable[[str], CallFault | None] | None = None
    """Chooses the fault of each call, by the name of its method, before `next_calls` is read: for tests that count calls, or that kill the
    caller during a call.
    """

    def add(self, method: str, fault: CallFault, *, times: int = 1) -> None:
        """Let the next calls of a method fail."""
        self.next_calls.setdefault(method, []).extend([fault] * times)

    def take(self, method: str) -> CallFault | None:
        """Return the fault of the call that begins now, which is used up."""
        if self.chooser is not None and (chosen := self.chooser(method)) is not None:
            return chosen
        for name in (method, "*"):
            if self.next_calls.get(name):
                return self.next_calls[name].pop(0)
        return None
