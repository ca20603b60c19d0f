"""The store: versions, compare-and-swap, history, and the events for each watch."""

from typing import Any

import pytest

from konverge_testing.apiserver.storage import (
    Changed,
    Compacted,
    Entry,
    Event,
    Exists,
    Store,
    StoredObjects,
    with_version,
)

MAPS = ("", "configmaps")
NODES = ("", "nodes")


def configmap(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"app": name}}
    return {"kind": "ConfigMap", "metadata": metadata, "data": data, "apiVersion": "v1"}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def test_every_write_to_any_resource_takes_the_next_version() -> None:
    store = Store(7)
    made = store.create(MAPS, configmap("a"))
    other = store.create(NODES, node("n"))
    changed = store.update(MAPS, made, configmap("a", x="1"))
    gone = store.delete(NODES, other)
    assert [made.version, other.version, changed.version, gone.version, store.version] == [8, 9, 10, 11, 11]
    assert (store.changed(MAPS), store.changed(NODES), store.changed(("", "pods"))) == (10, 11, 0)


def test_version_is_in_the_stored_object_and_in_the_given_object() -> None:
    store = Store()
    given = configmap("a", x="1")
    made = store.create(MAPS, given)
    assert made.object()["metadata"]["resourceVersion"] == given["metadata"]["resourceVersion"] == "2"
    again = configmap("a", x="2")
    assert store.update(MAPS, made, again).object() == again
    assert again["metadata"]["resourceVersion"] == "3"


def test_encoded_bytes_begin_with_type_and_version() -> None:
    entry = Store().create(
        MAPS,
        {"data": {"resourceVersion": "x", "metadata": "y"}, "metadata": {"name": "a"}, "kind": "K", "apiVersion": "v"},
    )
    assert entry.raw.startswith(b'{"apiVersion":"v","kind":"K","metadata":{"resourceVersion":"2",')
    assert with_version(entry.raw, 1234) == entry.raw.replace(b'"resourceVersion":"2"', b'"resourceVersion":"1234"')


def test_each_decode_of_an_entry_returns_a_fresh_object() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a", x="1"))
    made.object()["data"]["x"] = "spoiled"
    assert made.object()["data"] == {"x": "1"}


def test_a_name_is_taken_until_its_object_is_gone() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a"))
    with pytest.raises(Exists) as refused:
        store.create(MAPS, configmap("a"))
    assert refused.value.current is made
    store.delete(MAPS, made)
    assert store.create(MAPS, configmap("a")).version == 4


def test_a_refused_write_takes_no_version() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a"))
    store.update(MAPS, made, configmap("a", x="1"))
    with pytest.raises(Changed):
        store.update(MAPS, made, configmap("a", x="2"))
    with pytest.raises(Changed):
        store.delete(MAPS, made)
    assert store.version == 3


@pytest.mark.parametrize("gone", [False, True])
def test_a_write_on_an_old_state_fails_with_the_current_one(gone: bool) -> None:
    store = Store()
    made = store.create(MAPS, configmap("a"))
    now = store.update(MAPS, made, configmap("a", x="1"))
    if gone:
        store.delete(MAPS, now)
    with pytest.raises(Changed) as refused:
        store.update(MAPS, made, configmap("a", x="2"))
    assert refused.value.current is (None if gone else now)


def test_a_recreated_object_is_another_one_even_if_it_looks_the_same() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a"))
    store.delete(MAPS, made)
    store.create(MAPS, configmap("a"))
    with pytest.raises(Changed):
        store.delete(MAPS, made)


@pytest.mark.parametrize("same", [lambda: configmap("a", x="1", y="2"), lambda: configmap("a", y="2", x="1")])
def test_an_update_that_changes_nothing_does_not_write(same: Any) -> None:
    store = Store()
    heard: list[Event] = []
    store.observers.append(heard.append)
    made = store.create(MAPS, configmap("a", x="1", y="2"))
    assert store.update(MAPS, made, same()) is made
    assert (store.version, len(heard)) == (2, 1)


def test_an_update_cannot_rename() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a"))
    with pytest.raises(ValueError, match="rename"):
        store.update(MAPS, made, configmap("b"))


def test_the_last_state_carries_the_version_of_its_deletion() -> None:
    store = Store()
    made = store.create(MAPS, configmap("a", x="1"))
    gone = store.delete(MAPS, made)
    assert gone.deleted
    assert gone.object()["metadata"]["resourceVersion"] == "3"
    assert gone.object()["data"] == {"x": "1"}
    assert store.get(MAPS, "default", "a") is None


def test_lists_are_sorted_as_keys_in_etcd_are() -> None:
    store = Store()
    for namespace, name in (("b", "a"), ("a", "b"), ("a-b", "x"), ("a", "a"), ("a0", "y"), ("a", "a-1")):
        store.create(MAPS, configmap(name, namespace))
    assert [entry.key for entry in store.list(MAPS)] == ["a-b/x", "a/a", "a/a-1", "a/b", "a0/y", "b/a"]
    assert [entry.key for entry in store.list(MAPS, "a")] == ["a/a", "a/a-1", "a/b"]
    assert store.list(MAPS, "none") == store.list(NODES) == []


