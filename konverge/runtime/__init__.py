"""Where informer meets queue: controllers, the manager, and everything that a reconciler may do.

    builder.py      a controller as one sentence; predicates.py, rules.py beside it
    sources.py      from a change in a cache to the passes that it asks for (pure)
    controller.py   one controller at work: queue, workers; feeds.py its caches
    passes.py       one pass, from key to outcome; decisions.py says what the queue is told (pure)
    context.py      what a pass may do to the world; effects.py, plan.py, owners.py, finalizers.py, status.py (pure), applier.py
    barrier.py      no pass on a cache that is behind our own writes
    manager.py      all of it, started and stopped in order; report.py, inspect.py, record.py tell how it stands
    events.py       Kubernetes Events; server.py metrics, health and debug; stalls.py the watch over the event loop
    admission/      webhooks: what is asked before anything is stored

Promises: the order of things that is written down in docs/reference/runtime.md#reconcile-loop. Knows no family.
"""

from __future__ import annotations

from konverge.runtime.admission import AdmissionRequest, Allow, Deny, Webhook, WebhookSettings
from konverge.runtime.applier import Applier
from konverge.runtime.builder import Controller, Numbers
from konverge.runtime.caches import Caches, Live, Reader
from konverge.runtime.context import Context
from konverge.runtime.manager import Leadership, Manager, ManagerSettings
from konverge.runtime.owners import back_reference, by_back_reference
from konverge.runtime.plan import HOLD, TAKE, Applied, Child, Delete, FieldsHeld, Held, Mark, OnConflict, Plan
from konverge.runtime.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    metadata_changed,
)
from konverge.runtime.report import ControllerReport, Report, State
from konverge.runtime.rules import Rule, cluster_role, merged, rules_of
from konverge.runtime.status import StatusEditor

__all__ = [
    "HOLD",
    "TAKE",
    "AdmissionRequest",
    "Allow",
    "Applied",
    "Applier",
    "Caches",
    "Child",
    "Context",
    "Controller",
    "ControllerReport",
    "Delete",
    "Deny",
    "FieldsHeld",
    "Held",
    "Leadership",
    "Live",
    "Manager",
    "ManagerSettings",
    "Mark",
    "Numbers",
    "OnConflict",
    "Plan",
    "Predicate",
    "Reader",
    "Report",
    "Rule",
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
