"""A pool and claims under random events, decided on views that lag behind by any number of writes.

The machine holds what an API server stores. Pools and claims decide by the family's own pure functions, on an earlier state, and their
writes are compare-and-swap: a write with an old version is rejected. After every step no instance has had two claims, no claim has two
instances, no pool deletes a claimed instance, and no minute has more creations than the limit, whenever a process restarts.

The order of claims is checked by counting, not by the decision under test. With current views a claim never takes an instance that an older
claim needs. It takes an instance if there are more instances than older claims. Once all views are current no claim waits while it could
have an instance.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from konverge.objects import Metadata
from konverge.reconcilers.pools.claims.pairing import WaitingClaim, candidates, matches
from konverge.reconcilers.pools.members import Member
from konverge.reconcilers.pools.pool.decide import PoolLimits, PoolState, decide_pool

LAGS = st.integers(0, 6)
LIMITS = PoolLimits(creates=3, deadline=timedelta(minutes=5))
FOREIGN = "foreign"
NAMESPACES = ("ns", "ns", "ns", FOREIGN)
SELECTORS = ("tier=small", "tier=small,zone=a")


def shown(member: Member) -> Metadata:
    """Return an instance as claims see it; every second one is in the zone."""
    zone = {"zone": "a"} if int(member.uid.removeprefix("i-")) % 2 else {}
    created = member.created.isoformat()
    return Metadata(
        name=member.uid, namespace="ns", uid=member.uid, labels={"tier": "small", **zone}, creation_timestamp=created
    )


def serves(_: Metadata, namespace: str) -> bool:
    """Whether the pool serves a namespace: all but the namespace of a foreign tenant."""
    return namespace != FOREIGN


def ready_for(claim: WaitingClaim, view: dict[str, Member]) -> list[str]:
    """Return the UIDs of the instances that a claim could have."""
    if claim.namespace == FOREIGN:
        return []
    return [uid for uid, one in view.items() if one.ready and matches(claim.selector, shown(one))]


class PoolAndClaims(RuleBasedStateMachine):
    """The stored state, its history, and the memory of two processes."""

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

    @initialize(number=st.integers(0, 8))
    def the_pool_was_filled_an_hour_ago(self, number: int) -> None:
        self.replicas = max(3, number)
        for place in range(number):
            made = self.now - timedelta(hours=1, minutes=place)
            self._store(
                Member(f"i-{1000 + place}", "ns", f"i-{1000 + place}", "", made, phase="Ready", stamp="a"),
                f"i-{1000 + place}",
            )

    @rule()
    def the_pool_makes_what_it_lacks_and_all_of_it_becomes_ready(self) -> None:
        self.now += timedelta(seconds=61)
        self.the_pool_is_reconciled(lag=0, between=False, crash="")
        for uid, one in sorted(self.stored.items()):
            if not one.phase:
                self._store(replace(one, phase="Ready"), uid)

    @rule(claims=st.lists(st.tuples(st.sampled_from(SELECTORS), st.sampled_from(NAMESPACES)), min_size=1, max_size=4))
    def claims_come(self, claims: list[tuple[str, str]]) -> None:
        line = dict(self.lines[-1])
        for selector, namespace in claims:
            self.version += 1
            uid = f"claim-{self.version:06}"
            line[uid] = WaitingClaim(f"{self.version:06}", uid, namespace, uid, selector)
            self.lines.append(dict(line))

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
        # An instance that no process of the pool has seen cannot have been ready, taken and released.
        taken = sorted(uid for uid in self.owners if uid in self.stored and uid in self.recent | self.recorded)
        if taken:
            uid = taken[which % len(taken)]
            self.released.add(uid)
            self._store(None, uid)

    # --- the pool: its plan is computed from a live list, and another write may precede its own writes ---------------------------

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
            max_age=timedelta(hours=3),
            recent=tuple(self.recent.items()),
            recorded=frozenset(self.recorded),
        )
        plan = decide_pool(state, self.now, LIMITS)
        for one in plan.delete:  # it names the version in the view
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

    @precondition(lambda self: self.lines[-1])
    @rule(which=st.integers(0, 30), lag=LAGS, late=LAGS, crash=st.booleans())
    def a_claim_is_reconciled(self, which: int, lag: int, late: int, crash: bool) -> None:
        claim = sorted(self.lines[-1])[which % len(self.lines[-1])]
        self._take(claim, self._old(lag), self.lines[max(0, len(self.lines) - 1 - late)], crash=crash)

    @precondition(lambda self: self._waiting())
    @rule(which=st.integers(0, 30), crash=st.booleans())
    def a_claim_is_reconciled_on_present_views(self, which: int, crash: bool) -> None:
        claim = sorted(self._waiting())[which % len(self._waiting())]
        before, me = self.stored, self.lines[-1][claim]
        older = [one for one in self._waiting().values() if one.created < me.created]
        taken = self._take(claim, before, self.lines[-1], crash=crash)
        if not taken:
            assert len(ready_for(me, before)) <= len(older), "an instance is left, and the claim waits"
            return
        alike = [one for one in older if one.selector == me.selector and one.namespace != FOREIGN]
        assert len(ready_for(me, before)) > len(alike), "an older claim was passed over"
        for one in older:
            assert ready_for(one, before) != [taken], "the only instance of an older claim was taken"

    @rule(first=st.integers(0, 30), step=st.sampled_from([1, -1]))
    def all_views_catch_up(self, first: int, step: int) -> None:
        moved = True
        while moved:
            line = sorted(self.lines[-1])[::step]
            place = first % (len(line) or 1)
            order = line[place:] + line[:place]
            moved = sum(self._take(one, self.stored, self.lines[-1]) != "" for one in order) > 0
        for claim in self._waiting().values():
            assert not ready_for(claim, self.stored), "an instance is left, and a claim for it waits"

    def _waiting(self) -> dict[str, WaitingClaim]:
        served = set(self.owners.values())
        return {uid: one for uid, one in self.lines[-1].items() if uid not in served}

    def _take(self, claim: str, view: dict[str, Member], line: dict[str, WaitingClaim], *, crash: bool = False) -> str:
        """Reconcile a claim on a view of the instances and a view of the queue; returns the UID of the instance that it took, if any."""
        if claim in self.owners.values():  # the live list by the claim's UID, before a lock
            self._served(claim)
            return ""
        known = {owner for uid, owner in self.owners.items() if uid in view and view[uid].taken}
        others = [one for uid, one in line.items() if uid not in known]
        ready = [shown(one) for one in view.values() if one.ready]
        for chosen in candidates(self.lines[-1][claim], others, ready, serves):
            there = self.stored.get(chosen.uid)
            if there is None or there.version != view[chosen.uid].version:
                continue  # 409
            assert chosen.uid not in self.owners
            self.owners[chosen.uid] = claim
            self._store(replace(there, taken=True), chosen.uid)
            if not crash:
                self._served(claim)
            return chosen.uid
        return ""

    def _served(self, claim: str) -> None:
        self.lines.append({uid: one for uid, one in self.lines[-1].items() if uid != claim})

    # --- what holds at every moment --------------------------------------------------------------------------------------------

    @invariant()
    def no_claim_has_two_instances(self) -> None:
        assert len(set(self.owners.values())) == len(self.owners)

    @invariant()
    def no_foreign_claim_has_an_instance(self) -> None:
        claims = {uid: one for line in self.lines for uid, one in line.items()}
        assert all(claims[owner].namespace != FOREIGN for owner in self.owners.values())

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
