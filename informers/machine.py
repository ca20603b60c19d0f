"""The list+watch state machine of an informer: no await, no clock, no randomness, no I/O.

`step(state, input, moment)` returns the next state and the outputs: effects, then exactly one command. The transitions stand in
one table, by phase and input; a driver (`konverge.informers.reflector`) performs the outputs and feeds back what happened.

    DISCOVERY --served--> STREAMING --all initial objects--> WATCHING <--+
        ^                     |  fallback                     |  ^  |    | ended, cut off, refused, 429, 5xx, 401, 403:
        |                     v                               |  |  +----+ watch again from the same version
        +------404-------- LISTING --last page----------------|--+
                              ^                               |
                              +---- 410, version too large ---+    (a new full state; through STREAMING where that works)

Promises
- A version is remembered from every event and bookmark, never from the initial part of a streaming list.
- 410 and "too large resource version", as status or as ERROR event, lead to a full state from version "" (`rv_unavailable`); the
  flag falls when that state is complete.
- Nothing but the server's own words ends the life of a version: refused connections, cut streams, 429, 401 and 403 leave it as it is.
- No tight loop: whatever fails twice without success in between waits; a stream that ends within a second without an event has failed.
- A streaming list that stops making progress, or that the server does not know, is replaced by a plain list for this round; where
  the server seems not to honour such lists, the driver is told to remember it.
- 404 to a list or watch asks discovery anew; "not served", or a second 404, empties the store and polls.

Deviations from client-go (tools/cache/reflector.go), each for a reason: plain lists are consistent and paged (see
`InformerSettings.consistent_lists`); after a refused or cut watch the version is kept instead of listing again; a dead stream
found by the read-idle limit is replaced at once; a streaming list has a deadline; its failure is remembered.

The rules of client-go: https://github.com/kubernetes/client-go/blob/master/tools/cache/reflector.go. Streaming lists that never end:
https://github.com/kubernetes/kubernetes/issues/140890. A kind that is no longer served:
https://github.com/kubernetes/kubernetes/issues/79610. The whole of it: docs/reference/runtime.md#list-and-watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from konverge.errors import ApiError, Unreachable
from konverge.informers.backoff import Backoff
from konverge.informers.messages import (
    Advance,
    Apply,
    Begin,
    Bookmark,
    Command,
    Commit,
    Discard,
    Discover,
    Discovered,
    Effect,
    Empty,
    Ended,
    Failed,
    FellBack,
    Forget,
    Healthy,
    Input,
    Items,
    ListPage,
    Moment,
    Opened,
    PageEnd,
    ReadOn,
    Restarted,
    Stage,
    Stalled,
    StartWatch,
    Troubled,
    Wait,
    Woke,
)
from konverge.informers.problem import Cause, refuses_streaming
from konverge.informers.settings import InformerSettings

__all__ = ["Phase", "State", "begin", "step"]

_POLL_JITTER = 0.2


class Phase(Enum):
    """What the informer is doing. While it waits, the phase is the one that it resumes."""

    DISCOVERY = "discovery"
    STREAMING = "streaming list"
    LISTING = "list"
    WATCHING = "watch"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the next step depends on, besides its input and the moment."""

    settings: InformerSettings
    backoff: Backoff
    poll: Backoff
    phase: Phase = Phase.DISCOVERY
    last_rv: str = ""
    """The version to watch from; "" before the first full state."""
    rv_unavailable: bool = False
    """The server cannot serve `last_rv`; the next full state is asked from version ""."""
    suspect: bool = False
    """A 404 sent us to discovery, and no list or watch succeeded since; another 404 then means "not served"."""
    asked: str = ""
    """The version that the first page was asked at."""
    first_page: str = ""
    """The version of the first page, which is where the watch begins."""
    continued: bool = False
    """A page after the first was asked for."""
    paginated: bool = False
    """This server pages lists even where it need not, so go on asking for pages."""
    opened_at: float = 0.0
    """When the present stream was asked for."""
    opened: bool = False
    """The server accepted the present stream."""
    stirred: bool = False
    """The present watch brought an event or bookmark."""
    shaky: bool = False
    """The last watch failed before it brought anything: the next one is called healthy when it brings something or lasts a while."""
    moved: bool = True
    """An event or bookmark came since the last full state."""
    deadline: float | None = None
    """When a streaming list without progress is given up."""
    failing_since: float | None = None
    """Since when watches have been answered with nothing but 5xx."""


