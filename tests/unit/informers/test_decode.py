"""Decoding of events and items: managedFields, owned fields, dropped objects, transforms."""

import json
from typing import Any

import msgspec
import pytest

from konverge.client import WatchEvent
from konverge.dropped import DroppedFields
from konverge.errors import Expired, MetadataOnly, UsageError
from konverge.fields import Owner
from konverge.informers.decode import Decoder, Interner, strip
from konverge.informers.messages import Bookmark, Failed, Items
from konverge.informers.problem import RestartCause
from konverge.informers.settings import Selection
from konverge.informers.store import Cached
from konverge.kinds import kind
from konverge.objects import Metadata

THING = kind("example.com/v1", "Thing")
COMPACT: Any = {"separators": (",", ":")}


def managed(*managers: str, operation: str = "Apply") -> list[dict[str, Any]]:
    return [
        {"manager": name, "operation": operation, "apiVersion": "v1", "fieldsV1": {"f:spec": {f"f:{name}": {}}}}
        for name in managers
    ]


def thing(**more: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "web", "uid": "u", "resourceVersion": "7", **more.pop("metadata", {})}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, **more}


DECOYS = {"template": {"metadata": {"managedFields": managed("kubectl", "ours")}}, "text": 'é "managedFields":[]'}


def decoder(selection: Selection | None = None, *managers: str) -> tuple[Decoder, list[tuple[str, str]]]:
    odd: list[tuple[str, str]] = []
    return Decoder(selection or Selection(THING), frozenset(managers), lambda why, about: odd.append((why, about))), odd


def event(type_: str, body: Any, **style: Any) -> WatchEvent:
    return WatchEvent(type_, msgspec.Raw(json.dumps(body, **style).encode()))


def only(inputs: list[Any]) -> Cached:
    (items,) = inputs
    assert isinstance(items, Items)
    (change,) = items.changes
    assert change.new is not None
    return change.new


