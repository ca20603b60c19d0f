"""Sequences of writes leave, in the plan, what they would leave on the server."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from planned import Sent, recording
from widgets import CONFIG_MAP, Widget, widget

from konverge.client import Client, ClientConfig, ClientSettings, Response, Transport
from konverge.client.requests import Request
from konverge.client.targets import ObjectId
from konverge.crds import crd_manifests
from konverge.errors import AlreadyExists, ApiError, Conflict, NotFound
from konverge.planning.report import changes_of
from konverge.planning.responses import refusal
from konverge.planning.transport import PlannedCluster, PlanningTransport
from konverge_testing import Lab, install_crds

Write = Callable[[Client, str], Awaitable[Any]]
WIDGET = {"apiVersion": "tests.konverge.dev/v1", "kind": "Widget"}


def _planned(config: ClientConfig, cluster: PlannedCluster) -> ClientConfig:
    def opened(_: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
        return PlanningTransport(config.open(settings, user_agent), cluster)

    return ClientConfig.over(opened)


def applied(manager: str, **body: Any) -> Write:
    subresource = "status" if "status" in body else ""

    async def write(client: Client, namespace: str) -> Any:
        metadata = {"name": "one", "namespace": namespace, **body.get("metadata", {})}
        whole = {**WIDGET, **body, "metadata": metadata}
        return await client.apply(Widget, whole, manager=manager, force=True, subresource=subresource)

    return write


def patched(patch: Any, style: Any = "merge", subresource: str = "") -> Write:
    async def write(client: Client, namespace: str) -> Any:
        return await client.patch(Widget, "one", namespace, patch=patch, style=style, subresource=subresource)

    return write


async def created(client: Client, namespace: str) -> Any:
    return await client.create(Widget.new("one", namespace, spec=widget().spec))


async def replaced(client: Client, namespace: str) -> Any:
    stored = await client.get(Widget, "one", namespace)
    stored.spec.parts = 9
    return await client.replace(stored)


async def deleted(client: Client, namespace: str) -> Any:
    return await client.delete(Widget, "one", namespace)


async def guarded(client: Client, namespace: str) -> Any:
    stored = await client.get(Widget, "one", namespace)
    return await client.patch(Widget, expect=stored, patch={"spec": {"parts": 8}}, style="merge")


HELD = patched([{"op": "add", "path": "/metadata/finalizers", "value": ["tests.konverge.dev/held"]}], "json")
FREED = patched([{"op": "remove", "path": "/metadata/finalizers/0"}], "json")


async def version_tested(client: Client, namespace: str) -> Any:
    stored = await client.get(Widget, "one", namespace)
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": stored.metadata.resource_version}
    held = {"op": "add", "path": "/metadata/finalizers", "value": ["tests.konverge.dev/held"]}
    return await client.patch(Widget, "one", namespace, patch=[version, held], style="json")


CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SEQUENCES: dict[str, list[Write]] = {
    "apply": [applied("a", spec={"parts": 2})],
    "apply twice, with another value": [applied("a", spec={"parts": 2}), applied("a", spec={"parts": 3})],
    "apply without a field": [applied("a", spec={"parts": 2, "mode": "x"}), applied("a", spec={"parts": 2})],
    "two managers": [applied("a", spec={"parts": 2}), applied("b", metadata={"labels": {"x": "y"}})],
    "a status": [applied("a", spec={"parts": 2}), applied("a", status={"parts": 2, "conditions": [CONDITION]})],
    "a status without a field": [
        created,
        applied("a", status={"parts": 2, "note": "n"}),
        applied("a", status={"parts": 3}),
    ],
    "merge patches": [created, patched({"spec": {"parts": 4}}), patched({"metadata": {"labels": {"x": "y"}}})],
    "a removed label": [
        created,
        patched({"metadata": {"labels": {"x": "y"}}}),
        patched({"metadata": {"labels": None}}),
    ],
    "a status by patch": [created, patched({"status": {"note": "n"}}, subresource="status")],
    "a finalizer": [created, HELD, applied("a", spec={"parts": 5})],
    "a finalizer for one version": [created, applied("a", spec={"parts": 5}), version_tested],
    "a finalizer that is removed": [created, HELD, FREED],
    "a held deletion": [created, HELD, deleted],
    "a freed deletion": [created, HELD, deleted, FREED],
    "a deletion": [created, deleted],
    "an object that is recreated": [created, deleted, applied("a", spec={"parts": 6})],
    "a replacement": [created, replaced],
    "a guarded patch": [created, applied("a", spec={"mode": "x"}), guarded],
    "a second create": [created, created],
    "a patch of nothing": [patched({"spec": {"parts": 4}})],
    "a deletion of nothing": [deleted],
}
_RUN = (
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def _content(found: Widget | None) -> Any:
    if found is None:
        return None
    document = found.to_dict()
    metadata = {name: value for name, value in document["metadata"].items() if name not in _RUN and value}
    deleting = found.metadata.deleting
    return {**{name: value for name, value in document.items() if value}, "metadata": metadata, "deleting": deleting}


async def _outcome(client: Client, namespace: str, writes: list[Write]) -> list[Any]:
    outcome: list[Any] = []
    for write in writes:
        try:
            await write(client, namespace)
        except ApiError as error:
            outcome.append(type(error).__name__)
    found = await client.find(Widget, "one", namespace)
    listed = [entry.name for entry in await client.list(Widget, namespace)]
    return [*outcome, _content(found), listed]


CASES = [
    pytest.param(name, begun, id=f"{name}, {('all planned', 'the first write is stored')[begun]}")
    for name in SEQUENCES
    for begun in (0, 1)
    # A stored object that the plan deletes and recreates has no defaults: the server cannot try a create of its name.
    if (name, begun) != ("an object that is recreated", 1)
]


@pytest.mark.parametrize(("name", "begun"), CASES)
async def test_a_planned_sequence_leaves_what_the_server_would_store(lab: Lab, name: str, begun: int) -> None:
    """Generations are left out: the overlay counts changes, and the server's count depends on its defaults."""
    await install_crds(lab.client, crd_manifests((Widget,)))
    stored_in, planned_in = await lab.namespace_also("stored"), await lab.namespace_also("planned")
    writes, sent = SEQUENCES[name], Sent()
    for write in writes[:begun]:
        for namespace in (stored_in, planned_in):
            with suppress(NotFound):
                await write(lab.client, namespace)
    expected = await _outcome(lab.client, stored_in, writes[begun:])
    before = await lab.client.find(Widget, "one", planned_in)
    config = _planned(recording(lab.server.config(), sent), PlannedCluster())
    async with Client(config, name=lab.client.name) as client:
        assert await _outcome(client, planned_in, writes[begun:]) == expected
    assert sent.stored_writes == []
    assert await lab.client.find(Widget, "one", planned_in) == before


