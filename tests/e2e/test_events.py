"""The event recorder against a real API server: what it accepts, merges and refuses."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from konverge.client import Client
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime.events.core import DropReason
from konverge.runtime.events.recorder import EVENT, EVENT_RULE, EventRecorder, EventSettings, Regarding
from konverge_testing.clients import ClientFor

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap")
NAMESPACE = kind("v1", "Namespace", namespaced=False)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


def recorder(client: Client, metrics: Metrics, **numbers: Any) -> EventRecorder:
    settings = EventSettings(retry_delay=0.05, **numbers)
    return EventRecorder(client, controller="konverge.dev/tests", instance="pod-1", metrics=metrics, settings=settings)


def dropped(metrics: Metrics) -> dict[str, int]:
    samples = [sample for family in metrics.events_dropped.collect() for sample in family.samples]
    return {sample.labels["cause"]: int(sample.value) for sample in samples if sample.name.endswith("_total")}


async def events_of(admin: Client, namespace: str, uid: str, enough: Callable[[list[Object]], bool]) -> list[Object]:
    """Return the events about an object as soon as they are as expected; fails after a minute."""
    found: list[Object] = []
    async with asyncio.timeout(60):
        while True:
            listing = await admin.list(EVENT, namespace)
            found = [event for event in listing.items if event.get("regarding", "uid") == uid]
            if enough(found):
                return found
            await asyncio.sleep(0.05)


async def subject(admin: Client, namespace: str, name: str = "subject") -> Regarding:
    return Regarding.of(await admin.create(CONFIG_MAP.new(name, namespace)))


async def test_an_event_is_stored_with_all_its_fields(admin: Client, namespace: str, metrics: Metrics) -> None:
    regarding = await subject(admin, namespace)
    async with recorder(admin, metrics) as events:
        events.record(regarding, "Scheduled", "ä" * 2000, "Warning", "Copy", related=regarding)
        (event,) = await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
    assert event.name.startswith("subject.")
    assert len(event.get("note").encode()) <= 1024
    assert {field: event.get(field) for field in ("reason", "action", "type")} == {
        "reason": "Scheduled",
        "action": "Copy",
        "type": "Warning",
    }
    assert (event.get("reportingController"), event.get("reportingInstance")) == ("konverge.dev/tests", "pod-1")
    assert event.get("regarding", "resourceVersion") == regarding.version
    assert event.get("series") is None
    assert dropped(metrics) == {}


async def test_repeated_events_become_one_series_that_leaving_completes(
    admin: Client, namespace: str, metrics: Metrics
) -> None:
    regarding = await subject(admin, namespace)
    async with recorder(admin, metrics) as events:
        events.record(regarding, "Scheduled", "once")
        await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
        for _ in range(5):
            events.record(regarding, "Scheduled", "and again")
        await events_of(admin, namespace, regarding.uid, lambda found: found[0].get("series", "count") is not None)
    (event,) = await events_of(admin, namespace, regarding.uid, lambda found: found[0].get("series", "count") == 6)
    assert event.get("note") == "once"
    assert event.get("series", "lastObservedTime") > event.get("eventTime")


async def test_a_series_whose_event_was_deleted_is_created_again(
    admin: Client, namespace: str, metrics: Metrics
) -> None:
    regarding = await subject(admin, namespace)
    async with recorder(admin, metrics) as events:
        events.record(regarding, "Scheduled", "once")
        (event,) = await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
        await admin.delete(EVENT, event.name, namespace)
        events.record(regarding, "Scheduled", "again")
        (again,) = await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
    assert again.get("series", "count") == 2
    assert dropped(metrics) == {}


async def test_an_event_about_a_cluster_scoped_object_goes_to_default(
    admin: Client, namespace: str, metrics: Metrics
) -> None:
    regarding = Regarding.of(await admin.get(NAMESPACE, namespace))
    async with recorder(admin, metrics) as events:
        events.record(regarding, "Seen", "a namespace")
    (event,) = await events_of(admin, "default", regarding.uid, lambda found: len(found) == 1)
    assert event.get("regarding", "kind") == "Namespace"


async def test_an_object_whose_name_cannot_be_a_host_name_can_have_events(
    admin: Client, namespace: str, metrics: Metrics
) -> None:
    role = kind("rbac.authorization.k8s.io/v1", "Role")
    regarding = Regarding.of(await admin.create(role.new("system:odd_Name", namespace)))
    async with recorder(admin, metrics) as events:
        events.record(regarding, "Seen", "an odd name")
    await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
    assert dropped(metrics) == {}


async def test_without_the_right_events_are_counted_and_the_rule_is_named_once(
    admin: Client, client_for: ClientFor, namespace: str, metrics: Metrics, logs: list[Any]
) -> None:
    regarding = await subject(admin, namespace)
    powerless = await client_for("powerless")
    async with recorder(powerless, metrics) as events:
        for reason in ("A", "B"):
            events.record(regarding, reason, "x")
    assert dropped(metrics) == {DropReason.FORBIDDEN: 2}
    told = [entry for entry in logs if entry.get("cause") == DropReason.FORBIDDEN]
    assert [entry["rbac_rule"] for entry in told] == [EVENT_RULE.to_dict()]


async def test_the_rule_that_is_named_suffices(
    admin: Client, client_for: ClientFor, namespace: str, metrics: Metrics
) -> None:
    regarding = await subject(admin, namespace)
    client = await client_for("recorder", rules=[EVENT_RULE.to_dict()])
    async with recorder(client, metrics) as events:
        events.record(regarding, "A", "x")
        await events_of(admin, namespace, regarding.uid, lambda found: len(found) == 1)
        events.record(regarding, "A", "x")
    await events_of(admin, namespace, regarding.uid, lambda found: found[0].get("series", "count") == 2)
    assert dropped(metrics) == {}


async def test_events_in_a_terminating_or_deleted_namespace_are_dropped_silently(
    admin: Client, namespace: str, metrics: Metrics, logs: list[Any]
) -> None:
    name = f"{namespace}-ending"
    await admin.create(NAMESPACE.new(name))
    held = CONFIG_MAP.new("held", name)
    held.data["metadata"]["finalizers"] = ["example.com/hold"]
    regarding = Regarding.of(await admin.create(held))
    await admin.delete(NAMESPACE, name)
    async with recorder(admin, metrics) as events:
        events.record(regarding, "A", "x")
        events.record(Regarding(CONFIG_MAP, "never-was", "a", "u"), "A", "x")
    await admin.patch(CONFIG_MAP, "held", name, patch={"metadata": {"finalizers": None}}, style="merge")
    assert dropped(metrics) == {DropReason.NAMESPACE_ENDING: 2}
    assert [entry for entry in logs if "cause" in entry] == []
