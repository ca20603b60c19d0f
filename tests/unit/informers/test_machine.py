"""Every transition of list and watch as a row: state, input, outputs, and fields of the next state."""

from typing import Any, TypeAlias

import msgspec
import pytest

from konverge.client import WatchIdle
from konverge.errors import (
    ApiError,
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    KonvergeError,
    NotFound,
    NotServed,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from konverge.informers.machine import MachineState, Phase, initial_state, step
from konverge.informers.messages import (
    Advance,
    Bookmark,
    Change,
    Clear,
    Commit,
    Discard,
    Discover,
    Discovered,
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
from konverge.informers.problem import RestartCause, cause_of
from konverge.informers.settings import InformerSettings
from konverge.informers.store import Cached
from konverge.objects import Metadata

NOW = Moment(now=1000.0)
PLAIN = Moment(now=1000.0, watch_list_denied=True)
SETTINGS = InformerSettings()
CHANGE = Change("web", "a", None, Cached(Metadata(name="a", namespace="web", resource_version="8"), b"{}"))
ITEMS = Items([CHANGE], "8")
STAGED = Stage([CHANGE])

EXPIRED = Expired("too old resource version", status=410)
TOO_LARGE = ServerFailure("Timeout: Too large resource version: 9, current: 5", status=504)
TOO_LARGE_CAUSE = ServerFailure("Timeout", status=504, causes=[("", "Too large resource version")])
FORBIDDEN = Forbidden("secrets is forbidden", status=403)
BUSY = TooManyRequests("slow down", status=429)
REFUSED = Unreachable("connection refused")
CUT = Unreachable("connection reset", maybe_done=True)
IDLE = WatchIdle("no byte for 70 s")
FAILURE = ServerFailure("etcd is away", status=500)
MISSING = NotFound("404", status=404)
UNSERVED = NotServed("example.com/v1", "Backup")
UNKNOWN_PARAMETER = Invalid("sendInitialEvents is forbidden", status=422)


def failed(error: Exception) -> Failed:
    return Failed(error, cause_of(error))


def trouble(error: Exception) -> tuple[Any, ...]:
    return Restarted(cause_of(error)), Unhealthy(cause_of(error), error)


def at(phase: Phase, **fields: Any) -> MachineState:
    defaults: dict[str, Any] = {}
    if phase is Phase.WATCHING:
        defaults = {"last_rv": "7", "opened": True, "opened_at": 100.0}
    if phase is Phase.STREAMING:
        defaults = {"opened": True, "opened_at": 990.0, "deadline": 1020.0}
    return msgspec.structs.replace(initial_state(SETTINGS), phase=phase, **{**defaults, **fields})


def stream(version: str = "") -> StartWatch:
    return StartWatch(version, True, 300, NOW.now + 30)


def watch(version: str) -> StartWatch:
    return StartWatch(version, False, 300)


Row: TypeAlias = tuple[str, MachineState, Input, tuple[Any, ...] | None, dict[str, Any]]
"""Name, state, input, outputs (None: not compared), and fields of the next state."""

FIRST_WAIT = Sleep(0.8)
POLL = Sleep(1.0)

DISCOVERY: list[Row] = [
    ("a start asks discovery", at(Phase.DISCOVERY), Started(), (Discover(),), {}),
    (
        "a kind that is served is listed as a stream",
        at(Phase.DISCOVERY),
        Discovered(),
        (stream(),),
        {"phase": Phase.STREAMING},
    ),
    (
        "a kind that is not served is polled",
        at(Phase.DISCOVERY),
        failed(UNSERVED),
        (Discard(), Clear(), Unhealthy(RestartCause.NOT_SERVED, UNSERVED), POLL),
        {"phase": Phase.DISCOVERY},
    ),
    (
        "discovery that is unreachable is tried again",
        at(Phase.DISCOVERY),
        failed(REFUSED),
        (*trouble(REFUSED), FIRST_WAIT),
        {"phase": Phase.DISCOVERY},
    ),
    ("after a wait discovery is asked again", at(Phase.DISCOVERY), Woke(), (Discover(),), {}),
]

STREAMING: list[Row] = [
    (
        "the deadline goes on when the stream opens",
        at(Phase.STREAMING, opened=False),
        Opened(),
        (ReadOn(1020.0),),
        {"opened": True},
    ),
    (
        "initial objects are put aside and move the deadline, not the version",
        at(Phase.STREAMING),
        ITEMS,
        (STAGED, ReadOn(1030.0)),
        {"last_rv": ""},
    ),
    (
        "changes are put aside too, but are no progress",
        at(Phase.STREAMING),
        Items([CHANGE], "8", added=False),
        (STAGED, ReadOn(1020.0)),
        {"deadline": 1020.0},
    ),
    (
        "a bookmark without the mark of the end changes nothing",
        at(Phase.STREAMING),
        Bookmark("9"),
        (ReadOn(1020.0),),
        {"last_rv": "", "deadline": 1020.0},
    ),
    (
        "the closing bookmark replaces the content, and the same stream goes on as the watch",
        at(Phase.STREAMING, rv_unavailable=True, discovery_stale=True),
        Bookmark("9", ends_initial=True),
        (Commit("9"), Healthy(), ReadOn()),
        {"phase": Phase.WATCHING, "last_rv": "9", "rv_unavailable": False, "discovery_stale": False, "advanced": False},
    ),
    (
        "a stream that ends before its closing bookmark is replaced by a plain list",
        at(Phase.STREAMING),
        Ended(),
        (Discard(), FellBack(RestartCause.ENDED_EARLY, deny=False), ListPage("", 500)),
        {"phase": Phase.LISTING},
    ),
    (
        "one that ended after a long time was an ordinary watch, which is remembered",
        at(Phase.STREAMING, opened_at=100.0),
        Ended(),
        (Discard(), FellBack(RestartCause.ENDED_EARLY, deny=True), ListPage("", 500)),
        {"phase": Phase.LISTING},
    ),
    (
        "a stream without progress is replaced by a plain list, which is remembered",
        at(Phase.STREAMING),
        Stalled(),
        (Discard(), FellBack(RestartCause.NO_PROGRESS, deny=True), ListPage("", 500)),
        {"phase": Phase.LISTING},
    ),
    (
        "one that never opened is replaced too, but says nothing of the server",
        at(Phase.STREAMING, opened=False),
        Stalled(),
        (Discard(), FellBack(RestartCause.NO_PROGRESS, deny=False), ListPage("", 500)),
        {"phase": Phase.LISTING},
    ),
    (
        "a server that does not know the parameter is remembered",
        at(Phase.STREAMING, opened=False),
        failed(UNKNOWN_PARAMETER),
        (Discard(), FellBack(RestartCause.UNSUPPORTED, deny=True), ListPage("", 500)),
        {},
    ),
    (
        "so is one that answers 400",
        at(Phase.STREAMING, opened=False),
        failed(BadRequest("unknown query parameter", status=400)),
        (Discard(), FellBack(RestartCause.UNSUPPORTED, deny=True), ListPage("", 500)),
        {},
    ),
    (
        "a cut stream is replaced by a plain list for this round only",
        at(Phase.STREAMING),
        failed(CUT),
        (Discard(), FellBack(RestartCause.UNREACHABLE, deny=False), ListPage("", 500)),
        {},
    ),
    (
        "an open stream cannot have been refused",
        at(Phase.STREAMING),
        failed(REFUSED),
        (Discard(), FellBack(RestartCause.UNREACHABLE, deny=False), ListPage("", 500)),
        {},
    ),
    (
        "a refused connection is tried again as a stream",
        at(Phase.STREAMING, opened=False),
        failed(REFUSED),
        (Discard(), *trouble(REFUSED), FIRST_WAIT),
        {"phase": Phase.STREAMING},
    ),
    (
        "429 waits and streams again",
        at(Phase.STREAMING, opened=False),
        failed(BUSY),
        (Discard(), *trouble(BUSY), FIRST_WAIT),
        {"phase": Phase.STREAMING},
    ),
    (
        "the server's own delay counts where it is longer",
        at(Phase.STREAMING, opened=False),
        failed(TooManyRequests("slow down", status=429, retry_after=7.0)),
        None,
        {"phase": Phase.STREAMING},
    ),
    (
        "403 to the stream leaves the plain list to be tried",
        at(Phase.STREAMING, opened=False),
        failed(FORBIDDEN),
        (Discard(), FellBack(RestartCause.FORBIDDEN, deny=False), ListPage("", 500)),
        {"phase": Phase.LISTING},
    ),
    (
        "5xx to the stream leaves the plain list to be tried",
        at(Phase.STREAMING, opened=False),
        failed(FAILURE),
        (Discard(), FellBack(RestartCause.SERVER_FAILURE, deny=False), ListPage("", 500)),
        {},
    ),
    (
        "410 to the stream asks from the latest state at once",
        at(Phase.STREAMING, last_rv="7"),
        failed(EXPIRED),
        (Discard(), Restarted(RestartCause.EXPIRED), stream()),
        {"rv_unavailable": True},
    ),
    (
        "410 again waits",
        at(Phase.STREAMING, last_rv="7", rv_unavailable=True),
        failed(EXPIRED),
        (Discard(), *trouble(EXPIRED), FIRST_WAIT),
        {"rv_unavailable": True, "phase": Phase.STREAMING},
    ),
    (
        "a version from the future asks from the latest state at once",
        at(Phase.STREAMING, last_rv="7"),
        failed(TOO_LARGE),
        (Discard(), Restarted(RestartCause.VERSION_TOO_LARGE), stream()),
        {"rv_unavailable": True},
    ),
    (
        "404 asks discovery anew",
        at(Phase.STREAMING, last_rv="7"),
        failed(MISSING),
        (Discard(), Restarted(RestartCause.NOT_FOUND), ForgetDiscovery(), Discover()),
        {"phase": Phase.DISCOVERY, "discovery_stale": True, "rv_unavailable": True},
    ),
    (
        "404 again means that the kind is not served, whatever discovery says",
        at(Phase.STREAMING, discovery_stale=True),
        failed(MISSING),
        (Discard(), Clear(), Unhealthy(RestartCause.NOT_SERVED, MISSING), ForgetDiscovery(), POLL),
        {"phase": Phase.DISCOVERY, "discovery_stale": False, "last_rv": ""},
    ),
    ("after a wait a full state is asked for again", at(Phase.STREAMING, last_rv="7"), Woke(), (stream("7"),), {}),
]

LISTING: list[Row] = [
    ("objects of a page are put aside", at(Phase.LISTING), ITEMS, (STAGED, ReadOn()), {"last_rv": ""}),
    (
        "a page that is not the last asks for the next",
        at(Phase.LISTING),
        PageEnd("7", "token"),
        (ListPage("", 500, "token"),),
        {"first_page": "7", "continued": True},
    ),
    (
        "the last page completes the state at the version of the first, and the watch begins there",
        at(Phase.LISTING, first_page="7", continued=True, rv_unavailable=True),
        PageEnd("8"),
        (Commit("7"), watch("7")),
        {"phase": Phase.WATCHING, "last_rv": "7", "rv_unavailable": False, "advanced": False},
    ),
    (
        "410 to a page falls back to one list of everything",
        at(Phase.LISTING, first_page="7", continued=True),
        failed(EXPIRED),
        (Discard(), Restarted(RestartCause.EXPIRED), ListPage("", 0)),
        {"continued": False, "first_page": ""},
    ),
    (
        "410 to that one too waits for a new round",
        at(Phase.LISTING),
        failed(EXPIRED),
        (Discard(), *trouble(EXPIRED), FIRST_WAIT),
        {"rv_unavailable": True, "phase": Phase.LISTING},
    ),
    (
        "410 to a first page at a version lists from the latest state at once",
        at(Phase.LISTING, list_rv="7", last_rv="7"),
        failed(EXPIRED),
        (Discard(), Restarted(RestartCause.EXPIRED), stream()),
        {"rv_unavailable": True},
    ),
    (
        "a version ahead of the server, named in a cause of the status",
        at(Phase.LISTING, list_rv="7", last_rv="7"),
        failed(TOO_LARGE_CAUSE),
        (Discard(), Restarted(RestartCause.VERSION_TOO_LARGE), stream()),
        {"rv_unavailable": True},
    ),
    (
        "403 waits and tries again, so it mends itself",
        at(Phase.LISTING),
        failed(FORBIDDEN),
        (Discard(), *trouble(FORBIDDEN), FIRST_WAIT),
        {"phase": Phase.LISTING},
    ),
    (
        "404 asks discovery anew",
        at(Phase.LISTING),
        failed(MISSING),
        (Discard(), Restarted(RestartCause.NOT_FOUND), ForgetDiscovery(), Discover()),
        {"discovery_stale": True},
    ),
    (
        "5xx waits",
        at(Phase.LISTING),
        failed(FAILURE),
        (Discard(), *trouble(FAILURE), FIRST_WAIT),
        {"phase": Phase.LISTING},
    ),
    ("after a wait a new round begins", at(Phase.LISTING), Woke(), (stream(),), {"phase": Phase.STREAMING}),
]

WATCHING: list[Row] = [
    ("an open watch is healthy", at(Phase.WATCHING, opened=False, discovery_stale=True), Opened(), (Healthy(), ReadOn()), {"opened": True, "discovery_stale": False}),
    ("events change the store and move the version", at(Phase.WATCHING, failing_since=1.0), ITEMS, (ITEMS, ReadOn()), {"last_rv": "8", "received_event": True, "advanced": True, "failing_since": None}),
    ("a bookmark moves the version and changes no object", at(Phase.WATCHING), Bookmark("9"), (Advance("9"), ReadOn()), {"last_rv": "9", "received_event": True}),
    ("an older bookmark moves the version back, as the stream says", at(Phase.WATCHING, last_rv="10"), Bookmark("9"), (Advance("9"), ReadOn()), {"last_rv": "9"}),
    ("an older event is applied, as the stream says", at(Phase.WATCHING, last_rv="10"), ITEMS, (ITEMS, ReadOn()), {"last_rv": "8"}),
    ("a late closing bookmark is a bookmark", at(Phase.WATCHING), Bookmark("9", ends_initial=True), (Advance("9"), ReadOn()), {"last_rv": "9"}),
    ("a clean end is followed by a watch from the same version at once", at(Phase.WATCHING), Ended(), (Restarted(RestartCause.ENDED), watch("7")), {"phase": Phase.WATCHING}),
    (
        "an end within a second without an event waits",
        at(Phase.WATCHING, opened_at=999.5),
        Ended(),
        None,
        {"phase": Phase.WATCHING, "last_rv": "7", "failed_early": True},
    ),
    ("an end within a second after an event does not", at(Phase.WATCHING, opened_at=999.5, received_event=True), Ended(), (Restarted(RestartCause.ENDED), watch("7")), {}),
    ("410 lists anew from the latest state", at(Phase.WATCHING), failed(EXPIRED), (Restarted(RestartCause.EXPIRED), stream()), {"rv_unavailable": True}),
    (
        "410 to the version that was listed just now waits",
        at(Phase.WATCHING, advanced=False),
        failed(EXPIRED),
        (*trouble(EXPIRED), FIRST_WAIT),
        {"rv_unavailable": True, "phase": Phase.LISTING},
    ),
    ("a version ahead of the server leads to a relist", at(Phase.WATCHING), failed(TOO_LARGE), (Restarted(RestartCause.VERSION_TOO_LARGE), stream()), {"rv_unavailable": True}),
    ("429 waits at the same version", at(Phase.WATCHING), failed(BUSY), (*trouble(BUSY), FIRST_WAIT), {"phase": Phase.WATCHING, "last_rv": "7"}),
    ("a refused connection waits at the same version", at(Phase.WATCHING, opened=False), failed(REFUSED), (*trouble(REFUSED), FIRST_WAIT), {"phase": Phase.WATCHING, "last_rv": "7"}),
    ("a cut stream waits at the same version", at(Phase.WATCHING), failed(CUT), (*trouble(CUT), FIRST_WAIT), {"phase": Phase.WATCHING, "last_rv": "7"}),
    ("a silent stream is replaced at once", at(Phase.WATCHING), failed(IDLE), (Restarted(RestartCause.IDLE), watch("7")), {"last_rv": "7"}),
    ("5xx waits at the same version", at(Phase.WATCHING), failed(FAILURE), (*trouble(FAILURE), FIRST_WAIT), {"phase": Phase.WATCHING, "failing_since": 1000.0}),
    (
        "5xx for a minute lists anew",
        at(Phase.WATCHING, failing_since=939.0),
        failed(FAILURE),
        (*trouble(FAILURE), FIRST_WAIT),
        {"phase": Phase.LISTING, "failing_since": None},
    ),
    ("403 waits at the same version", at(Phase.WATCHING), failed(FORBIDDEN), (*trouble(FORBIDDEN), FIRST_WAIT), {"phase": Phase.WATCHING, "last_rv": "7"}),
    ("401 waits at the same version", at(Phase.WATCHING), failed(Unauthorized("who?", status=401)), None, {"phase": Phase.WATCHING, "last_rv": "7"}),
    ("404 asks discovery anew", at(Phase.WATCHING), failed(MISSING), (Discard(), Restarted(RestartCause.NOT_FOUND), ForgetDiscovery(), Discover()), {"phase": Phase.DISCOVERY, "discovery_stale": True}),
    ("any other refusal lists anew after a wait", at(Phase.WATCHING), failed(ApiError("teapot", status=418)), None, {"phase": Phase.LISTING}),
    ("after a wait the watch continues at its version", at(Phase.WATCHING), Woke(), (watch("7"),), {"phase": Phase.WATCHING}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "given", "outputs", "after"),
    [
        pytest.param(state, given, outputs, after, id=f"{state.phase.value}: {name}")
        for name, state, given, outputs, after in (*DISCOVERY, *STREAMING, *LISTING, *WATCHING)
    ],
)
def test_every_input_leads_to_its_outputs_and_state(
    state: MachineState, given: Input, outputs: tuple[Any, ...] | None, after: dict[str, Any]
) -> None:
    got, put_out = step(state, given, NOW)

    if outputs is not None:
        assert put_out == outputs
    assert {name: getattr(got, name) for name in after} == after
    *_, command = put_out
    assert isinstance(command, Discover | ListPage | StartWatch | ReadOn | Sleep)
    if not isinstance(command, Sleep):
        assert got.backoff == state.backoff


def test_an_input_that_is_impossible_in_the_phase_raises() -> None:
    with pytest.raises(LookupError, match="PageEnd cannot come in phase WATCHING"):
        step(at(Phase.WATCHING), PageEnd("7"), NOW)


def test_retry_after_is_obeyed_if_it_is_longer_than_the_backoff() -> None:
    error = TooManyRequests("slow down", status=429, retry_after=7.0)
    assert step(at(Phase.WATCHING), failed(error), NOW)[1][-1] == Sleep(7.0)
    error = TooManyRequests("slow down", status=429, retry_after=0.1)
    assert step(at(Phase.WATCHING), failed(error), NOW)[1][-1] == FIRST_WAIT


def test_a_resource_on_the_watchlist_denylist_is_listed_in_pages() -> None:
    assert step(at(Phase.DISCOVERY), Discovered(), PLAIN)[1] == (ListPage("", 500),)


def test_streaming_can_be_switched_off() -> None:
    state = initial_state(InformerSettings(watch_list=False))
    assert step(state, Discovered(), NOW)[1] == (ListPage("", 500),)


@pytest.mark.parametrize(
    ("state", "page"),
    [
        pytest.param({}, ListPage("0", 500), id="first from any state; the limit is for servers without a cache"),
        pytest.param({"last_rv": "7"}, ListPage("7", 0), id="later from a state not older than the last, whole"),
        pytest.param(
            {"last_rv": "7", "paginated": True}, ListPage("7", 500), id="in pages where the server pages anyway"
        ),
        pytest.param({"last_rv": "7", "rv_unavailable": True}, ListPage("", 500), id="from the latest after 410"),
    ],
)
def test_inconsistent_lists_use_the_versions_and_limits_of_client_go(state: dict[str, Any], page: ListPage) -> None:
    settings = InformerSettings(watch_list=False, consistent_lists=False)
    here = msgspec.structs.replace(initial_state(settings), phase=Phase.LISTING, **state)
    assert step(here, Woke(), NOW)[1] == (page,)


def test_watch_timeouts_are_spread() -> None:
    low = step(at(Phase.WATCHING), Woke(), Moment(0.0, roll=0.0))[1][-1]
    high = step(at(Phase.WATCHING), Woke(), Moment(0.0, roll=0.999))[1][-1]
    assert isinstance(low, StartWatch)
    assert isinstance(high, StartWatch)
    assert (low.timeout_seconds, high.timeout_seconds) == (300, 599)


def test_waits_grow_and_begin_anew_after_two_quiet_minutes() -> None:
    state, waits = at(Phase.WATCHING), []
    for now in (0, 1, 3, 7, 15, 30, 60, 120, 180, 301):
        state, outputs = step(state, failed(CUT), Moment(float(now)))
        command = outputs[-1]
        assert isinstance(command, Sleep)
        waits.append(command.seconds)
    assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0, 0.8]


@pytest.mark.parametrize("roll", [0.0, 1.0])
def test_informers_that_poll_for_a_group_stay_together_within_30_seconds(roll: float) -> None:
    state, waits, now = at(Phase.DISCOVERY), [], 0.0
    for _ in range(8):
        state, outputs = step(state, failed(UNSERVED), Moment(now, roll=roll))
        command = outputs[-1]
        assert isinstance(command, Sleep)
        waits.append(command.seconds)
        now += command.seconds
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


@pytest.mark.parametrize(
    "error", [UNSERVED, MISSING], ids=["discovery says so", "the kind declares its plural, so discovery was not asked"]
)
def test_a_kind_that_is_served_again_is_listed_from_the_latest_state(error: KonvergeError) -> None:
    state = at(Phase.DISCOVERY, discovery_stale=True, last_rv="7")
    if error is MISSING:
        state, _ = step(state, Discovered(), NOW)
    state, outputs = step(state, failed(error), NOW)
    assert Clear() in outputs
    state, outputs = step(state, Woke(), NOW)
    assert outputs == (Discover(),)
    state, outputs = step(state, Discovered(), NOW)
    assert outputs == (stream(),), "from the latest state: old versions are meaningless now"


def test_the_backoff_is_kept_if_a_kind_is_briefly_not_served() -> None:
    state, _ = step(at(Phase.WATCHING), failed(CUT), NOW)
    state, _ = step(msgspec.structs.replace(state, discovery_stale=True), failed(MISSING), NOW)
    assert state.backoff.failures == 1


@pytest.mark.parametrize("bring", [ITEMS, Bookmark("9"), Stalled()], ids=["an event", "a bookmark", "a second"])
def test_watch_after_an_empty_watch_is_healthy_on_event_bookmark_or_second(bring: Input) -> None:
    state, outputs = step(at(Phase.WATCHING, opened_at=999.9), Ended(), NOW)
    restarted, unhealthy, wait = tuple[Any, ...](outputs)
    assert restarted == Restarted(RestartCause.ENDED_EARLY)
    assert isinstance(unhealthy, Unhealthy)
    assert wait == FIRST_WAIT
    state, _ = step(state, Woke(), NOW)
    state, outputs = step(state, Opened(), NOW)
    assert outputs == (ReadOn(1001.0),)
    state, outputs = step(state, bring, NOW)
    assert list(outputs)[-2:] == [Healthy(), ReadOn()]
    assert not state.failed_early
    assert Healthy() not in step(state, ITEMS, NOW)[1], "reported once"


def test_streaming_list_that_breaks_after_each_bookmark_is_not_healthy() -> None:
    state, outputs = step(at(Phase.STREAMING), Bookmark("9", ends_initial=True), NOW)
    assert Healthy() in outputs
    state, outputs = step(state, failed(EXPIRED), NOW)
    assert outputs == (*trouble(EXPIRED), FIRST_WAIT)
    state, _ = step(state, Woke(), NOW)
    state, outputs = step(state, Bookmark("9", ends_initial=True), NOW)
    assert outputs == (Commit("9"), ReadOn(1001.0))


def test_a_watch_restarted_for_silence_is_healthy_as_soon_as_it_opens() -> None:
    state, _ = step(at(Phase.WATCHING), failed(IDLE), NOW)
    assert step(state, Opened(), NOW)[1] == (Healthy(), ReadOn())
