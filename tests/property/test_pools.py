"""A pool and claims under random events, decided on views that lag behind by any number of writes.

The machine holds what an API server stores. Pools and claims decide by the family's own pure functions, on a view of an earlier moment, and
their writes are compare-and-swap: a write that names an old version is refused. After every step no instance has had two claims, no claim
has two instances, nothing that was taken is deleted by its pool, and no minute has more creations than the limit, whenever a process restarts.
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
LIMITS = PoolLimits(creates=3, deadline=timedelta(minutes=5))
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
        """The memory of the process of the pool; `recorded` is what the status of the pool has of it."""
        self.recorded: dict[str, datetime] = {}
        self.released: set[str] = set()

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

    @rule(seconds=st.sampled_from([1, 1, 20, 61, 400]))
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
        self.recent.clear()

    @rule(which=st.integers(0, 30))
    def a_taken_instance_is_released_and_gone(self, which: int) -> None:
        # One that no process of the pool has seen yet cannot have been ready, taken and released.
        taken = sorted(uid for uid in self.owners if uid in self.stored and uid in self.recent | self.recorded)
        if taken:
            uid = taken[which % len(taken)]
            self.released.add(uid)
            self._store(None, uid)

    # --- the pool: its plan is made from a live list, which another write may follow before its own -----------------------------

    @rule(lag=LAGS, between=st.booleans(), crash=st.sampled_from(["", "", "", "created", "deleted"]))
    def the_pool_is_reconciled(self, lag: int, between: bool, crash: str) -> None:
        members = self._old(lag if between else 0)
        seen = {one.name: one.created for one in members.values()} | self.recorded | self.recent
        self.recent = {name: moment for name, moment in seen.items() if moment > self.now - LIMITS.window}
        state = PoolState(
            replicas=self.replicas,
            members=tuple(members.values()),
            digest=self.digest,
            observed_digest=self.digest,
            recreate=True,
            max_age=timedelta(hours=1),
            recent=tuple(self.recent.items()),
            recorded=frozenset(self.recorded),
        )
        plan = decide_pool(state, self.now, LIMITS)
        for one in plan.delete:  # it names the version that the view shows
            assert not one.member.taken
            there = self.stored.get(one.member.uid)
            if there is not None and there.version == one.member.version:
                assert not there.taken, "a taken instance was deleted"
                self._store(None, one.member.uid)
        if crash == "deleted":
            self.recent.clear()
            return
        for _ in range(0 if between else plan.create):  # nothing is created by a cache
            self.created.append(self.now)
            uid = f"i-{len(self.created)}"
            self.recent[uid] = self.now
            self._store(Member(uid, "ns", uid, "", self.now, stamp=self.digest), uid)
        if crash == "created":
            self.recent.clear()
            return
        if self.recent.keys() - self.recorded.keys():
            self.recorded = dict(self.recent)

    @rule(crashes=st.lists(st.sampled_from(["", "created", "deleted"]), min_size=2, max_size=6), restarts=st.booleans())
    def instances_fail_as_soon_as_they_are_made(self, crashes: list[str], restarts: bool) -> None:
        for crash in crashes:
            self.the_pool_is_reconciled(lag=0, between=False, crash=crash)
            for uid in sorted(self.stored):
                self._store(replace(self.stored[uid], phase="Failed"), uid)
            if restarts:
                self.recent.clear()

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
        assert self.owners.keys() - self.released <= self.stored.keys()

    @invariant()
    def no_minute_has_more_creations_than_are_allowed(self) -> None:
        recent = [moment for moment in self.created if moment > self.now - timedelta(seconds=60)]
        assert len(recent) <= LIMITS.creates


PoolAndClaims.TestCase.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


TestPoolAndClaims = PoolAndClaims.TestCase
