"""What goes into the state machine of an informer and what comes out, as frozen data.

An input is a result, an error or a timer. An output is an effect (carried out at once, in order) or a command (what to wait
for next). Each step returns any number of effects and then exactly one command.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from konverge.informers.cached import Delta

__all__ = [
    "Advance",
    "Apply",
    "Begin",
    "Bookmark",
    "Command",
    "Commit",
    "Discard",
    "Discover",
    "Discovered",
    "Effect",
    "Empty",
    "Ended",
    "Failed",
    "FellBack",
    "Forget",
    "Healthy",
    "Input",
    "Items",
    "ListPage",
    "Moment",
    "Opened",
    "PageEnd",
    "ReadOn",
    "Restarted",
    "Stage",
    "Stalled",
    "StartWatch",
    "Troubled",
    "Wait",
    "Woke",
]


class Moment(NamedTuple):
    """What the driver knows when an input arrives.

    `now` is the loop's time, `roll` a random number from 0 to 1, `plain` whether streaming lists of this resource are known not
    to work.
    """

    now: float
    roll: float = 0.0
    plain: bool = False


# Inputs


class Begin(msgspec.Struct, frozen=True):
    """The informer was started."""


class Discovered(msgspec.Struct, frozen=True):
    """The API server serves the kind."""


class Opened(msgspec.Struct, frozen=True):
    """The server accepted the watch."""


class Items(msgspec.Struct, frozen=True):
    """Objects, of a page or of a stream, in the order of arrival.

    `version` is that of the last one; `added` tells whether one came as an addition, which is what initial objects come as.
    """

    deltas: list[Delta]
    version: str
    added: bool = True


class Bookmark(msgspec.Struct, frozen=True):
    """A bookmark; `ends_initial` where it says that all initial objects of a streaming list have come."""

    version: str
    ends_initial: bool = False


class PageEnd(msgspec.Struct, frozen=True):
    """A page of a list came whole; more pages follow where `continue_` is set."""

    version: str
    continue_: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The server ended the stream in good order."""


class Stalled(msgspec.Struct, frozen=True):
    """The deadline of the last command passed. What it waited for may still come, where the next command is ReadOn."""


class Failed(msgspec.Struct, frozen=True):
    """What was waited for failed, or the stream brought an error; `cause` is a word of `konverge.informers.problem.Cause`."""

    error: Exception
    cause: str


class Woke(msgspec.Struct, frozen=True):
    """The wait is over."""


Input: TypeAlias = Begin | Discovered | Opened | Items | Bookmark | PageEnd | Ended | Stalled | Failed | Woke

# Effects


class Stage(msgspec.Struct, frozen=True):
    """Put these aside for the next Commit."""

    deltas: list[Delta]


class Discard(msgspec.Struct, frozen=True):
    """Throw away what was put aside."""


class Commit(msgspec.Struct, frozen=True):
    """What was put aside is the full state at this version: replace the store's content by it, and tell the handlers the difference."""

    version: str


class Apply(msgspec.Struct, frozen=True):
    """Change the store by these, which brings it to this version."""

    deltas: list[Delta]
    version: str


class Advance(msgspec.Struct, frozen=True):
    """The store stands at this version; no object changed."""

    version: str


class Empty(msgspec.Struct, frozen=True):
    """The kind is not served: whatever objects of it there were are gone."""


class Forget(msgspec.Struct, frozen=True):
    """Do not believe what discovery said about this group and version."""


class FellBack(msgspec.Struct, frozen=True):
    """A streaming list was given up for a plain one; `remember` where the server seems not to know streaming lists."""

    cause: str
    remember: bool


class Restarted(msgspec.Struct, frozen=True):
    """A list or watch is begun again, at once or after a wait."""

    cause: str


class Troubled(msgspec.Struct, frozen=True):
    """The informer is not up to date, for this reason."""

    cause: str
    error: Exception


class Healthy(msgspec.Struct, frozen=True):
    """The informer is synced and a watch is open."""


Effect: TypeAlias = (
    Stage | Discard | Commit | Apply | Advance | Empty | Forget | FellBack | Restarted | Troubled | Healthy
)

# Commands


class Discover(msgspec.Struct, frozen=True):
    """Ask whether and how the kind is served."""


class ListPage(msgspec.Struct, frozen=True):
    """Ask for a page of a list (`limit` 0: all of it)."""

    version: str
    limit: int
    continue_: str = ""


class StartWatch(msgspec.Struct, frozen=True):
    """Open a watch, `streaming` with initial objects first; give up at `deadline`, in the loop's time."""

    version: str
    streaming: bool
    timeout_seconds: int
    deadline: float | None = None


class ReadOn(msgspec.Struct, frozen=True):
    """Go on with the page or stream that is being read; say so if nothing came until `deadline`, in the loop's time."""

    deadline: float | None = None


class Wait(msgspec.Struct, frozen=True):
    """Wait so many seconds."""

    seconds: float


Command: TypeAlias = Discover | ListPage | StartWatch | ReadOn | Wait
