"""State machines of hypothesis: a pool and three namespaces under random changes (`tests/property/test_quota_allocator.py`)."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from quota.world import CPU, DryWorld, pool

from konverge.quantities import WHOLE
from konverge.quantities import read as quantities
from konverge.reconcilers.quota.claims.decision import ClaimDecision
from konverge.reconcilers.quota.pools.allocate import PoolAllocation, allocate
from konverge.reconcilers.quota.pools.decide import plan_writes
from konverge.reconcilers.quota.words import Semantics

MEMORY = "limits.memory"
NAMES = st.sampled_from(["p", "q", "r"])
SPACES = st.sampled_from(["a", "a", "b", "b", "c"])
MUCH = st.sampled_from([5, 3, 6, 1, 0])
WRITES = st.sampled_from([0, 0, 1, 2, 3, 4])


def _verdicts(found: PoolAllocation) -> dict[str, ClaimDecision]:
    """Return the decisions without their messages: the full list of missing amounts depends on the statuses of the quotas."""
    return {uid: replace(decision, message="") for uid, decision in found.decisions.items()}


class Pools(RuleBasedStateMachine):
    """A pool and three namespaces; only users (claims, pods) and the family write."""

    foreign = False
    semantics = Semantics.V012

    @initialize(ordered=st.booleans(), default=st.integers(0, 2))
    def begin(self, ordered: bool, default: int) -> None:
        self.world = DryWorld(
            pool({CPU: 6, MEMORY: 5}, zero=True, defaults={MEMORY: default} if self.foreign else None, ordered=ordered),
            "a",
            "b",
            "c",
        )
        self.world.semantics = self.semantics
        self.here = {"a", "b", "c"}
        self.clock = 10
        self.world.claim("a", "first", at=1, cpu=5)
        self.world.settle()

    # --- users --------------------------------------------------------------------------------------------------------------

    @rule(where=SPACES, name=NAMES, cpu=MUCH, memory=st.sampled_from([0, 0, 2]), again=st.booleans())
    def ask(self, where: str, name: str, cpu: int, memory: int, again: bool) -> None:
        if where not in self.here or where in self.world.terminating:
            return
        present = self.world.claims.get((where, name))
        bound = present is not None and present.condition is not None and present.condition.is_true
        if present is not None and self.semantics == Semantics.V014:
            bound = present.in_use
        if again and present is not None:
            del self.world.claims[where, name]
        elif bound and not self.foreign:
            return  # the API server would reject it
        self.clock += 1
        self.world.claim(where, name, {CPU: cpu, MEMORY: memory}, at=self.clock // 2)

    @rule(which=st.integers(0, 9), annotated=st.booleans())
    def give_back(self, which: int, annotated: bool) -> None:
        """Delete or release one of the claims, allocated claims first."""
        listed = {entry.uid for entries in self.world.record.claims.values() for entry in entries}
        claims = sorted(self.world.claims.values(), key=lambda claim: (claim.uid not in listed, claim.uid))
        if not claims:
            return
        claim = claims[which % len(claims)]
        if annotated:
            self.world.release(claim.namespace, claim.name)
        else:
            del self.world.claims[claim.namespace, claim.name]

    @rule(default=st.integers(0, 3))
    def change_the_default(self, default: int) -> None:
        self.world.pool = replace(self.world.pool, defaults=quantities({MEMORY: default}))

    @rule(which=st.integers(0, 9))
    def take_back(self, which: int) -> None:
        """Remove the release annotation of a claim."""
        released = sorted(path for path, claim in self.world.claims.items() if claim.release)
        if released:
            self.world.take_back(*released[which % len(released)])

    @rule(where=SPACES)
    def start_pods(self, where: str) -> None:
        """As many pods as admission allows by the current status of the quota."""
        quota = self.world.quotas.get(where)
        if quota is not None and CPU in quota.status_hard and where not in self.world.terminating:
            room = quota.status_hard[CPU] - quota.used.get(CPU, 0)
            if room > 0:
                self.world.use(where, cpu=room // WHOLE)

    @rule(where=SPACES, cpu=st.integers(1, 6))
    def end_pods(self, where: str, cpu: int) -> None:
        self.world.use(where, cpu=-cpu)

    @rule()
    def all_statuses_follow(self) -> None:
        for where in self.world.quotas:
            self.world.observe(where)

    @rule(where=SPACES)
    def status_follows(self, where: str) -> None:
        self.world.observe(where)

    # --- namespaces ----------------------------------------------------------------------------------------------------------

    @rule(where=SPACES)
    def leave(self, where: str) -> None:
        self.world.selected.discard(where)
        self.world.pods.pop(where, None)

    @rule(where=SPACES)
    def come_back(self, where: str) -> None:
        if where in self.here and where not in self.world.terminating and where not in self.world.selected:
            self.world.selected.add(where)
            self.world.pods.pop(where, None)

    @rule(where=SPACES)
    def terminate(self, where: str) -> None:
        if where in self.here:
            self.world.selected.discard(where)
            self.world.terminating.add(where)

    @rule(where=SPACES, claims=st.booleans(), quota=st.booleans())
    def be_gone(self, where: str, claims: bool, quota: bool) -> None:
        """Objects in a terminating namespace are deleted in any order, the namespace last."""
        if where not in self.world.terminating:
            return
        if claims:
            for key in [key for key in self.world.claims if key[0] == where]:
                del self.world.claims[key]
        if quota:
            self.world.quotas.pop(where, None)
        if where not in self.world.quotas and not any(key[0] == where for key in self.world.claims):
            self.world.terminating.discard(where)
            self.world.pods.pop(where, None)
            self.here.discard(where)

    @rule(where=SPACES)
    def be_made_anew(self, where: str) -> None:
        if where not in self.here:
            self.here.add(where)
            self.world.selected.add(where)

    # --- others who write ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.foreign)
    @rule(where=SPACES, cpu=st.integers(0, 9))
    def edit_a_quota(self, where: str, cpu: int) -> None:
        if where in self.world.quotas:
            self.world.quotas[where].hard[CPU] = cpu * WHOLE

    @precondition(lambda self: self.foreign)
    @rule(where=SPACES)
    def delete_a_quota(self, where: str) -> None:
        self.world.quotas.pop(where, None)

    @precondition(lambda self: self.foreign)
    @rule(cpu=st.integers(1, 9), memory=st.integers(1, 9), zero=st.booleans())
    def change_the_pool(self, cpu: int, memory: int, zero: bool) -> None:
        self.world.pool = pool({CPU: cpu, MEMORY: memory}, zero=zero, ordered=self.world.pool.ordered)

    # --- us ------------------------------------------------------------------------------------------------------------------

    @rule(crash=WRITES, reconciles=st.integers(1, 4), seed=st.randoms(use_true_random=False))
    def some_reconciles(self, crash: int, reconciles: int, seed: Any) -> None:
        """Successive reconciles; the last may be killed after some of its writes."""
        for left in reversed(range(reconciles)):
            seen = self.world.see()
            claims, found = list(seen.claims), allocate(seen)
            seed.shuffle(claims)
            assert allocate(replace(seen, claims=tuple(claims))) == found
            made = self._one_reconcile(0 if left else crash)
            calm = not (found.pending or found.spent_releases or found.releasing or seen.recorded.releasing)
            if calm and not any(step.startswith("remove") for step in made) and (left or not crash):
                again = allocate(self.world.see())
                assert _verdicts(again) == _verdicts(found), "a second reconcile decides otherwise"

    def _one_reconcile(self, crash: int) -> list[str]:
        made = []
        for number, step in enumerate(self.world.steps(), start=1):
            self._check(step)
            made.append(step)
            if number == crash:
                break
        return made

    @rule()
    def rest(self) -> None:
        kept = self._kept()
        self.world.settle(check=lambda: self._check("a write on the way to rest"))
        assert self.world.once() == []
        allocated = {entry.uid for entries in self.world.record.claims.values() for entry in entries}
        if not self.foreign:
            assert kept <= allocated, "an allocated claim lost its place"
        self._no_claim_waits_for_free_amounts()

    def _kept(self) -> set[str]:
        """Return the allocated claims that must stay allocated."""
        stays = {
            claim.uid
            for claim in self.world.claims.values()
            if claim.namespace in self.world.selected and not claim.release
        }
        return {entry.uid for entries in self.world.record.claims.values() for entry in entries} & stays

    def _no_claim_waits_for_free_amounts(self) -> None:
        found = allocate(self.world.see())
        for claim in self.world.claims.values():
            decision = found.decisions[claim.uid]
            if decision.reason == "PoolExhausted":
                assert any(amount > found.available[resource] for resource, amount in claim.amounts.items())
            if decision.reason == "QueueExhausted":
                assert self.world.pool.ordered
                assert set(found.exhaustions) & set(claim.amounts)

    def _check(self, step: str) -> None:
        hard = self.world.hard()
        for resource, amount in self.world.held().items():
            limit = max(hard[resource], self.world.before.get(resource, 0))
            assert amount <= limit, f"after {step}: {resource} {amount / WHOLE:g} of {limit / WHOLE:g}"
        if not self.foreign:
            used = sum(
                pods.get(CPU, 0)
                for where, pods in self.world.pods.items()
                if where in self.world.selected | self.world.terminating
            )
            assert used <= hard[CPU], f"after {step}: pods use {used / WHOLE:g}"

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.rest()
            assert not plan_writes(self.world.see(), allocate(self.world.see())).applies


class PoolsAndOthers(Pools):
    """The same, with foreign edits of ResourceQuotas and the pool that bypass admission."""

    foreign = True


class PoolsWhoseClaimsAreResized(Pools):
    """The same in the semantics of v0.14: an allocated claim is edited while its status does not report pods that use it."""

    semantics = Semantics.V014

    def _kept(self) -> set[str]:
        """The empty set: a claim that requested too much has lost its allocation."""
        return set()