@pytest.mark.parametrize(
    ("metadata", "style"),
    [
        pytest.param(lambda m: {"managedFields": m}, COMPACT, id="last in the metadata, as typed kinds have it"),
        pytest.param(lambda m: {"managedFields": m, "zone": "x"}, COMPACT, id="in the middle, as custom resources have it"),
        pytest.param(lambda m: {"managedFields": m}, {}, id="with spaces"),
        pytest.param(lambda m: {"managedFields": m, "z": 1}, {"separators": (",", ": ")}, id="with a space before each value"),
        pytest.param(lambda m: {"managedFields": m}, {"indent": 2}, id="over many lines"),
        pytest.param(lambda m: {"annotations": {"last": json.dumps({"managedFields": m})}, "managedFields": m}, COMPACT, id="the same word inside an annotation"),
        pytest.param(lambda m: {"annotations": {'a"managedFields': "x"}, "managedFields": m}, COMPACT, id="a key that ends with the word"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("decoys", [{}, DECOYS], ids=["the word once", "the word elsewhere too"])
def test_managed_fields_are_cut_out_and_nothing_else(decoys: Any, metadata: Any, style: Any) -> None:
    whole = thing(metadata=metadata(managed("kubectl", "ours")), spec={"replicas": 2, **decoys})
    cached = only(decoder()[0].events([event("ADDED", whole, **style)]))
    expected = json.loads(json.dumps(whole))
    del expected["metadata"]["managedFields"]
    assert cached.data() == expected


def test_both_ways_to_cut_managed_fields_out_give_the_same_object() -> None:
    body = thing(metadata={"managedFields": managed("ours")}, spec={"replicas": 2})
    compact, spaced = json.dumps(body, **COMPACT).encode(), json.dumps(body).encode()
    fields = json.dumps(body["metadata"]["managedFields"], **COMPACT).encode()
    spaced_fields = json.dumps(body["metadata"]["managedFields"]).encode()
    assert json.loads(strip(compact, fields)) == json.loads(strip(spaced, spaced_fields))


def test_managed_fields_are_cut_out_of_metadata_that_holds_nothing_else() -> None:
    assert json.loads(strip(b'{"metadata":{"managedFields":[{}]}}', b"[{}]")) == {"metadata": {}}


def test_managed_fields_outside_of_the_metadata_are_not_cut_out() -> None:
    fields = managed("ours")
    metadata = {"managedFields": fields, "name": "a", "resourceVersion": "7"}
    data = {"managedFields": fields, "more": 1}
    whole = {"apiVersion": "example.com/v1", "data": data, "kind": "Thing", "metadata": metadata}
    cached = only(decoder()[0].events([event("ADDED", whole, **COMPACT)]))
    assert cached.data()["data"] == {"managedFields": fields, "more": 1}
    assert "managedFields" not in cached.data()["metadata"]


def test_the_bytes_of_an_object_without_managed_fields_are_unchanged() -> None:
    raw = json.dumps(thing(spec={"a": 1})).encode()
    cached = only(decoder()[0].events([WatchEvent("ADDED", msgspec.Raw(raw))]))
    assert cached.body == raw


def test_a_cached_object_shares_no_memory_with_the_network_read() -> None:
    page = b"[" + json.dumps(thing()).encode() + b"," + json.dumps(thing()).encode() + b"]"
    raws = msgspec.json.decode(page, type=list[msgspec.Raw])
    items = decoder()[0].items(raws)
    assert all(change.new is not None and type(change.new.body) is bytes for change in items.changes)
    assert all(type(change.new.metadata) is Metadata for change in items.changes if change.new is not None)


def test_field_sets_of_our_own_managers_are_kept_and_shared_where_equal() -> None:
    body = thing(metadata={"managedFields": [*managed("ours", "others"), *managed("ours", operation="Update")]})
    decode, _ = decoder(None, "ours", "ours.shard")
    first, second = (only(decode.events([event("ADDED", body, **COMPACT)])) for _ in range(2))
    assert first.owned == {Owner("ours", "Apply", ""): b'{"f:spec":{"f:ours":{}}}'}
    assert first.owned is second.owned


@pytest.mark.parametrize("style", [COMPACT, {}], ids=["compact", "spaced"])
def test_an_object_that_no_manager_of_ours_applied_has_no_owned_fields(style: Any) -> None:
    body = thing(metadata={"managedFields": managed("ours-too", "others"), "annotations": {"by": "ours"}})
    assert only(decoder(None, "ours")[0].events([event("ADDED", body, **style)])).owned is None


def test_equal_labels_and_owners_of_neighbouring_objects_are_interned() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-r", "controller": True}
    parts = {"labels": {"app": "shop"}, "ownerReferences": [owner]}
    decode, _ = decoder()
    first, second, other = (
        only(decode.events([event("ADDED", thing(metadata={"name": name, "labels": {"app": app}} | more))])).metadata
        for name, app, more in (("a", "shop", parts), ("b", "shop", parts), ("c", "blog", {}))
    )
    assert first.labels is second.labels
    assert first.owner_references is second.owner_references
    assert first.namespace is second.namespace is other.namespace
    assert other.labels == {"app": "blog"}
    assert other.owner_references == ()


def test_the_table_of_interned_values_is_bounded() -> None:
    sharing = Interner(limit=10)
    for number in range(100):
        assert sharing.metadata(Metadata(name="a", labels={"n": str(number)})).labels == {"n": str(number)}
        assert sharing.fields({Owner("ours", "Apply", ""): b"%d" % number})
    assert len(sharing._known) <= 13


def test_events_are_decoded_into_inputs_in_order() -> None:
    def at(version: str, name: str = "a") -> dict[str, Any]:
        return thing(metadata={"resourceVersion": version, "name": name})

    decode, odd = decoder()
    inputs = decode.events(
        [
            event("MODIFIED", at("8")),
            event("DELETED", at("9", "b")),
            event("BOOKMARK", at("12")),
            event("ADDED", at("13")),
            event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
            event("ADDED", at("14")),
        ]
    )
    first, bookmark, second, failed = inputs
    assert isinstance(first, Items)
    assert [(change.name, change.new is None) for change in first.changes] == [("a", False), ("b", True)]
    assert (first.version, first.added) == ("9", False)
    assert bookmark == Bookmark("12")
    assert isinstance(second, Items)
    assert (second.version, second.added) == ("13", True)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, Expired)
    assert failed.cause == RestartCause.EXPIRED
    assert odd == []


def test_only_the_marked_bookmark_ends_the_initial_objects() -> None:
    decode, _ = decoder()
    mark = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "9"}
    assert decode.events([event("BOOKMARK", thing(metadata=mark))]) == [Bookmark("9", ends_initial=True)]
    mark["annotations"] = {"k8s.io/initial-events-end": "false"}
    assert decode.events([event("BOOKMARK", thing(metadata=mark))]) == [Bookmark("9")]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(event("ADDED", thing() | {"kind": "Other"}), "WrongKind", id="another kind"),
        pytest.param(event("ADDED", thing() | {"apiVersion": "example.com/v2"}), "WrongKind", id="another version"),
        pytest.param(event("ADDED", thing() | {"kind": "PartialObjectMetadata"}), "WrongKind", id="metadata unasked for"),
        pytest.param(event("ADDED", {"kind": "Thing", "apiVersion": "example.com/v1"}), "Unreadable", id="no metadata"),
        pytest.param(event("ADDED", thing(metadata={"name": ""})), "Unreadable", id="no name"),
        pytest.param(event("ADDED", thing(metadata={"labels": {"a": 1}})), "Unreadable", id="labels that are no text"),
        pytest.param(event("GROWN", thing()), "UnknownEvent", id="an unknown type"),
        pytest.param(event("BOOKMARK", {"metadata": {}}), "Unreadable", id="a bookmark without a version"),
        pytest.param(event("BOOKMARK", []), "Unreadable", id="a bookmark that is no object"),
    ],
)  # fmt: skip
def test_undecodable_objects_are_dropped_counted_and_reported_and_the_stream_continues(
    given: WatchEvent, why: str
) -> None:
    decode, odd = decoder()
    good = event("ADDED", thing(metadata={"name": "good"}))
    names = [
        change.name
        for given_ in decode.events([good, given, good])
        if isinstance(given_, Items)
        for change in given_.changes
    ]
    assert names == ["good", "good"]
    assert [what for what, _ in odd] == [why]
    assert decode.anomalies == {why: 1}


