"""Names, labels and buckets of the metrics are a contract with dashboards that exist already.

The first table is controller-runtime's (pkg/internal/controller/metrics, pkg/metrics) and client-go's, the second is for Kubernetes 1.36's
informers (KEP-5647), the third is our own. A change here breaks users' dashboards, so it needs a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from prometheus_client import Counter, Gauge, Histogram

from konverge.metrics import Metrics

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

A = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5),
    *(1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
B = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)
C = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
I = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # noqa: E741 - the name of a column of buckets, as A to C


class Series(NamedTuple):
    """One line of the contract; `buckets` is empty unless the metric is a histogram."""

    type: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


CONTROLLER = ("controller",)
QUEUE = ("name", "controller")
INFORMER = ("name", "group", "version", "resource")
KIND = ("group", "version", "kind")

UPSTREAM = {
    "controller_runtime_reconcile_total": Series("counter", ("controller", "result")),
    "controller_runtime_reconcile_errors_total": Series("counter", CONTROLLER),
    "controller_runtime_terminal_reconcile_errors_total": Series("counter", CONTROLLER),
    "controller_runtime_reconcile_panics_total": Series("counter", CONTROLLER),
    "controller_runtime_reconcile_timeouts_total": Series("counter", CONTROLLER),
    "controller_runtime_reconcile_time_seconds": Series("histogram", CONTROLLER, A),
    "controller_runtime_max_concurrent_reconciles": Series("gauge", CONTROLLER),
    "controller_runtime_active_workers": Series("gauge", CONTROLLER),
    "workqueue_depth": Series("gauge", (*QUEUE, "priority")),
    "workqueue_adds_total": Series("counter", QUEUE),
    "workqueue_queue_duration_seconds": Series("histogram", QUEUE, B),
    "workqueue_work_duration_seconds": Series("histogram", QUEUE, B),
    "workqueue_unfinished_work_seconds": Series("gauge", QUEUE),
    "workqueue_longest_running_processor_seconds": Series("gauge", QUEUE),
    "workqueue_retries_total": Series("counter", QUEUE),
    "rest_client_requests_total": Series("counter", ("code", "method", "host")),
    "rest_client_request_duration_seconds": Series("histogram", ("verb", "host"), C),
    "rest_client_request_retries_total": Series("counter", ("code", "verb", "host")),
    "leader_election_master_status": Series("gauge", ("name",)),
    "leader_election_slowpath_total": Series("counter", ("name",)),
    "controller_runtime_webhook_requests_total": Series("counter", ("webhook", "code")),
    "controller_runtime_webhook_requests_in_flight": Series("gauge", ("webhook",)),
    "controller_runtime_webhook_latency_seconds": Series("histogram", ("webhook",), B),
    "controller_runtime_webhook_panics_total": Series("counter"),
    "certwatcher_read_certificate_total": Series("counter"),
    "certwatcher_read_certificate_errors_total": Series("counter"),
}

INFORMERS = {
    "informer_queued_items": Series("gauge", INFORMER),
    "informer_processing_latency_seconds": Series("histogram", INFORMER, I),
    "informer_store_resource_version": Series("gauge", INFORMER),
    "stale_sync_skips_total": Series("counter", CONTROLLER),
}

OURS = {
    "konverge_request_warnings_total": Series("counter", ("host",)),
    "konverge_cached_objects": Series("gauge", KIND),
    "konverge_cached_bytes": Series("gauge", KIND),
    "konverge_watch_restarts_total": Series("counter", (*KIND, "cause")),
    "konverge_watch_age_seconds": Series("gauge", KIND),
    "konverge_watch_silence_seconds": Series("gauge", KIND),
    "konverge_watchlist_fallbacks_total": Series("counter", (*KIND, "cause")),
    "konverge_informer_handler_errors_total": Series("counter", KIND),
    "konverge_barrier_waits_total": Series("counter", ("controller", "result")),
    "konverge_reconcile_reasons_total": Series("counter", ("controller", "reason")),
    "konverge_applies_total": Series("counter", ("controller", "kind", "result")),
    "konverge_applies_undone_total": Series("counter", ("controller", "kind")),
    "konverge_events_dropped_total": Series("counter", ("cause",)),
    "konverge_lease_renew_seconds": Series("histogram", ("name",), C),
    "konverge_lease_losses_total": Series("counter", ("name",)),
    "konverge_caught_up_total": Series("counter", (*KIND, "result")),
    "konverge_event_loop_lag_seconds": Series("histogram", (), I),
    "konverge_blocking_calls_total": Series("counter", CONTROLLER),
    "konverge_decode_errors_total": Series("counter", CONTROLLER),
    "konverge_shard_members": Series("gauge", ("name", "state")),
    "konverge_shard_objects": Series("gauge", ("name",)),
    "konverge_shard_ring_generation": Series("gauge", ("name",)),
    "konverge_shard_double_owners_total": Series("counter", ("name",)),
    "konverge_shard_unowned_objects": Series("gauge", ("name",)),
    "konverge_shard_unowned_age_seconds": Series("gauge", ("name",)),
    "konverge_shard_writes_total": Series("counter", ("name", "result")),
    "konverge_shard_assignments_total": Series("counter", ("name", "result")),
    "konverge_shard_stamps_replaced_total": Series("counter", ("name",)),
    "konverge_shard_handover_seconds": Series("histogram", ("name",), A),
    "konverge_shard_orphan_age_seconds": Series("gauge", ("name",)),
    "konverge_status_conditions": Series("gauge", ("controller", "condition", "status")),
}

CONTRACT = {**UPSTREAM, **INFORMERS, **OURS}


def instruments() -> dict[str, Counter | Gauge | Histogram]:
    """Every instrument of a `Metrics` by its name in a scrape."""
    found = {}
    for value in vars(Metrics()).values():
        if isinstance(value, Counter | Gauge | Histogram):
            family = next(iter(value.describe()))
            found[family.name + ("_total" if family.type == "counter" else "")] = value
    return found


def test_no_metric_is_missing_and_none_is_unheard_of() -> None:
    assert sorted(instruments()) == sorted(CONTRACT)


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_a_metric_has_the_type_labels_and_buckets_of_its_contract(name: str) -> None:
    metric, expected = instruments()[name], CONTRACT[name]
    child = metric.labels(**dict.fromkeys(expected.labels, "x")) if expected.labels else metric
    family = next(iter(child.collect()))
    assert family.type == expected.type
    assert family.documentation
    buckets = [float(sample.labels["le"]) for sample in family.samples if sample.name == f"{name}_bucket"]
    assert buckets == ([*expected.buckets, float("inf")] if expected.buckets else [])


def test_two_metrics_on_two_registries_do_not_collide() -> None:
    assert sorted(instruments()) == sorted(instruments())


def test_metric_names_are_written_in_one_file_only(tree: Tree) -> None:
    strays = [
        f"{source.where}: {name}"
        for source in tree.sources
        if source.module != "konverge.metrics"
        for name in CONTRACT
        if f'"{name}' in source.text or f"'{name}" in source.text
    ]
    assert not strays, "\n".join(strays)
