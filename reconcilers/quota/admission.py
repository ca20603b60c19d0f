"""The family's one webhook: a claim that names no pool is given one before it is stored, as Capsule's page describes it.

Promises: it writes `spec.pool` and nothing else, and it concludes by the function that the claim controller goes by (`judge`): the
lowest-named pool that serves the namespace, has every resource, and room for it now. A claim that names a pool is not asked about, one
that was given a pool keeps it, and where none fits the claim stays as it is. A pool that nobody has looked at yet is waited for by the
controller, not here: then too the claim stays as it is, so that what is applied together ends the same each time.

A convenience: it is never asked to refuse, and where it cannot be asked the write happens all the same (failurePolicy Ignore). The claim
controller then assigns, into `status.pool`. What must hold is in the schema of the claim.

Its path is the library's, not Capsule's (`/resourcepool/claim/mutating`): by that one `handover` knows a Capsule that is still there.

Source: docs/reference/capsule.md#assignment.
"""

from __future__ import annotations

from dataclasses import replace

from konverge.clock import wall_clock
from konverge.objects import Object
from konverge.reconcilers.quota.claim_decision import ASSIGNED
from konverge.reconcilers.quota.decide import decide_claim, waits_for_new_pool
from konverge.reconcilers.quota.kinds import CLAIM, POOL
from konverge.reconcilers.quota.observation import ClaimView
from konverge.reconcilers.quota.parse import PoolFacts, claim_view, pool_facts
from konverge.reconcilers.quota.view_cache import ViewCache
from konverge.reconcilers.quota.words import QuotaCondition
from konverge.runtime import AdmissionRequest, Allow, Webhook

__all__ = ["assigning", "wants_a_pool"]

_SECONDS = 3
"""How long a writer may be kept waiting: the answer is read from a cache, and without it the controller assigns."""
_NAMES_NONE = "!has(object.spec.pool) || object.spec.pool == ''"


def wants_a_pool(claim: ClaimView, stored: ClaimView | None) -> bool:
    """Tell whether a claim is to be given a pool by this write; `stored` is how it stood before, None where it is created.

    One that was given its pool by the controller has it. One that named a pool and is written without is given another, unless it is
    allocated: then its pool stays, and the schema says so.
    """
    if claim.pool or claim.deleting:
        return False
    if stored is None:
        return True
    if stored.pool:
        said = stored.condition
        return not (said is not None and said.type == QuotaCondition.BOUND and said.is_true)
    return not stored.assigned[0]


class _Assigner:
    """The handler. It keeps what it read of pools, by their versions, and decides nothing by what it remembers."""

    def __init__(self) -> None:
        self._book: ViewCache[PoolFacts] = ViewCache()

    def __call__(self, request: AdmissionRequest[Object]) -> Allow:
        spec, pools = request.object.data.get("spec"), request.cache(POOL)
        if not pools.synced or not isinstance(spec, dict) or spec.get("pool") not in (None, ""):
            return Allow()  # what is no claim at all is for the schema to refuse
        stored = None if request.old is None else claim_view(request.old)
        asked = claim_view(request.object)
        if not wants_a_pool(asked, stored):
            return Allow()
        facts = {one.name: one for one in self._book.read(pools, pools.all_metadata(), pool_facts).values()}
        # What a writer says in the status is not stored, so it is not believed.
        asked = replace(asked, namespace=request.namespace, assigned=("", ""), queue=("", ""), condition=None)
        if waits_for_new_pool(asked, facts, wall_clock()):
            return Allow()
        judged = decide_claim(asked, facts)
        if judged is not None and judged[0] is ASSIGNED:
            spec["pool"] = judged[1].name
        return Allow()


def assigning() -> Webhook[Object]:
    """Return the webhook, described; each call gives one of its own.

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
        .answered_by(_Assigner())
    )
