"""The webhooks of the semantics of v0.14: they deny edits and deletions of a claim that pods use, with a 403 like Capsule's.

Guarantees: they match only claims whose status reports use by pods, and deny only a change of the amounts or the pool, or a deletion.
A claim with the release annotation may be deleted. A deletion with the namespace or the pool is allowed.

Caveats: a convenience with failurePolicy Ignore. Without it the schema still rejects such an edit (422), and a deletion is safe, because
amounts in use are allocated again only after the pods are deleted. Edits are sent to a mutating webhook that changes nothing, since the API
server calls validating webhooks after the schema, whose 422 would be first.
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
    """Return the webhooks for edits and for deletions.

    >>> [webhook.failure for webhook in guarding()]
    ['Ignore', 'Ignore']
    """
    edits = Webhook.mutating(CLAIM).named("guard").on("UPDATE")
    deletions = Webhook.validating(CLAIM).on("DELETE").reads(POOL).reads(NAMESPACE, metadata_only=True)
    return (
        edits.only_if("in-use", _IN_USE).within(_SECONDS).ignoring_failures().handled_by(_edited),
        deletions.only_if("in-use", _IN_USE).within(_SECONDS).ignoring_failures().handled_by(_deleted),
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