Outputs: TypeAlias = tuple[*tuple[Effect, ...], Command]
Result: TypeAlias = tuple[State, Outputs]
_change = msgspec.structs.replace


def begin(settings: InformerSettings) -> State:
    """Return the state before the first step."""
    return State(
        settings=settings,
        backoff=Backoff(start=settings.backoff_start, cap=settings.backoff_cap, reset=settings.backoff_reset),
        poll=Backoff(
            start=settings.poll_start, cap=settings.poll_cap, jitter=_POLL_JITTER, reset=settings.backoff_reset
        ),
    )


def step(state: State, given: Input, at: Moment) -> Result:
    """Take one step. Raises LookupError for an input that cannot come in this phase: a defect of the driver."""
    transition = _TABLE.get((state.phase, type(given)))
    if transition is None:
        raise LookupError(f"{type(given).__name__} cannot come in phase {state.phase.name}")
    return transition(state, given, at)


# Obtaining a full state


def _round(state: State, at: Moment, *effects: Effect) -> Result:
    """Begin to obtain a full state."""
    if not state.settings.watch_list or at.plain:
        return _list(state, *effects)
    deadline = at.now + state.settings.progress
    version = "" if state.rv_unavailable else state.last_rv
    after = _change(state, phase=Phase.STREAMING, opened_at=at.now, opened=False, stirred=False, deadline=deadline)
    return after, (*effects, StartWatch(version, True, _timeout(state, at), deadline))


def _list(state: State, *effects: Effect) -> Result:
    """Ask for the first page of a plain list."""
    settings = state.settings
    if settings.consistent_lists or state.rv_unavailable:
        version = ""
    else:
        version = state.last_rv or "0"
    # Only these are paged by the server; at another version a limit would bypass its watch cache.
    limit = settings.page_size if version in {"", "0"} or state.paginated else 0
    after = _change(
        state, phase=Phase.LISTING, asked=version, first_page="", continued=False, opened=False, deadline=None
    )
    return after, (*effects, ListPage(version, limit))


def _watch(state: State, at: Moment, *effects: Effect) -> Result:
    """Open a watch from where the store stands."""
    after = _change(state, phase=Phase.WATCHING, opened_at=at.now, opened=False, stirred=False, deadline=None)
    return after, (*effects, StartWatch(state.last_rv, False, _timeout(state, at)))


def _timeout(state: State, at: Moment) -> int:
    low, high = state.settings.watch_timeout
    return low + int(at.roll * (high - low))


def _committed(state: State, version: str) -> State:
    return _change(
        state,
        last_rv=version,
        rv_unavailable=False,
        suspect=False,
        moved=False,
        deadline=None,
        failing_since=None,
    )


# Failing


def _rest(state: State, at: Moment, given: Failed, *effects: Effect) -> Result:
    """Wait, and then go on with the phase that the state is in."""
    backoff, seconds = state.backoff.next(at.now, at.roll)
    if isinstance(given.error, ApiError) and given.error.retry_after:
        seconds = max(seconds, given.error.retry_after)
    told: tuple[Effect, ...] = (*effects, Restarted(given.cause), Troubled(given.cause, given.error))
    return _change(state, backoff=backoff), (*told, Wait(seconds))


def _honest(state: State, given: Failed) -> Failed:
    """A stream that was open cannot have been refused: it was cut."""
    return Failed(given.error, Cause.UNREACHABLE) if state.opened and given.cause == Cause.REFUSED else given


def _not_found(state: State, at: Moment, given: Failed) -> Result:
    """404 to a list or watch: the kind is gone, or discovery's answer was old."""
    if state.suspect:
        return _not_served(state, at, Failed(given.error, Cause.NOT_SERVED))
    after = _change(state, phase=Phase.DISCOVERY, suspect=True, rv_unavailable=True)
    return after, (Discard(), Restarted(given.cause), Forget(), Discover())


def _not_served(state: State, at: Moment, given: Failed) -> Result:
    """Nothing of this kind can exist: its objects are gone, and discovery is polled."""
    poll, seconds = state.poll.next(at.now, at.roll)
    after = _change(
        begin(state.settings), backoff=state.backoff, poll=poll, phase=Phase.DISCOVERY, paginated=state.paginated
    )
    return after, (Discard(), Empty(), Troubled(Cause.NOT_SERVED, given.error), Forget(), Wait(seconds))


def _lost_version(state: State, at: Moment, given: Failed, *, tried: str) -> Result:
    """410 or a version from the future, while obtaining a full state at version `tried`."""
    after = _change(state, rv_unavailable=True)
    if tried:
        return _round(after, at, Discard(), Restarted(given.cause))
    return _rest(after, at, given, Discard())