async def test_a_stale_version_conflicts_in_the_plan(lab: Lab) -> None:
    await lab.create(CONFIG_MAP.new("one", data={"a": "1"}))
    async with Client(_planned(lab.server.config(), PlannedCluster()), name="planner") as client:
        old = await client.get(CONFIG_MAP, "one", lab.namespace)
        await client.patch(CONFIG_MAP, "one", lab.namespace, patch={"data": {"a": "2"}}, style="merge")
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAP, expect=old, patch={"data": {"a": "3"}}, style="merge")
        with pytest.raises(AlreadyExists):
            await client.create(CONFIG_MAP.new("one", lab.namespace))


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/web/pods/a/exec", "/api/v1/namespaces/web/services/a/proxy/x", "/logs"]
)
async def test_a_request_without_a_dry_run_is_refused(lab: Lab, path: str) -> None:
    sent = Sent()
    async with Client(_planned(recording(lab.server.config(), sent), PlannedCluster()), name="planner") as client:
        with pytest.raises(ApiError, match="has no dry run"):
            await client.raw("POST", path, body={})
    assert sent.requests == []


class _Unreadable:
    """A transport of an operator that may write one object and not read it."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.prepare, self.close, self.stream = inner.prepare, inner.close, inner.stream

    async def send(self, request: Request) -> Response:
        if request.method == "GET" and request.path.endswith("/one"):
            return refusal(403, "Forbidden", "no right to get it", ObjectId("", "configmaps", "", "one"))
        return await self._inner.send(request)


@pytest.mark.parametrize("verb", ["apply", "patch", "delete"])
async def test_a_write_to_an_unreadable_object_is_planned(lab: Lab, verb: str) -> None:
    stored = await lab.create(CONFIG_MAP.new("one", data={"a": "1"}))
    cluster = PlannedCluster()

    def opened(_: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
        return PlanningTransport(_Unreadable(lab.server.config().open(settings, user_agent)), cluster)

    async with Client(ClientConfig.over(opened), name="planner") as client:
        if verb == "delete":
            assert await client.delete(CONFIG_MAP, "one", lab.namespace)
        elif verb == "patch":
            await client.patch(CONFIG_MAP, "one", lab.namespace, patch={"data": {"b": "2"}}, style="merge")
        else:
            await client.apply(CONFIG_MAP, CONFIG_MAP.new("one", lab.namespace, data={"b": "2"}).data, force=True)
    (change,) = changes_of(cluster.overlay)
    assert change.action == ("delete" if verb == "delete" else "write")
    assert [field.path for field in change.fields] == ([] if verb == "delete" else [".data.a", ".data.b"])
    assert await lab.get(CONFIG_MAP, "one") == stored