def history() -> Store:
    """Versions 2 to 7: a, b and a node created, a changed, b deleted, c created."""
    store = Store()
    a, b = (store.create(MAPS, configmap(name)) for name in "ab")
    store.create(NODES, node("n"))
    store.update(MAPS, a, configmap("a", x="1"))
    store.delete(MAPS, b)
    store.create(MAPS, configmap("c"))
    return store


@pytest.mark.parametrize(
    ("version", "there"),
    [(1, []), (2, ["a2"]), (3, ["a2", "b3"]), (4, ["a2", "b3"]), (5, ["a5", "b3"]), (6, ["a5"]), (7, ["a5", "c7"])],
)
def test_old_versions_are_readable_unchanged(version: int, there: list[str]) -> None:
    store = history()
    for _ in range(2):
        assert [f"{entry.name}{entry.version}" for entry in store.at(MAPS, version)] == there


def test_events_since_a_version_come_in_order() -> None:
    told = [(event.type, event.entry.name, event.version) for event in history().since(MAPS, 3)]
    assert told == [("MODIFIED", "a", 5), ("DELETED", "b", 6), ("ADDED", "c", 7)]
    assert history().since(NODES, 4) == ()


def test_a_jump_leaves_no_trace_but_the_version() -> None:
    store = history()
    assert store.jump(100) == 107
    assert store.since(MAPS, 7) == ()
    assert store.create(MAPS, configmap("d")).version == 108
    with pytest.raises(ValueError, match="back"):
        store.jump(-1)


@pytest.mark.parametrize("version", [None, 5])
def test_compacted_history_is_refused_and_the_rest_is_kept(version: int | None) -> None:
    store = history()
    store.compact(version)
    floor = version or 7
    with pytest.raises(Compacted) as refused:
        store.since(MAPS, floor - 1)
    assert (refused.value.asked, refused.value.floor) == (floor - 1, floor)
    with pytest.raises(Compacted):
        store.at(MAPS, floor - 1)
    assert [event.version for event in store.since(MAPS, floor)] == list(range(floor + 1, 8))
    assert [entry.name for entry in store.list(MAPS)] == ["a", "c"]


def test_a_quiet_resource_forgets_with_the_others() -> None:
    store = history()
    store.forget()
    with pytest.raises(Compacted):
        store.since(NODES, 4)


@pytest.mark.parametrize("limits", [{"window": 3}, {"window_bytes": 400}])
def test_history_is_bounded_in_events_and_in_bytes(limits: dict[str, int]) -> None:
    store = Store(**limits)
    entry = store.create(MAPS, configmap("a", x="0"))
    for number in range(1, 30):
        entry = store.update(MAPS, entry, configmap("a", x=str(number)))
    kept = store.since(MAPS, store.floor)
    assert 0 < len(kept) <= 3
    with pytest.raises(Compacted):
        store.since(MAPS, store.floor - 1)


def test_subscribers_get_events_of_their_resource_and_observers_all() -> None:
    store = Store()
    maps: list[int] = []
    everything: list[int] = []
    leave = store.subscribe(MAPS, lambda event: maps.append(event.version))
    store.observers.append(lambda event: everything.append(event.version))
    made = store.create(MAPS, configmap("a"))
    store.create(NODES, node("n"))
    leave()
    leave()
    store.delete(MAPS, made)
    assert (maps, everything) == ([2], [2, 3, 4])


def test_a_write_of_a_callback_is_delivered_after_the_present_event() -> None:
    store = Store()
    heard: list[list[int]] = [[], []]

    def echo(event: Event) -> None:
        heard[0].append(event.version)
        if event.version < 5:
            store.create(MAPS, configmap(f"echo-{event.version}"))

    store.subscribe(MAPS, echo)
    store.subscribe(MAPS, lambda event: heard[1].append(event.version))
    store.create(MAPS, configmap("a"))
    assert heard == [[2, 3, 4, 5], [2, 3, 4, 5]]


def test_a_failing_callback_fails_only_the_writer() -> None:
    store = Store()
    heard: list[int] = []

    def fail(event: Event) -> None:
        raise RuntimeError("crashed after the commit")

    leave = store.subscribe(MAPS, fail)
    store.subscribe(MAPS, lambda event: heard.append(event.version))
    with pytest.raises(RuntimeError, match="crashed"):
        store.create(MAPS, configmap("a"))
    leave()
    store.create(MAPS, configmap("b"))
    assert (heard, len(store.list(MAPS))) == ([2, 3], 2)


def test_other_rooms_read_fresh_objects() -> None:
    store = history()
    objects = StoredObjects(store)
    found = objects.get(MAPS, "default", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    assert objects.get(MAPS, "default", "b") is None
    assert [one["metadata"]["name"] for one in objects.list(MAPS)] == ["a", "c"]
    assert [one["metadata"]["name"] for one in objects.list(NODES)] == ["n"]
    assert objects.changed(MAPS) == 7


def test_entries_cannot_be_changed() -> None:
    entry = Store().create(MAPS, configmap("a"))
    with pytest.raises(AttributeError):
        entry.version = 5  # type: ignore[misc]  # that is the point
    assert isinstance(entry, Entry)