# Discovery


def _began(state: State, _: Begin, __: Moment) -> Result:
    return state, (Discover(),)


def _discovered(state: State, _: Discovered, at: Moment) -> Result:
    return _round(state, at)


def _undiscovered(state: State, given: Failed, at: Moment) -> Result:
    if given.cause in {Cause.NOT_SERVED, Cause.NOT_FOUND}:
        return _not_served(state, at, given)
    return _rest(state, at, given)


def _look_again(state: State, _: Woke, __: Moment) -> Result:
    return state, (Discover(),)


# Streaming list


def _stream_opened(state: State, _: Opened, __: Moment) -> Result:
    return _change(state, opened=True), (ReadOn(state.deadline),)


def _stream_items(state: State, given: Items, at: Moment) -> Result:
    # Only additions are progress: a server that ignores the parameter sends changes for ever and never the end.
    deadline = at.now + state.settings.progress if given.added else state.deadline
    return _change(state, deadline=deadline), (Stage(given.deltas), ReadOn(deadline))


def _stream_bookmark(state: State, given: Bookmark, at: Moment) -> Result:
    if not given.ends_initial:
        return state, (ReadOn(state.deadline),)
    after = _change(_committed(state, given.version), phase=Phase.WATCHING, stirred=True)
    told, read_on = _judged(state, at)
    effects: tuple[Effect, ...] = (Commit(given.version), *told)
    return after, (*effects, read_on)


def _stream_ended(state: State, _: Ended, at: Moment) -> Result:
    # One that lived as long as this and ended without the closing bookmark was an ordinary watch all along.
    ordinary = at.now - state.opened_at >= state.settings.progress
    return _list(state, Discard(), FellBack(Cause.ENDED_EARLY, remember=ordinary))


def _stream_stalled(state: State, _: Stalled, __: Moment) -> Result:
    # A stream that never opened tells of the network, not of what the server knows.
    return _list(state, Discard(), FellBack(Cause.NO_PROGRESS, remember=state.opened))


def _stream_failed(state: State, given: Failed, at: Moment) -> Result:
    given = _honest(state, given)
    match given.cause:
        case Cause.EXPIRED | Cause.VERSION_TOO_LARGE:
            return _lost_version(state, at, given, tried="" if state.rv_unavailable else state.last_rv)
        case Cause.TOO_MANY_REQUESTS | Cause.REFUSED | Cause.UNAUTHORIZED:
            return _rest(state, at, given, Discard())  # a plain list would fare no better
        case Cause.NOT_FOUND | Cause.NOT_SERVED:
            return _not_found(state, at, given)
        case _:
            # 403 included: who may list and not watch gets the state at least, and the watch then names the rule.
            unknown = refuses_streaming(given.error)
            cause = Cause.UNSUPPORTED if unknown else given.cause
            return _list(state, Discard(), FellBack(cause, remember=unknown))


# Plain list


def _list_items(state: State, given: Items, _: Moment) -> Result:
    return state, (Stage(given.deltas), ReadOn())


def _page_end(state: State, given: PageEnd, at: Moment) -> Result:
    version = state.first_page or given.version
    if given.continue_:
        after = _change(state, first_page=version, continued=True, paginated=True)
        return after, (ListPage("", state.settings.page_size, given.continue_),)
    return _watch(_committed(state, version), at, Commit(version))


def _list_failed(state: State, given: Failed, at: Moment) -> Result:
    match given.cause:
        case Cause.EXPIRED if state.continued:
            # The rest of the pages is no longer remembered; one answer that holds everything needs no memory.
            after = _change(state, asked="", first_page="", continued=False)
            return after, (Discard(), Restarted(given.cause), ListPage("", 0))
        case Cause.EXPIRED | Cause.VERSION_TOO_LARGE:
            return _lost_version(state, at, given, tried=state.asked)
        case Cause.NOT_FOUND | Cause.NOT_SERVED:
            return _not_found(state, at, given)
        case _:
            return _rest(state, at, given, Discard())


def _again(state: State, _: Woke, at: Moment) -> Result:
    return _round(state, at)


# Watch


def _watch_opened(state: State, _: Opened, at: Moment) -> Result:
    told, read_on = _judged(state, at)
    return _change(state, opened_at=at.now, opened=True, suspect=False), (*told, read_on)