def test_items_of_a_list_need_not_repeat_their_kind() -> None:
    body = thing(spec={"a": 1})
    del body["kind"], body["apiVersion"]
    (change,) = decoder()[0].items([msgspec.Raw(json.dumps(body).encode())]).changes
    assert change.new is not None
    assert change.new.decode(THING).to_dict() == thing(spec={"a": 1})


def test_a_metadata_only_selection_keeps_no_body_whatever_the_server_sends() -> None:
    selection = Selection(THING, metadata_only=True)
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing()["metadata"]}
    for body in (partial, thing(data={"password": "hunter2"})):
        cached = only(decoder(selection)[0].events([event("ADDED", body)]))
        assert cached.body == b""
        assert cached.metadata_only
        assert cached.data() == {"metadata": thing()["metadata"]}
        with pytest.raises(MetadataOnly, match=r"read it live: await ctx\.live"):
            cached.decode(THING)


def test_unselected_object_is_cached_as_metadata_at_each_version() -> None:
    selection = Selection(THING, whole=lambda metadata: metadata.label("mine") == "yes")
    decode, _ = decoder(selection, "ours")
    for mine in ("yes", "no", "yes"):
        body = thing(metadata={"labels": {"mine": mine}, "managedFields": managed("ours")}, spec={"a": 1})
        cached = only(decode.events([event("MODIFIED", body)]))
        assert cached.metadata_only is (mine == "no")
        whole = thing(metadata={"labels": {"mine": mine}}, spec={"a": 1})
        assert cached.data() == (whole if mine == "yes" else {"metadata": whole["metadata"]})
        assert cached.owned == {Owner("ours", "Apply", ""): b'{"f:spec": {"f:ours": {}}}'}
    item = decode.items([msgspec.Raw(json.dumps(thing(metadata={"labels": {"mine": "no"}})).encode())]).changes[0]
    assert item.new is not None
    assert item.new.metadata_only


