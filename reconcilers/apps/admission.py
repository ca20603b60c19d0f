"""The family's webhook: what the schema cannot see of an ApplicationInstance is refused before it is stored.

CEL does not look into `values.inline`, whose fields are unknown, and does not see the namespace of the object. So secrets and nulls in
inline values, a release of another namespace, a URL that climbs, and a service account that is not allowed are refused here, by the very
checks that the reconciler goes by.

A convenience: if it cannot be asked the write happens (failurePolicy Ignore), and the reconciler says Blocked. It is asked only about
writes that change the spec, so objects that were stored before it can still be labelled, finalized and deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import InvalidObject
from konverge.objects import Object
from konverge.reconcilers.apps.contention import VIEW
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import Subject, refusals
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["checking"]

_SECONDS: Final = 3
"""How long a writer may be kept waiting: the answer takes no read."""
_CHANGES_THE_SPEC: Final = "request.operation == 'CREATE' || object.spec != oldObject.spec"


def _checks(settings: Settings) -> Callable[[AdmissionRequest[Object]], Allow | Deny]:
    def check(request: AdmissionRequest[Object]) -> Allow | Deny:
        given, stored = request.object, request.old
        if given.metadata.deleting or (stored is not None and stored.data.get("spec") == given.data.get("spec")):
            return Allow()
        try:
            instance = ApplicationInstance.decode(given.to_dict())
        except InvalidObject:
            return Allow()  # what does not fit the schema is refused by the API server, in its own words
        found = refusals(Subject(instance=instance, settings=settings))
        return Deny(found, code=422) if found else Allow()

    return check


def checking(settings: Settings) -> Webhook[Object]:
    """Return the webhook, described.

    >>> webhook = checking(Settings())
    >>> webhook.path, webhook.failure
    ('/validate-apps-vworkspace-io-v1alpha1-applicationinstance', 'Ignore')
    """
    return (
        Webhook.validating(VIEW)
        .only_if("changes-the-spec", _CHANGES_THE_SPEC)
        .within(_SECONDS)
        .ignoring_failures()
        .answered_by(_checks(settings))
    )
