"""The vocabulary of the quota family: each name that users, scripts or other programs see is declared here once.

Guarantees: conditions, reasons, messages, labels, annotations, finalizer and metrics are from Capsule v0.10 to v0.12, as on Capsule's page,
so that scripts, dashboards and alerts of its users keep working; a comment marks words of a newer Capsule and our own words. A metric is
declared whole (name, labels, help). The functions that return messages are pure.

Caveats: the parts of a message have no order; the caller sorts them by resource.

Source: docs/reference/capsule.md#reasons-and-messages, docs/reference/capsule.md#metrics, docs/reference/capsule.md#the-page-of-capsule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from konverge.conditions import cut_condition

__all__ = [
    "METRICS",
    "METRICS_OF_V014",
    "Capsule",
    "ControllerName",
    "EventAction",
    "EventReason",
    "Message",
    "Metric",
    "MetricLabel",
    "QuotaAnnotation",
    "QuotaCondition",
    "QuotaLabel",
    "QuotaReason",
    "Semantics",
    "fit",
    "in_pool",
    "join",
    "no_candidate",
    "not_claimable",
    "overallocated",
    "pool_not_found",
    "pool_of_quota",
    "queued",
    "quota_name",
    "released_message",
    "shortage",
]

FINALIZER: Final = "controller.projectcapsule.dev/finalize"
"""Holds a deleted ResourcePool until its claims are released and its ResourceQuotas are deleted."""

QUOTA_PREFIX: Final = "capsule-pool-"
"""The prefix of the name of a pool's ResourceQuota."""

STATUS_MANAGER: Final = "resourcepoolclaim"
"""The suffix of the field manager that pool and claim controller share for the status of claims."""


class ControllerName:
    """Names of the controllers in metrics, logs and debug."""

    POOL: Final = "resourcepool"
    CLAIM: Final = "resourcepoolclaim"


class Semantics:
    """Which versions of Capsule the family follows: the meaning of Bound, the form of the conditions, and which edits are rejected."""

    V012: Final = "v0.12"
    """v0.10 to v0.12: Bound means allocated, a claim has one condition, an allocated claim is immutable."""
    V014: Final = "v0.14"
    """v0.13 and later: Bound means that pods use it, a claim has a list of conditions, an unused claim can be resized."""


class QuotaCondition:
    """Condition types. A claim has one condition at a time, Assigned or Bound; a pool has Ready and Exhausted side by side."""

    ASSIGNED: Final = "Assigned"
    BOUND: Final = "Bound"
    READY: Final = "Ready"
    EXHAUSTED: Final = "Exhausted"


class QuotaReason:
    """Reasons of conditions; the event about a condition has its reason."""

    SUCCEEDED: Final = "Succeeded"
    """Assigned, Bound and Ready that are True."""
    FAILED: Final = "Failed"
    """Assigned=False and Ready=False: the message is the error."""
    POOL_EXHAUSTED: Final = "PoolExhausted"
    """Bound=False: too little is left in the pool. Exhausted=True: some claim waits for that."""
    QUEUE_EXHAUSTED: Final = "QueueExhausted"
    """Bound=False: with orderedQueue, an older claim waits for the same resource."""
    NO_EXHAUSTIONS: Final = "NoExhaustions"
    """Exhausted=False."""
    IN_USE: Final = "InUse"
    """Bound=True, in the semantics of v0.14: the use of pods needs this claim."""
    UNUSED: Final = "Unused"
    """Bound=False, in the semantics of v0.14: allocated, and the use of pods does not need this claim."""
    # ours
    UNASSIGNED: Final = "Unassigned"
    """Assigned=False: the claim names no pool, and no pool that serves its namespace could ever have room for it."""
    RELEASED: Final = "Released"
    """Bound=False: released by its annotation, until its spec changes or the annotation is removed."""
    OVERALLOCATED: Final = "Overallocated"
    """Exhausted=True: the pool's hard is below the held amounts, because it was lowered in spite of admission."""
    TOO_MANY_CLAIMS: Final = "TooManyClaims"
    """Ready=False: more claims than the status of one pool can list; allocated claims stay allocated."""


class Message:
    """Fixed texts of conditions."""

    CLAIMED: Final = "Claimed resources"
    NOT_AVAILABLE: Final = "resourcepool not available"
    """The pool is being deleted, or does not select the namespace of the claim."""
    RECONCILED: Final = "reconciled"
    EXHAUSTIONS: Final = "Pool has exhaustions"
    CLAIMABLE: Final = "resource claimable from pool"
    USED: Final = "claim is used"
    UNUSED: Final = "claim is unused"
    CAUSES_EXHAUSTIONS: Final = "claim causes exhaustions"
    # ours
    ASSIGNED: Final = "Assigned to the pool"
    QUEUED: Final = "Queued at the pool"
    NO_EXHAUSTIONS: Final = "Pool has no exhaustions"


class EventReason:
    """Reasons of events that belong to no condition."""

    DISASSOCIATED: Final = "Disassociated"
    """A claim was released by its pool."""


