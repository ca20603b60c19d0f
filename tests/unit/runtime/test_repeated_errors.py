"""An error that repeats reaches the status with the object that it concerns, and leaves the status when it ends."""

import asyncio
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
import structlog
from widgets import By, Widget, part, widget

import konverge as kv
from konverge.client import WatchQuery
from konverge.client.api_warnings import MOST_LOGGED, ApiWarnings
from konverge.metrics import Metrics
from konverge.runtime import Controller
from konverge.runtime.controller.failure_message import failure_message
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Drop, Match, Refuse, Rule

CHILD = Match(verbs=("write",), resources=("configmaps",))
OWNER = Match(verbs=("patch",), resources=("widgets.tests.konverge.dev",), subresource="")
UNKNOWN = (
    "failed to create typed patch object (web/a; apps/v1, Kind=Deployment): .spec.replcas: field not declared in schema"
)
FAULTS: dict[str, tuple[Match, Any, str]] = {
    "an unknown field": (CHILD, Refuse(500, "", UNKNOWN), ".spec.replcas (the kind has no such field)"),
    "a webhook that is down": (CHILD, Refuse(500, "InternalError", "failed calling webhook x: hunter2"), "500 InternalError"),
    "a conflict": (CHILD, Refuse(409, "Conflict", "the object has been modified"), "409 Conflict"),
    "too many requests": (CHILD, Refuse(429, "TooManyRequests", "slow down"), "429 TooManyRequests"),
    "no answer": (CHILD, Drop(), "apply configmaps lab/part-0"),
    "a finalizer that is not added": (OWNER, Refuse(500, "InternalError", "down"), "500 InternalError"),
}  # fmt: skip


async def owns_one(w: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    await ctx.own(part(0, w.namespace))
    ctx.status.set_condition("Ready", True, "Made", "")
    return kv.Done()


async def ends(_: Any, __: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def build(manager: kv.Manager) -> None:
    controller = Controller.of(Widget).owns(kv.kind("v1", "ConfigMap")).finalizer("tests.konverge.dev/hold")
    manager.add(controller.reconciled_by(By(owns_one, ends)))


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("fault", FAULTS)
async def test_an_error_that_repeats_reaches_the_status_and_leaves_it(lab: Lab, fault: str) -> None:
    match, what, words = FAULTS[fault]
    await lab.start(build)
    rule = lab.server.faults.add(Rule(match, what))
    await lab.create(widget())
    failed = await lab.until(Widget, "one", kv.is_false("Ready"), timeout=100)
    ready = failed.condition("Ready")
    assert ready.reason == "ReconcileFailed"
    assert words in ready.message
    assert "hunter2" not in ready.message
    assert ("configmaps lab/part-0" if match is CHILD else "lab/one") in ready.message
    versions = {failed.metadata.resource_version}
    await asyncio.sleep(300)
    versions.add((await lab.get(Widget, "one")).metadata.resource_version)
    assert len(versions) == 1  # the report is written once
    lab.server.faults.remove(rule)
    healed = await lab.until(Widget, "one", kv.is_true("Ready"), timeout=2000)
    assert healed.condition("Ready").reason == "Made"


@pytest.mark.lab_on("memory")
async def test_an_error_that_soon_ends_is_not_reported(lab: Lab) -> None:
    reported: list[str] = []

    async def watched(w: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        reported.extend(condition.reason for condition in w.conditions)
        return await owns_one(w, ctx)

    await lab.start(
        lambda manager: manager.add(Controller.of(Widget).owns(kv.kind("v1", "ConfigMap")).reconciled_by(By(watched)))
    )
    lab.server.faults.add(Rule(CHILD, Refuse(409, "Conflict", "modified"), count=8))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    assert "ReconcileFailed" not in reported


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (UNKNOWN, ".spec.replcas"),
        ('strict decoding error: unknown field "spec.a", unknown field "spec.b"', "spec.a (the kind has no such field), spec.b"),
        ('.spec.password: expected string, got "hunter2"', ""),
    ],
    ids=["an apply", "strict decoding", "another problem"],
)  # fmt: skip
def test_of_a_refusal_only_names_of_fields_are_quoted(message: str, named: str) -> None:
    error = kv.ApiError(message, status=400, reason="BadRequest", request="create pods web/a")
    words = failure_message(error) or ""
    assert named in words
    assert "hunter2" not in words
    assert "because of" in words if named else "because of" not in words


@pytest.mark.parametrize("error", [kv.RetryAfter(5, "the mirror is being rebuilt")], ids=["RetryAfter"])
def test_an_error_that_states_what_it_waits_for_is_never_reported(error: Exception) -> None:
    assert failure_message(error, repeated=True) is None


async def test_a_field_that_a_kind_lacks_is_refused_unless_switched_off(lab: Lab) -> None:
    config_map = kv.kind("v1", "ConfigMap").new("a", lab.namespace, data={"a": "1"}, dta={"b": "2"})
    with pytest.raises(kv.ApiError, match='unknown field "dta"'):
        await lab.client.create(config_map)
    lenient = copy(lab.client)
    lenient.settings = replace(lab.client.settings, field_validation="Warn")
    assert "dta" not in (await lenient.create(config_map)).data


async def test_the_warnings_of_lists_and_watches_are_counted(lab: Lab) -> None:
    metrics, endpoints = Metrics(), kv.kind("v1", "Endpoints")
    with structlog.testing.capture_logs() as logs:
        async with kv.Client(lab.config, name="reader", metrics=metrics) as client:
            listed = await client.list(endpoints, lab.namespace)
            query = WatchQuery(
                namespace=lab.namespace, resource_version=listed.resource_version, timeout_seconds=1, idle_seconds=9
            )
            async with client.watch(await client.resource(endpoints), query) as events:
                assert [batch async for batch in events if batch[0].type != "BOOKMARK"] == []
    host = {"host": lab.config.host}
    assert metrics.registry.get_sample_value("konverge_request_warnings_total", host) == 2
    text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert [line["api_warning"] for line in logs if "api_warning" in line] == [text]


def test_a_warning_is_logged_once_per_text_and_always_counted() -> None:
    metrics = Metrics()
    warnings = ApiWarnings(metrics.request_warnings.labels(host="h"))
    with structlog.testing.capture_logs() as logs:
        for number in range(MOST_LOGGED + 10):
            warnings.note(("policy/v1beta1 is deprecated", f"text {number}", "x" * 10_000), "apply pods web/a")
    assert metrics.registry.get_sample_value("konverge_request_warnings_total", {"host": "h"}) == 3 * (MOST_LOGGED + 10)
    assert len(logs) == MOST_LOGGED + 1
    assert [line.get("api_warning") for line in logs].count("policy/v1beta1 is deprecated") == 1
    assert all(len(str(line)) < 1000 for line in logs)
