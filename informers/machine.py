"""The list+watch state machine of an informer: no await, no clock, no randomness, no I/O.

`step(state, input, moment)` returns the next state and the outputs: effects, then exactly one command. The transitions are in one table,
by phase and input. A driver (`konverge.informers.reflector`) executes the outputs and feeds the results back as inputs.

    DISCOVERY --served--> STREAMING --all initial objects--> WATCHING <--+
        ^                     |  fallback                     |  ^  |    | ended, cut off, refused, 429, 5xx, 401, 403:
        |                     v                               |  |  +----+ watch again from the same version
        +------404-------- LISTING --last page----------------|--+
                              ^                               |
                              +---- 410, version too large ---+    (a new full state; through STREAMING if the server supports it)

Guarantees
- `last_rv` is set by events, bookmarks and full states, never by the initial objects of a streaming list.
- Events and bookmarks count in the order of the stream: each sets `last_rv` to its own version, even if that version is older than the
  previous. If a server breaks its order, the next watch begins at the older version and so repeats the later events; none is lost, and
  until then the barrier waits (`Store.shows`).
- 410 and "too large resource version", as a response or as an ERROR event, lead to a full state from version "" (`rv_unavailable`); the
  flag is reset when that state is complete.
- Only a server response invalidates `last_rv`: refused connections, cut streams, 429, 401 and 403 keep it.
- No tight loop: two failures in a row without a success between them back off; a stream that ends within `early_end` without an event
  is a failure.
- A streaming list that makes no progress, or that the server does not support, is replaced by a plain list; if the server seems not to
  support such lists, the resource is put on the `WatchListDenylist`.
- A 404 response to a list or watch repeats discovery; "not served", or a second 404, empties the store and polls discovery.
- A dead watch (`RestartCause.IDLE`) is restarted at once, from the same version (`_restart_idle_watch`).

Caveats
- An event with a version older than the stored object's replaces the object until the later event is repeated. A guard would drop real
  changes: versions of one resource compare as numbers since Kubernetes 1.35, but not on every aggregated API server. client-go has no guard
  either.
  https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version

Deviations from client-go (tools/cache/reflector.go): plain lists are consistent and paged (`InformerSettings.consistent_lists`); a watch
that was refused or cut keeps its version instead of listing again; a dead watch is restarted at once; a streaming list has a deadline,
and its failure is remembered.

The rules of client-go: https://github.com/kubernetes/client-go/blob/master/tools/cache/reflector.go. Streaming lists that never end:
https://github.com/kubernetes/kubernetes/issues/140890. A kind that is no longer served:
https://github.com/kubernetes/kubernetes/issues/79610. All semantics: docs/reference/runtime.md#list-and-watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from konverge.errors import ApiError, Unreachable
from konverge.informers.backoff import ExponentialBackoff
from konverge.informers.messages import (
    Advance,
    Bookmark,
    Clear,
    Command,
    Commit,
    Discard,
    Discover,
    Discovered,
    Effect,
    Ended,
    Failed,
    FellBack,
    ForgetDiscovery,
    Healthy,
    Input,
    Items,
    ListPage,
    Moment,
    Opened,
    PageEnd,
    ReadOn,
    Restarted,
    Sleep,
    Stage,
    Stalled,
    Started,
    StartWatch,
    Unhealthy,
    Woke,
)
from konverge.informers.problem import RestartCause, refuses_streaming
from konverge.informers.settings import InformerSettings

__all__ = ["Phase", "MachineState", "initial_state", "step"]


class Phase(Enum):
    """The present phase of list and watch; during a backoff, the phase that is resumed."""

    DISCOVERY = "discovery"
    STREAMING = "streaming list"
    LISTING = "list"
    WATCHING = "watch"


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of list and watch; a step depends only on it, its input and the moment."""

    settings: InformerSettings
    backoff: ExponentialBackoff
    """The waits after failures in every phase."""
    poll: ExponentialBackoff
    """The waits between two discoveries of a kind that is not served."""
    phase: Phase = Phase.DISCOVERY
    last_rv: str = ""
    """The start version of the watch; "" before the first full state, and after the kind was not served."""
    rv_unavailable: bool = False
    """The server cannot serve `last_rv`: the next full state is requested at version "". Reset by a full state."""
    discovery_stale: bool = False
    """A 404 response has repeated discovery, and no list or watch succeeded since: another 404 means "not served"."""
    list_rv: str = ""
    """LISTING: the version of the request for the first page."""
    first_page: str = ""
    """LISTING: the version of the first page, which is the start version of the watch; "" until that page is complete."""
    continued: bool = False
    """LISTING: a page after the first was requested."""
    paginated: bool = False
    """The server has paged a list once. Never reset, so that later lists are requested in pages too."""
    opened_at: float = 0.0
    """STREAMING, WATCHING: when the present stream was requested, or a watch was accepted."""
    opened: bool = False
    """STREAMING, WATCHING: the server accepted the present stream."""
    received_event: bool = False
    """WATCHING: the present stream has sent an event or bookmark; the closing bookmark of a streaming list counts."""
    failed_early: bool = False
    """The last watch failed before an event or bookmark: the next watch is healthy after an event or bookmark, or after `early_end`
    seconds."""
    advanced: bool = True
    """`last_rv` was set by an event or bookmark after the last full state, not by the full state itself."""
    deadline: float | None = None
    """STREAMING: when the streaming list is replaced by a plain list; None in other phases."""
    failing_since: float | None = None
    """WATCHING: the first 5xx response since a watch last worked; None without one."""