class EventAction:
    """Actions of events."""

    RECONCILED: Final = "Reconciled"
    DISASSOCIATING: Final = "Disassociating"


class QuotaLabel:
    """Labels that the family writes or reads."""

    POOL: Final = "projectcapsule.dev/pool"
    """On a ResourceQuota: the name of its pool."""
    MANAGED_BY: Final = "projectcapsule.dev/managed-by"
    """Capsule 0.13 and later sets it on quotas, and its webhook guards objects with it. Never ours; read at a hand-over only."""


class QuotaAnnotation:
    """Annotations that the family reads or writes."""

    RELEASE: Final = "projectcapsule.dev/release"
    """On a claim, with the value of RELEASE_WANTED in any case: release it, until it is edited."""
    RELEASE_WANTED: Final = "true"
    CLAIMS: Final = "konverge.dev/quota-claims"
    """On a ResourceQuota (ours): hashes of the names of its claims. With them the allocation survives the loss of both statuses."""
    DEFAULTS: Final = "konverge.dev/quota-defaults"
    """On a ResourceQuota (ours): the defaults that are part of its hard, as JSON, so that their change is not mistaken for a claim."""
    RELEASING: Final = "konverge.dev/quota-releasing"
    """On a ResourceQuota (ours): the amounts in release, as JSON, so that they stay held if the record in the pool's status is lost."""


class Capsule:
    """Names in Capsule's Tenant and in a Tenant's ResourceQuotas, which a migration reads."""

    TENANT_LABEL: Final = "capsule.clastix.io/tenant"
    """On a namespace: its tenant."""
    QUOTA_PREFIX: Final = "capsule-"
    """The prefix of the name of a tenant's ResourceQuota: then the tenant, a dash, and the index of the item."""
    SCOPE_TENANT: Final = "Tenant"
    """`hard` limits all namespaces of the tenant together."""
    SCOPE_NAMESPACE: Final = "Namespace"
    """`hard` limits each namespace."""


class MetricLabel:
    """Labels of metrics."""

    POOL: Final = "pool"
    RESOURCE: Final = "resource"
    TARGET_NAMESPACE: Final = "target_namespace"
    NAME: Final = "name"
    CONDITION: Final = "condition"
    STATUS: Final = "status"
    REASON: Final = "reason"


class Metric(msgspec.Struct, frozen=True):
    """A gauge: its full name, its labels in order, its help text."""

    name: str
    labels: tuple[str, ...]
    help: str


_POOL_RESOURCE = (MetricLabel.POOL, MetricLabel.RESOURCE)
_POOL_NAMESPACE = (MetricLabel.POOL, MetricLabel.TARGET_NAMESPACE, MetricLabel.RESOURCE)

POOL_LIMIT: Final = Metric(
    "capsule_pool_limit", _POOL_RESOURCE, "Current resource limit for a given resource in a resource pool"
)
POOL_AVAILABLE: Final = Metric(
    "capsule_pool_available", _POOL_RESOURCE, "Current resource availability for a given resource in a resource pool"
)
POOL_USAGE: Final = Metric(
    "capsule_pool_usage", _POOL_RESOURCE, "Current resource usage for a given resource in a resource pool"
)
POOL_RESOURCE: Final = Metric("capsule_pool_resource", _POOL_RESOURCE, "Type of resource being used in a resource pool")
POOL_USAGE_PERCENTAGE: Final = Metric(
    "capsule_pool_usage_percentage", _POOL_RESOURCE, "Share of a pool's resource that is claimed, in percent"
)
POOL_EXHAUSTION: Final = Metric(
    "capsule_pool_exhaustion", _POOL_RESOURCE, "What waiting claims request of a resource that a pool is short of"
)
POOL_EXHAUSTION_PERCENTAGE: Final = Metric(
    "capsule_pool_exhaustion_percentage",
    _POOL_RESOURCE,
    "How far what is requested exceeds what is available, in percent of what is available",
)
POOL_NAMESPACE_USAGE: Final = Metric(
    "capsule_pool_namespace_usage",
    _POOL_NAMESPACE,
    "Current resources claimed on namespace basis for a given resource in a resource pool for a specific namespace",
)
POOL_NAMESPACE_USAGE_PERCENTAGE: Final = Metric(
    "capsule_pool_namespace_usage_percentage",
    _POOL_NAMESPACE,
    "Share of a pool's resource that one namespace has claimed, in percent",
)
POOL_CONDITION: Final = Metric(
    "capsule_pool_condition",
    (MetricLabel.POOL, MetricLabel.CONDITION),
    "Whether a condition of a resource pool is True",
)
CLAIM_CONDITION: Final = Metric(
    "capsule_claim_condition",
    (
        MetricLabel.NAME,
        MetricLabel.TARGET_NAMESPACE,
        MetricLabel.CONDITION,
        MetricLabel.STATUS,
        MetricLabel.REASON,
        MetricLabel.POOL,
    ),
    "The current condition status of a claim.",
)
"""Two series for a claim, Assigned and Bound, with the same status and reason: 1 on Bound if it is allocated, else on Assigned."""
CLAIM_RESOURCE: Final = Metric(
    "capsule_claim_resource",
    (MetricLabel.NAME, MetricLabel.TARGET_NAMESPACE, MetricLabel.RESOURCE),
    "What a claim requests of a resource",
)

