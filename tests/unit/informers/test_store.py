"""Store and indexes: one writer, many readers, full states swapped in."""

import asyncio
from collections.abc import Iterable

import pytest
from structlog.testing import capture_logs

from konverge.errors import UsageError
from konverge.informers.effect_handler import Staging, StoreWriter, difference
from konverge.informers.messages import Change
from konverge.informers.store import Cached, Store
from konverge.objects import Metadata, OwnerReference
from konverge.selectors import LabelSelector


def cached(
    name: str, version: int = 1, namespace: str = "web", *, uid: str = "", owner: str = "", **labels: str
) -> Cached:
    owners = (OwnerReference("apps/v1", "ReplicaSet", "r", owner, controller=True),) if owner else ()
    metadata = Metadata(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        resource_version=str(version),
        labels=labels or None,
        owner_references=owners,
    )
    return Cached(metadata, b"x" * 10)


def put(one: Cached) -> Change:
    return Change(one.metadata.namespace, one.metadata.name, None, one)


def gone(name: str, namespace: str = "web") -> Change:
    return Change(namespace, name, None, None)


def filled(*objects: Cached, version: str = "100") -> tuple[Store, StoreWriter]:
    store = Store()
    writer = StoreWriter(store)
    staging = Staging(store)
    staging.take(map(put, objects))
    writer.swap(staging, version)
    return store, writer


def names(objects: Iterable[Cached]) -> list[str]:
    return [one.metadata.name for one in objects]


def test_a_full_state_is_seen_in_one_step() -> None:
    store = Store()
    staging = Staging(store)
    staging.take([put(cached("a"))])
    assert (len(store), store.synced, store.version) == (0, False, "")
    StoreWriter(store).swap(staging, "7")
    assert (len(store), store.synced, store.version, store.size) == (1, True, "7", 10)


def test_applied_events_change_objects_version_count_and_size() -> None:
    store, writer = filled(cached("a"), cached("b"))
    a2 = cached("a", 101)
    changed = writer.apply([put(a2), gone("b"), put(cached("c", 103, "db"))], "103")
    assert [(d.name, d.old and d.old.version, d.new and d.new.version) for d in changed] == [
        ("a", "1", "101"),
        ("b", "1", None),
        ("c", None, "103"),
    ]
    assert (store.version, len(store), store.size) == ("103", 2, 20)
    assert store.get("web", "a") is a2
    assert store.get("web", "b") is None
    assert store.keys() == [("web", "a"), ("db", "c")]
    assert store.keys("db") == [("db", "c")]
    assert store.keys("nowhere") == []


def test_an_event_with_the_stored_version_is_not_delivered() -> None:
    store, writer = filled(cached("a"))
    before = store.get("web", "a")
    assert writer.apply([put(cached("a")), gone("unknown"), gone("a", "nowhere")], "120") == []
    assert store.get("web", "a") is before
    assert store.version == "120"


def test_the_difference_yields_deletions_first_and_omits_unchanged_objects() -> None:
    store, writer = filled(cached("a"), cached("b"), cached("c", namespace="db"))
    staging = Staging(store)
    staging.take([put(cached("new", 9, "alpha")), put(cached("a")), put(cached("b", 5))])
    before = writer.swap(staging, "200")
    found = list(difference(before, staging.table))
    assert [(d.name, d.old is None, d.new is None) for d in found] == [
        ("c", False, True),
        ("new", True, False),
        ("b", False, False),
    ]
    assert store.get("web", "a") is before["web"]["a"], "the second copy was thrown away"


def test_object_deleted_during_a_streaming_list_is_not_in_the_new_state() -> None:
    store = Store()
    staging = Staging(store)
    staging.take([put(cached("a")), put(cached("b")), gone("a")])
    StoreWriter(store).swap(staging, "7")
    assert store.keys() == [("web", "b")]


def test_clear_empties_the_store_and_makes_it_unsynced() -> None:
    store, writer = filled(cached("a", owner="o"))
    before = writer.clear()
    assert list(difference(before, {})) == [Change("web", "a", before["web"]["a"], None)]
    assert (len(store), store.size, store.version, store.synced) == (0, 0, "", False)
    assert store.by_index("owner", "o") == []


def test_a_snapshot_does_not_follow_the_store() -> None:
    store, writer = filled(cached("a"))
    snapshot = store.snapshot()
    writer.apply([gone("a"), put(cached("b", 101))], "101")
    assert {namespace: list(inner) for namespace, inner in snapshot.items()} == {"web": ["a"]}


