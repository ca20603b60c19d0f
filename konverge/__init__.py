"""konverge: Kubernetes controllers for asyncio Python.

The public names; the module that defines a name documents it. Import the package as `kv`:

    import konverge as kv

Names are imported from their modules at first use (PEP 562), so that a command line or a test plugin that needs one of them does not
import all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge import lazy

if TYPE_CHECKING:
    from konverge.client import Client, ClientConfig
    from konverge.conditions import Condition, is_false, is_true
    from konverge.crds import Column, Conversion, CustomResource, Status, resource
    from konverge.errors import (
        ApiError,
        Conflict,
        Forbidden,
        InvalidObject,
        KonvergeError,
        NotConvertible,
        NotFound,
        ObjectChanged,
        RetryAfter,
        Terminal,
    )
    from konverge.informers import Change
    from konverge.keys import Key
    from konverge.kinds import Kind, Resource, kind
    from konverge.metrics import Metrics
    from konverge.model import Model
    from konverge.objects import Metadata, MetadataObject, Object
    from konverge.outcome import Done, Outcome, RequeueAfter
    from konverge.program import run
    from konverge.runtime import (
        HOLD,
        TAKE,
        AdmissionRequest,
        Allow,
        Apply,
        BackgroundServices,
        Caches,
        Child,
        ConditionUpdate,
        Context,
        Controller,
        Delete,
        Deny,
        ElectionSettings,
        FieldsHeld,
        HeldValue,
        Manager,
        ManagerSettings,
        Patch,
        Plan,
        PlannedEvent,
        Reader,
        Report,
        Rule,
        ShardingSettings,
        Webhook,
        WebhookSettings,
        back_reference,
        by_back_reference,
    )
    from konverge.runtime.builder.predicates import (
        all_of,
        annotations_changed,
        any_of,
        generation_changed,
        labels_changed,
        metadata_changed,
    )
    from konverge.runtime.builder.sources import Channel, Listening, daily, every
    from konverge.workqueue import Bucket, ItemExponential, Jitter, Limiter, MaxOf, MaxWait

__all__ = [
    "HOLD",
    "TAKE",
    "AdmissionRequest",
    "Allow",
    "ApiError",
    "Apply",
    "BackgroundServices",
    "Bucket",
    "Caches",
    "Change",
    "Channel",
    "Child",
    "Client",
    "ClientConfig",
    "Column",
    "Condition",
    "ConditionUpdate",
    "Conflict",
    "Context",
    "Controller",
    "Conversion",
    "CustomResource",
    "Delete",
    "Deny",
    "Done",
    "ElectionSettings",
    "FieldsHeld",
    "Forbidden",
    "HeldValue",
    "InvalidObject",
    "ItemExponential",
    "Jitter",
    "Key",
    "Kind",
    "KonvergeError",
    "Limiter",
    "Listening",
    "Manager",
    "ManagerSettings",
    "MaxOf",
    "MaxWait",
    "Metadata",
    "MetadataObject",
    "Metrics",
    "Model",
    "NotConvertible",
    "NotFound",
    "Object",
    "ObjectChanged",
    "Outcome",
    "Patch",
    "Plan",
    "PlannedEvent",
    "Reader",
    "Report",
    "RequeueAfter",
    "Resource",
    "RetryAfter",
    "Rule",
    "ShardingSettings",
    "Status",
    "Terminal",
    "Webhook",
    "WebhookSettings",
    "all_of",
    "annotations_changed",
    "any_of",
    "back_reference",
    "by_back_reference",
    "daily",
    "every",
    "generation_changed",
    "is_false",
    "is_true",
    "kind",
    "labels_changed",
    "metadata_changed",
    "resource",
    "run",
]

_HOMES = {
    "client": ("Client", "ClientConfig"),
    "conditions": ("Condition", "is_false", "is_true"),
    "crds": ("Column", "Conversion", "CustomResource", "Status", "resource"),
    "errors": (
        *("ApiError", "Conflict", "Forbidden", "InvalidObject", "KonvergeError"),
        *("NotConvertible", "NotFound", "ObjectChanged", "RetryAfter", "Terminal"),
    ),
    "informers": ("Change",),
    "keys": ("Key",),
    "kinds": ("Kind", "Resource", "kind"),
    "metrics": ("Metrics",),
    "model": ("Model",),
    "objects": ("Metadata", "MetadataObject", "Object"),
    "outcome": ("Done", "Outcome", "RequeueAfter"),
    "program": ("run",),
    "runtime.builder.sources": ("Channel", "Listening", "daily", "every"),
    "runtime.builder.predicates": (
        "all_of",
        "annotations_changed",
        "any_of",
        "generation_changed",
        "labels_changed",
        "metadata_changed",
    ),
    "runtime": (
        *(
            "HOLD",
            "TAKE",
            "AdmissionRequest",
            "Allow",
            "BackgroundServices",
            "Caches",
            "Child",
            "ConditionUpdate",
            "Context",
            "Controller",
            "Delete",
            "Deny",
            "FieldsHeld",
            "HeldValue",
            "Manager",
            "ElectionSettings",
            "ManagerSettings",
            "ShardingSettings",
        ),
        *(
            "Apply",
            "Patch",
            "Plan",
            "PlannedEvent",
            "Reader",
            "Report",
            "Rule",
            "Webhook",
            "WebhookSettings",
            "back_reference",
            "by_back_reference",
        ),
    ),
    "workqueue": ("Bucket", "ItemExponential", "Jitter", "Limiter", "MaxOf", "MaxWait"),
}
__getattr__ = lazy.at_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
