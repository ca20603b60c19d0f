"""The validating webhook of Operations: refuses a spec that can never work before it is stored, by the rules of the reconciler.

An Operation that another object keeps from starting (a conflict, a missing target, an approval) is admitted, and Blocked until that
changes. An edit that would make its target invalid is refused, if the cache has the target. The schema refuses changes of immutable fields.

A convenience: if the webhook cannot be reached the write is stored (failurePolicy Ignore), and the reconciler ends the Operation as Failed.
An update is checked only if it changes the parameters, so an Operation that was stored earlier can still be cancelled and deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from konverge.clock import wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import InvalidObject
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.registry import EngineRow
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.validate import refusal, target_refusal
from konverge.reconcilers.apps.settings import Settings
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["validating_webhook"]

_SECONDS: Final = 3
"""The webhook's timeout: a response needs no request."""
_CHANGES_THE_SPEC: Final = "request.operation == 'CREATE' || object.spec != oldObject.spec"


def _parameters(operation: Object) -> Any:
    return operation.get("spec", "parameters") or {}


def _checks(
    settings: OperationSettings, rows: tuple[EngineRow, ...], instances: Settings
) -> Callable[[AdmissionRequest[Object]], Allow | Deny]:
    def check(request: AdmissionRequest[Object]) -> Allow | Deny:
        given, stored = request.object, request.old
        if given.metadata.deleting or (stored is not None and _parameters(stored) == _parameters(given)):
            return Allow()
        try:
            operation = Operation.decode(given.to_dict())
        except InvalidObject:
            return Allow()  # the API server refuses an object that breaks the schema
        refused = refusal(operation, settings, rows, wall_clock())
        if refused is not None:
            return Deny(refused.message, code=422)
        target = request.cache(INSTANCE).find(given.namespace, operation.spec.target_ref.name)
        message = "" if target is None else target_refusal(operation, target, settings, rows, instances, wall_clock())
        return Deny(message, code=422) if message else Allow()

    return check


def validating_webhook(
    settings: OperationSettings, rows: tuple[EngineRow, ...], instances: Settings | None = None
) -> Webhook[Object]:
    """Return the description of the webhook; `instances` are the settings that check the edit of a target.

    >>> validating_webhook(OperationSettings(), ()).path
    '/validate-ops-vworkspace-io-v1alpha1-operation'
    """
    return (
        Webhook.validating(VIEW)
        .reads(INSTANCE)
        .only_if("changes-the-spec", _CHANGES_THE_SPEC)
        .within(_SECONDS)
        .ignoring_failures()
        .handled_by(_checks(settings, rows, instances or Settings()))
    )
