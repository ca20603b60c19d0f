"""The metrics of a work queue when two controllers of one name share their metrics and when another thread scrapes."""

import asyncio

import pytest
from prometheus_client import generate_latest

from konverge.metrics import Metrics
from konverge.runtime.controller.metrics import MAX_PRIORITIES, PrometheusQueue
from konverge.workqueue import WorkQueue

LABELS = {"name": "backup", "controller": "backup"}


def opened(metrics: Metrics) -> tuple[WorkQueue[str], PrometheusQueue]:
    measures = PrometheusQueue(metrics, "backup")
    measures.open()
    return WorkQueue(metrics=measures), measures


def value(metrics: Metrics, name: str, **more: str) -> float | None:
    return metrics.registry.get_sample_value(name, {**LABELS, **more})


async def test_a_scrape_may_come_from_another_thread() -> None:
    """`start_http_server` of prometheus_client does so, and so does a plain function as a route of FastAPI."""
    metrics = Metrics()
    queue, _ = opened(metrics)
    queue.add("a", reason="test")
    await queue.get()
    await asyncio.sleep(3)
    text = (await asyncio.to_thread(generate_latest, metrics.registry)).decode()
    assert 'workqueue_unfinished_work_seconds{controller="backup",name="backup"} 3.0' in text


async def test_queues_of_two_managers_add_up_and_end_independently() -> None:
    metrics = Metrics()
    (first, measures), (second, _) = opened(metrics), opened(metrics)
    for queue, keys in ((first, "ab"), (second, "cde")):
        for key in keys:
            queue.add(key, reason="test")
        await queue.get()
        await asyncio.sleep(2)
    assert value(metrics, "workqueue_depth", priority="0") == 3
    assert value(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(6.0)
    assert value(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(4.0)
    measures.close()
    assert value(metrics, "workqueue_depth", priority="0") == 2
    assert value(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(2.0)


async def test_the_age_of_work_ends_with_that_work() -> None:
    metrics = Metrics()
    queue, _ = opened(metrics)
    for key in "ab":
        queue.add(key, reason="test")
    first = await queue.get()
    await asyncio.sleep(5)
    await queue.get()
    await asyncio.sleep(1)
    queue.done(first.key)
    assert value(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(1.0)


async def test_beyond_25_priorities_all_share_one_label_and_count_right() -> None:
    metrics = Metrics()
    queue, _ = opened(metrics)
    for priority in range(MAX_PRIORITIES + 5):
        queue.add(f"k{priority}", reason="test", priority=priority)
    assert value(metrics, "workqueue_depth", priority="exceeded_cardinality_limit") == 5
    for _ in range(MAX_PRIORITIES + 5):
        queue.done((await queue.get()).key)
    assert value(metrics, "workqueue_depth", priority="exceeded_cardinality_limit") == 0
    assert value(metrics, "workqueue_depth", priority="3") == 0