Outputs: TypeAlias = tuple[*tuple[Effect, ...], Command]
Result: TypeAlias = tuple[MachineState, Outputs]
_replace = msgspec.structs.replace


def initial_state(settings: InformerSettings) -> MachineState:
    """Return the state before the first step."""
    return MachineState(
        settings=settings,
        backoff=ExponentialBackoff(
            start=settings.backoff_start, cap=settings.backoff_cap, reset=settings.backoff_reset
        ),
        poll=ExponentialBackoff(
            start=settings.poll_start, cap=settings.poll_cap, jitter=0.0, reset=settings.backoff_reset
        ),
    )


def step(state: MachineState, given: Input, at: Moment) -> Result:
    """Take one step. Raises LookupError for an input that is impossible in this phase, which is a defect of the driver."""
    transition = _TABLE.get((state.phase, type(given)))
    if transition is None:
        raise LookupError(f"{type(given).__name__} cannot come in phase {state.phase.name}")
    return transition(state, given, at)


# Requests for a full state and watches


def _start_list(state: MachineState, at: Moment, *effects: Effect) -> Result:
    """Request a full state, as a stream if possible."""
    if not state.settings.watch_list or at.watch_list_denied:
        return _start_pages(state, *effects)
    deadline = at.now + state.settings.progress
    version = "" if state.rv_unavailable else state.last_rv
    after = _replace(
        state, phase=Phase.STREAMING, opened_at=at.now, opened=False, received_event=False, deadline=deadline
    )
    return after, (*effects, StartWatch(version, True, _timeout(state, at), deadline))


def _start_pages(state: MachineState, *effects: Effect) -> Result:
    """Request the first page of a plain list."""
    settings = state.settings
    if settings.consistent_lists or state.rv_unavailable:
        version = ""
    else:
        version = state.last_rv or "0"
    # The server pages only lists at these versions; at another version a limit would bypass its watch cache.
    limit = settings.page_size if version in {"", "0"} or state.paginated else 0
    after = _replace(
        state, phase=Phase.LISTING, list_rv=version, first_page="", continued=False, opened=False, deadline=None
    )
    return after, (*effects, ListPage(version, limit))


def _watch(state: MachineState, at: Moment, *effects: Effect) -> Result:
    """Open a watch from `last_rv`."""
    after = _replace(state, phase=Phase.WATCHING, opened_at=at.now, opened=False, received_event=False, deadline=None)
    return after, (*effects, StartWatch(state.last_rv, False, _timeout(state, at)))


def _timeout(state: MachineState, at: Moment) -> int:
    low, high = state.settings.watch_timeout
    return low + int(at.roll * (high - low))


