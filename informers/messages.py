"""The changes of objects, and the inputs and outputs of an informer's state machine, as frozen data.

An input is a result, an error or a timer. An output is an effect, which is applied at once and in order, or a command, which the driver
executes next. Each step returns any number of effects and then exactly one command.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from konverge.informers.store import Cached

__all__ = [
    "Advance",
    "Started",
    "Bookmark",
    "Change",
    "Command",
    "Commit",
    "Discard",
    "Discover",
    "Discovered",
    "Effect",
    "Clear",
    "Ended",
    "Failed",
    "FellBack",
    "ForgetDiscovery",
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
    "Unhealthy",
    "Sleep",
    "Woke",
]


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of one key, from the watch event to the handler: added (`old` None), updated, or deleted (`new` None).

    The decoder leaves `old` empty, and the store sets it to the object that it held. For a handler `old` is the object that it received
    last, and `initial` marks objects that existed when the handler was added. A predicate is a function of a change:

    >>> def created(change: Change) -> bool:
    ...     return change.old is None
    >>> created(Change("web", "nightly", None, None))
    True
    """

    namespace: str
    name: str
    old: Cached | None
    new: Cached | None
    initial: bool = False


class Moment(NamedTuple):
    """The circumstances of a step.

    `now` is the loop's time, `roll` a random number from 0 to 1, `watch_list_denied` whether the resource is on the
    `WatchListDenylist`.
    """

    now: float
    roll: float = 0.0
    watch_list_denied: bool = False


# Inputs


class Started(msgspec.Struct, frozen=True):
    """The informer was started."""


class Discovered(msgspec.Struct, frozen=True):
    """The API server serves the kind."""


class Opened(msgspec.Struct, frozen=True):
    """The server accepted the watch."""


class Items(msgspec.Struct, frozen=True):
    """Changes of a page or stream in the order of arrival; as an effect, the store applies them and is at `version` afterwards.

    `version` is the version of the last object; `added` means that at least one event was ADDED, as all initial objects are.
    """

    changes: list[Change]
    version: str
    added: bool = True


class Bookmark(msgspec.Struct, frozen=True):
    """A bookmark; `ends_initial` marks the bookmark after the last initial object of a streaming list."""

    version: str
    ends_initial: bool = False


class PageEnd(msgspec.Struct, frozen=True):
    """A page of a list is complete; more pages follow if `continue_` is set."""

    version: str
    continue_: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The server ended the stream without an error."""


class Stalled(msgspec.Struct, frozen=True):
    """The deadline of the last command passed; after a further ReadOn its result may still arrive."""


class Failed(msgspec.Struct, frozen=True):
    """A request or stream failed, or the stream sent an ERROR event; `cause` is a value of `konverge.informers.problem.Cause`."""

    error: Exception
    cause: str


class Woke(msgspec.Struct, frozen=True):
    """The `Sleep` is over."""


Input: TypeAlias = Started | Discovered | Opened | Items | Bookmark | PageEnd | Ended | Stalled | Failed | Woke

# Effects


class Stage(msgspec.Struct, frozen=True):
    """Collect these objects for the next Commit."""

    changes: list[Change]


class Discard(msgspec.Struct, frozen=True):
    """Drop the staged objects."""


class Commit(msgspec.Struct, frozen=True):
    """Replace the store's content by the staged objects, the full state at this version, and deliver the difference."""

    version: str


class Advance(msgspec.Struct, frozen=True):
    """Set the store's version; no object changed."""

    version: str


class Clear(msgspec.Struct, frozen=True):
    """Remove all objects from the store, because the kind is not served."""


class ForgetDiscovery(msgspec.Struct, frozen=True):
    """Drop the client's cached discovery of the group and version."""


class FellBack(msgspec.Struct, frozen=True):
    """A plain list replaces a streaming one; `deny` if the server seems not to support streaming lists."""

    cause: str
    deny: bool


class Restarted(msgspec.Struct, frozen=True):
    """A list or watch is restarted, at once or after a wait."""

    cause: str


class Unhealthy(msgspec.Struct, frozen=True):
    """The informer is not up to date."""

    cause: str
    error: Exception


class Healthy(msgspec.Struct, frozen=True):
    """The informer is synced and a watch is open."""


Effect: TypeAlias = (
    Stage | Discard | Commit | Items | Advance | Clear | ForgetDiscovery | FellBack | Restarted | Unhealthy | Healthy
)

# Commands


class Discover(msgspec.Struct, frozen=True):
    """Request discovery of the kind."""


class ListPage(msgspec.Struct, frozen=True):
    """Request a page of a list (`limit` 0: all objects)."""

    version: str
    limit: int
    continue_: str = ""


class StartWatch(msgspec.Struct, frozen=True):
    """Open a watch, with initial objects first if `streaming`; if it is not open by `deadline` (loop time), it has stalled."""

    version: str
    streaming: bool
    timeout_seconds: int
    deadline: float | None = None


class ReadOn(msgspec.Struct, frozen=True):
    """Continue to read the page or stream; it has stalled if no data arrived by `deadline` (loop time)."""

    deadline: float | None = None


class Sleep(msgspec.Struct, frozen=True):
    """Wait for `seconds`, then feed `Woke`."""

    seconds: float


Command: TypeAlias = Discover | ListPage | StartWatch | ReadOn | Sleep
