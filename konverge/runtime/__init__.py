"""Where informer meets queue: controllers, the manager, and everything that a reconciler may do.

    manager/        the process: a list of parts, and its settings
    sharding/       plug-in: which replica owns an object
    election/       plug-in: which replica may write
    parts/          the parts of a manager: client, caches, controllers, webhooks, background work
    hooks/          the interfaces of plug-ins: leadership, and a gate for objects
    controller/     one controller at work: watches, requests, queue, workers, requeue decisions (pure)
    reconcile/      one reconcile, from a key to an outcome: context, status (pure), finalizers, plan
    apply/          server-side apply of children and status, owner references
    consistency/    our own writes: the staleness barrier, the own-write filter
    builder/        a controller as one sentence; predicates; the RBAC rules that follow from it
    cache/          typed reads of the informers' stores
    events/         Kubernetes Events
    http/           metrics, health, debug; the listener of webhooks
    observability/  readiness, history, the event-loop monitor
    admission/      webhooks: reviews of writes before they are stored

Guarantees: the order of the reconcile loop is in docs/reference/runtime.md#reconcile-loop. The runtime depends on no family.
"""

from __future__ import annotations

from konverge.rbac import Rule, cluster_role, merged
from konverge.runtime.admission import AdmissionRequest, Allow, Deny, Webhook, WebhookSettings
from konverge.runtime.apply.applier import Applier
from konverge.runtime.apply.conflicts import HOLD, TAKE, Applied, Child, FieldsHeld, Held, OnConflict
from konverge.runtime.apply.owners import back_reference, by_back_reference
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.numbers import Numbers
from konverge.runtime.builder.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    metadata_changed,
)
from konverge.runtime.builder.rules import rules_of
from konverge.runtime.cache.readers import Caches, Live, Reader
from konverge.runtime.hooks.leadership import Leadership
from konverge.runtime.manager.manager import Manager
from konverge.runtime.manager.settings import ElectionSettings, ManagerSettings, ShardingSettings
from konverge.runtime.observability.readiness import ControllerReport, Report, State
from konverge.runtime.parts.background import BackgroundServices
from konverge.runtime.parts.lifetimes import HeldValue
from konverge.runtime.reconcile.context import Context, HasStatus
from konverge.runtime.reconcile.plan import Apply, ConditionUpdate, Delete, Patch, Plan, PlannedEvent
from konverge.runtime.reconcile.status import StatusEditor

__all__ = [
    "HOLD",
    "TAKE",
    "AdmissionRequest",
    "Allow",
    "Applied",
    "Applier",
    "Apply",
    "BackgroundServices",
    "Caches",
    "Child",
    "Context",
    "Controller",
    "ControllerReport",
    "Delete",
    "Deny",
    "ElectionSettings",
    "FieldsHeld",
    "HasStatus",
    "Held",
    "HeldValue",
    "Leadership",
    "Live",
    "Manager",
    "ManagerSettings",
    "ConditionUpdate",
    "Numbers",
    "OnConflict",
    "Patch",
    "Plan",
    "PlannedEvent",
    "Predicate",
    "Reader",
    "Report",
    "Rule",
    "ShardingSettings",
    "State",
    "StatusEditor",
    "Webhook",
    "WebhookSettings",
    "all_of",
    "annotations_changed",
    "any_of",
    "back_reference",
    "by_back_reference",
    "cluster_role",
    "generation_changed",
    "labels_changed",
    "merged",
    "metadata_changed",
    "rules_of",
]