def _committed(state: MachineState, version: str) -> MachineState:
    return _replace(
        state,
        last_rv=version,
        rv_unavailable=False,
        discovery_stale=False,
        advanced=False,
        deadline=None,
        failing_since=None,
    )


# Failures


def _back_off(state: MachineState, at: Moment, given: Failed, *effects: Effect) -> Result:
    """Wait by the backoff, and then resume the phase of the state."""
    backoff, seconds = state.backoff.next(at.now, at.roll)
    if isinstance(given.error, ApiError) and given.error.retry_after:
        seconds = max(seconds, given.error.retry_after)
    effects = (*effects, Restarted(given.cause), Unhealthy(given.cause, given.error))
    return _replace(state, backoff=backoff), (*effects, Sleep(seconds))


def _reclassify(state: MachineState, given: Failed) -> Failed:
    """Classify a refused connection as UNREACHABLE if the stream was open, because then it was cut."""
    return (
        Failed(given.error, RestartCause.UNREACHABLE) if state.opened and given.cause == RestartCause.REFUSED else given
    )


def _not_found(state: MachineState, at: Moment, given: Failed) -> Result:
    """Repeat discovery after a 404 to a list or watch: the kind is no longer served, or cached discovery was stale."""
    if state.discovery_stale:
        return _not_served(state, at, Failed(given.error, RestartCause.NOT_SERVED), ForgetDiscovery())
    after = _replace(state, phase=Phase.DISCOVERY, discovery_stale=True, rv_unavailable=True)
    return after, (Discard(), Restarted(given.cause), ForgetDiscovery(), Discover())


def _not_served(state: MachineState, at: Moment, given: Failed, *effects: Effect) -> Result:
    """Empty the store and poll discovery, because the kind is not served.

    Polls have no jitter: informers that begin together stay together, and share one request for all kinds of a group, because a
    negative response of discovery stays in the client's cache for some seconds.
    """
    poll, seconds = state.poll.next(at.now, at.roll)
    after = _replace(
        initial_state(state.settings),
        backoff=state.backoff,
        poll=poll,
        phase=Phase.DISCOVERY,
        paginated=state.paginated,
    )
    effects = (Discard(), Clear(), Unhealthy(RestartCause.NOT_SERVED, given.error), *effects)
    return after, (*effects, Sleep(seconds))


def _lost_version(state: MachineState, at: Moment, given: Failed, *, tried: str) -> Result:
    """Request the latest state after 410 or a version ahead of the server, in response to a list at version `tried`."""
    after = _replace(state, rv_unavailable=True)
    if tried:
        return _start_list(after, at, Discard(), Restarted(given.cause))
    return _back_off(after, at, given, Discard())


# Discovery


def _started(state: MachineState, _: Started, __: Moment) -> Result:
    return state, (Discover(),)


def _discovered(state: MachineState, _: Discovered, at: Moment) -> Result:
    return _start_list(state, at)


def _discovery_failed(state: MachineState, given: Failed, at: Moment) -> Result:
    if given.cause in {RestartCause.NOT_SERVED, RestartCause.NOT_FOUND}:
        return _not_served(state, at, given)
    return _back_off(state, at, given)


def _discover_again(state: MachineState, _: Woke, __: Moment) -> Result:
    return state, (Discover(),)


# Streaming list


def _stream_opened(state: MachineState, _: Opened, __: Moment) -> Result:
    return _replace(state, opened=True), (ReadOn(state.deadline),)


def _stream_items(state: MachineState, given: Items, at: Moment) -> Result:
    # Only additions are progress: a server that ignores the parameter sends changes for ever and never the closing bookmark.
    deadline = at.now + state.settings.progress if given.added else state.deadline
    return _replace(state, deadline=deadline), (Stage(given.changes), ReadOn(deadline))


def _stream_bookmark(state: MachineState, given: Bookmark, at: Moment) -> Result:
    if not given.ends_initial:
        return state, (ReadOn(state.deadline),)
    after = _replace(_committed(state, given.version), phase=Phase.WATCHING, received_event=True)
    health, read_on = _health_check(state, at)
    effects: tuple[Effect, ...] = (Commit(given.version), *health)
    return after, (*effects, read_on)


