from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Metadata, Object, OwnerReference
from konverge.outcome import Done, Outcome
from konverge.runtime import Caches, Context, Controller, generation_changed
from konverge.runtime.consistency.own_writes import OwnVersions, only_status_differs
from konverge.runtime.controller.event_handlers import (
    INITIAL_PRIORITY,
    keys_of_owners,
    mapped_keys,
    must_enqueue,
    priority_of,
    reason_of,
)
from konverge.words import Why

BACKUP = kind("example.com/v1", "Backup")
JOB = kind("batch/v1", "Job")
SECRET = kind("v1", "Secret")
NO_CACHES = Caches("backup", {})


class Reconciler:
    async def reconcile(self, backup: Object, ctx: Context[Object]) -> Outcome:
        return Done()


def cached(
    name: str = "a", *, version: str = "1", generation: int = 1, owner: OwnerReference | None = None, **more: Any
) -> Cached:
    metadata = Metadata(
        name=name,
        namespace="web",
        resource_version=version,
        generation=generation,
        owner_references=() if owner is None else (owner,),
        **more,
    )
    body = msgspec.json.encode({"metadata": {"name": name, "namespace": "web"}})
    return Cached(metadata=metadata, body=body, owned=None)


def change(old: Cached | None, new: Cached | None, *, initial: bool = False, name: str = "a") -> Change:
    return Change("web", name, old, new, initial)


SPEC = Controller.of(BACKUP).owns(JOB).reconciled_by(Reconciler())


@pytest.mark.parametrize(
    ("what", "reason", "priority"),
    [
        (change(None, cached(), initial=True), "initial list", INITIAL_PRIORITY),
        (change(None, cached()), "created", 0),
        (change(cached(), cached(version="2")), "changed", 0),
        (change(cached(), None), "deleted", 0),
    ],
)
def test_an_event_of_the_primary_kind_enqueues_the_object_with_a_reason(
    what: Change, reason: str, priority: int
) -> None:
    assert must_enqueue(SPEC, what, ())
    assert (reason_of(what), priority_of(what)) == (reason, priority)


def test_the_event_of_our_own_status_write_makes_no_request() -> None:
    assert not must_enqueue(SPEC, change(cached(version="1"), cached(version="2")), ("2",))


@pytest.mark.parametrize(
    ("changed", "alone"),
    [
        ({}, True),
        ({"resource_version": "2"}, True),
        ({"generation": 2}, False),
        ({"labels": {"a": "b"}}, False),
        ({"annotations": {"a": "b"}}, False),
        ({"finalizers": ("x",)}, False),
        ({"deletion_timestamp": "2030-01-01T00:00:00Z"}, False),
        ({"uid": "another"}, False),
    ],
)
def test_only_a_write_that_changes_nothing_but_the_status_is_filtered(changed: dict[str, Any], alone: bool) -> None:
    before = Metadata(name="a", uid="u", generation=1)
    after = Metadata(**{"name": "a", "uid": "u", "generation": 1, **changed})
    assert only_status_differs(before, after) is alone


def test_a_status_that_another_writer_wrote_enqueues_the_object() -> None:
    assert must_enqueue(SPEC, change(cached(version="1"), cached(version="3")), ("2",))


def test_own_write_event_is_filtered_also_after_the_next_write() -> None:
    own, key = OwnVersions(), Key("", BACKUP, "web", "a")
    own.add(key, "2")
    own.add(key, "3")
    reasons: list[str] = []
    for before, after in (("1", "2"), ("2", "3"), ("3", "4")):
        event = change(cached(version=before), cached(version=after))
        reasons += [reason_of(event)] if must_enqueue(SPEC, event, own.of(key)) else []
        own.seen(key, after)
    assert reasons == ["changed"]
    assert len(own) == 0


def test_own_versions_are_bounded_and_dropped_before_a_seen_version() -> None:
    own, keys = OwnVersions(objects=2, versions=3), [Key("", BACKUP, "web", name) for name in "abc"]
    for key in keys:
        for version in ("8", "9", "10", "11"):
            own.add(key, version)
    assert [own.of(key) for key in keys] == [(), ("9", "10", "11"), ("9", "10", "11")]
    own.seen(keys[1], "10")  # a merged event has only the last version
    assert own.of(keys[1]) == ("11",)
    own.seen(keys[1], "12")
    own.forget(keys[2])
    assert len(own) == 0


def test_a_predicate_filters_changes_but_never_creation_or_deletion() -> None:
    picky = SPEC.when(generation_changed)
    assert not must_enqueue(picky, change(cached(), cached(version="2")), ())
    assert must_enqueue(picky, change(None, cached()), ())
    assert must_enqueue(picky, change(cached(), None), ())


