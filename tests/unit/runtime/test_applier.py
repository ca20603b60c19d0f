from collections.abc import Mapping
from typing import Any
from unittest import mock

import msgspec
import pytest

from konverge.errors import ApplyConflict, FieldConflict
from konverge.fields import Owner, unchanged
from konverge.informers import Cached
from konverge.keys import Key
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.objects import Metadata, Object
from konverge.runtime.apply.applier import HELD_RETRY, Applier
from konverge.runtime.apply.conflicts import HOLD, TAKE, FieldsHeld

CONFIG_MAP = kind("v1", "ConfigMap")
KEY = Key("", CONFIG_MAP, "web", "a")
OWNER = Owner("konverge", "Apply", "")


def fields(value: Any) -> bytes:
    return msgspec.json.encode(value)


def stored(data: dict[str, Any], owned: Any, *, version: str = "1", generation: int = 1) -> Cached:
    metadata = Metadata(name="a", namespace="web", uid="u", resource_version=version, generation=generation)
    body = {"metadata": {"name": "a", "namespace": "web"}, **data}
    return Cached(metadata=metadata, body=fields(body), owned=None if owned is None else {OWNER: fields(owned)})


class Server:
    """Responds to applies with a fixed object, or a conflict."""

    def __init__(self, answer: dict[str, Any] | None = None, conflict: ApplyConflict | None = None) -> None:
        self.answer = answer
        self.conflict = conflict
        self.sent: list[Mapping[str, Any]] = []
        self.forced: list[bool] = []

    async def apply_raw(self, kind_: Any, body: Mapping[str, Any], *, force: bool = False, **_: Any) -> bytes:
        self.sent.append(body)
        self.forced.append(force)
        if self.conflict is not None:
            raise self.conflict
        assert self.answer is not None
        return fields(self.answer)

    async def settle_nulls(self, kind_: Any, body: Mapping[str, Any]) -> dict[str, Any]:
        return {**body, "data": {name: value for name, value in body["data"].items() if value is not None}}


def applier(server: Server, now: float = 0.0) -> Applier:
    return Applier(server, controller="backup", metrics=Metrics(), now=lambda: now)  # type: ignore[arg-type]  # the only call used


def answer(data: dict[str, Any], owned: Any) -> dict[str, Any]:
    managed = [] if owned is None else [{"manager": "konverge", "operation": "Apply", "fieldsV1": owned}]
    return {"metadata": {"name": "a", "namespace": "web", "managedFields": managed}, **data}


OWNED: dict[str, Any] = {"f:data": {"f:k": {}}}
INTENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web"}, "data": {"k": "v"}}


async def apply(
    made: Applier, cached: Cached | None, intent: dict[str, Any] = INTENT, **how: Any
) -> tuple[Object, bool]:
    how.setdefault("on_conflict", TAKE)
    return (await made.apply(KEY, intent, cached=cached, manager="konverge", **how))[:2]


async def test_nothing_is_sent_where_values_and_ownership_are_equal() -> None:
    server = Server()
    found, sent = await apply(applier(server), stored({"data": {"k": "v", "other": "x"}}, OWNED))
    assert (sent, server.sent) == (False, [])
    assert found.get("data", "k") == "v"


@pytest.mark.parametrize(
    ("data", "answered", "owned", "exact"),
    [
        ({"k": "v"}, {"k": "v"}, OWNED, True),
        ({"k": "v"}, {"k": "v", "other": "x"}, OWNED, True),
        ({"k": "v"}, {"k": "normalized"}, OWNED, False),
        ({"k": "v"}, {"k": "v"}, {"f:data": {"f:k": {}, "f:more": {}}}, False),
        ({"k": "v"}, {"k": "v"}, None, False),
        ({"k": "v", "n": None}, {"k": "v"}, OWNED, False),
    ],
    ids=["as sent", "with a field of others", "another value", "more fields", "not as ours", "without a null"],
)
async def test_an_apply_is_exact_if_a_comparison_would_find_no_change(
    data: dict[str, Any], answered: dict[str, Any], owned: Any, exact: bool
) -> None:
    server, intent = Server(answer({"data": answered}, owned)), {**INTENT, "data": data}
    applied = await applier(server).apply(KEY, intent, cached=None, manager="konverge", on_conflict=TAKE)
    assert (applied.sent, applied.exact) == (True, exact)
    if exact:
        after = applier(server).unchanged(intent, KEY, stored({"data": answered}, owned), OWNER)
        assert after is not None