def _stream_ended(state: MachineState, _: Ended, at: Moment) -> Result:
    # A stream of this age without the closing bookmark was an ordinary watch: the server ignored the parameter.
    ordinary = at.now - state.opened_at >= state.settings.progress
    return _start_pages(state, Discard(), FellBack(RestartCause.ENDED_EARLY, deny=ordinary))


def _stream_stalled(state: MachineState, _: Stalled, __: Moment) -> Result:
    # A stream that never opened is a failure of the network, not a missing feature of the server.
    return _start_pages(state, Discard(), FellBack(RestartCause.NO_PROGRESS, deny=state.opened))


def _stream_failed(state: MachineState, given: Failed, at: Moment) -> Result:
    given = _reclassify(state, given)
    match given.cause:
        case RestartCause.EXPIRED | RestartCause.VERSION_TOO_LARGE:
            return _lost_version(state, at, given, tried="" if state.rv_unavailable else state.last_rv)
        case RestartCause.TOO_MANY_REQUESTS | RestartCause.REFUSED | RestartCause.UNAUTHORIZED:
            return _back_off(state, at, given, Discard())  # a plain list would fail too
        case RestartCause.NOT_FOUND | RestartCause.NOT_SERVED:
            return _not_found(state, at, given)
        case _:
            # Includes 403: with the right to list but not to watch, the store is filled at least, and the watch names the rule.
            unknown = refuses_streaming(given.error)
            cause = RestartCause.UNSUPPORTED if unknown else given.cause
            return _start_pages(state, Discard(), FellBack(cause, deny=unknown))


# Plain list


def _list_items(state: MachineState, given: Items, _: Moment) -> Result:
    return state, (Stage(given.changes), ReadOn())


def _page_end(state: MachineState, given: PageEnd, at: Moment) -> Result:
    version = state.first_page or given.version
    if given.continue_:
        after = _replace(state, first_page=version, continued=True, paginated=True)
        return after, (ListPage("", state.settings.page_size, given.continue_),)
    return _watch(_committed(state, version), at, Commit(version))


def _list_failed(state: MachineState, given: Failed, at: Moment) -> Result:
    match given.cause:
        case RestartCause.EXPIRED if state.continued:
            # The server has compacted the state of the pages; a single response needs no earlier state.
            after = _replace(state, list_rv="", first_page="", continued=False)
            return after, (Discard(), Restarted(given.cause), ListPage("", 0))
        case RestartCause.EXPIRED | RestartCause.VERSION_TOO_LARGE:
            return _lost_version(state, at, given, tried=state.list_rv)
        case RestartCause.NOT_FOUND | RestartCause.NOT_SERVED:
            return _not_found(state, at, given)
        case _:
            return _back_off(state, at, given, Discard())


def _list_again(state: MachineState, _: Woke, at: Moment) -> Result:
    return _start_list(state, at)


# Watch


def _watch_opened(state: MachineState, _: Opened, at: Moment) -> Result:
    health, read_on = _health_check(state, at)
    return _replace(state, opened_at=at.now, opened=True, discovery_stale=False), (*health, read_on)


def _watch_items(state: MachineState, given: Items, _: Moment) -> Result:
    after = _replace(
        state, last_rv=given.version, received_event=True, advanced=True, failed_early=False, failing_since=None
    )
    effects: tuple[Effect, ...] = (given, *_healthy(state.failed_early))
    return after, (*effects, ReadOn())


def _watch_bookmark(state: MachineState, given: Bookmark, _: Moment) -> Result:
    after = _replace(
        state, last_rv=given.version, received_event=True, advanced=True, failed_early=False, failing_since=None
    )
    effects: tuple[Effect, ...] = (Advance(given.version), *_healthy(state.failed_early))
    return after, (*effects, ReadOn())


def _healthy(say: bool) -> tuple[Effect, ...]:
    return (Healthy(),) if say else ()


