"""A pool and claims under random events, decided on views that lag behind by any number of writes.

The machine holds what an API server stores. Pools and claims decide by the family's own pure functions, on a view of an earlier moment, and
their writes are compare-and-swap: a write that names an old version is refused. After every step no instance has had two claims, no claim
has two instances, nothing that was taken is deleted by its pool, and no minute has more than ten creations.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from konverge.objects import Metadata
from konverge.reconcilers.pools.claims.turns import WaitingClaim, turns
from konverge.reconcilers.pools.members import Member
from konverge.reconcilers.pools.pool.decide import PoolLimits, PoolState, decide_pool

LAGS = st.integers(0, 6)
LIMITS = PoolLimits(creates=10, deadline=timedelta(minutes=5))
SELECTOR = "tier=small"


class PoolAndClaims(RuleBasedStateMachine):
    """The stored state, its history, and the memory of two processes."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.replicas = 3
        self.digest = "a"
        self.version = 0
        self.history: list[dict[str, Member]] = [{}]
        self.lines: list[dict[str, WaitingClaim]] = [{}]
        self.owners: dict[str, str] = {}
        self.created: list[datetime] = []
        self.recent: dict[str, datetime] = {}

    # --- the server ----------------------------------------------------------------------------------------------------------

    @property
    def stored(self) -> dict[str, Member]:
        return self.history[-1]

    def _store(self, instance: Member | None, uid: str) -> None:
        self.version += 1
        after = {name: one for name, one in self.stored.items() if name != uid}
        if instance is not None:
            after[uid] = replace(instance, version=str(self.version))
        self.history.append(after)

    def _old(self, lag: int) -> dict[str, Member]:
        return self.history[max(0, len(self.history) - 1 - lag)]

    # --- events --------------------------------------------------------------------------------------------------------------

    @rule(target=claims)
    def a_claim_comes(self) -> str:
        self.version += 1
        uid = f"claim-{self.version}"
        line = self.lines[-1] | {uid: WaitingClaim(f"{self.version:06}", uid, "ns", uid, SELECTOR)}
        self.lines.append(line)
        return uid

    @rule(seconds=st.sampled_from([1, 20, 61, 400]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(replicas=st.integers(0, 25))
    def the_pool_is_scaled(self, replicas: int) -> None:
        self.replicas = replicas

    @rule(digest=st.sampled_from("abc"))
    def the_profile_changes(self, digest: str) -> None:
        self.digest = digest

    @rule(phase=st.sampled_from(["Ready", "Ready", "Ready", "Failed", "Provisioning"]), which=st.integers(0, 30))
    def the_phase_of_some_instances_changes(self, phase: str, which: int) -> None:
        for uid in sorted(self.stored)[which % 3 :: 3]:
            self._store(replace(self.stored[uid], phase=phase), uid)

    @rule()
    def the_process_of_the_pool_restarts(self) -> None:
        # It then knows its creations by the members that are left: one that is gone again within the minute would be forgotten.
        if sum(moment > self.now - LIMITS.window for moment in self.created) <= sum(
            one.created > self.now - LIMITS.window for one in self.stored.values()
        ):
            self.recent.clear()

    # --- the pool: its plan is made from a live list, which another write may follow before its own -----------------------------

    @rule(lag=LAGS, between=st.booleans())
    def the_pool_is_reconciled(self, lag: int, between: bool) -> None:
        members = self._old(lag if between else 0)
        self.recent |= {one.name: one.created for one in members.values() if one.name not in self.recent}
        state = PoolState(
            replicas=self.replicas,
            members=tuple(members.values()),
            digest=self.digest,
            observed_digest=self.digest,
            recreate=True,
            max_age=timedelta(hours=1),
            recent=tuple(self.recent.items()),
        )
        if not between:
            plan = decide_pool(state, self.now, LIMITS)
            for _ in range(plan.create):
                self.created.append(self.now)
                uid = f"i-{len(self.created)}"
                self.recent[uid] = self.now
                self._store(Member(uid, "ns", uid, "", self.now, stamp=self.digest), uid)
        else:  # a cache: nothing is created by it, and a delete names the version that it shows
            plan = decide_pool(state, self.now, LIMITS)
        for one in plan.delete:
            assert not one.member.taken
            there = self.stored.get(one.member.uid)
            if there is not None and there.version == one.member.version:
                assert not there.taken, "a taken instance was deleted"
                self._store(None, one.member.uid)

    # --- a claim ---------------------------------------------------------------------------------------------------------------

    @rule(claim=claims, lag=LAGS, late=LAGS, crash=st.booleans())
    def a_claim_is_reconciled(self, claim: str, lag: int, late: int, crash: bool) -> None:
        if claim not in self.lines[-1]:
            return
        view = self._old(lag)
        line = self.lines[max(0, len(self.lines) - 1 - late)]
        me = self.lines[-1][claim]
        idle = {uid: one for uid, one in view.items() if one.ready}
        instances = [
            Metadata(
                name=uid, namespace="ns", uid=uid, labels={"tier": "small"}, creation_timestamp=one.created.isoformat()
            )
            for uid, one in idle.items()
        ]
        older = [one for one in line.values() if (one.created, one.uid) < (me.created, me.uid)]
        reserved = {instance.uid for other, instance in turns([*older, me], instances) if other is not me}
        free = [instance for instance in instances if instance.uid not in reserved]
        if any(owner == claim for owner in self.owners.values()):  # the live list by the claim's UID, before a lock
            self._served(claim)
            return
        for candidate in sorted(free, key=lambda one: (one.creation_timestamp or "", one.name))[:4]:
            there = self.stored.get(candidate.uid)
            if there is None or there.version != idle[candidate.uid].version:
                continue  # 409
            assert candidate.uid not in self.owners
            self.owners[candidate.uid] = claim
            self._store(replace(there, taken=True), candidate.uid)
            if not crash:
                self._served(claim)
            return

    def _served(self, claim: str) -> None:
        self.lines.append({uid: one for uid, one in self.lines[-1].items() if uid != claim})

    # --- what holds at every moment --------------------------------------------------------------------------------------------

    @invariant()
    def no_claim_has_two_instances(self) -> None:
        assert len(set(self.owners.values())) == len(self.owners)

    @invariant()
    def what_was_taken_stays_taken(self) -> None:
        assert all(self.stored[uid].taken for uid in self.owners if uid in self.stored)
        assert self.owners.keys() <= self.stored.keys()

    @invariant()
    def no_minute_has_more_than_ten_creations(self) -> None:
        recent = [moment for moment in self.created if moment > self.now - timedelta(seconds=60)]
        assert len(recent) <= 10


PoolAndClaims.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


TestPoolAndClaims = PoolAndClaims.TestCase
