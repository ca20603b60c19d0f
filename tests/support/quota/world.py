"""A model of one pool's data for the pure parts of the quota family: claims, ResourceQuotas, the stored record, pods as numbers.

Guarantees: a reconcile reads the stored data and writes in the order of `PoolWrites`, one write at a time, so that a test can stop it after
any. ResourceQuotas behave like Kubernetes': we write spec.hard, the status follows only with `observe`, admission enforces status.hard, and
charges admitted pods at once. `held` is the formula of docs/reference/capsule.md#shrink-first-credit-later, implemented a second time, only
from the stored data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from quota.amounts import read

from konverge.conditions import Condition, truth
from konverge.quantities import WHOLE, Quantity
from konverge.quantities import read as quantities
from konverge.reconcilers.quota.amounts import Amounts, problem_in
from konverge.reconcilers.quota.claims.conditions import claim_conditions
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.claims.queue import place_after
from konverge.reconcilers.quota.pools.allocate import PoolAllocation, allocate
from konverge.reconcilers.quota.pools.decide import plan_writes
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.render import defaults_of
from konverge.reconcilers.quota.views import (
    ClaimView,
    PoolRecord,
    PoolView,
    QuotaView,
    claim_hashes,
)
from konverge.reconcilers.quota.words import Semantics

CPU = "requests.cpu"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pool(
    hard: Mapping[str, Any], *, defaults: Mapping[str, Any] | None = None, zero: bool = False, ordered: bool = False
) -> PoolView:
    """Return a pool named p."""
    return PoolView(
        name="p", uid="p-1", hard=quantities(hard), defaults=quantities(defaults), zero=zero, ordered=ordered
    )


@dataclass
class Rq:
    """A ResourceQuota as it is stored."""

    hard: Amounts
    status_hard: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    defaults: Amounts | None = None
    defaults_observed: Amounts = field(default_factory=dict)
    releasing: Amounts = field(default_factory=dict)

    def view(self) -> QuotaView:
        return QuotaView(
            hard=dict(self.hard),
            status_hard=dict(self.status_hard),
            used=dict(self.used),
            claims=self.claims,
            defaults=self.defaults,
            releasing=dict(self.releasing),
        )


class DryWorld:
    """One pool and its namespaces."""

    def __init__(self, pool: PoolView, *namespaces: str) -> None:
        self.pool = pool
        self.selected = set(namespaces)
        self.terminating: set[str] = set()
        self.claims: dict[tuple[str, str], ClaimView] = {}
        self.quotas: dict[str, Rq] = {}
        self.record = PoolRecord()
        self.pods: dict[str, Amounts] = {}
        self.last: PoolAllocation | None = None
        self.writes: list[str] = []
        self.before: dict[str, int] = {}
        """The held amounts before the last write."""
        self.max_claims = 5000
        self.max_status_bytes = 1_300_000
        self.namespace_share = 1.0
        self.semantics = Semantics.V012
        self._uids = 0

    # --- users --------------------------------------------------------------------------------------------------------------

    def claim(
        self, namespace: str, name: str, amounts: Mapping[str, Any] | None = None, *, at: int = 0, **more: Any
    ) -> ClaimView:
        """Create a claim, or replace a claim's spec; `cpu=2` is short for requests.cpu."""
        wanted = read({CPU if name == "cpu" else name: value for name, value in {**(amounts or {}), **more}.items()})
        before = self.claims.get((namespace, name))
        if before is not None:
            made = replace(before, amounts=wanted, problem=problem_in(wanted), generation=before.generation + 1)
        else:
            self._uids += 1
            created = f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"
            made = ClaimView(
                namespace=namespace,
                name=name,
                uid=f"u{self._uids}",
                created=created,
                pool=self.pool.name,
                amounts=wanted,
                problem=problem_in(wanted),
            )
        self.claims[namespace, name] = made
        return made

    def release(self, namespace: str, name: str) -> None:
        self.claims[namespace, name] = replace(self.claims[namespace, name], release=True)

    def take_back(self, namespace: str, name: str) -> None:
        """Remove the release annotation."""
        self.claims[namespace, name] = replace(self.claims[namespace, name], release=False)

    def use(self, namespace: str, **amounts: Any) -> bool:
        """Start pods, or end them if the amount is negative; returns whether admission allowed it."""
        for name, value in amounts.items():
            resource, delta = CPU if name == "cpu" else name, Quantity.parse(value).billionths
            pods = self.pods.setdefault(namespace, {})
            quota = self.quotas.get(namespace)
            if delta > 0 and quota is not None and resource in quota.status_hard:
                if quota.used.get(resource, 0) + delta > quota.status_hard[resource]:
                    return False
                quota.used[resource] = quota.used.get(resource, 0) + delta
            pods[resource] = max(0, pods.get(resource, 0) + delta)
        return True

    def observe(self, namespace: str) -> None:
        """Run the resourcequota controller for one namespace."""
        quota = self.quotas.get(namespace)
        if quota is not None:
            quota.status_hard, quota.defaults_observed = dict(quota.hard), dict(quota.defaults or {})
            quota.used = {resource: self.pods.get(namespace, {}).get(resource, 0) for resource in quota.hard}

    # --- reconciles --------------------------------------------------------------------------------------------------------------

    def see(self, **parts: Any) -> PoolObservation:
        observed = PoolObservation(
            pool=self.pool,
            selected=frozenset(self.selected),
            terminating=frozenset(self.terminating),
            claims=tuple(self.claims.values()),
            quotas={namespace: quota.view() for namespace, quota in self.quotas.items()},
            recorded=self.record,
            max_claims=self.max_claims,
            max_status_bytes=self.max_status_bytes,
            namespace_share=self.namespace_share,
            semantics=self.semantics,
        )
        return replace(observed, **parts)

    def steps(self) -> Iterator[str]:
        """Run one reconcile, a write at a time; yields the name of each write."""
        seen = self.see()
        self.last = allocation = allocate(seen)
        writes = plan_writes(seen, allocation)
        for namespace, hard in writes.applies.items():
            self.before = self.held()
            quota = self.quotas.setdefault(namespace, Rq({}))
            quota.hard, quota.defaults = dict(hard), defaults_of(self.pool)
            quota.claims = claim_hashes(allocation.claims.get(namespace, ()))
            quota.releasing = dict(allocation.witnesses.get(namespace, {}))
            yield f"apply {namespace}"
        for namespace in writes.deletes:
            self.before = self.held()
            del self.quotas[namespace]
            yield f"remove {namespace}"
        for claim in writes.spent_releases:
            self.before = self.held()
            self.take_back(claim.namespace, claim.name)
            yield f"strip {claim.namespace}/{claim.name}"
        for claim, decision in writes.claim_statuses:
            self.before = self.held()
            self._say(claim, decision)
            yield f"say {claim.namespace}/{claim.name} {decision.reason}"
        if writes.record != self.record:
            self.before = self.held()
            self.record = writes.record
            yield "record"

    def _say(self, claim: ClaimView, decision: ClaimDecision) -> None:
        place = place_after(claim, decision, self.pool)
        self.claims[claim.namespace, claim.name] = replace(
            self.claims[claim.namespace, claim.name],
            assigned=place.pool,
            queue=place.queue,
            condition=Condition(
                type=decision.type,
                status=truth(decision.status),
                reason=decision.reason,
                message=decision.message,
                observed_generation=claim.generation,
            ),
            conditions=claim_conditions(claim, decision, _NOW) if self.semantics == Semantics.V014 else (),
            in_use=decision.in_use,
            semantics=self.semantics,
        )

    def once(self) -> list[str]:
        """Run one reconcile; returns its writes."""
        return list(self.steps())

    def settle(self, *, observing: bool = True, check: Callable[[], None] = lambda: None) -> list[str]:
        """Reconcile until nothing is written, with the resourcequota controller in between; returns all writes."""
        made: list[str] = []
        for _ in range(30):
            written = 0
            for step in self.steps():
                made.append(step)
                written += 1
                check()
            if observing:
                for namespace in sorted(self.quotas):
                    self.observe(namespace)
            if not written and self.last is not None and not self.last.pending and not self._news(observing):
                return made
        raise AssertionError(f"it does not come to rest: {made[-12:]}")

    def _news(self, observing: bool) -> bool:
        again = allocate(self.see())
        writes = plan_writes(self.see(), again)
        return observing and bool(writes.applies or writes.claim_statuses or writes.record != self.record)

    # --- assertions ----------------------------------------------------------------------------------------------------------

    def held(self) -> dict[str, int]:
        """Return the amounts that all namespaces hold, by the formula of docs/reference/capsule.md#shrink-first-credit-later on the stored data."""
        total = dict.fromkeys(self.pool.hard, 0)
        everyone = {*self.quotas, *self.record.claims, *self.record.releasing}
        for namespace in everyone:
            quota = self.quotas.get(namespace, Rq({}))
            for resource in total:
                default = self.pool.default(resource) or 0
                claimed = sum(entry.amounts.get(resource, 0) for entry in self.record.claims.get(namespace, ()))
                releasing = self.record.releasing.get(namespace, {}).get(resource, 0)
                total[resource] += max(
                    0,
                    claimed,
                    quota.hard.get(resource, 0) - (quota.defaults or {}).get(resource, 0),
                    quota.status_hard.get(resource, 0) - quota.defaults_observed.get(resource, 0),
                    min(releasing, quota.used.get(resource, 0) - default),
                )
        return total

    def hard(self) -> dict[str, int]:
        return {resource: quantity.billionths for resource, quantity in self.pool.hard.items()}

    def said(self, namespace: str, name: str) -> str:
        """Return type, reason and message of a claim's condition."""
        condition = self.claims[namespace, name].condition
        assert condition is not None
        return f"{condition.type} {condition.reason}: {condition.message}"

    def allocated(self) -> dict[str, list[str]]:
        """Return the names of the allocated claims by namespace."""
        return {namespace: [entry.name for entry in entries] for namespace, entries in self.record.claims.items()}

    def cores(self, namespace: str, resource: str = CPU) -> float | None:
        """Return the grant of a namespace's ResourceQuota; None if it lacks the key."""
        amount = self.quotas[namespace].hard.get(resource)
        return None if amount is None else amount / WHOLE
