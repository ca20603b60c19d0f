"""Replays the recorded responses of a real kube-apiserver to GET, LIST and WATCH against the in-memory store. See
`tools/record/reading.py`."""

import asyncio
import copy
import json
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import pytest
from record.reading import COLLECTIONS, WIDGETS, masked, masked_line, query_text

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.reading import (
    Watch,
    bookmark_of,
    list_body,
    list_page,
    read_one,
    read_options,
    wants_watch,
)
from konverge_testing.apiserver.requests import Query
from konverge_testing.apiserver.resources import Resource, Strategy, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.storage import Store

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
STEPS: list[dict[str, Any]] = RECORDED["steps"]
CASES = [pytest.param(number, id=step["case"]) for number, step in enumerate(STEPS) if "case" in step]


class Labelled(Strategy):
    """A kind with fields of its own."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def field_labels(self, object_: dict[str, Any]) -> dict[str, str]:
        return dict.fromkeys(self.fields, "")


def resource(plural: str, kind: str, strategy: Strategy | None = None, *, namespaced: bool = True) -> Resource:
    group, name = COLLECTIONS[plural]
    selectable = (".spec.color", ".spec.size", ".spec.on") if plural == "widgets" else ()
    version = Version(name, Node(WIDGETS if plural == "widgets" else {}), selectable=selectable)
    return Resource(
        group=group,
        plural=plural,
        kind=kind,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        versions=(version,),
        custom=plural == "widgets",
        strategy=strategy or Strategy(),
    )


RESOURCES = {
    "configmaps": resource("configmaps", "ConfigMap"),
    "widgets": resource("widgets", "Widget"),
    "secrets": resource("secrets", "Secret", Labelled("type")),
    "nodes": resource("nodes", "Node", Labelled("spec.unschedulable"), namespaced=False),
    "namespaces": resource("namespaces", "Namespace", Labelled("status.phase"), namespaced=False),
}


class Player:
    """Plays the script's writes on a store, and sends its cases."""

    def __init__(self) -> None:
        # Real version counters do not start at 1 either; no request uses an earlier version.
        self.store = Store(100)
        self.versions: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def write(self, step: dict[str, Any]) -> None:
        found = copy.deepcopy(step["object"])
        identity = RESOURCES[step["resource"]].id
        before = self.store.get(identity, found["metadata"]["namespace"], found["metadata"]["name"])
        if step["write"] == "create":
            entry = self.store.create(identity, found)
        elif step["write"] == "update":
            assert before is not None
            entry = self.store.update(identity, before, found)
        else:
            assert before is not None
            entry = self.store.delete(identity, before)
        self.versions[step["label"]] = self.last[step["resource"]] = entry.version

    def play(self, number: int) -> None:
        for step in STEPS[:number]:
            if "write" in step:
                self.write(step)
            if "forget" in step:
                # A restarted server knows the history only since its own first lists; the script's writes happened before.
                self.store.jump(5)
                self.store.forget()
            for write in step.get("writes", ()):
                self.write(write)

    async def case(self, step: dict[str, Any]) -> dict[str, Any]:
        self.store.jump(1)
        query = Query(parse_qsl(query_text(step["query"], self.versions), keep_blank_values=True))
        kind = RESOURCES[step["resource"]]
        try:
            if "name" in step:
                entry = read_one(self.store, kind, step["namespace"], step["name"], query)
                return {"code": 200, "body": self.masked(step, entry.object())}
            options = read_options(query, kind, "v1", step["namespace"])
            if not wants_watch(query):
                body = list_body(
                    list_page(self.store, options), kind.api_version("v1"), kind.list_kind, custom=kind.custom
                )
                return {"code": 200, "body": self.masked(step, json.loads(body))}
            watch = Watch(
                self.store, options, bookmark=bookmark_of(kind.api_version("v1"), kind.kind), random=Random(1)
            )
        except StatusError as error:
            return {"code": error.code, "body": self.masked(step, error.body())}
        return await self.watched(step, watch)

    def masked(self, step: dict[str, Any], body: dict[str, Any]) -> Any:
        return masked(body, self.versions, self.last.get(step["resource"], 0))

    async def watched(self, step: dict[str, Any], watch: Watch) -> dict[str, Any]:
        lines: list[bytes] = []
        ended = False
        last = self.last[step["resource"]]
        for write in step.get("writes", ()):
            self.write(write)
        try:
            async with asyncio.timeout(step["seconds"] + 0.3):
                async for line in watch:
                    assert line.endswith(b"\n")
                    lines.append(line)
                ended = True
        except TimeoutError:
            watch.close()
        return {
            "code": 200,
            "ended": ended,
            "lines": once([masked_line(json.loads(line), self.versions, last) for line in lines]),
        }


def once(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines without repeated bookmarks: their number in the last seconds is random."""
    return [
        line
        for line, before in zip(lines, [None, *lines], strict=False)
        if line["type"] != "BOOKMARK" or line != before
    ]


@pytest.mark.parametrize("number", CASES)
async def test_the_response_is_the_real_servers(number: int) -> None:
    player = Player()
    player.play(number)
    expected = dict(STEPS[number]["answer"])
    if "lines" in expected:
        expected["lines"] = once(expected["lines"])
    assert await player.case(STEPS[number]) == expected


def test_enough_was_recorded_from_the_server_that_we_follow() -> None:
    assert RECORDED["server"].startswith("v1.36.")
    assert len(CASES) >= 50
