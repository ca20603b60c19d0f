"""A ledger that has followed a random history equals a ledger that starts with the last observation, and so do the planned writes.

The worlds and their rules are those of the allocator's property test; here each observation also goes through one kept ledger.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import fields, replace
from quota.machine import SPACES, Pools, PoolsAndOthers, PoolsWhoseClaimsAreResized
from quota.world import CPU

from konverge.reconcilers.quota.pools.allocate import allocate, allocation_steps
from konverge.reconcilers.quota.pools.decide import plan_writes
from konverge.reconcilers.quota.pools.ledger import PoolLedger
from konverge.reconcilers.quota.pools.observe import ClaimsByNamespace, PoolObservation
from konverge.reconcilers.quota.pools.render import pool_status

SUMS = ("held", "claimed", "listed", "bytes")


def without_zeros(value: Any) -> Any:
    return {name: amount for name, amount in value.items() if amount} if isinstance(value, dict) else value


class Followed(RuleBasedStateMachine):
    """Compares the kept ledger with a new ledger at every observation; mixed into the worlds."""

    world: Any

    @initialize()
    def start(self) -> None:
        self.ledger = PoolLedger()
        self.last: PoolObservation | None = None
        self.refused: dict[str, str] = {}
        self.sets: dict[str, frozenset[str]] = {}
        self.parts: dict[str, float] = {}
        self.lost = self.ordered = False
        self.impossible: dict[str, frozenset[str]] = {}

    def see(self) -> PoolObservation:
        """Return the observation; what is equal to the last observation is the same object, as the observer has it."""
        now: PoolObservation = self.world.see(
            pool=replace(self.world.pool, ordered=self.ordered),
            recorded=replace(self.world.record, lost=self.lost),
            refused=dict(self.refused),
            impossible=dict(self.impossible),
            **self.sets,
            **self.parts,
        )
        if self.last is None:
            self.last = now
        before = self.last
        known = ClaimsByNamespace.of(before.claims).by_namespace
        grouped = ClaimsByNamespace.of(now.claims).by_namespace
        self.last = replace(
            now,
            claims=ClaimsByNamespace(shared(known, grouped)),
            quotas=shared(before.quotas, now.quotas),
            recorded=replace(now.recorded, claims=shared(before.recorded.claims, now.recorded.claims)),
        )
        return self.last

    @rule(where=SPACES, kind=st.sampled_from(["foreign", "unconfirmed"]), on=st.booleans())
    def mark(self, where: str, kind: str, on: bool) -> None:
        others = self.sets.get(kind, frozenset()) - {where}
        self.sets[kind] = others | {where} if on else others

    @rule(which=st.integers(0, 9), reason=st.sampled_from(["", "no", "never"]))
    def refuse(self, which: int, reason: str) -> None:
        """The API server rejects the ResourceQuota of a claim, or accepts it again."""
        uids = sorted(claim.uid for claim in self.world.claims.values())
        if uids:
            self.refused.pop(uids[which % len(uids)], None)
            if reason:
                self.refused[uids[which % len(uids)]] = reason

    @rule(where=SPACES, on=st.booleans())
    def cannot_release(self, where: str, on: bool) -> None:
        self.impossible.pop(where, None)
        if on:
            self.impossible[where] = frozenset({CPU})

    @rule(
        lost=st.booleans(), ordered=st.booleans(), ceiling=st.sampled_from([5000, 2]), share=st.sampled_from([1, 0.5])
    )
    def change_the_whole(self, lost: bool, ordered: bool, ceiling: int, share: float) -> None:
        """A change for all namespaces: the record is lost, the pool orders its queue, the limits are lower."""
        self.lost, self.ordered = lost, ordered
        self.parts = {"max_claims": ceiling, "namespace_share": share}

    @rule(steps=st.integers(0, 2))
    def interrupt(self, steps: int) -> None:
        """A reconcile is cancelled between two slices."""
        interrupted = allocation_steps(self.see(), self.ledger)
        for _ in zip(range(steps), interrupted, strict=False):
            pass
        interrupted.close()

    @rule()
    def compare(self) -> None:
        seen, fresh = self.see(), PoolLedger()
        kept = allocate(seen, self.ledger)
        assert kept == allocate(seen, fresh)
        assert self.ledger.accounts == fresh.accounts
        assert self.ledger.waiting.keys() == fresh.waiting.keys()
        for name in SUMS:
            assert without_zeros(getattr(self.ledger, name)) == without_zeros(getattr(fresh, name)), name
        for planned in (plan_writes(seen, kept, self.ledger), plan_writes(seen, kept, self.ledger)):
            fully = plan_writes(seen, kept)
            for field in fields(fully):
                assert getattr(planned, field.name) == getattr(fully, field.name), field.name
        namespaces = tuple(sorted(seen.selected))
        assert pool_status(seen.pool, kept, namespaces, self.ledger) == pool_status(seen.pool, kept, namespaces)

    def teardown(self) -> None:
        if hasattr(self, "ledger") and hasattr(self, "world"):
            self.compare()


def shared(before: Any, now: Any) -> dict[str, Any]:
    return {name: before[name] if before.get(name) == value else value for name, value in now.items()}


class FollowedPools(Followed, Pools):
    """Users and the family write."""


class FollowedPoolsAndOthers(Followed, PoolsAndOthers):
    """Others write too."""


class FollowedPoolsOfV014(Followed, PoolsWhoseClaimsAreResized):
    """Claims are resized, and report their use."""


def _case(machine: type[RuleBasedStateMachine]) -> Any:
    case = machine.TestCase
    case.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
    return case


TestFollowedPools = _case(FollowedPools)
TestFollowedPoolsAndOthers = _case(FollowedPoolsAndOthers)
TestFollowedPoolsOfV014 = _case(FollowedPoolsOfV014)
