"""Metrics, problems, logs and statistics of informers."""

import asyncio
from random import Random
from typing import Any

import pytest
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from konverge.errors import Forbidden, NotServed, Unreachable
from konverge.informers import InformerSet, RestartCause, Selection
from konverge.informers.report import Reporter
from konverge.metrics import Metrics

KIND = {"group": "example.com", "version": "v1", "kind": "Thing"}
INFORMER = {"name": "test", "group": "example.com", "version": "v1", "resource": "things"}


def value(metrics: Metrics, name: str, labels: dict[str, str]) -> float | None:
    found: float | None = metrics.registry.get_sample_value(name, labels)
    return found


async def test_gauges_show_the_state_at_the_scrape(
    api: Any, make_set: Any, selection: Selection, metrics: Metrics
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(api.body("a", 1), api.body("b", 2), version="1234567890123456789")
        assert value(metrics, "konverge_cached_objects", KIND) == 2
        assert value(metrics, "konverge_cached_bytes", KIND) == informer.store.size > 0
        assert value(metrics, "informer_store_resource_version", INFORMER) == 567890123456789.0
        await asyncio.sleep(40)
        assert value(metrics, "konverge_watch_age_seconds", KIND) == pytest.approx(40, abs=0.1)
        assert value(metrics, "konverge_watch_silence_seconds", KIND) == pytest.approx(40, abs=0.1)
        stream.send(api.bookmark(1234567890123456790))
        await api.settle()
        assert value(metrics, "konverge_watch_silence_seconds", KIND) == pytest.approx(0, abs=0.1)
        assert value(metrics, "konverge_watch_age_seconds", KIND) == pytest.approx(40, abs=0.1)
        informer.add_handler("late", lambda change: None)
        assert value(metrics, "informer_queued_items", INFORMER) == 2
        await api.settle()
        assert value(metrics, "informer_queued_items", INFORMER) == 0


async def test_latency_is_observed_for_events_but_not_for_initial_objects(
    api: Any, make_set: Any, selection: Selection, metrics: Metrics
) -> None:
    async with make_set() as informers:
        informers.acquire(selection).add_handler("h", lambda change: None)
        stream = await api.synced_stream(api.body("a", 1))
        assert value(metrics, "informer_processing_latency_seconds_count", INFORMER) == 0
        stream.send(api.modified("a", 101), api.added("b", 102))
        await api.settle()
        assert value(metrics, "informer_processing_latency_seconds_count", INFORMER) == 2


async def test_restarts_and_handler_errors_are_counted(
    api: Any, make_set: Any, selection: Selection, metrics: Metrics
) -> None:
    def handler(change: Any) -> None:
        raise ZeroDivisionError("no")

    async with make_set() as informers:
        informers.acquire(selection).add_handler("h", handler)
        stream = await api.synced_stream(api.body("a", 1))
        stream.cut(Unreachable("reset", maybe_done=True))
        await api.next_watch()
        assert value(metrics, "konverge_watch_restarts_total", KIND | {"cause": RestartCause.UNREACHABLE}) == 1
        assert value(metrics, "konverge_informer_handler_errors_total", KIND) == 1


async def test_stopped_informers_leave_no_series(
    api: Any, make_set: Any, selection: Selection, metrics: Metrics
) -> None:
    async with make_set() as informers:
        whole = informers.acquire(selection)
        whole.add_handler("h", lambda change: None)
        (await api.next_watch()).refuse(Unreachable("refused"))
        await api.synced_stream(api.body("a", 1))
        part = informers.acquire(Selection(selection.kind, namespace="web"))
        await api.synced_stream(api.body("a", 1))
        assert value(metrics, "konverge_cached_objects", KIND) == 2, "informers of one kind are summed up"
        informers.release(part)
        assert value(metrics, "konverge_cached_objects", KIND) == 1
        assert b'kind="Thing"' in generate_latest(metrics.registry)
        informers.release(whole)
        assert b'kind="Thing"' not in generate_latest(metrics.registry)
        assert b'resource="things"' not in generate_latest(metrics.registry)


async def test_two_managers_share_metrics_without_taking_each_others_away(
    api: Any, selection: Selection, metrics: Metrics
) -> None:
    async with InformerSet(api, metrics=metrics, random=Random(1)) as one:
        one.acquire(selection)
        await api.synced_stream(api.body("a", 1))
        async with InformerSet(api, metrics=metrics, random=Random(1)) as two:
            two.acquire(selection)
            await api.synced_stream(api.body("a", 1), api.body("b", 1))
            assert value(metrics, "konverge_cached_objects", KIND) == 3
        assert value(metrics, "konverge_cached_objects", KIND) == 1
    assert value(metrics, "konverge_cached_objects", KIND) is None


async def test_statistics_show_the_present_state(api: Any, make_set: Any, selection: Selection) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", lambda change: None)
        first = informer.statistics()
        assert (first.synced, first.phase, first.watch_age, first.silence) == (False, "discovery", None, None)
        stream = await api.synced_stream(api.body("a", 1))
        stream.send(api.modified("a", 101), api.bookmark(102), api.event("GROWN", api.body("a", 103)))
        await api.settle()
        now = informer.statistics()
        assert (now.selection, now.phase, now.synced, now.users) == ("Thing.example.com", "watch", True, 1)
        assert (now.objects, now.version, now.events, now.bookmarks) == (1, "102", 1, 1)
        assert (now.lists, now.watches, now.restarts, now.fallbacks) == (0, 1, {}, {})
        assert now.dropped == {"UnknownEvent": 1}
        (handler,) = now.handlers
        assert (handler.name, handler.synced, handler.delivered, handler.waiting) == ("h", True, 2, 0)
        assert first.objects == 0, "a picture does not move"


async def test_dropped_objects_are_logged_at_a_limited_rate(api: Any, make_set: Any, selection: Selection) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream()
        with capture_logs() as logs:
            stream.send(*(api.event("GROWN", api.body("a", number)) for number in range(200)))
            await api.settle()
            await asyncio.sleep(11)
            stream.send(api.event("GROWN", api.body("a", 300)))
            await api.settle()
        assert informer.statistics().dropped == {"UnknownEvent": 201}
        assert [(line["event"], line["cause"]) for line in logs] == [
            ("an object was dropped, or cached without its transform", "UnknownEvent")
        ] * 2


REFUSED = Unreachable("refused")
DENIED = Forbidden('user "u" cannot list resource "things" in API group "example.com" at the cluster scope', status=403)


@pytest.mark.parametrize(
    ("happens", "logged"),
    [
        pytest.param([REFUSED, REFUSED, None], [], id="what passes by itself is not worth a line"),
        pytest.param([REFUSED] * 5, ["warning"], id="what lasts is, once"),
        pytest.param([REFUSED] * 5 + [None], ["warning", "info"], id="... and so is its end"),
        pytest.param([DENIED, DENIED], ["warning"], id="a missing right is at once"),
        pytest.param([NotServed("example.com/v1", "Thing")] * 3, ["warning"], id="so is a missing kind"),
        pytest.param([DENIED, None, DENIED], ["warning", "info", "warning"], id="what comes back is news"),
        pytest.param([DENIED, NotServed("example.com/v1", "Thing")], ["warning", "warning"], id="another cause is news"),
    ],
)  # fmt: skip
async def test_problems_are_logged_at_once_if_actionable_else_after_three_failures(
    happens: list[Any], logged: list[str], selection: Selection
) -> None:
    from konverge.informers.problem import cause_of

    reporter = Reporter(selection)
    with capture_logs() as logs:
        for error in happens:
            if error is None:
                reporter.healthy()
            else:
                reporter.unhealthy(cause_of(error), error)
    assert [line["log_level"] for line in logs] == logged
    assert (reporter.problem is None) is (happens[-1] is None)


async def test_the_log_names_the_missing_rbac_rule(api: Any, make_set: Any, selection: Selection) -> None:
    with capture_logs() as logs:
        async with make_set(watch_list=False) as informers:
            informers.acquire(selection)
            (await api.next_list()).refuse(DENIED)
            await api.settle()
    (line,) = logs
    assert line["rbac_rule"] == {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["list", "watch"]}


ABSENT = NotServed("example.com/v1", "Thing")


@pytest.mark.parametrize(
    ("dispensable", "happens", "logged"),
    [
        pytest.param(True, [ABSENT] * 5, [], id="an optional kind that was never served"),
        pytest.param(True, [ABSENT, None], [], id="an optional kind that is installed later"),
        pytest.param(True, [None, ABSENT, ABSENT], ["warning"], id="an optional kind that was served, and is gone"),
        pytest.param(True, [DENIED], ["warning"], id="a right on an optional kind"),
        pytest.param(False, [ABSENT] * 2, ["warning"], id="a kind that a user needs"),
    ],
)
async def test_absence_of_a_kind_that_all_users_tolerate_causes_no_warning(
    dispensable: bool, happens: list[Any], logged: list[str], selection: Selection
) -> None:
    from konverge.informers.problem import cause_of

    reporter = Reporter(selection, dispensable=lambda: dispensable)
    with capture_logs() as logs:
        for error in happens:
            if error is None:
                reporter.healthy()
            else:
                reporter.unhealthy(cause_of(error), error)
    assert [line["log_level"] for line in logs] == logged


@pytest.mark.parametrize(("needed", "logged"), [(False, 0), (True, 1)])
async def test_absent_kind_is_a_warning_if_a_user_needs_it(
    api: Any, make_set: Any, selection: Selection, not_served: Exception, needed: bool, logged: int
) -> None:
    api.info = not_served
    with capture_logs() as logs:
        async with make_set() as informers:
            first = informers.acquire(selection, optional=True)
            second = informers.acquire(selection, optional=not needed)
            await asyncio.sleep(60)
            assert first.problem is not None
            informers.release(second, optional=not needed)
            informers.release(first, optional=True)
    assert len([line for line in logs if line["log_level"] == "warning"]) == logged