def test_objects_are_listed_by_namespace_and_labels() -> None:
    store, _ = filled(cached("a", app="shop"), cached("b"), cached("c", namespace="db", app="shop"))
    assert names(store.list()) == ["a", "b", "c"]
    assert names(store.list("web")) == ["a", "b"]
    assert names(store.list(labels=LabelSelector.parse("app=shop"))) == ["a", "c"]
    assert names(store.list("web", LabelSelector.parse("!app"))) == ["b"]
    assert store.list("nowhere") == []


def test_cluster_scoped_objects_have_no_namespace() -> None:
    store, _ = filled(cached("node", namespace=""))
    assert store.get("", "node") is not None
    assert store.keys("") == [("", "node")]


def test_the_owner_index_follows_every_change() -> None:
    store, writer = filled(cached("a", owner="one"), cached("b", owner="one"), cached("c", owner="two"), cached("d"))
    assert names(store.by_index("owner", "one")) == ["a", "b"]
    writer.apply([put(cached("a", 101, owner="two")), gone("c")], "102")
    assert names(store.by_index("owner", "one")) == ["b"]
    assert names(store.by_index("owner", "two")) == ["a"]
    writer.apply([put(cached("b", 103)), gone("a")], "104")
    assert store.by_index("owner", "one") == store.by_index("owner", "two") == []


def test_an_index_distinguishes_objects_of_one_name_in_different_namespaces() -> None:
    here, there = cached("a", owner="one"), cached("a", namespace="db", owner="one")
    store, writer = filled(here, there, cached("b", namespace="db", owner="one"))
    assert [one.metadata.path for one in store.by_index("owner", "one")] == ["web/a", "db/a", "db/b"]
    writer.apply([gone("a", "db")], "101")
    assert [one.metadata.path for one in store.by_index("owner", "one")] == ["web/a", "db/b"]
    writer.apply([put(cached("a", 102, "web", owner="two"))], "102")
    assert [one.metadata.path for one in store.by_index("owner", "one")] == ["db/b"]
    assert [one.metadata.path for one in store.by_index("owner", "two")] == ["web/a"]


def test_an_owner_that_does_not_control_is_not_indexed() -> None:
    reference = OwnerReference("v1", "ConfigMap", "o", "uid-o")
    store, _ = filled(Cached(Metadata(name="a", owner_references=(reference,)), b"{}"))
    assert store.by_index("owner", "uid-o") == []


def by_app(one: Cached) -> Iterable[str]:
    return [value for value in (one.metadata.label("app"), "any") if value]


def test_index_added_late_covers_existing_objects_and_survives_a_relist() -> None:
    store, writer = filled(cached("a", app="shop"), cached("b"))
    writer.add_index("app", by_app)
    assert names(store.by_index("app", "shop")) == ["a"]
    assert names(store.by_index("app", "any")) == ["a", "b"]
    staging = Staging(store)
    staging.take([put(cached("b", 5, app="shop"))])
    writer.swap(staging, "200")
    assert names(store.by_index("app", "shop")) == ["b"]


def test_an_index_that_is_added_between_two_pages_covers_the_new_state() -> None:
    store, writer = filled(cached("a", app="shop"))
    staging = Staging(store)
    staging.take([put(cached("b", 5, app="shop"))])
    writer.add_index("app", by_app)
    writer.swap(staging, "200")
    assert names(store.by_index("app", "shop")) == ["b"]


def test_same_index_may_be_added_twice_but_no_other_of_its_name() -> None:
    store, writer = filled()
    writer.add_index("app", by_app)
    writer.add_index("app", by_app)
    with pytest.raises(UsageError, match="choose another name"):
        writer.add_index("app", lambda one: ())
    with pytest.raises(UsageError, match=r"informer\.add_index\('other', function\)"):
        store.by_index("other", "x")


def test_object_with_a_failing_index_function_has_no_values_and_is_counted() -> None:
    def fussy(one: Cached) -> Iterable[str]:
        if one.metadata.name == "bad":
            raise KeyError("label")
        return ["all"]

    store, writer = filled(cached("good"), cached("bad"))
    with capture_logs() as logs:
        writer.add_index("fussy", fussy)
    assert [(line["index"], line["name"]) for line in logs] == [("fussy", "bad")]
    assert names(store.by_index("fussy", "all")) == ["good"]
    assert store.index_errors == 1
    writer.apply([gone("bad"), gone("good")], "101")
    assert store.by_index("fussy", "all") == []


