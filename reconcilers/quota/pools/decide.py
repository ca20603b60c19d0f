"""The decisions of a pool: the writes that an allocation still needs, the plan of the pool's own status, and the deletes of its finalizer.

Guarantees: pure. Only writes that change something are planned. Their order is part of the rules, since the process may be killed between
any two: ResourceQuotas first, then release annotations and claim statuses, the pool's own status last. So the record of a release is
stored before anything is lowered, and the list of claims before a ResourceQuota is raised for them, which the next reconcile does; a claim
is Bound only after its ResourceQuota grants it. A claim that is queued again stays Bound=False/Released while its annotation is set.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import msgspec
from msgspec.structs import replace

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolStatus
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.quota.amounts import Amounts
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.claims.queue import in_queue_order, place_after, position
from konverge.reconcilers.quota.claims.status import status_is_current
from konverge.reconcilers.quota.kinds import CLAIM, RESOURCE_QUOTA
from konverge.reconcilers.quota.parse import record_in
from konverge.reconcilers.quota.pools.account import NamespaceAllocation
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.concurrency import finished
from konverge.reconcilers.quota.pools.ledger import SLICE, PoolLedger
from konverge.reconcilers.quota.pools.observe import PoolObservation, PoolRemains
from konverge.reconcilers.quota.pools.outcomes import WriteOutcomes
from konverge.reconcilers.quota.pools.render import defaults_of, pool_conditions, pool_status
from konverge.reconcilers.quota.views import AllocatedClaim, ClaimView, PoolRecord, QuotaView, claim_hashes
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.runtime import Delete, Plan

__all__ = [
    "PoolWrites",
    "bound_claims_in",
    "never_granted",
    "plan_finalize",
    "plan_status",
    "plan_writes",
    "planning_steps",
    "record_of",
    "suspects",
    "target_quota",
    "without",
]


class PoolWrites(msgspec.Struct, frozen=True, kw_only=True):
    """The writes of one reconcile of a pool, in order."""

    applies: Mapping[str, Amounts]
    raises: frozenset[str]
    """The namespaces whose ResourceQuota these applies raise or create: allowed only if the stored pool has the version that was read."""
    deletes: tuple[str, ...]
    spent_releases: tuple[ClaimView, ...]
    claim_statuses: tuple[tuple[ClaimView, ClaimDecision], ...]
    record: PoolRecord


def plan_writes(observed: PoolObservation, allocation: PoolAllocation, ledger: PoolLedger | None = None) -> PoolWrites:
    """Return the writes that bring the cluster to the allocation; a ledger knows the namespaces that need none."""
    return finished(planning_steps(observed, allocation, ledger))


def planning_steps(
    observed: PoolObservation, allocation: PoolAllocation, ledger: PoolLedger | None = None
) -> Generator[None, None, PoolWrites]:
    """Plan as `plan_writes` does; yields between slices."""
    planned = {} if ledger is None else ledger.planned
    quotas, defaults = observed.quotas, defaults_of(observed.pool)
    open_namespaces = [
        (namespace, allocated)
        for namespace, allocated in allocation.namespaces.items()
        if (known := planned.get(namespace)) is None
        or known[0] is not allocated
        or known[1] is not quotas.get(namespace)
    ]
    applies: dict[str, Amounts] = {}
    raises, deletes = set(), []
    statuses: list[tuple[ClaimView, ClaimDecision]] = []
    for number, (namespace, allocated) in enumerate(open_namespaces):
        if number and number % SLICE == 0:
            yield
        present = quotas.get(namespace)
        outdated = _outdated_statuses(observed, allocated)
        target = allocated.target
        hard = None if target is None else target.hard
        applied = deleted = False
        if target is not None and hard is None:
            deleted = present is not None and namespace not in observed.terminating
        elif hard is not None and not allocated.reserving:
            applied = present is None or not _is_current(observed, defaults, namespace, allocated, hard, present)
        if hard is not None and applied:
            applies[namespace] = hard
            if present is None or any(amount > present.hard.get(resource, 0) for resource, amount in hard.items()):
                raises.add(namespace)
        if deleted:
            deletes.append(namespace)
        statuses += outdated
        if applied or deleted or outdated:
            planned.pop(namespace, None)
        else:
            planned[namespace] = (allocated, present)
    for namespace in planned.keys() - allocation.namespaces.keys():
        del planned[namespace]
    return PoolWrites(
        applies=applies,
        raises=frozenset(raises),
        deletes=tuple(deletes),
        claim_statuses=tuple(sorted(statuses, key=lambda status: position(status[0]))),
        spent_releases=allocation.spent_releases,
        record=record_of(allocation),
    )


def _outdated_statuses(
    observed: PoolObservation, allocated: NamespaceAllocation
) -> list[tuple[ClaimView, ClaimDecision]]:
    """Return the claims of a namespace whose status does not show the decision yet; a claim is Bound only after its grant."""
    return [
        (claim, decision)
        for claim in allocated.claims
        if (decision := allocated.decisions.get(claim.uid)) is not None
        and not (allocated.reserving and decision.bound)
        and not status_is_current(claim, decision, place_after(claim, decision, observed.pool), observed.semantics)
    ]


def _is_current(
    observed: PoolObservation,
    defaults: Amounts,
    namespace: str,
    allocated: NamespaceAllocation,
    hard: Amounts,
    present: QuotaView,
) -> bool:
    """Whether the ResourceQuota of a namespace is as it will be applied."""
    witness = {} if allocated.target is None else allocated.target.witness
    return (
        present.intact
        and dict(present.hard) == hard
        and (
            namespace in observed.terminating or _annotations_are_current(defaults, present, allocated.entries, witness)
        )
    )


def target_quota(observed: PoolObservation, allocation: PoolAllocation, namespace: str, hard: Amounts) -> QuotaView:
    """Return the ResourceQuota of a namespace as it will be applied."""
    return QuotaView(
        hard=hard,
        claims=claim_hashes(allocation.claims.get(namespace, ())),
        defaults=defaults_of(observed.pool),
        releasing=allocation.witnesses.get(namespace, {}),
    )


def _annotations_are_current(
    defaults: Amounts, quota: QuotaView, entries: tuple[AllocatedClaim, ...], witness: Amounts
) -> bool:
    """Whether the annotations of a ResourceQuota name its claims, defaults and releases; hashes of former claims may remain."""
    return quota.defaults == defaults and claim_hashes(entries) <= quota.claims and quota.releasing == witness


def record_of(allocation: PoolAllocation) -> PoolRecord:
    """Return the record of an allocation in the pool's status."""
    return PoolRecord(claims=allocation.claims, releasing=allocation.releasing)


