"""Every metric of the library: name, labels, buckets, help.

Guarantees: names, labels and buckets of the `controller_runtime_*`, `workqueue_*`, `rest_client_*`, `leader_election_*` and `certwatcher_*`
series are copied from controller-runtime
(https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/internal/controller/metrics/metrics.go, pkg/metrics,
pkg/webhook/internal/metrics), so its dashboards work unchanged; `informer_*` are copied from Kubernetes 1.36
(https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling); our own names begin with
`konverge_`. Nothing is registered globally: a `Metrics` belongs to the registry that it is given, and several managers may share one.

Caveats: the Python client cannot record native histograms; the classic buckets are the contract.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from konverge.tallies import LoopCounter, LoopHistogram

__all__ = [
    "INFORMER_BUCKETS",
    "QUEUE_BUCKETS",
    "RECONCILE_BUCKETS",
    "REQUEST_BUCKETS",
    "RESULTS",
    "Metrics",
]

RESULTS = ("success", "error", "requeue", "requeue_after")
"""The values of the label `result`; all exist at 0 from the start of a controller."""

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
INFORMER_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_CONTROLLER = ("controller",)
_QUEUE = ("name", "controller")
_WEBHOOK = ("webhook",)
_INFORMER = ("name", "group", "version", "resource")
_KIND = ("group", "version", "kind")


class Metrics:
    """All instruments of one registry.

    `registry` None creates a private registry (`metrics.registry`), so that two managers in one process never collide by accident.
    Raises ValueError if the registry already holds series of these names: share the `Metrics` instead.

    >>> Metrics().reconcile_total.labels(controller="backup", result="success").inc()
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        # State that users of one `Metrics` share, by key: for instance the objects that still report under a label set.
        self.shared: dict[Any, Any] = {}
        self._reconciles()
        self._queue()
        self._requests()
        self._webhooks()
        self._informers()
        self._ours()

    def _counter(self, name: str, help_: str, labels: tuple[str, ...] = ()) -> LoopCounter:
        return LoopCounter(name, help_, labels, registry=self.registry)

    def _gauge(self, name: str, help_: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> LoopHistogram:
        return LoopHistogram(name, help_, labels, registry=self.registry, buckets=buckets)

    def _reconciles(self) -> None:
        prefix = "controller_runtime_"
        self.reconcile_total = self._counter(
            prefix + "reconcile_total", "Total number of reconciliations per controller", ("controller", "result")
        )
        self.reconcile_errors = self._counter(
            prefix + "reconcile_errors_total", "Total number of reconciliation errors per controller", _CONTROLLER
        )
        self.terminal_errors = self._counter(
            prefix + "terminal_reconcile_errors_total",
            "Total number of terminal reconciliation errors per controller",
            _CONTROLLER,
        )
        self.panics = self._counter(
            prefix + "reconcile_panics_total",
            "Total number of unexpected exceptions out of reconcilers per controller",
            _CONTROLLER,
        )
        self.timeouts = self._counter(
            prefix + "reconcile_timeouts_total",
            "Total number of reconciliations cut off by their timeout per controller",
            _CONTROLLER,
        )
        self.reconcile_seconds = self._histogram(
            prefix + "reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            _CONTROLLER,
            RECONCILE_BUCKETS,
        )
        self.max_concurrent = self._gauge(
            prefix + "max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller", _CONTROLLER
        )
        self.active_workers = self._gauge(
            prefix + "active_workers", "Number of currently used workers per controller", _CONTROLLER
        )

    def _queue(self) -> None:
        self.queue_depth = self._gauge("workqueue_depth", "Current depth of workqueue", (*_QUEUE, "priority"))
        self.queue_adds = self._counter("workqueue_adds_total", "Total number of adds handled by workqueue", _QUEUE)
        self.queue_seconds = self._histogram(
            "workqueue_queue_duration_seconds",
            "How long an item stays in workqueue before being requested",
            _QUEUE,
            QUEUE_BUCKETS,
        )
        self.work_seconds = self._histogram(
            "workqueue_work_duration_seconds", "How long processing an item from workqueue takes", _QUEUE, QUEUE_BUCKETS
        )
        self.unfinished_seconds = self._gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress that work_duration has not observed yet",
            _QUEUE,
        )
        self.longest_running = self._gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the longest running processor has been running",
            _QUEUE,
        )
        self.queue_retries = self._counter(
            "workqueue_retries_total", "Total number of delayed adds handled by workqueue", _QUEUE
        )

    def _requests(self) -> None:
        self.requests = self._counter(
            "rest_client_requests_total",
            "Number of HTTP requests, by status code, method and host",
            ("code", "method", "host"),
        )
        self.request_seconds = self._histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, by verb and host",
            ("verb", "host"),
            REQUEST_BUCKETS,
        )
        self.request_retries = self._counter(
            "rest_client_request_retries_total",
            "Number of request retries, by status code, verb and host",
            ("code", "verb", "host"),
        )
        self.request_warnings = self._counter(
            "konverge_request_warnings_total", "Number of warnings of the API server, by host", ("host",)
        )
        self.leader = self._gauge("leader_election_master_status", "1 while this process leads, else 0", ("name",))
        self.leader_slowpath = self._counter(
            "leader_election_slowpath_total", "Number of renewals that had to read the lease first", ("name",)
        )

    def _webhooks(self) -> None:
        prefix = "controller_runtime_webhook_"
        self.webhook_requests = self._counter(
            prefix + "requests_total", "Total number of admission requests by HTTP status code", ("webhook", "code")
        )
        self.webhook_in_flight = self._gauge(
            prefix + "requests_in_flight", "Current number of admission requests being served", _WEBHOOK
        )
        self.webhook_seconds = self._histogram(
            prefix + "latency_seconds", "Latency of processing admission requests", _WEBHOOK, QUEUE_BUCKETS
        )
        self.webhook_panics = self._counter(prefix + "panics_total", "Total number of exceptions out of webhooks")
        self.certificate_reads = self._counter(
            "certwatcher_read_certificate_total", "Total number of certificate reads"
        )
        self.certificate_read_errors = self._counter(
            "certwatcher_read_certificate_errors_total", "Total number of certificate read errors"
        )

    def _informers(self) -> None:
        self.informer_queued = self._gauge(
            "informer_queued_items", "Keys that wait for delivery to handlers of this informer", _INFORMER
        )
        self.informer_latency = self._histogram(
            "informer_processing_latency_seconds",
            "From arrival of an event to the end of its delivery",
            _INFORMER,
            INFORMER_BUCKETS,
        )
        self.informer_version = self._gauge(
            "informer_store_resource_version",
            "Last 15 digits of the resource version that the store stands at",
            _INFORMER,
        )
        self.stale_skips = self._counter(
            "stale_sync_skips_total",
            "Passes put off because the cache was behind the controller's own writes",
            _CONTROLLER,
        )
        self.cached_objects = self._gauge("konverge_cached_objects", "Objects in the cache", _KIND)
        self.cached_bytes = self._gauge("konverge_cached_bytes", "Bytes of object bodies in the cache", _KIND)
        self.watch_restarts = self._counter(
            "konverge_watch_restarts_total", "Lists and watches begun again, by cause", (*_KIND, "cause")
        )
        self.watch_age = self._gauge("konverge_watch_age_seconds", "How long the present watch has been open", _KIND)
        self.watch_silence = self._gauge(
            "konverge_watch_silence_seconds", "Seconds since the last event or bookmark", _KIND
        )
        self.watchlist_fallbacks = self._counter(
            "konverge_watchlist_fallbacks_total",
            "Streaming lists given up for a plain list, by cause",
            (*_KIND, "cause"),
        )
        self.informer_handler_errors = self._counter(
            "konverge_informer_handler_errors_total", "Exceptions out of event handlers", _KIND
        )

    def _ours(self) -> None:
        self.barrier_waits = self._counter(
            "konverge_barrier_waits_total", "Ends of waits for the cache to show own writes", ("controller", "result")
        )
        self.reasons = self._counter(
            "konverge_reconcile_reasons_total",
            "Reasons for which reconciles ran (by the kind of reason)",
            ("controller", "reason"),
        )
        self.applies = self._counter(
            "konverge_applies_total", "Server-side applies: sent, skipped, conflicted", ("controller", "kind", "result")
        )
        self.applies_undone = self._counter(
            "konverge_applies_undone_total",
            "Applies sent again because another writer had undone them",
            ("controller", "kind"),
        )
        self.events_dropped = self._counter(
            "konverge_events_dropped_total", "Kubernetes Events not written, by cause", ("cause",)
        )
        self.lease_renew_seconds = self._histogram(
            "konverge_lease_renew_seconds", "Latency of lease renewals", ("name",), REQUEST_BUCKETS
        )
        self.lease_losses = self._counter(
            "konverge_lease_losses_total", "Times that this process lost the lease while it led", ("name",)
        )
        self.shard_members = self._gauge(
            "konverge_shard_members", "Members of the ring, by their state as this replica sees it", ("name", "state")
        )
        self.shard_ring_generation = self._gauge(
            "konverge_shard_ring_generation", "How often this replica saw the ring change", ("name",)
        )
        self.shard_double_owners = self._counter(
            "konverge_shard_double_owners_total",
            "Objects that this replica owned when the stamp of another member that was alive appeared on them",
            ("name",),
        )
        self.shard_unowned = self._gauge(
            "konverge_shard_unowned_objects",
            "Objects without an owner that is alive, as the coordinator sees them; 0 on other replicas",
            ("name",),
        )
        self.shard_unowned_age = self._gauge(
            "konverge_shard_unowned_age_seconds",
            "How long the coordinator has seen the object without an owner that has waited longest",
            ("name",),
        )
        self.shard_objects = self._gauge("konverge_shard_objects", "Objects that this replica owns", ("name",))
        self.shard_writes = self._counter(
            "konverge_shard_writes_total",
            "Writes of ownership stamps: claimed, cleared, conflict, failed",
            ("name", "result"),
        )
        self.shard_assignments = self._counter(
            "konverge_shard_assignments_total",
            "Writes of the coordinator: assigned, drained, conflict, failed",
            ("name", "result"),
        )
        self.shard_replaced = self._counter(
            "konverge_shard_stamps_replaced_total",
            "Stamps of this replica that another writer removed or replaced while it owned the object",
            ("name",),
        )
        self.shard_handover = self._histogram(
            "konverge_shard_handover_seconds",
            "From the moment when this replica should own an object of another until it owned it",
            ("name",),
            RECONCILE_BUCKETS,
        )
        self.shard_orphan_age = self._gauge(
            "konverge_shard_orphan_age_seconds",
            "How long the object that has waited longest has waited for this replica to own it",
            ("name",),
        )
        self.caught_up = self._counter(
            "konverge_caught_up_total",
            "Caches compared with the API server at the begin of leading: shown, or given up after a time",
            (*_KIND, "result"),
        )
        self.loop_lag = self._histogram(
            "konverge_event_loop_lag_seconds", "How late the event loop ran what was due", (), INFORMER_BUCKETS
        )
        self.blocking_calls = self._counter(
            "konverge_blocking_calls_total", "Passes seen blocking the event loop", _CONTROLLER
        )
        self.status_conditions = self._gauge(
            "konverge_status_conditions",
            "Objects of the controller by condition and its status",
            ("controller", "condition", "status"),
        )
        self.decode_errors = self._counter(
            "konverge_decode_errors_total", "Stored objects that did not fit their model", _CONTROLLER
        )