def test_object_with_a_newly_failing_index_function_loses_its_old_values() -> None:
    def fussy(one: Cached) -> Iterable[str]:
        if one.version == "101":
            raise KeyError("label")
        return ["all"]

    store, writer = filled(cached("a"), cached("b"))
    writer.add_index("fussy", fussy)
    with capture_logs():
        writer.apply([put(cached("a", 101))], "101")
    assert names(store.by_index("fussy", "all")) == ["b"]
    writer.apply([put(cached("a", 102))], "102")
    assert names(store.by_index("fussy", "all")) == ["b", "a"]


def test_an_index_function_that_always_raises_does_not_flood_the_log() -> None:
    def broken(one: Cached) -> Iterable[str]:
        raise KeyError("label")

    _, writer = filled(*(cached(f"n{number}") for number in range(100)))
    with capture_logs() as logs:
        writer.add_index("broken", broken)
    assert [line["count"] for line in logs] == [1, 2, 4, 8, 16, 32, 64]


def test_only_changed_values_of_an_object_are_filed_again() -> None:
    store = Store()
    writer = StoreWriter(store)
    writer.add_index("label", lambda held: list(held.metadata.labels or {}))
    writer.apply([put(cached("a", kept="", left="")), put(cached("b", kept="", left=""))], "2")
    writer.apply([put(cached("a", 3, kept="", came=""))], "3")
    found = {
        value: [held.metadata.name for held in store.by_index("label", value)] for value in ("kept", "left", "came")
    }
    assert found == {"kept": ["a", "b"], "left": ["b"], "came": ["a"]}


def test_an_index_function_that_returns_other_values_leaves_no_old_ones_behind() -> None:
    answers = iter([["one", "one"], ["two"], ["three"]])
    store, writer = filled()
    writer.add_index("fickle", lambda one: next(answers))
    writer.apply([put(cached("a", 1))], "1")
    assert names(store.by_index("fickle", "one")) == ["a"]
    writer.apply([put(cached("a", 2))], "2")
    assert store.by_index("fickle", "one") == []
    writer.apply([gone("a")], "3")
    assert store.by_index("fickle", "two") == []


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("99", True),
        ("100", True),
        ("101", False),
        ("1000", False),
        ("", None),
        ("abc", None),
        ("0101", None),
    ],
)
def test_write_is_visible_if_store_or_object_has_its_version(version: str, shown: bool | None) -> None:
    store, _ = filled(version="100")
    assert store.shows("web", "a", version) is shown


def test_write_is_visible_by_object_version_if_store_version_is_not_comparable() -> None:
    store, writer = filled(cached("a", 150), version="opaque")
    assert store.shows("web", "a", "150") is True
    assert store.shows("web", "a", "151") is False
    assert store.shows("web", "b", "151") is None
    writer.advance("151")
    assert store.shows("web", "b", "151") is True


def test_has_uid_distinguishes_objects_of_one_name() -> None:
    store, _ = filled(cached("a", uid="first"))
    assert store.has_uid("web", "a", "first")
    assert not store.has_uid("web", "a", "second")
    assert not store.has_uid("web", "b", "first")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"spec":{"a":1},"status":{"b":{"c":2}}}', {"b": {"c": 2}}),
        (b'{"spec":{"a":1}}', {}),
        (b'{"status":null}', {}),
        (b'{"status":"odd"}', {}),
        (b"", {}),
    ],
)
def test_status_decodes_a_new_copy_each_time(body: bytes, status: dict[str, object]) -> None:
    one = Cached(Metadata(name="a"), body)
    assert one.status() == status
    assert one.status() is not one.status()


async def test_waiter_for_a_version_continues_at_equal_later_or_incomparable_versions() -> None:
    store, writer = filled(cached("a"), version="100")
    waits = {version: asyncio.create_task(store.reaches(version)) for version in ("100", "101", "103", "104")}

    async def ended() -> set[str]:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return {version for version, task in waits.items() if task.done()}

    assert await ended() == {"100"}
    writer.apply([put(cached("b", 101))], "101")
    assert await ended() == {"100", "101"}
    writer.advance("103")
    assert await ended() == {"100", "101", "103"}
    writer.clear()
    assert await ended() == {"100", "101", "103", "104"}
