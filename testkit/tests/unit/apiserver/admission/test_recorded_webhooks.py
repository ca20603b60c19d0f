"""Webhooks as a real server called them (see `tools/record/admission/recorder.py`): equal reviews, and equal responses to the client."""

import asyncio
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from record.admission.hooks import answered
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall, Handler
from konverge_testing.apiserver.auth import attributes_of
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.requests import Call, User
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.loop import VirtualTimeLoop

Data = dict[str, Any]

RECORDED: list[Data] = json.loads(Path(__file__).with_name("recorded.json").read_text())["webhooks"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = "https://hooks.example.com:8443"
ONLY_REAL = frozenset(
    {"absent", "broken", "broken and ignored", "refused", "refused and ignored", "a status", "unknown authority"}
)
"""Cases that need a connection: tested over HTTPS in another file."""


class Room:
    """Admission over one webhook configuration, its hooks in this process."""

    def __init__(self, case: Data) -> None:
        self.asked: list[Data] = []
        self.case = case
        text = json.dumps(case["webhooks"]).replace("ADDRESS", ADDRESS)
        labels = {"kubernetes.io/metadata.name": "default"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{case['kind']}WebhookConfiguration"}
        configuration = {**head, "metadata": {"name": "probe"}, "webhooks": json.loads(text)}
        handlers = {f"{ADDRESS}/{name}": self._handler(f"/{name}") for name in ("hook", "one", "two")}
        self.admission = Admission(
            Stored([namespace, configuration]), draws=Draws(random.Random(1)), handlers=handlers, clock=lambda: NOW
        )

    def outcome(self, call: AdmissionCall) -> tuple[Data, Data | None]:
        """Return the resulting object, and the status of a rejection; time is virtual, since some hooks are late."""
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(self._outcome(call))

    async def _outcome(self, call: AdmissionCall) -> tuple[Data, Data | None]:
        try:
            found = await self.admission.mutate(call)
            await self.admission.validate(call)
        except StatusError as error:
            return {}, error.body()
        return found, None

    def _handler(self, path: str) -> Handler:
        async def handle(review: Data) -> Data:
            self.asked.append(review)
            found = answered(self.case["behaviour"], review, path)
            if found is None and self.case["behaviour"] == "late":
                await asyncio.sleep(60)
            return found or {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}

        return handle


def _call(case: Data) -> AdmissionCall:
    method, path, body = case["request"]
    wanted = attributes_of(Call.of(method, path))
    group = wanted.group
    shown = [asked["review"]["request"] for asked in case["asked"]]
    operation = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE", "DELETE": "DELETE"}[method]
    first = shown[0] if shown else {"object": body, "oldObject": case["old"]}
    user = first.get("userInfo", {"username": "admin", "groups": []})
    kind = (body or case["old"])["kind"]
    place = _place(wanted.resource, kind, wanted.namespace, first)
    return AdmissionCall(
        operation,  # type: ignore[arg-type]  # mypy sees strings
        Resource(group=group, plural=wanted.resource, kind=kind, versions=(Version("v1", Node({})),)),
        wanted.version,
        namespace=place,
        name=wanted.name or body["metadata"]["name"],
        object=first["object"],
        old=first["oldObject"],
        user=User(
            user["username"],
            tuple(user["groups"]),
            extra={key: tuple(value) for key, value in user.get("extra", {}).items()},
        ),
        dry_run="dryRun" in path,
        options=first.get("options"),
    )


def _place(plural: str, kind: str, namespace: str, first: Data) -> str:
    return str(first.get("namespace", "")) if plural == "namespaces" else namespace


@pytest.mark.parametrize(
    "case", [case for case in RECORDED if case["name"] not in ONLY_REAL], ids=lambda case: case["name"]
)
def test_a_write_is_answered_as_by_a_real_server(case: Data) -> None:
    room, call = Room(case), _call(case)
    found, refused = room.outcome(call)
    if refused is not None or case["status"] not in (200, 201):
        shown = json.loads(json.dumps(refused).replace(ADDRESS, "ADDRESS"))
        assert _uidless(shown) == _uidless(case["answer"])
    elif call.operation != "DELETE":
        assert found.get("data") == case["answer"].get("data")
        assert call.warnings == (case["behaviour"].get("warnings", []) if isinstance(case["behaviour"], dict) else [])


def _uidless(status: Data) -> Data:
    text = json.dumps(status)
    start = text.find('expected response.uid=\\"')
    while start >= 0:
        at = start + len('expected response.uid=\\"')
        text = text[:at] + text[at + 36 :]
        start = text.find('expected response.uid=\\"', at)
    found: Data = json.loads(text)
    return found


@pytest.mark.parametrize(
    "case", [case for case in RECORDED if case["name"] not in ONLY_REAL], ids=lambda case: case["name"]
)
def test_a_webhook_is_sent_what_a_real_server_sends(case: Data) -> None:
    room, call = Room(case), _call(case)
    room.outcome(call)
    assert [_comparable(review) for review in room.asked] == [_comparable(asked["review"]) for asked in case["asked"]]


def _comparable(review: Data) -> Data:
    assert review["request"]["uid"]
    return {**review, "request": {**review["request"], "uid": ""}}


def test_the_recorded_cases_are_many_enough() -> None:
    assert len(RECORDED) >= 50
