"""The rules for sending, counting or dropping an Event, without a loop."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from konverge.kinds import kind
from konverge.runtime.events.core import (
    DropReason,
    EventCore,
    EventEntry,
    EventSettings,
    EventVerb,
    EventWrite,
    Identity,
    NextStep,
    Regarding,
    WriteResult,
    cut,
    event_name,
)

CRON_JOB = kind("batch/v1", "CronJob")
START = datetime(2030, 1, 1, tzinfo=UTC)


def regarding(name: str = "nightly", namespace: str = "web", version: str = "") -> Regarding:
    return Regarding(CRON_JOB, namespace, name, f"uid-{name}", version)


def identity(reason: str = "Scheduled", name: str = "nightly", **changed: Any) -> Identity:
    fields: dict[str, Any] = {
        "type": "Normal",
        "action": "Reconcile",
        "reason": reason,
        "controller": "backup",
        "instance": "pod-1",
        "regarding": regarding(name),
    }
    return Identity(**{**fields, **changed})


class Recorder:
    """A core, a clock, and a server with given responses."""

    def __init__(self, **numbers: Any) -> None:
        self.core = EventCore(EventSettings(**numbers))
        self.now = 0.0
        self.sent: list[EventWrite] = []

    @property
    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def record(self, what: Identity | None = None, note: str = "a note") -> str:
        return self.core.record(what or identity(), note, self.now, self.wall)

    def deliver(self, answer: WriteResult = WriteResult.STORED) -> list[EventWrite]:
        """Send all waiting entries; returns the sent requests."""
        self.core.due(self.now)
        sent = []
        while (entry := self.core.take()) is not None:
            write = entry.write()
            sent.append(write)
            assert self.core.settle(entry, write, answer, self.wall, self.now) is NextStep.DONE
        self.sent += sent
        return sent


def counts(writes: list[EventWrite]) -> list[tuple[str, int]]:
    return [(write.verb.value, write.count) for write in writes]


# --- series -------------------------------------------------------------------------------------------------------------------


def test_first_event_is_created_second_patched_as_series_and_rest_counted() -> None:
    recorder = Recorder()
    recorder.record(note="the first")
    recorder.deliver()
    recorder.now = 10
    recorder.record(note="the second")
    recorder.deliver()
    recorder.now = 20
    recorder.record(note="the third")
    recorder.deliver()
    assert counts(recorder.sent) == [("create", 1), ("patch", 2)]
    created, patched = recorder.sent
    assert created.body["note"] == "the first"
    assert "series" not in created.body
    assert patched.name == created.name
    assert patched.body == {"series": {"count": 2, "lastObservedTime": "2030-01-01T00:00:10.000000Z"}}


def test_a_counted_series_is_written_after_half_an_hour() -> None:
    recorder = Recorder()
    for minute in range(36):  # never silent for six minutes
        recorder.now = minute * 60.0
        recorder.record()
        recorder.deliver()
    # The third event is recorded at 120 s and written at 1920 s with all events up to then.
    assert counts(recorder.sent) == [("create", 1), ("patch", 2), ("patch", 33)]
    assert recorder.sent[-1].body["series"]["lastObservedTime"] == "2030-01-01T00:32:00.000000Z"


def test_a_silent_series_is_written_a_last_time_and_forgotten() -> None:
    recorder = Recorder()
    for second in (0, 1, 2, 3):
        recorder.now = second
        recorder.record()
        recorder.deliver()
    assert recorder.core.next_at() == 363
    recorder.now = 363
    assert counts(recorder.deliver()) == [("patch", 4)]
    assert recorder.core.remembered == 0
    recorder.record()
    again = recorder.deliver()
    assert counts(again) == [("create", 1)]
    assert again[0].name != recorder.sent[0].name


def test_a_silent_single_event_is_forgotten_without_a_write() -> None:
    recorder = Recorder()
    recorder.record()
    recorder.deliver()
    recorder.now = 360
    assert recorder.deliver() == []
    assert (recorder.core.remembered, recorder.core.next_at()) == (0, None)


def test_events_that_gather_before_the_first_is_sent_are_one_creation() -> None:
    recorder = Recorder()
    for _ in range(3):
        recorder.record()
    sent = recorder.deliver()
    assert counts(sent) == [("create", 3)]
    assert sent[0].body["series"]["count"] == 3


def test_a_second_event_during_the_creation_becomes_a_series_at_once() -> None:
    recorder = Recorder()
    recorder.record()
    entry = recorder.core.take()
    assert entry is not None
    write = entry.write()
    recorder.record()
    assert recorder.core.settle(entry, write, WriteResult.STORED, recorder.wall, recorder.now) is NextStep.DONE
    assert counts(recorder.deliver()) == [("patch", 2)]


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "Warning"},
        {"action": "Delete"},
        {"reason": "Failed"},
        {"controller": "other"},
        {"instance": "pod-2"},
        {"regarding": regarding("weekly")},
        {"related": regarding("weekly")},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_events_that_differ_in_their_identity_are_two(changed: dict[str, Any]) -> None:
    recorder = Recorder()
    recorder.record(identity())
    recorder.record(identity(**changed))
    assert counts(recorder.deliver()) == [("create", 1), ("create", 1)]


def test_neither_the_note_nor_the_version_of_the_object_makes_another_event() -> None:
    recorder = Recorder()
    recorder.record(identity(regarding=regarding(version="1")), note="one")
    recorder.record(identity(regarding=regarding(version="2")), note="two")
    assert counts(recorder.deliver()) == [("create", 2)]


# --- writes -------------------------------------------------------------------------------------------------------------------


def test_the_body_is_what_the_events_api_wants() -> None:
    recorder = Recorder()
    recorder.record(identity(related=regarding("weekly"), regarding=regarding(version="7")), note="copies are made")
    (write,) = recorder.deliver()
    assert write.verb is EventVerb.CREATE
    assert write.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": write.name, "namespace": "web"},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "type": "Normal",
        "action": "Reconcile",
        "reason": "Scheduled",
        "reportingController": "backup",
        "reportingInstance": "pod-1",
        "regarding": {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "namespace": "web",
            "name": "nightly",
            "uid": "uid-nightly",
            "resourceVersion": "7",
        },
        "related": {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "namespace": "web",
            "name": "weekly",
            "uid": "uid-weekly",
        },
        "note": "copies are made",
    }


def test_events_of_a_cluster_scoped_object_live_in_default() -> None:
    recorder = Recorder()
    recorder.record(identity(regarding=regarding(namespace="")))
    (write,) = recorder.deliver()
    assert write.namespace == write.body["metadata"]["namespace"] == "default"
    assert "namespace" not in write.body["regarding"]


def test_events_of_one_microsecond_have_names_of_their_own() -> None:
    recorder = Recorder()
    for number in range(20):
        recorder.record(identity(f"Reason{number}"))
    names = [write.name for write in recorder.deliver()]
    assert len(set(names)) == 20
    assert all(name.startswith("nightly.") for name in names)


@pytest.mark.parametrize(
    ("regarded", "kept"),
    [("nightly", True), ("a.b-c.d", True), ("system:node:a", False), ("Upper", False), ("a" * 250, False)],
)
def test_the_name_of_an_event_is_valid_whatever_the_object_is_called(regarded: str, kept: bool) -> None:
    name = event_name(regarded, 0x184F03E93FF9F4DAA)
    assert name.startswith(f"{regarded}.") is kept
    assert len(name) <= 253
    assert name.endswith(".184f03e93ff9f4daa")


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("short", "short"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "..."),
        ("ä" * 513, "ä" * 510 + "..."),
        ("€" * 400, "€" * 340 + "..."),
        ("lone \ud800 surrogate", "lone ? surrogate"),
    ],
)
def test_a_long_note_is_cut_between_characters(note: str, expected: str) -> None:
    assert cut(note, 1024) == expected
    assert len(cut(note, 1024).encode()) <= 1024


@given(st.text(), st.integers(3, 40))
def test_a_cut_text_never_exceeds_its_limit_and_stays_text(text: str, limit: int) -> None:
    assert len(cut(text, limit).encode()) <= limit


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"type": "Info"}, "type"),
        ({"reason": ""}, "reason"),
        ({"reason": "x" * 129}, "reason"),
        ({"reason": "ä" * 65}, "reason"),
        ({"action": ""}, "action"),
        ({"regarding": regarding("")}, "no name"),
    ],
)
def test_an_identity_that_the_server_would_refuse_says_why(changed: dict[str, Any], word: str) -> None:
    assert word in identity(**changed).problem()


def test_a_proper_identity_has_no_problem() -> None:
    assert identity(reason="x" * 128).problem() == ""


# --- responses -----------------------------------------------------------------------------------------------------------------


def pending(recorder: Recorder) -> tuple[EventEntry, EventWrite]:
    entry = recorder.core.take()
    assert entry is not None
    return entry, entry.write()


def series(recorder: Recorder) -> tuple[EventEntry, EventWrite]:
    """Return the patch of a series, still without a response."""
    recorder.record()
    recorder.deliver()
    recorder.record()
    return pending(recorder)


def test_a_patch_that_finds_no_object_is_followed_by_a_creation() -> None:
    recorder = Recorder()
    entry, patch = series(recorder)
    assert patch.verb is EventVerb.PATCH
    assert recorder.core.settle(entry, patch, WriteResult.MISSING, recorder.wall, recorder.now) is NextStep.AGAIN
    creation = entry.write()
    assert (creation.verb, creation.name, creation.body["series"]["count"]) == (EventVerb.CREATE, patch.name, 2)
    assert recorder.core.settle(entry, creation, WriteResult.STORED, recorder.wall, recorder.now) is NextStep.DONE


def test_a_series_whose_name_is_taken_by_another_writer_gets_another_name() -> None:
    recorder = Recorder()
    entry, patch = series(recorder)
    recorder.core.settle(entry, patch, WriteResult.MISSING, recorder.wall, recorder.now)
    assert recorder.core.settle(entry, entry.write(), WriteResult.EXISTS, recorder.wall, recorder.now) is NextStep.AGAIN
    retried = entry.write()
    assert retried.verb is EventVerb.CREATE
    assert retried.name != patch.name
    assert retried.count == 2


def test_existing_single_event_was_stored_by_an_attempt_without_a_response() -> None:
    recorder = Recorder()
    recorder.record()
    assert counts(recorder.deliver(WriteResult.EXISTS)) == [("create", 1)]
    recorder.record()
    assert counts(recorder.deliver()) == [("patch", 2)]


def test_a_series_that_exists_already_is_patched_to_the_present_count() -> None:
    recorder = Recorder()
    recorder.record()
    recorder.record()
    entry, creation = pending(recorder)
    assert recorder.core.settle(entry, creation, WriteResult.EXISTS, recorder.wall, recorder.now) is NextStep.AGAIN
    recorder.record()
    assert counts([entry.write()]) == [("patch", 3)]


def test_a_failed_write_is_tried_later_with_the_count_of_then() -> None:
    recorder = Recorder()
    recorder.record()
    entry, creation = pending(recorder)
    assert recorder.core.settle(entry, creation, WriteResult.FAILED, recorder.wall, recorder.now) is NextStep.LATER
    recorder.record()
    assert counts([entry.write()]) == [("create", 2)]


def test_a_dropped_event_begins_anew() -> None:
    recorder = Recorder()
    recorder.record()
    entry, _ = pending(recorder)
    recorder.core.drop(entry)
    assert recorder.core.remembered == 0
    recorder.record()
    assert counts(recorder.deliver()) == [("create", 1)]


# --- bounds -------------------------------------------------------------------------------------------------------------------


def test_full_queue_drops_new_events_until_it_has_room() -> None:
    recorder = Recorder(queue=2)
    assert [recorder.record(identity(f"R{number}")) for number in range(3)] == ["", "", DropReason.QUEUE_FULL]
    recorder.deliver()
    assert recorder.record(identity("R2")) == ""


def test_object_may_emit_a_burst_and_then_an_event_every_5_minutes() -> None:
    recorder = Recorder()
    results = [recorder.record(identity(f"R{number}")) for number in range(26)]
    assert results == [""] * 25 + [DropReason.THROTTLED]
    assert recorder.record(identity(name="other")) == ""
    recorder.now = 299
    assert recorder.record(identity("late")) == DropReason.THROTTLED
    recorder.now = 300
    assert recorder.record(identity("later")) == ""
    assert recorder.record(identity("latest")) == DropReason.THROTTLED


def test_an_empty_bucket_counts_a_known_event_instead_of_losing_it() -> None:
    recorder = Recorder(burst=1)
    recorder.record()
    recorder.deliver()
    assert recorder.record() == ""
    assert recorder.deliver() == []
    recorder.now = 360
    assert counts(recorder.deliver()) == [("patch", 2)]


def test_counting_costs_no_token() -> None:
    recorder = Recorder(burst=3)
    for _ in range(100):
        recorder.record()
        recorder.deliver()
    assert counts(recorder.sent) == [("create", 1), ("patch", 2)]
    assert recorder.record(identity("Another")) == ""


def test_the_identity_not_seen_for_longest_is_evicted_with_a_last_write() -> None:
    recorder = Recorder(memory=2)
    for _ in range(3):
        recorder.record(identity("A"))
        recorder.deliver()
    recorder.record(identity("B"))
    recorder.record(identity("C"))
    assert recorder.core.remembered == 2
    assert counts(recorder.deliver()) == [("create", 1), ("create", 1), ("patch", 3)]


def test_buckets_are_bounded_too() -> None:
    recorder = Recorder(memory=10, queue=1000)
    for number in range(100):
        recorder.record(identity(name=f"object-{number}"))
    assert recorder.core.sources == 10


def test_the_end_writes_every_count() -> None:
    recorder = Recorder()
    for reason in ("A", "B"):
        for _ in range(3):
            recorder.record(identity(reason))
            recorder.deliver()
    recorder.core.finish()
    assert counts(recorder.deliver()) == [("patch", 3), ("patch", 3)]
    assert recorder.core.remembered == 0


# --- properties ---------------------------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 10.0, 360.0, 1800.0])),
        st.tuples(st.just("send"), st.sampled_from(WriteResult)),
    ),
    max_size=80,
)


class Server:
    """Gives a write a possible response of a server, and keeps the stored counts."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.stored: dict[str, int] = {}
        self.refused = 0

    def send(self, wish: WriteResult) -> None:
        """Send the next entry until it is done; the wish decides the first response if a server could give it."""
        core = self.recorder.core
        entry = core.take()
        if entry is None:
            return
        for turn in range(10):
            write = entry.write()
            answer = wish if turn == 0 else WriteResult.STORED
            if write.verb is EventVerb.CREATE and answer is WriteResult.MISSING:
                answer = WriteResult.REFUSED
            if answer is WriteResult.EXISTS:  # an earlier try arrived, and its response was lost
                if write.verb is EventVerb.PATCH:
                    answer = WriteResult.STORED
                else:
                    self.stored[write.name] = 1
            if answer is WriteResult.REFUSED:
                self.refused += entry.count - self.stored.get(write.name, 0)
                core.drop(entry)
                return
            if answer is WriteResult.MISSING:
                del self.stored[write.name]
            if answer is WriteResult.STORED:
                self.stored[write.name] = write.count
            if core.settle(entry, write, answer, self.recorder.wall, self.recorder.now) is NextStep.DONE:
                return
        raise AssertionError("a write never ends")