CLAIM_CONDITION_OF_V014: Final = Metric(
    "capsule_claim_condition",
    (MetricLabel.NAME, MetricLabel.TARGET_NAMESPACE, MetricLabel.CONDITION),
    "The current condition status of a claim.",
)
"""Three series for a claim, Ready, Exhausted and Bound; 1: True."""
CLAIM_POOL: Final = Metric(
    "capsule_claim_pool",
    (MetricLabel.NAME, MetricLabel.TARGET_NAMESPACE, MetricLabel.POOL),
    "The pool that looks after a claim.",
)
"""For the semantics of v0.14, whose conditions do not name the pool."""

METRICS: Final = (
    POOL_LIMIT,
    POOL_AVAILABLE,
    POOL_USAGE,
    POOL_RESOURCE,
    POOL_USAGE_PERCENTAGE,
    POOL_EXHAUSTION,
    POOL_EXHAUSTION_PERCENTAGE,
    POOL_NAMESPACE_USAGE,
    POOL_NAMESPACE_USAGE_PERCENTAGE,
    POOL_CONDITION,
    CLAIM_CONDITION,
    CLAIM_RESOURCE,
)
"""Every metric of the family. Quantities are in cores, bytes and pieces."""


METRICS_OF_V014: Final = (
    *(metric for metric in METRICS if metric is not CLAIM_CONDITION),
    CLAIM_CONDITION_OF_V014,
    CLAIM_POOL,
)
"""Every metric of the family in the semantics of v0.14."""


def quota_name(pool: str) -> str:
    """Return the name of a pool's ResourceQuota, the same in every namespace.

    >>> quota_name("solar")
    'capsule-pool-solar'
    """
    return f"{QUOTA_PREFIX}{pool}"


def pool_of_quota(name: str) -> str:
    """Return the pool whose ResourceQuota has this name, "" for other names.

    >>> pool_of_quota("capsule-pool-solar"), pool_of_quota("mine")
    ('solar', '')
    """
    return name.removeprefix(QUOTA_PREFIX) if name.startswith(QUOTA_PREFIX) else ""


def pool_not_found(pool: str) -> str:
    """Return the text for a pool that does not exist, as the API server words it.

    >>> pool_not_found("sample")
    'ResourcePool.capsule.clastix.io "sample" not found'
    """
    return f'ResourcePool.capsule.clastix.io "{pool}" not found'


def not_claimable(resource: str, pool: str) -> str:
    """Return the text for a resource that the pool's hard does not name.

    >>> not_claimable("pods", "solar")
    'resource pods is not available in pool solar'
    """
    return f"resource {resource} is not available in pool {pool}"


def shortage(resource: str, requested: str, available: str) -> str:
    """Return the part of a PoolExhausted message about one resource.

    >>> shortage("requests.memory", "2Gi", "512Mi")
    'requested: requests.memory=2Gi, available: requests.memory=512Mi'
    """
    return f"requested: {resource}={requested}, available: {resource}={available}"


def queued(resource: str, requested: str, waiting: str) -> str:
    """Return the part of a QueueExhausted message about one resource; `waiting` is the amount that older claims wait for.

    >>> queued("requests.memory", "2Gi", "1Gi")
    'requested: requests.memory=2Gi, queued: requests.memory=1Gi'
    """
    return f"requested: {resource}={requested}, queued: {resource}={waiting}"


def overallocated(resource: str, held: str, hard: str) -> str:
    """Return the part about one resource of the message of Exhausted=True/Overallocated (ours).

    >>> overallocated("requests.cpu", "5", "3")
    'requests.cpu: 5 is held, hard is 3'
    """
    return f"{resource}: {held} is held, hard is {hard}"


def join(parts: Iterable[str]) -> str:
    """Join the parts of a message.

    >>> join(["a", "b"])
    'a; b'
    """
    return "; ".join(parts)


def fit(message: str) -> str:
    """Cut a message to the limit of the API for conditions: a longer message would invalidate the whole status.

    >>> fit("reconciled"), len(fit("a" * 100_000))
    ('reconciled', 32768)
    """
    return cut_condition("Cut", message)[1]


def in_pool(pool: str, why: str) -> str:
    """Return why one pool cannot take a claim that names none: a part of the message of Assigned=False/Unassigned (ours).

    >>> in_pool("solar", not_claimable("pods", "solar"))
    'solar: resource pods is not available in pool solar'
    """
    return f"{pool}: {why}"


def no_candidate(namespace: str) -> str:
    """Return the text for a claim without a pool in a namespace that no pool serves (ours).

    >>> no_candidate("web")
    'no ResourcePool selects namespace web'
    """
    return f"no ResourcePool selects namespace {namespace}"


def released_message(pool: str) -> str:
    """Return the text of the event about a claim that its pool released (ours).

    >>> released_message("solar")
    'Released from pool solar'
    """
    return f"Released from pool {pool}"