# --- after a rejection -----------------------------------------------------------------------------------------------------------


def bound_claims_in(namespace: str, observed: PoolObservation, allocation: PoolAllocation) -> set[str]:
    """Return the uids of a namespace's claims that this allocation allocates."""
    return {claim.uid for claim in observed.claims_in.get(namespace, ()) if _is_bound(claim, allocation)}


def _is_bound(claim: ClaimView, allocation: PoolAllocation) -> bool:
    decision = allocation.decisions.get(claim.uid)
    return decision is not None and decision.bound


def suspects(observed: PoolObservation, allocation: PoolAllocation, namespace: str) -> list[str]:
    """Return the uids of the claims, the oldest first, that may have caused the rejection of a ResourceQuota: it never granted them."""
    listed = {entry.uid for entry in observed.recorded.claims.get(namespace, ())}
    return [
        claim.uid
        for claim in in_queue_order(observed.claims_in.get(namespace, ()))
        if (claim.uid not in listed or claim.uid in allocation.unwitnessed) and _is_bound(claim, allocation)
    ]


def without(observed: PoolObservation, refused: Mapping[str, str]) -> PoolObservation:
    """Return the observation with these claims (reasons by uid) rejected as well."""
    return replace(observed, refused={**observed.refused, **refused})


def never_granted(observed: PoolObservation, allocation: PoolAllocation, namespace: str) -> dict[str, frozenset[str]]:
    """Return the resources in release that the ResourceQuota of a namespace lacks: if the server rejects them, it never granted them."""
    present = observed.quotas.get(namespace, QuotaView())
    known = observed.impossible.get(namespace, frozenset())
    lacking = allocation.releasing.get(namespace, {}).keys() - {*present.hard, *present.status_hard} - known
    return {namespace: known | lacking} if lacking else {}


# --- the pool itself -------------------------------------------------------------------------------------------------------------


def plan_status(
    observed: PoolObservation,
    allocation: PoolAllocation,
    refused: Mapping[str, str],
    outcomes: WriteOutcomes,
    retry: float,
    ledger: PoolLedger | None = None,
) -> Plan[ResourcePoolStatus]:
    """Return the plan of the pool's status.

    `refused` maps a namespace to the API server's message about its ResourceQuota; `retry` is the delay in seconds after a rejection.
    """
    return Plan(
        set_conditions=pool_conditions(observed.pool, allocation, refused),
        draft=pool_status(observed.pool, allocation, tuple(sorted(observed.selected)), ledger),
        outcome=_next_reconcile(allocation, refused, outcomes, retry),
    )


def _next_reconcile(
    allocation: PoolAllocation, refused: Mapping[str, str], outcomes: WriteOutcomes, retry: float
) -> Outcome:
    if (allocation.pending | allocation.reserving) - outcomes.failed:
        return RequeueAfter(NEXT_STEP)
    if outcomes.again:
        return RequeueAfter(READ_AGAIN)
    return RequeueAfter(retry) if refused else Done()


def plan_finalize(pool: ResourcePool, remains: PoolRemains) -> tuple[tuple[Delete, ...], tuple[Delete, ...]]:
    """Return the deletes of the allocated claims, if the pool's spec requests them, then the deletes of the ResourceQuotas.

    A claim is allocated if the pool lists it or its own status reports it: a reconcile that was killed may not have written the pool's
    status. Each delete names the uid: queued claims survive, and so does a claim that was recreated under the same name.
    """
    bound: set[tuple[str, str, str]] = set()
    if pool.spec.config.delete_bound_resources:
        listed = record_in(pool.status).claims.items()
        bound |= {(namespace, entry.name, entry.uid) for namespace, entries in listed for entry in entries}
        bound |= {
            (claim.namespace, claim.name, claim.uid)
            for claim in remains.claims
            if claim.is_bound_to(pool.name, pool.uid)
        }
    return (
        tuple(Delete(CLAIM, name, namespace, uid=uid) for namespace, name, uid in sorted(bound)),
        tuple(
            Delete(RESOURCE_QUOTA, quota.name, quota.namespace, uid=quota.uid)
            for quota in remains.quotas
            if not quota.deleting
        ),
    )