@pytest.mark.parametrize("more", [{"transform": dict}, {"whole": bool}])
def test_a_selection_of_metadata_takes_no_function_on_bodies(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a metadata-only selection takes no transform and no `whole`"):
        Selection(THING, metadata_only=True, **more)


def test_transform_runs_before_caching_and_without_managed_fields() -> None:
    def prune(data: dict[str, Any]) -> dict[str, Any]:
        assert "managedFields" not in data["metadata"]
        data["metadata"].pop("annotations", None)
        data.pop("spec")
        return data

    body = thing(metadata={"managedFields": managed("x"), "annotations": {"long": "text"}}, spec={"a": 1})
    cached = only(decoder(Selection(THING, transform=prune))[0].events([event("ADDED", body)]))
    assert cached.metadata.annotations is None
    assert cached.data() == thing()


def _raise(data: dict[str, Any]) -> dict[str, Any]:
    raise KeyError("spec")


def _rename(data: dict[str, Any]) -> dict[str, Any]:
    data["metadata"]["name"] = "other"
    return data


def _forget(data: dict[str, Any]) -> Any:
    return None


@pytest.mark.parametrize(
    "transform", [_raise, _rename, _forget], ids=["raises", "changes the identity", "returns nothing"]
)
def test_an_object_whose_transform_fails_is_cached_untransformed(transform: Any) -> None:
    decode, odd = decoder(Selection(THING, transform=transform))
    cached = only(decode.events([event("ADDED", thing(spec={"password": "hunter2"}))]))
    assert cached.data() == thing(spec={"password": "hunter2"})
    assert [why for why, _ in odd] == ["TransformFailed"]
    assert "hunter2" not in odd[0][1]


def test_dropped_fields_reach_neither_the_body_nor_the_metadata() -> None:
    dropped = DroppedFields.of(("spec.secret", "metadata.annotations['long/text']"), "a test")
    decode, odd = decoder(Selection(THING, dropped=dropped), "ours")
    metadata = {"annotations": {"long/text": "hunter2", "keep": "me"}, "managedFields": managed("ours")}
    cached = only(decode.events([event("ADDED", thing(metadata=metadata, spec={"a": 1, "secret": "hunter2"}))]))
    assert cached.data()["spec"] == {"a": 1}
    assert b"hunter2" not in cached.body
    assert cached.metadata.annotations == cached.data()["metadata"]["annotations"] == {"keep": "me"}
    assert cached.owned == {Owner("ours", "Apply", ""): b'{"f:spec": {"f:ours": {}}}'}
    assert not odd
    nested = b"[" * 10_000 + b"]" * 10_000
    raw = json.dumps(thing(spec={"secret": "hunter2"})).encode().replace(b'"spec"', b'"deep": ' + nested + b', "spec"')
    assert only(decode.events([WatchEvent("ADDED", msgspec.Raw(raw))])).metadata.name == "a"


def test_no_repr_shows_content() -> None:
    body = thing(metadata={"annotations": {"last-applied": "hunter2"}}, data={"password": "hunter2"})
    cached = only(decoder()[0].events([event("ADDED", body)]))
    assert "hunter2" not in repr(cached)
    assert "web/a" in repr(cached)


def test_a_copy_from_the_cache_is_private() -> None:
    cached = only(decoder()[0].events([event("ADDED", thing(spec={"list": [1]}))]))
    cached.data()["spec"]["list"].append(2)
    cached.decode(THING).data["spec"]["list"].append(3)
    assert cached.data()["spec"]["list"] == [1]
