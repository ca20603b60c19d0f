"""The validating webhook of Clusters: refuses an endpoint that the agent does not use before it is stored, by the rule of the reconciler.

Whatever needs another object (the token's Secret, another Cluster) is admitted, and reported in the conditions. A convenience: if the
webhook cannot be reached the write is stored (failurePolicy Ignore). An update is checked only if it changes the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.errors import InvalidObject
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.clusters.decide import endpoint_problem
from konverge.reconcilers.clusters.settings import Settings
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["validating_webhook"]

_SECONDS: Final = 3
"""The webhook's timeout: a response needs no read."""
_CHANGES_THE_SPEC: Final = "request.operation == 'CREATE' || object.spec != oldObject.spec"
_VIEW: Final = kind("ops.vworkspace.io/v1alpha1", "Cluster", namespaced=False, plural="clusters")


def _endpoint(cluster: Object) -> str | None:
    try:
        return Cluster.decode(cluster.to_dict()).endpoint
    except InvalidObject:
        return None  # the API server refuses an object that breaks the schema


def _checks(settings: Settings) -> Callable[[AdmissionRequest[Object]], Allow | Deny]:
    def check(request: AdmissionRequest[Object]) -> Allow | Deny:
        given, stored = _endpoint(request.object), None if request.old is None else _endpoint(request.old)
        if given is None or given == stored or request.object.metadata.deleting:
            return Allow()
        problem = endpoint_problem(given, settings)
        return Allow() if problem is None else Deny(problem.message, code=422)

    return check


def validating_webhook(settings: Settings) -> Webhook[Object]:
    """Return the description of the webhook.

    >>> validating_webhook(Settings()).path
    '/validate-ops-vworkspace-io-v1alpha1-cluster'
    """
    return (
        Webhook.validating(_VIEW)
        .only_if("changes-the-spec", _CHANGES_THE_SPEC)
        .within(_SECONDS)
        .ignoring_failures()
        .handled_by(_checks(settings))
    )