def owner(
    name: str = "nightly", kind_name: str = "Backup", group: str = "example.com/v1", *, controller: bool = True
) -> OwnerReference:
    return OwnerReference(group, kind_name, name, f"uid-{name}", controller)


def test_an_event_of_a_child_enqueues_its_controlling_owner() -> None:
    event = change(None, cached("job", owner=owner()), name="job")
    assert list(keys_of_owners(SPEC, SPEC.owned[0], event)) == [Key("", BACKUP, "web", "nightly")]
    assert reason_of(event, Why.OWNED, SPEC.owned[0]) == "owned Job web/job created"


def test_a_child_whose_owner_changes_enqueues_both_owners() -> None:
    moved = change(cached(owner=owner("first")), cached(version="2", owner=owner("second")))
    assert [key.name for key in keys_of_owners(SPEC, SPEC.owned[0], moved)] == ["first", "second"]


@pytest.mark.parametrize(
    "reference", [owner(controller=False), owner(kind_name="Restore"), owner(group="other.example.com/v1"), None]
)
def test_a_child_of_another_owner_enqueues_nothing(reference: OwnerReference | None) -> None:
    assert list(keys_of_owners(SPEC, SPEC.owned[0], change(None, cached(owner=reference)))) == []


def test_a_child_without_owner_reference_enqueues_the_owner_that_known_by_names() -> None:
    spec = SPEC.owned[0]
    known = msgspec.structs.replace(
        spec, known_by=lambda metadata: metadata.name.partition("-")[0] if "-" in metadata.name else ""
    )
    lost = change(cached("nightly-job", owner=owner()), cached("nightly-job"), name="nightly-job")
    assert [key.name for key in keys_of_owners(SPEC, known, lost)] == ["nightly"]
    [key] = keys_of_owners(SPEC, known, change(cached("nightly-job"), None, name="nightly-job"))
    assert key == Key("", BACKUP, "web", "nightly")
    assert list(keys_of_owners(SPEC, known, change(None, cached("job"), name="job"))) == []


@pytest.mark.parametrize(
    ("reference", "enqueued"),
    [
        (owner(), ["nightly"]),
        (owner(controller=False), ["nightly"]),
        (owner(kind_name="Restore"), ["nightly"]),
        (owner("weekly"), ["weekly", "nightly"]),
        (None, ["nightly"]),
    ],
    ids=["its own", "no controller", "another kind", "another object", "none"],
)
def test_known_by_names_the_owner_of_a_child_whatever_its_controller(
    reference: OwnerReference | None, enqueued: list[str]
) -> None:
    known = msgspec.structs.replace(SPEC.owned[0], known_by=lambda metadata: metadata.name.partition("-")[0])
    deleted = change(cached("nightly-job", owner=reference), None, name="nightly-job")
    assert [key.name for key in keys_of_owners(SPEC, known, deleted)] == enqueued


def test_the_version_of_an_owner_reference_does_not_matter() -> None:
    assert (
        len(list(keys_of_owners(SPEC, SPEC.owned[0], change(None, cached(owner=owner(group="example.com/v1beta1"))))))
        == 1
    )


def test_a_watched_object_is_mapped_before_and_after_a_change() -> None:
    seen: list[str] = []

    def mapper(secret: Metadata, caches: Caches) -> Iterable[Key]:
        seen.append(secret.resource_version)
        return (Key("", BACKUP, "web", "nightly"), Key("", BACKUP, "web", f"by-{secret.resource_version}"))

    spec = Controller.of(BACKUP).watches(SECRET, to=mapper, metadata_only=True).reconciled_by(Reconciler())
    event = change(cached(version="1"), cached(version="2"))
    keys = list(mapped_keys(spec.watched[0], event, NO_CACHES))
    assert seen == ["1", "2"]
    assert [key.name for key in keys] == ["nightly", "by-1", "by-2"]
    assert reason_of(event, Why.WATCHED, spec.watched[0]) == "watched Secret web/a changed"


def test_watched_object_is_decoded_for_the_map_function_unless_metadata_only() -> None:
    def mapper(secret: Object, caches: Caches) -> Iterable[Key]:
        return (Key("", BACKUP, secret.namespace, str(secret.get("metadata", "name"))),)

    spec = Controller.of(BACKUP).watches(SECRET, to=mapper).reconciled_by(Reconciler())
    [key] = mapped_keys(spec.watched[0], change(None, cached()), NO_CACHES)
    assert key.name == "a"