@pytest.mark.parametrize(
    "cached",
    [
        None,
        stored({"data": {"k": "v"}}, None),
        stored({"data": {"k": "old"}}, OWNED),
        stored({"data": {"k": "v"}}, {"f:data": {"f:k": {}, "f:l": {}}}),
    ],
    ids=["not cached", "not owned", "another value", "more owned than wanted"],
)
async def test_an_apply_is_sent_where_anything_would_change(cached: Cached | None) -> None:
    server = Server(answer({"data": {"k": "v"}}, OWNED))
    found, sent = await apply(applier(server), cached)
    assert sent
    assert server.forced == [True]
    assert "managedFields" not in found.data["metadata"]


async def test_a_value_that_the_server_normalises_does_not_loop() -> None:
    intent = {**INTENT, "spec": {"cpu": "1000m"}}
    owned: dict[str, Any] = {"f:data": {"f:k": {}}, "f:spec": {"f:cpu": {}}}
    live = {"data": {"k": "v"}, "spec": {"cpu": "1"}}
    server = Server(answer(live, owned))
    made = applier(server)
    await apply(made, None, intent)
    _, sent = await apply(made, stored(live, owned), intent)
    assert not sent
    _, sent = await apply(made, stored({**live, "spec": {"cpu": "2"}}, owned, version="2"), intent)
    assert sent


async def test_a_child_that_stands_is_compared_once_for_each_of_its_versions() -> None:
    made = applier(Server())
    compared = mock.Mock(wraps=unchanged)
    with mock.patch("konverge.runtime.apply.applier.unchanged", compared):
        for version, times in (("1", 1), ("1", 1), ("2", 2), ("2", 2), ("1", 3)):
            found, sent = await apply(made, stored({"data": {"k": "v"}}, OWNED, version=version))
            assert (sent, compared.call_count, found.get("data", "k")) == (False, times, "v")
        made.forget(KEY)
        assert made.remembered == 0


async def test_an_object_found_unchanged_is_a_private_copy_for_each_caller() -> None:
    made, live = applier(Server()), stored({"data": {"k": "v"}}, OWNED)
    for _ in range(3):
        found, _ = await apply(made, live)
        found.data["data"]["k"] = "spoiled"
        assert live.data()["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("data", "cached"),
    [
        pytest.param({"k": True}, stored({"data": {"k": 1}}, OWNED), id="a value that only Python takes for equal"),
        pytest.param({"k": 1.5}, stored({"data": {"k": 1}}, OWNED), id="another value"),
        pytest.param({"k": 1, "l": 1}, stored({"data": {"k": 1}}, OWNED), id="one more field"),
        pytest.param({"k": 1}, stored({"data": {"k": 1}}, {}, version="2"), id="a version of which we own nothing"),
        pytest.param({"k": 1}, stored({"data": {"k": 2}}, OWNED, version="2"), id="a version with another value"),
    ],
)
async def test_unchanged_apply_is_sent_again_for_another_intent_or_version(data: Any, cached: Cached) -> None:
    server = Server(answer({"data": {"k": 1}}, OWNED))
    made = applier(server)
    _, sent = await apply(made, stored({"data": {"k": 1}}, OWNED), {**INTENT, "data": {"k": 1}})
    assert not sent
    _, sent = await apply(made, cached, {**INTENT, "data": data})
    assert sent


