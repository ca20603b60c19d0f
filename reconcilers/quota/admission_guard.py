"""The webhooks of the semantics of v0.14: a claim that pods use is neither edited nor deleted, and the refusal is a 403, as Capsule's.

Promises: asked only about claims that say that they are used, and they refuse only where the amounts or the pool are changed, or the
claim is deleted. Released is always allowed: a claim that bears the release annotation may be deleted. What goes with its namespace or
its pool is not held up.

A convenience, like the other one: where it cannot be asked the schema still refuses such an edit (422), and a deletion is safe all the
same, because what pods use is handed out only when they are gone. Edits are looked at by a mutating webhook that changes nothing: the API
server asks a validating one after the schema, which would answer first.
"""

from __future__ import annotations

from typing import Final

from konverge.objects import Object
from konverge.reconcilers.quota.kinds import CLAIM, NAMESPACE, POOL
from konverge.reconcilers.quota.parse import claim_view
from konverge.runtime import AdmissionRequest, Allow, Deny, Webhook

__all__ = ["guarding"]

_SECONDS: Final = 3
_IN_USE: Final = (
    "has(oldObject.status) && has(oldObject.status.semantics) && oldObject.status.semantics == 'v0.14' "
    "&& has(oldObject.status.conditions) "
    "&& oldObject.status.conditions.exists(c, c.type == 'Bound' && c.status == 'True')"
)
_RELEASE: Final = (
    'pods use it: end them, or release it first (annotation projectcapsule.dev/release: "true"); '
    "what they use is handed out when they are gone"
)


def guarding() -> tuple[Webhook[Object], Webhook[Object]]:
    """Return the webhooks for edits and for deletions, described.

    >>> [webhook.failure for webhook in guarding()]
    ['Ignore', 'Ignore']
    """
    edits = Webhook.mutating(CLAIM).named("guard").on("UPDATE")
    deletions = Webhook.validating(CLAIM).on("DELETE").reads(POOL).reads(NAMESPACE, metadata_only=True)
    return (
        edits.only_if("in-use", _IN_USE).within(_SECONDS).ignoring_failures().answered_by(_edited),
        deletions.only_if("in-use", _IN_USE).within(_SECONDS).ignoring_failures().answered_by(_deleted),
    )


def _edited(request: AdmissionRequest[Object]) -> Allow | Deny:
    if request.old is None:
        return Allow()
    before, after = claim_view(request.old), claim_view(request.object)
    if before.deleting or not before.in_use:
        return Allow()
    wrong = {}
    if after.amounts != before.amounts or after.problem != before.problem:
        wrong["spec.claim"] = "cannot be changed while pods use the claim"
    if after.pool != before.pool and after.pool != before.assigned[0]:
        wrong["spec.pool"] = "cannot be changed while pods use the claim"
    if not wrong:
        return Allow()
    return Deny(f"claim {before.name} cannot be changed, since {_RELEASE}", fields=wrong)


def _deleted(request: AdmissionRequest[Object]) -> Allow | Deny:
    if request.old is None:
        return Allow()
    claim = claim_view(request.old)
    if claim.release or claim.deleting or not claim.in_use:
        return Allow()
    pools, namespaces = request.cache(POOL), request.cache(NAMESPACE)
    if not pools.synced or not namespaces.synced:
        return Allow()
    pool, namespace = pools.metadata("", claim.assigned[0]), namespaces.metadata("", request.namespace)
    if pool is None or pool.deleting or namespace is None or namespace.deleting:
        return Allow()
    return Deny(f"claim {claim.name} cannot be deleted, since {_RELEASE}")