def _health_check(state: MachineState, at: Moment) -> tuple[tuple[Effect, ...], ReadOn]:
    """Report healthy at once, or, if the last watch failed early, once the watch lasts `early_end` seconds."""
    return ((), ReadOn(at.now + state.settings.early_end)) if state.failed_early else ((Healthy(),), ReadOn())


def _watch_lasted(state: MachineState, _: Stalled, __: Moment) -> Result:
    return _replace(state, failed_early=False), (Healthy(), ReadOn())


def _watch_ended(state: MachineState, _: Ended, at: Moment) -> Result:
    if not state.received_event and at.now - state.opened_at < state.settings.early_end:
        error = Unreachable("the server ended the watch at once, without an event")
        return _back_off(_replace(state, failed_early=True), at, Failed(error, RestartCause.ENDED_EARLY))
    return _watch(_replace(state, failed_early=False, failing_since=None), at, Restarted(RestartCause.ENDED))


def _watch_failed(state: MachineState, given: Failed, at: Moment) -> Result:
    given = _reclassify(state, given)
    if state.opened and not (state.received_event and state.advanced) and given.cause != RestartCause.IDLE:
        state = _replace(state, failed_early=True)
    match given.cause:
        case RestartCause.EXPIRED | RestartCause.VERSION_TOO_LARGE:
            after = _replace(state, rv_unavailable=True, failing_since=None)
            if state.advanced:
                return _start_list(after, at, Restarted(given.cause))
            # `last_rv` is the version of a full state: if a server rejects it, the client must not list in a tight loop.
            return _back_off(_replace(after, phase=Phase.LISTING), at, given)
        case RestartCause.IDLE:
            return _restart_idle_watch(state, at)
        case RestartCause.NOT_FOUND | RestartCause.NOT_SERVED:
            return _not_found(state, at, given)
        case RestartCause.SERVER_FAILURE:
            since = at.now if state.failing_since is None else state.failing_since
            if at.now - since <= state.settings.failing_watch:
                return _back_off(_replace(state, failing_since=since), at, given)
            return _back_off(_replace(state, phase=Phase.LISTING, failing_since=None), at, given)
        case RestartCause.REJECTED | RestartCause.BROKEN:
            return _back_off(_replace(state, phase=Phase.LISTING), at, given)
        case _:
            return _back_off(state, at, given)


def _restart_idle_watch(state: MachineState, at: Moment) -> Result:
    """Replace a dead watch at once: no byte for `watch_idle` seconds. No response has invalidated `last_rv`."""
    return _watch(_replace(state, failing_since=None), at, Restarted(RestartCause.IDLE))


def _watch_again(state: MachineState, _: Woke, at: Moment) -> Result:
    return _watch(state, at)


_Transition: TypeAlias = Callable[[MachineState, Any, Moment], Result]

_TABLE: Mapping[tuple[Phase, type[Any]], _Transition] = {
    (Phase.DISCOVERY, Started): _started,
    (Phase.DISCOVERY, Discovered): _discovered,
    (Phase.DISCOVERY, Failed): _discovery_failed,
    (Phase.DISCOVERY, Woke): _discover_again,
    (Phase.STREAMING, Opened): _stream_opened,
    (Phase.STREAMING, Items): _stream_items,
    (Phase.STREAMING, Bookmark): _stream_bookmark,
    (Phase.STREAMING, Ended): _stream_ended,
    (Phase.STREAMING, Stalled): _stream_stalled,
    (Phase.STREAMING, Failed): _stream_failed,
    (Phase.STREAMING, Woke): _list_again,
    (Phase.LISTING, Items): _list_items,
    (Phase.LISTING, PageEnd): _page_end,
    (Phase.LISTING, Failed): _list_failed,
    (Phase.LISTING, Woke): _list_again,
    (Phase.WATCHING, Opened): _watch_opened,
    (Phase.WATCHING, Items): _watch_items,
    (Phase.WATCHING, Bookmark): _watch_bookmark,
    (Phase.WATCHING, Stalled): _watch_lasted,
    (Phase.WATCHING, Ended): _watch_ended,
    (Phase.WATCHING, Failed): _watch_failed,
    (Phase.WATCHING, Woke): _watch_again,
}
