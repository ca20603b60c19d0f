"""Lanes and timetable drop vacant places and void records."""

from konverge.workqueue import QueueCore, Throttle
from konverge.workqueue.entry import EntryState, QueueEntry
from konverge.workqueue.schedule import Lanes, Timetable


def records(core: QueueCore[int]) -> int:
    return len(core._timetable.heap)


def places(core: QueueCore[int]) -> int:
    return sum(len(lane.row) for lane in core._lanes._lanes.values())


def test_key_requeued_in_hours_and_run_every_second_leaves_no_records() -> None:
    core = QueueCore[int]()
    for second in range(5000):
        core.add(1, float(second), reason="event")
        assert core.get(float(second)) is not None
        core.add_after(1, 36000.0, float(second), reason="resync")
        core.done(1, float(second))
    assert records(core) < 100


def test_a_debounced_storm_leaves_one_record() -> None:
    core = QueueCore[int](throttle=Throttle(debounce=10.0, debounce_max=100.0))
    for step in range(900):
        core.add(1, step / 10, reason="event")
    assert records(core) == 1


def test_repeatedly_earlier_times_of_a_key_leave_no_records_behind() -> None:
    core = QueueCore[int]()
    for step in range(5000):
        core.add_after(1, 10000.0 - step, 0.0, reason="asked")
    assert records(core) < 100
    assert core.next_at() == 5001.0


def test_lane_that_is_never_popped_drops_vacant_places_of_promoted_entries() -> None:
    core = QueueCore[int]()
    core.add(0, 0.0, reason="listed", priority=-100)
    for key in range(1, 5000):
        core.add(key, 0.0, reason="listed", priority=-100)
        core.add(key, 0.0, reason="changed", priority=0)
        assert core.get(0.0) is not None
        core.done(key, 0.0)
    assert places(core) < 100
    last = core.get(0.0)
    assert last is not None
    assert last.key == 0


def test_removed_keys_leave_nothing_behind() -> None:
    core = QueueCore[int]()
    for key in range(5000):
        core.add(key, 0.0, reason="event")
        core.add_after(-key - 1, 100.0, 0.0, reason="asked")
        core.remove(key)
        core.remove(-key - 1)
    assert places(core) < 100
    assert records(core) < 100


def test_a_distinct_priority_per_key_leaves_no_memory_after_done() -> None:
    core = QueueCore[int]()
    for key in range(1000):
        core.add(key, 0.0, reason="event", priority=key)
    order = []
    while (item := core.get(0.0)) is not None:
        order.append(item.key)
        core.done(item.key, 0.0)
    assert order == list(range(999, -1, -1))
    assert (core._lanes._lanes, core._lanes._order, core._depth) == ({}, [], {})


def test_rewriting_a_lane_keeps_its_order() -> None:
    lanes = Lanes[int]()
    entries = [QueueEntry(key, 0, ("test",), added_at=0.0) for key in range(300)]
    for entry in entries:
        lanes.push(entry)
    for entry in entries:
        if entry.key % 10:
            lanes.remove(entry)
    assert len(lanes._lanes[0].row) < 200
    assert [entry.key for entry in lanes] == list(range(0, 300, 10))
    assert len(lanes) == 30
    popped = []
    while (entry_ := lanes.pop()) is not None:
        popped.append(entry_.key)
    assert popped == list(range(0, 300, 10))
    assert all(entry.state is EntryState.GONE for entry in entries)


def test_rewriting_a_timetable_keeps_its_order() -> None:
    table = Timetable[int]()
    entries = [QueueEntry(key, 0, ("test",), added_at=0.0) for key in range(300)]
    for entry in entries:
        table.put(entry, float(1000 - entry.key))
    for entry in entries:
        if entry.key % 10:
            table.remove(entry)
    table.put(entries[0], 2000.0)
    table.put(entries[290], 1.0)
    assert len(table.heap) < 200
    assert [entry.key for entry in table.earliest(2)] == [290, 280]
    popped = []
    while (entry_ := table.pop_due(3000.0)) is not None:
        popped.append(entry_.key)
    assert popped == [290, *range(280, 0, -10), 0]
    assert len(table) == 0