async def test_a_successor_of_the_same_name_is_looked_at_anew() -> None:
    server = Server(answer({"data": {"k": "v"}}, OWNED))
    made, before = applier(server), stored({"data": {"k": "v"}}, OWNED)
    await apply(made, before)
    successor = Cached(msgspec.structs.replace(before.metadata, uid="another"), before.body, owned=None)
    _, sent = await apply(made, successor)
    assert sent


async def test_an_answer_is_recognised_whatever_way_its_json_is_escaped() -> None:
    intent = {**INTENT, "tags": ["a&b"], "cpu": "1000m"}
    owned: dict[str, Any] = {"f:cpu": {}, "f:data": {"f:k": {}}, "f:tags": {'v:"a&b"': {}}}
    live = {"cpu": "1", "data": {"k": "v"}, "tags": ["a&b"]}
    made = applier(Server(answer(live, owned)))
    await apply(made, None, intent)
    cached = stored(live, owned)
    escaped = fields(owned).replace(b"&", b"\\u0026")
    assert escaped != fields(owned)
    cached = Cached(metadata=cached.metadata, body=cached.body, owned={OWNER: escaped})
    _, sent = await apply(made, cached, intent)
    assert not sent


async def test_a_held_conflict_is_reported_and_not_sent_again_until_something_changed() -> None:
    conflict = ApplyConflict("conflict", conflicts=(FieldConflict("kubectl", ".data.k"),))
    server = Server(conflict=conflict)
    made = applier(server)
    live = stored({"data": {"k": "theirs"}}, None)
    for _ in range(3):
        with pytest.raises(FieldsHeld) as caught:
            await apply(made, live, on_conflict=HOLD)
        assert caught.value.held.conflicts[0].field == ".data.k"
    assert len(server.sent) == 1
    assert server.forced == [False]
    with pytest.raises(FieldsHeld):
        await apply(made, live, {**INTENT, "data": {"k": "new"}}, on_conflict=HOLD)
    assert len(server.sent) == 2
    with pytest.raises(FieldsHeld):
        await apply(made, stored({"data": {"k": "another"}}, None, version="2"), on_conflict=HOLD)
    assert len(server.sent) == 3


async def test_held_apply_is_retried_slowly_if_only_the_version_changes() -> None:
    conflict = ApplyConflict("conflict", conflicts=(FieldConflict("kubectl", ".data.k"),))
    server, clock = Server(conflict=conflict), [0.0]
    made = Applier(server, controller="backup", metrics=Metrics(), now=lambda: clock[0])  # type: ignore[arg-type]  # the only call used
    for at, version, sent in ((0.0, "1", 1), (1.0, "2", 1), (HELD_RETRY + 1, "2", 2)):
        clock[0] = at
        with pytest.raises(FieldsHeld) as caught:
            await apply(made, stored({}, None, version=version), on_conflict=HOLD)
        assert len(server.sent) == sent
        if at == 1.0:
            assert caught.value.look_again == HELD_RETRY - 1.0


async def test_held_apply_is_retried_at_once_for_a_successor_object() -> None:
    server = Server(conflict=ApplyConflict("conflict", conflicts=(FieldConflict("kubectl", ".data.k"),)))
    made = applier(server)
    live = stored({"data": {"k": "theirs"}}, None)
    successor = stored({"data": {"k": "theirs"}}, None, version="2")
    successor = msgspec.structs.replace(successor, metadata=msgspec.structs.replace(successor.metadata, uid="another"))
    for cached in (live, live, successor):
        with pytest.raises(FieldsHeld):
            await apply(made, cached, on_conflict=HOLD)
    assert len(server.sent) == 2, "the second was held back, and the third was sent"


async def test_an_object_under_deletion_is_never_taken_for_unchanged() -> None:
    metadata = Metadata(name="a", namespace="web", uid="u", deletion_timestamp="2030-01-01T00:00:00Z")
    dying = Cached(metadata=metadata, body=fields({"data": {"k": "v"}}), owned={OWNER: fields(OWNED)})
    assert applier(Server()).unchanged(INTENT, KEY, dying, OWNER) is None
