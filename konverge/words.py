"""The library's vocabulary: each word that users or other programs see is written here once.

Condition types and reasons of a family live in that family's `words.py`; metric names live in `konverge.metrics`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Annotation", "ConditionType", "EventType", "Label", "LogKey", "Reason", "SpanKey", "Why"]


class ConditionType:
    """Condition types that the library itself writes or waits for."""

    READY: Final = "Ready"
    PAUSED: Final = "Paused"
    ESTABLISHED: Final = "Established"
    NAMES_ACCEPTED: Final = "NamesAccepted"


class Reason:
    """Condition and event reasons that the runtime itself writes."""

    VALIDATION_FAILED: Final = "ValidationFailed"
    VALID: Final = "Valid"
    RECONCILE_FAILED: Final = "ReconcileFailed"
    PAUSED: Final = "Paused"
    PAUSED_BY_ANNOTATION: Final = "PausedByAnnotation"
    PAUSED_BY_NAMESPACE: Final = "PausedByNamespace"
    NOT_PAUSED: Final = "NotPaused"
    SHARD_STAMP_REPLACED: Final = "ShardStampReplaced"
    SHARD_LEASE_EDITED: Final = "ShardLeaseEdited"
    SHARD_LEASE_RECREATED: Final = "ShardLeaseRecreated"
    SHARD_MEMBERSHIP_LOST: Final = "ShardMembershipLost"
    SHARD_IDENTITY_SHARED: Final = "ShardIdentityShared"
    SHARD_CLOCK_JUMPED: Final = "ShardClockJumped"


class EventType:
    """Types of Kubernetes Events."""

    NORMAL: Final = "Normal"
    WARNING: Final = "Warning"


class Label:
    """Labels that the library writes: the owner of an object in another namespace, the users of a Secret and of a Lease."""

    OWNER_UID: Final = "konverge.dev/owner-uid"
    CERTIFICATES: Final = "konverge.dev/webhook-certificates"
    SHARD_RING: Final = "konverge.dev/shard-ring"
    SHARD_REPLICA: Final = "konverge.dev/shard-replica"
    SHARD_STOPS_AFTER: Final = "konverge.dev/shard-stops-after"
    SHARD: Final = "shard.konverge.dev"


class Annotation:
    """Annotations that the library reads or writes."""

    OWNER: Final = "konverge.dev/owner"
    PAUSED: Final = "konverge.dev/paused"
    """On an object; the same name is a label of a namespace."""
    SHARD_OWNER: Final = "shard-owner.konverge.dev"
    SHARD_DRAIN: Final = "shard-drain.konverge.dev"
    SHARD_DRAINING: Final = "konverge.dev/shard-draining"
    SHARD_JOINED: Final = "konverge.dev/shard-joined"
    INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
    INJECT_CA_FROM: Final = "cert-manager.io/inject-ca-from"
    KEPT_FIELDS: Final = "konverge.dev/kept-fields"


class Why:
    """The cause of a reconcile; the text that travels with a queue entry begins with one of these words."""

    INITIAL: Final = "initial list"
    CREATED: Final = "created"
    CHANGED: Final = "changed"
    DELETED: Final = "deleted"
    OWNED: Final = "owned"
    WATCHED: Final = "watched"
    REQUEUE_AFTER: Final = "requeue after"
    RETRY: Final = "retry"
    BARRIER: Final = "cache behind own writes"
    HELD: Final = "held fields"
    RESYNC: Final = "resync"
    ASKED: Final = "asked"
    ELECTED: Final = "this replica leads"
    INTERRUPTED: Final = "interrupted by the loss of the lease"
    SOURCE: Final = "source"
    OWNER_CHANGED: Final = "its owner or the members of the ring changed"


class LogKey:
    """Keys of structured log lines."""

    CONTROLLER: Final = "controller"
    KEY: Final = "key"
    RECONCILE_ID: Final = "reconcile_id"
    REASONS: Final = "reasons"
    EVENT_LOOP: Final = "event_loop"
    EVENT_REASON: Final = "event_reason"
    OUTCOME: Final = "outcome"
    ERROR: Final = "error"
    KIND: Final = "kind"
    KINDS: Final = "kinds"
    NAMESPACE: Final = "namespace"
    NAME: Final = "name"
    CAUSE: Final = "cause"
    DELAY: Final = "delay_seconds"
    DURATION: Final = "duration_seconds"
    FAILURES: Final = "failures"
    RULE: Final = "rbac_rule"
    STACK: Final = "stack"
    REQUEST: Final = "request"
    API_WARNING: Final = "api_warning"
    URL: Final = "url"
    VERSION: Final = "resource_version"
    COUNT: Final = "count"
    SIGNAL: Final = "signal"
    CONTROLLERS: Final = "controllers"
    WORKERS: Final = "workers"
    WAITS_FOR: Final = "waits_for"
    ERROR_TYPE: Final = "error_type"
    NEXT_RUN: Final = "next_run"
    WRITES: Final = "writes"
    HANDLER: Final = "handler"
    INDEX: Final = "index"
    SELECTION: Final = "selection"
    WEBHOOK: Final = "webhook"
    ADDRESS: Final = "address"
    EXPIRES: Final = "expires"
    IDENTITY: Final = "identity"
    HOLDER: Final = "holder"
    MEMBERS: Final = "members"
    LIMIT: Final = "limit_seconds"
    TRACE_ID: Final = "trace_id"
    SPAN_ID: Final = "span_id"


class SpanKey:
    """Attributes of spans: OpenTelemetry's names for objects of Kubernetes, and our own names."""

    API_VERSION: Final = "k8s.object.api_version"
    KIND: Final = "k8s.object.kind"
    NAME: Final = "k8s.object.name"
    UID: Final = "k8s.object.uid"
    VERSION: Final = "k8s.object.resource_version"
    NAMESPACE: Final = "k8s.namespace.name"
    CONTROLLER: Final = "konverge.controller"
    REQUEST: Final = "konverge.request"
    PRIORITY: Final = "konverge.queue.priority"
    FAILURES: Final = "konverge.queue.failures"
    DELAY: Final = "konverge.queue.delay_seconds"
    RECONCILE_ID: Final = "konverge.reconcile.id"
    REASONS: Final = "konverge.reconcile.reasons"
    OUTCOME: Final = "konverge.reconcile.outcome"
    WRITES: Final = "konverge.reconcile.writes"
    SKIPPED: Final = "konverge.reconcile.skipped_writes"
