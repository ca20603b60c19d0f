"""The response to a write that removed an object's last finalizer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from konverge.client import Client, WriteState
from konverge.client.responses import decode_stored
from konverge.kinds import kind

WIDGET = kind("tests.konverge.dev/v1", "Widget", namespaced=True, plural="widgets")
Say = Callable[..., Any]
DELETED = {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}

CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("lives", {}, False),
    ("lives with a finalizer", {"finalizers": ["a"]}, False),
    ("waits for a finalizer", {**DELETED, "finalizers": ["a"]}, False),
    ("has none left", DELETED, True),
    ("has an empty list left", {**DELETED, "finalizers": []}, True),
    ("says nothing of grace", {"deletionTimestamp": "2030-01-01T00:00:00Z"}, True),
    ("is a pod whose grace runs", {**DELETED, "deletionGracePeriodSeconds": 30}, False),
]


@pytest.mark.parametrize(("what", "about", "ended"), CASES, ids=[case[0] for case in CASES])
async def test_an_object_has_ended_when_it_is_deleted_and_nothing_holds_it(
    what: str, about: dict[str, Any], ended: bool, client: Client, server: Any, say: Say
) -> None:
    metadata = {"name": "a", "namespace": "web", "resourceVersion": "7", "uid": "u", **about}
    assert decode_stored(json.dumps({"metadata": metadata}).encode()).ended is ended
    server.script = [say({"kind": "Widget", "metadata": metadata})]
    await client.patch(WIDGET, "a", "web", patch=[], style="json", writer="me")
    [write] = client.ledger.pending("me")
    assert write.uid == "u"
    assert write.state is (WriteState.DELETED if ended else WriteState.DONE)
    assert write.version == ("" if ended else "7")
