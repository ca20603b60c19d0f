"""The webhook that assigns a pool to a claim without one before the claim is stored, as Capsule's page describes it.

Guarantees: it writes `spec.pool` only, and decides by the function of the claim controller (`decide_claim`): the first pool by name that
serves the namespace and has room for every resource now. It does not match a claim that names a pool; an assigned claim keeps its pool; a
claim that fits no pool stays as it is. So does a claim beside a new pool without a status: the controller waits for the pool, so that
manifests applied together always end the same.

Caveats: a convenience with failurePolicy Ignore that never denies. Without it the claim controller assigns, in `status.pool`. Every rule
that must hold is in the schema of the claim.

Its path is the library's. Capsule's path (`/resourcepool/claim/mutating`) is how `capsule_check` recognises a running Capsule.

Source: docs/reference/capsule.md#assignment.
"""

from __future__ import annotations

from msgspec.structs import replace

from konverge.clock import wall_clock
from konverge.objects import Object
from konverge.reconcilers.quota.claims.decide import decide_claim, waits_for_new_pool
from konverge.reconcilers.quota.claims.decision import ASSIGNED
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.reconcilers.quota.parse import PoolFacts, claim_view, pool_facts
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.views import ClaimView
from konverge.reconcilers.quota.words import QuotaCondition
from konverge.runtime import AdmissionRequest, Allow, Webhook

__all__ = ["assigning", "wants_a_pool"]

_SECONDS = 3
"""The timeout of a request: the response needs caches only, and without it the controller assigns."""
_NAMES_NONE = "!has(object.spec.pool) || object.spec.pool == ''"


def wants_a_pool(claim: ClaimView, stored: ClaimView | None) -> bool:
    """Whether this write should assign a pool to the claim; `stored` is the claim before the write, None on creation.

    A claim that the controller assigned has its pool. A claim whose pool is removed gets another pool, unless it is allocated: then the
    schema rejects the write.
    """
    if claim.pool or claim.deleting:
        return False
    if stored is None:
        return True
    if stored.pool:
        condition = stored.condition
        return not (condition is not None and condition.type == QuotaCondition.BOUND and condition.is_true)
    return not stored.assigned[0]


class _Assigner:
    """The handler; its only state is a cache of decoded pools."""

    def __init__(self) -> None:
        self._book: ViewCache[PoolFacts] = ViewCache()

    def __call__(self, request: AdmissionRequest[Object]) -> Allow:
        spec, pools = request.object.data.get("spec"), request.cache(POOL)
        if not pools.synced or not isinstance(spec, dict) or spec.get("pool") not in (None, ""):
            return Allow()  # the schema rejects a malformed claim
        stored = None if request.old is None else claim_view(request.old)
        view = claim_view(request.object)
        if not wants_a_pool(view, stored):
            return Allow()
        pools_by_name = {facts.name: facts for facts in self._book.read(pools, pool_facts).values()}
        # The status in a request is not stored, so it is ignored.
        view = replace(view, namespace=request.namespace, assigned=("", ""), queue=("", ""), condition=None)
        if waits_for_new_pool(view, pools_by_name, wall_clock()):
            return Allow()
        decided = decide_claim(view, pools_by_name)
        if decided is not None and decided[0] is ASSIGNED:
            spec["pool"] = decided[1].name
        return Allow()


def assigning() -> Webhook[Object]:
    """Return the webhook; each call creates a new webhook.

    >>> webhook = assigning()
    >>> webhook.path, webhook.failure
    ('/mutate-capsule-clastix-io-v1beta2-resourcepoolclaim', 'Ignore')
    """
    return (
        Webhook.mutating(CLAIM)
        .reads(POOL)
        .only_if("names-no-pool", _NAMES_NONE)
        .within(_SECONDS)
        .ignoring_failures()
        .handled_by(_Assigner())
    )