def _watch_items(state: State, given: Items, _: Moment) -> Result:
    after = _change(state, last_rv=given.version, stirred=True, moved=True, shaky=False, failing_since=None)
    effects: tuple[Effect, ...] = (Apply(given.deltas, given.version), *_healthy(state.shaky))
    return after, (*effects, ReadOn())


def _watch_bookmark(state: State, given: Bookmark, _: Moment) -> Result:
    after = _change(state, last_rv=given.version, stirred=True, moved=True, shaky=False, failing_since=None)
    effects: tuple[Effect, ...] = (Advance(given.version), *_healthy(state.shaky))
    return after, (*effects, ReadOn())


def _healthy(say: bool) -> tuple[Effect, ...]:
    return (Healthy(),) if say else ()


def _judged(state: State, at: Moment) -> tuple[tuple[Effect, ...], ReadOn]:
    """Call an open watch healthy at once, or, after one that failed early, when it lasted."""
    return ((), ReadOn(at.now + state.settings.early_end)) if state.shaky else ((Healthy(),), ReadOn())


def _watch_lasted(state: State, _: Stalled, __: Moment) -> Result:
    return _change(state, shaky=False), (Healthy(), ReadOn())


def _watch_ended(state: State, _: Ended, at: Moment) -> Result:
    if not state.stirred and at.now - state.opened_at < state.settings.early_end:
        error = Unreachable("the server ended the watch at once, without an event")
        return _rest(_change(state, shaky=True), at, Failed(error, Cause.ENDED_EARLY))
    return _watch(_change(state, shaky=False, failing_since=None), at, Restarted(Cause.ENDED))


def _watch_failed(state: State, given: Failed, at: Moment) -> Result:
    given = _honest(state, given)
    if state.opened and not (state.stirred and state.moved) and given.cause != Cause.IDLE:
        state = _change(state, shaky=True)
    match given.cause:
        case Cause.EXPIRED | Cause.VERSION_TOO_LARGE:
            after = _change(state, rv_unavailable=True, failing_since=None)
            if state.moved:
                return _round(after, at, Restarted(given.cause))
            # The version came fresh from a full state: a server that refuses that must not be listed in a tight loop.
            return _rest(_change(after, phase=Phase.LISTING), at, given)
        case Cause.IDLE:
            return _watch(_change(state, failing_since=None), at, Restarted(given.cause))
        case Cause.NOT_FOUND | Cause.NOT_SERVED:
            return _not_found(state, at, given)
        case Cause.SERVER_FAILURE:
            since = at.now if state.failing_since is None else state.failing_since
            if at.now - since <= state.settings.failing_watch:
                return _rest(_change(state, failing_since=since), at, given)
            return _rest(_change(state, phase=Phase.LISTING, failing_since=None), at, given)
        case Cause.REJECTED | Cause.BROKEN:
            return _rest(_change(state, phase=Phase.LISTING), at, given)
        case _:
            return _rest(state, at, given)


def _watch_again(state: State, _: Woke, at: Moment) -> Result:
    return _watch(state, at)


_Transition: TypeAlias = Callable[[State, Any, Moment], Result]

_TABLE: Mapping[tuple[Phase, type[Any]], _Transition] = {
    (Phase.DISCOVERY, Begin): _began,
    (Phase.DISCOVERY, Discovered): _discovered,
    (Phase.DISCOVERY, Failed): _undiscovered,
    (Phase.DISCOVERY, Woke): _look_again,
    (Phase.STREAMING, Opened): _stream_opened,
    (Phase.STREAMING, Items): _stream_items,
    (Phase.STREAMING, Bookmark): _stream_bookmark,
    (Phase.STREAMING, Ended): _stream_ended,
    (Phase.STREAMING, Stalled): _stream_stalled,
    (Phase.STREAMING, Failed): _stream_failed,
    (Phase.STREAMING, Woke): _again,
    (Phase.LISTING, Items): _list_items,
    (Phase.LISTING, PageEnd): _page_end,
    (Phase.LISTING, Failed): _list_failed,
    (Phase.LISTING, Woke): _again,
    (Phase.WATCHING, Opened): _watch_opened,
    (Phase.WATCHING, Items): _watch_items,
    (Phase.WATCHING, Bookmark): _watch_bookmark,
    (Phase.WATCHING, Stalled): _watch_lasted,
    (Phase.WATCHING, Ended): _watch_ended,
    (Phase.WATCHING, Failed): _watch_failed,
    (Phase.WATCHING, Woke): _watch_again,
}
