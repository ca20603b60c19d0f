"""The recorder's task: the requests to the client, their times, and the handling of errors."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal

import pytest

from konverge import errors
from konverge.kinds import Kind, kind
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime.events.core import DropReason
from konverge.runtime.events.recorder import EventRecorder, EventSettings, Regarding

NIGHTLY = Regarding(kind("batch/v1", "CronJob"), "web", "nightly", "uid-1", "7")

Behaviour = Callable[[int], Exception | None]


def always(error: Exception) -> Behaviour:
    return lambda _number: error


class Client:
    """Keeps the sent requests; `fails` gives the error of the n-th request, or None."""

    def __init__(self, fails: Behaviour = lambda _number: None, seconds: float = 0.01) -> None:
        self.fails = fails
        self.seconds = seconds
        self.times: list[float] = []
        self.created: list[Object] = []
        self.patched: list[tuple[str, str, Mapping[str, Any]]] = []

    async def _answer(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        error = self.fails(len(self.times) - 1)
        if error is not None:
            raise error

    async def create(self, obj: Object, /) -> Object:
        await self._answer()
        self.created.append(obj)
        return obj

    async def patch(
        self, kind: Kind[Object], name: str, namespace: str, /, *, patch: Mapping[str, Any], style: Literal["merge"]
    ) -> Object:
        await self._answer()
        assert (kind.api_version, kind.kind, style) == ("events.k8s.io/v1", "Event", "merge")
        self.patched.append((namespace, name, patch))
        return Object({})


def recorder(client: Client, metrics: Metrics, **numbers: Any) -> EventRecorder:
    return EventRecorder(
        client,
        controller="backup-operator",
        instance="pod-7",
        metrics=metrics,
        settings=EventSettings(**numbers),
        random=Random(1),
    )


def dropped(metrics: Metrics) -> dict[str, int]:
    return {
        sample.labels["cause"]: int(sample.value)
        for family in metrics.events_dropped.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


async def test_an_event_is_created_as_the_api_wants_it(metrics: Metrics) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        events.record(NIGHTLY, "Scheduled", "copies are made by nightly")
        assert client.created == []  # nothing is sent before the caller yields
        await asyncio.sleep(1)
        (event,) = client.created
        assert event.namespace == "web"
        assert event.name.startswith("nightly.")
        assert event.get("reportingController") == "backup-operator"
        assert event.get("reportingInstance") == "pod-7"
        assert event.get("eventTime") == "2030-01-01T00:00:00.000000Z"
    assert dropped(metrics) == {}


async def test_repeated_event_is_patched_once_and_then_counted_for_30_minutes(metrics: Metrics) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        for _ in range(40):
            events.record(NIGHTLY, "Scheduled", "again")
            await asyncio.sleep(60)
    assert len(client.created) == 1
    assert [patch["series"]["count"] for _, _, patch in client.patched] == [2, 33, 40]
    assert {(namespace, name) for namespace, name, _ in client.patched} == {("web", client.created[0].name)}


async def test_silence_ends_a_series_by_itself(metrics: Metrics) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        for _ in range(3):
            events.record(NIGHTLY, "Scheduled", "again")
            await asyncio.sleep(1)
        await asyncio.sleep(400)
        assert [patch["series"]["count"] for _, _, patch in client.patched] == [2, 3]
        assert client.times[-1] == pytest.approx(362, abs=0.1)


async def test_an_outage_is_tried_twelve_times_about_ten_seconds_apart(metrics: Metrics, logs: list[Any]) -> None:
    client = Client(always(errors.Unreachable("connection refused")))
    async with recorder(client, metrics) as events:
        events.record(NIGHTLY, "Scheduled", "x")
        await asyncio.sleep(300)
        pauses = [later - earlier for earlier, later in zip(client.times, client.times[1:], strict=False)]
        assert len(client.times) == 12
        assert all(7.5 <= pause <= 12.6 for pause in pauses)
        assert len({round(pause, 3) for pause in pauses}) > 1
    assert dropped(metrics) == {DropReason.GAVE_UP: 1}
    assert [entry["cause"] for entry in logs] == [DropReason.GAVE_UP]


async def test_an_outage_that_ends_loses_nothing(metrics: Metrics) -> None:
    client = Client(lambda number: errors.ServerFailure("etcd has no leader", status=500) if number < 5 else None)
    async with recorder(client, metrics) as events:
        for reason in ("A", "B", "C"):
            events.record(NIGHTLY, reason, "x")
        await asyncio.sleep(200)
        assert [event.get("reason") for event in client.created] == ["A", "B", "C"]
    assert dropped(metrics) == {}


@pytest.mark.parametrize(
    ("error", "cause", "told"),
    [
        (errors.Forbidden("events is forbidden", status=403), DropReason.FORBIDDEN, True),
        (errors.Invalid("note is too long", status=422), DropReason.REFUSED, True),
        (errors.NotServed("events.k8s.io/v1", "Event"), DropReason.REFUSED, True),
        (ValueError("a bug"), DropReason.FAILED, True),
        (
            errors.Forbidden(
                "unable to create new content in namespace web because it is being terminated", status=403
            ),
            DropReason.NAMESPACE_ENDING,
            False,
        ),
        (errors.NotFound('namespaces "web" not found', status=404), DropReason.NAMESPACE_ENDING, False),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_an_event_that_cannot_succeed_is_dropped_counted_and_logged_once(
    error: Exception, cause: str, told: bool, metrics: Metrics, logs: list[Any]
) -> None:
    client = Client(always(error))
    async with recorder(client, metrics) as events:
        for reason in ("A", "B", "C"):
            events.record(NIGHTLY, reason, "x")
        await asyncio.sleep(1)
        assert len(client.times) == 3
        client.fails = lambda _number: None
        events.record(NIGHTLY, "D", "x")
        await asyncio.sleep(1)
        assert len(client.created) == 1
    assert dropped(metrics) == {cause: 3}
    assert [entry["cause"] for entry in logs] == ([cause] if told else [])


async def test_a_missing_right_is_logged_with_its_rule(metrics: Metrics, logs: list[Any]) -> None:
    async with recorder(Client(always(errors.Forbidden("no", status=403))), metrics) as events:
        events.record(NIGHTLY, "A", "x")
        await asyncio.sleep(1)
    assert logs[0]["rbac_rule"] == {
        "apiGroups": ["events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "patch"],
    }


async def test_a_series_whose_object_is_gone_is_created_again(metrics: Metrics) -> None:
    client = Client(lambda number: errors.NotFound("no such event", status=404) if number == 1 else None)
    async with recorder(client, metrics) as events:
        for _ in range(2):
            events.record(NIGHTLY, "Scheduled", "x")
            await asyncio.sleep(1)
    assert [event.get("series", "count") for event in client.created] == [None, 2]
    assert client.times[2] - client.times[1] == pytest.approx(0.01)
    assert dropped(metrics) == {}


async def test_an_event_whose_name_exists_was_stored_before(metrics: Metrics) -> None:
    answers = [errors.Unreachable("reset", maybe_done=True), errors.AlreadyExists("it exists", status=409)]
    client = Client(lambda number: answers[number] if number < 2 else None)
    async with recorder(client, metrics) as events:
        events.record(NIGHTLY, "Scheduled", "x")
        await asyncio.sleep(60)
    assert len(client.times) == 2
    assert dropped(metrics) == {}


async def test_a_full_queue_drops_and_says_so_once(metrics: Metrics, logs: list[Any]) -> None:
    client = Client(seconds=1)
    async with recorder(client, metrics, queue=3) as events:
        for number in range(6):
            events.record(NIGHTLY, f"R{number}", "x")
        await asyncio.sleep(20)
    assert len(client.created) == 3
    assert dropped(metrics) == {DropReason.QUEUE_FULL: 3}
    assert [entry["cause"] for entry in logs] == [DropReason.QUEUE_FULL]


async def test_a_flood_about_one_object_is_throttled_in_silence(metrics: Metrics, logs: list[Any]) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        for number in range(40):
            events.record(NIGHTLY, f"R{number}", "x")
        await asyncio.sleep(20)
    assert len(client.created) == 25
    assert dropped(metrics) == {DropReason.THROTTLED: 15}
    assert logs == []


@pytest.mark.parametrize(
    ("reason", "type_", "action"), [("", "Normal", "Reconcile"), ("A", "Info", "Reconcile"), ("A", "Normal", "")]
)
async def test_a_malformed_event_is_dropped_and_raises_nothing(
    reason: str, type_: str, action: str, metrics: Metrics, logs: list[Any]
) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        events.record(NIGHTLY, reason, "x", type_, action)
        await asyncio.sleep(1)
    assert client.created == []
    assert dropped(metrics) == {DropReason.INVALID: 1}
    assert len(logs) == 1


async def test_words_that_are_too_long_are_cut(metrics: Metrics) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        events.record(NIGHTLY, "R" * 200, "n" * 2000, action="A" * 200)
    (event,) = client.created
    assert [len(event.get(word)) for word in ("reason", "action", "note")] == [128, 128, 1024]


async def test_nonsense_raises_nothing(metrics: Metrics) -> None:
    nonsense: Any = object()
    async with recorder(Client(), metrics) as events:
        events.record(nonsense, nonsense, nonsense)
    assert dropped(metrics) == {DropReason.FAILED: 1}


async def test_outside_its_block_a_recorder_drops(metrics: Metrics) -> None:
    events = recorder(Client(), metrics)
    events.record(NIGHTLY, "Early", "x")
    async with events:
        pass
    events.record(NIGHTLY, "Late", "x")
    assert dropped(metrics) == {DropReason.STOPPED: 2}


async def test_leaving_writes_what_waits_and_every_count(metrics: Metrics) -> None:
    client = Client()
    async with recorder(client, metrics) as events:
        for _ in range(3):
            events.record(NIGHTLY, "A", "x")
            await asyncio.sleep(1)
        events.record(NIGHTLY, "B", "x")
    assert [event.get("reason") for event in client.created] == ["A", "B"]
    assert [patch["series"]["count"] for _, _, patch in client.patched] == [2, 3]


async def test_leaving_is_bounded_in_time(metrics: Metrics) -> None:
    client = Client(seconds=1)
    loop = asyncio.get_running_loop()
    async with recorder(client, metrics, drain=2.8) as events:
        for number in range(10):
            events.record(NIGHTLY, f"R{number}", "x")
        await asyncio.sleep(0.5)
        left = loop.time()
    assert loop.time() - left == pytest.approx(2.8)
    assert len(client.created) == 3
    assert dropped(metrics) == {DropReason.STOPPED: 7}


async def test_leaving_does_not_wait_for_a_server_that_is_away(metrics: Metrics) -> None:
    client = Client(always(errors.Unreachable("refused")))
    loop = asyncio.get_running_loop()
    async with recorder(client, metrics) as events:
        for number in range(10):
            events.record(NIGHTLY, f"R{number}", "x")
        await asyncio.sleep(1)
        left = loop.time()
    assert loop.time() - left < 0.5
    assert dropped(metrics) == {DropReason.STOPPED: 10}


async def test_no_task_is_left_when_leaving_is_cancelled(metrics: Metrics) -> None:
    client = Client(seconds=1000)

    async def program() -> None:
        async with recorder(client, metrics, drain=500) as events:
            events.record(NIGHTLY, "A", "x")
            await asyncio.sleep(1)

    task = asyncio.create_task(program())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert dropped(metrics) == {DropReason.STOPPED: 1}


@pytest.mark.parametrize("controller", ["", "-x", "x" * 64, "a b", "konverge.dev/"])
async def test_a_controller_that_the_api_would_refuse_is_an_error_at_once(controller: str, metrics: Metrics) -> None:
    with pytest.raises(errors.UsageError, match="events"):
        EventRecorder(Client(), controller=controller, instance="i", metrics=metrics)


@pytest.mark.parametrize("controller", ["x", "backup-operator", "konverge.dev/backup", "a.b_c"])
async def test_qualified_names_may_report(controller: str, metrics: Metrics) -> None:
    EventRecorder(Client(), controller=controller, instance="i", metrics=metrics)


async def test_a_recorder_runs_once(metrics: Metrics) -> None:
    events = recorder(Client(), metrics)
    async with events:
        pass
    with pytest.raises(errors.UsageError, match="once"):
        await events.__aenter__()


async def test_a_regarding_can_be_made_from_an_object() -> None:
    secret = kind("v1", "Secret").new("target", "web")
    secret.data["metadata"].update(uid="u", resourceVersion="9")
    regarding = Regarding.of(secret)
    assert (regarding.kind.kind, regarding.namespace, regarding.name, regarding.uid, regarding.version) == (
        "Secret",
        "web",
        "target",
        "u",
        "9",
    )