def play(recorder: Recorder, server: Server, steps: list[tuple[str, Any]]) -> int:
    """Play the steps and end; returns how many events were accepted."""
    accepted = 0
    for step in steps:
        match step:
            case ("record", number):
                accepted += recorder.record(identity(f"R{number}")) == ""
            case ("wait", seconds):
                recorder.now += seconds
                recorder.core.due(recorder.now)
            case (_, answer):
                server.send(answer)
        at = recorder.core.next_at()
        assert at is None or at > recorder.now
    recorder.core.finish()
    while recorder.core.waiting:
        server.send(WriteResult.STORED)
    return accepted


@settings(deadline=None)
@given(_STEPS)
def test_every_accepted_event_is_counted_in_the_server_or_refused(steps: list[tuple[str, Any]]) -> None:
    recorder = Recorder(memory=3, burst=1000)
    server = Server(recorder)
    accepted = play(recorder, server, steps)
    assert sum(server.stored.values()) + server.refused == accepted


@settings(deadline=None)
@given(_STEPS)
def test_whatever_happens_the_queue_and_the_memory_stay_within_their_bounds(steps: list[tuple[str, Any]]) -> None:
    recorder = Recorder(queue=3, memory=4, burst=3)
    server = Server(recorder)
    for step in steps:
        match step:
            case ("record", number):
                recorder.record(identity(f"R{number}"))
            case ("wait", seconds):
                recorder.now += seconds
                recorder.core.due(recorder.now)
            case (_, answer):
                server.send(answer)
        assert recorder.core.waiting <= 3
        assert recorder.core.remembered <= 4
