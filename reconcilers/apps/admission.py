"""The family's validating webhook: refuses specs that the schema cannot check, before they are stored.

CEL cannot look into `values.inline`, whose fields are unknown, and cannot see the namespace of the object. So secrets in inline
values, a release of another namespace, `..` in a URL, and a service account that is not allowed are refused here, by the checks that the
reconciler uses.

A convenience: if the webhook cannot be reached the write is stored (failurePolicy Ignore), and the reconciler sets Blocked. It is called
only for writes that change the spec, so objects stored earlier can still be labelled, finalized and deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import InvalidObject
from konverge.objects import Object
from konverge.reconcilers.apps.contention import VIEW
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import CheckInput, refusals
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["validating_webhook"]

_SECONDS: Final = 3
"""The webhook's timeout: a response needs no read."""
_CHANGES_THE_SPEC: Final = "request.operation == 'CREATE' || object.spec != oldObject.spec"


def _checks(settings: Settings) -> Callable[[AdmissionRequest[Object]], Allow | Deny]:
    def check(request: AdmissionRequest[Object]) -> Allow | Deny:
        given, stored = request.object, request.old
        if given.metadata.deleting or (stored is not None and stored.data.get("spec") == given.data.get("spec")):
            return Allow()
        try:
            instance = ApplicationInstance.decode(given.to_dict())
        except InvalidObject:
            return Allow()  # the API server refuses an object that breaks the schema
        problems = refusals(CheckInput(instance=instance, settings=settings))
        return Deny(problems, code=422) if problems else Allow()

    return check


def validating_webhook(settings: Settings) -> Webhook[Object]:
    """Return the description of the webhook.

    >>> webhook = validating_webhook(Settings())
    >>> webhook.path, webhook.failure
    ('/validate-apps-vworkspace-io-v1alpha1-applicationinstance', 'Ignore')
    """
    return (
        Webhook.validating(VIEW)
        .only_if("changes-the-spec", _CHANGES_THE_SPEC)
        .within(_SECONDS)
        .ignoring_failures()
        .handled_by(_checks(settings))
    )
