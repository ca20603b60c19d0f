"""The allocator by itself: its rows of docs/reference/capsule.md#rows, and the rules of docs/reference/capsule.md#allocation."""

from typing import Any

import pytest
from msgspec.structs import replace
from quota.amounts import read
from quota.world import CPU, DryWorld, Rq, pool

from konverge.quantities import WHOLE, Quantity
from konverge.quantities import read as quantities
from konverge.reconcilers.quota.amounts import problem_in, show
from konverge.reconcilers.quota.pools.allocate import allocate
from konverge.reconcilers.quota.views import PoolRecord

P = {"limits.cpu": 2, "limits.memory": "2Gi", "requests.cpu": 2, "requests.memory": "2Gi"}
BOUND = "Bound Succeeded: Claimed resources"


def world(hard: dict[str, Any] | None = None, *namespaces: str, **options: Any) -> DryWorld:
    return DryWorld(pool(P if hard is None else hard, **options), *(namespaces or ("a", "b")))


def cpus(hard: int, *namespaces: str, **options: Any) -> DryWorld:
    return world({CPU: hard}, *namespaces, **options)


# --- arithmetic --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "sign", "right", "hard", "shown"),
    [
        ("128Mi", 1, "512Mi", "2Gi", "640Mi"),
        ("2Gi", -1, "640Mi", "2Gi", "1408Mi"),
        ("2Gi", -1, "750Mi", "2Gi", "1298Mi"),
        ("2Gi", -1, "128Mi", "2Gi", "1920Mi"),
        ("1Gi", 1, "128Mi", "2Gi", "1152Mi"),
        ("2Gi", -1, "384Mi", "2Gi", "1664Mi"),
        ("2", -1, "375m", "2", "1625m"),
        ("0", 1, "0.5", "2", "500m"),
        ("0", 1, "1024Mi", "2Gi", "1Gi"),
        ("0", 1, "1000m", "2", "1"),
        ("0", 1, "0Gi", "2", "0"),
        ("0", 1, 3, "7", "3"),
        ("134217728", 1, "512Mi", "2Gi", "640Mi"),
    ],
)
def test_sums_are_exact_and_written_as_the_hard_of_the_pool_is(
    left: Any, sign: int, right: Any, hard: str, shown: str
) -> None:
    amount = read({"r": left})["r"] + sign * read({"r": right})["r"]
    assert show("r", amount, quantities({"r": hard})) == shown


@pytest.mark.parametrize(
    ("text", "value"),
    [("375m", 0.375), ("384Mi", 402653184), ("512Mi", 536870912), ("1536Mi", 1610612736), ("2Gi", 2147483648)],
)
def test_a_gauge_shows_cores_and_bytes(text: str, value: float) -> None:
    assert float(Quantity.parse(text)) == value


@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        ({"pods": "1500m"}, "pods: must be a whole number"),
        ({"pods": "2000m", "count/jobs.batch": 3}, ""),
        (
            {"count/jobs.batch": "0.5", CPU: -1},
            "count/jobs.batch: must be a whole number; requests.cpu: must not be negative",
        ),
        ({CPU: "0.5", "requests.example.com/gpu": "0.5"}, ""),
    ],
)
def test_amounts_that_no_quota_could_hold_are_named(amounts: dict[str, Any], problem: str) -> None:
    assert problem_in(read(amounts)) == problem


# --- handing out -------------------------------------------------------------------------------------------------------------------


def test_a_claim_that_fits_is_allocated_and_its_quota_grants_it() -> None:
    here = world()
    here.claim("a", "c", {"requests.cpu": "375m", "requests.memory": "384Mi"})
    assert here.settle() == ["apply b", "record", "apply a", "say a/c Succeeded"]
    assert here.said("a", "c") == BOUND
    assert here.quotas["a"].hard == read({"requests.cpu": "375m", "requests.memory": "384Mi"})
    assert here.quotas["b"].hard == {}


def test_a_claim_is_allocated_whole_or_not_at_all() -> None:
    here = world()
    here.claim("a", "c", {"requests.cpu": 1, "requests.memory": "3Gi", "limits.memory": "4Gi"})
    here.settle()
    assert here.said("a", "c") == (
        "Bound PoolExhausted: requested: limits.memory=4Gi, available: limits.memory=2Gi; "
        "requested: requests.memory=3Gi, available: requests.memory=2Gi"
    )
    assert here.allocated() == {}
    assert here.cores("a") is None


def test_without_an_ordered_queue_a_younger_claim_that_fits_goes_past() -> None:
    here = world({"requests.memory": "2Gi"})
    here.claim("a", "first", {"requests.memory": "1536Mi"}, at=1)
    here.claim("a", "get-mem", {"requests.memory": "2Gi"}, at=2)
    here.claim("a", "skip-the-line", {"requests.memory": "512Mi"}, at=3)
    here.settle()
    assert here.allocated() == {"a": ["first", "skip-the-line"]}
    assert (
        here.said("a", "get-mem") == "Bound PoolExhausted: requested: requests.memory=2Gi, available: requests.memory=0"
    )


def test_an_ordered_queue_blocks_only_what_an_older_claim_waits_for() -> None:
    here = world(ordered=True)
    here.claim("a", "old", {"requests.memory": "3Gi"}, at=1)
    here.claim("a", "middle", {"requests.memory": "1Gi"}, at=2)
    here.claim("b", "young", {"requests.cpu": 1}, at=3)
    here.claim("b", "none", {"requests.memory": 0}, at=4)
    here.settle()
    assert (
        here.said("a", "middle") == "Bound QueueExhausted: requested: requests.memory=1Gi, queued: requests.memory=3Gi"
    )
    assert here.allocated() == {"b": ["none", "young"]}


def test_requests_of_waiting_claims_add_up_and_the_first_remainder_stays() -> None:
    here = cpus(4)
    here.claim("a", "one", at=1, cpu=3)
    here.claim("a", "two", at=2, cpu=2)
    here.claim("b", "three", at=3, cpu=5)
    here.settle()
    assert here.last is not None
    assert here.last.exhaustions == {CPU: (read({"r": 1})["r"], read({"r": 7})["r"])}


def test_an_allocated_claim_is_never_evicted_by_an_older_one() -> None:
    here = cpus(2)
    here.claim("a", "young", at=9, cpu=2)
    here.settle()
    here.claim("b", "old", at=1, cpu=2)
    here.settle()
    assert here.allocated() == {"a": ["young"]}
    assert here.said("b", "old").startswith("Bound PoolExhausted")


def test_claims_of_one_moment_are_ordered_by_name_and_then_by_namespace() -> None:
    here = cpus(1)
    here.claim("b", "same", cpu=1)
    here.claim("a", "same", cpu=1)
    here.claim("a", "zz", cpu=1)
    here.settle()
    assert here.allocated() == {"a": ["same"]}


def test_defaults_are_granted_to_all_claims_and_count_as_nothing() -> None:
    here = world({CPU: 2}, defaults={"count/persistentvolumeclaims": 3, CPU: 1})
    here.claim("a", "c", cpu=2)
    here.settle()
    assert here.quotas["a"].hard == read({CPU: 3, "count/persistentvolumeclaims": 3})
    assert here.quotas["b"].hard == read({CPU: 1, "count/persistentvolumeclaims": 3})
    assert here.last is not None
    assert here.last.available == {CPU: 0}


def test_defaults_zero_is_computed_beside_the_written_defaults() -> None:
    here = world({CPU: 2, "pods": 7}, zero=True, defaults={"pods": 1})
    here.settle()
    assert here.quotas["a"].hard == read({CPU: 0, "pods": 1})


def test_pool_status_does_not_depend_on_the_order_of_reading() -> None:
    here = world(ordered=True)
    for number in range(12):
        here.claim(
            "ab"[number % 2],
            f"c{number % 5}-{number}",
            {"requests.cpu": f"{number * 70}m", "limits.cpu": 1},
            at=number % 3,
        )
    seen = here.see()
    back = replace(seen, claims=[*seen.claims][::-1], selected=frozenset(sorted(seen.selected, reverse=True)))
    assert allocate(seen) == allocate(back)


# --- rows --------------------------------------------------------------------------------------------------------------------------


def test_x01_a_negative_claim_is_marked_and_changes_nothing() -> None:
    here = world()
    here.claim("a", "c", {"requests.cpu": -1})
    here.settle()
    assert here.said("a", "c") == "Assigned Failed: requests.cpu: must not be negative"
    assert here.last is not None
    assert (here.last.used["requests.cpu"], here.last.available["requests.cpu"]) == (0, here.hard()["requests.cpu"])


def test_x02_a_fractional_count_is_marked_alone() -> None:
    here = world({"pods": 7})
    here.claim("a", "bad", pods="1500m")
    here.claim("b", "good", pods=3)
    here.settle()
    assert here.said("a", "bad") == "Assigned Failed: pods: must be a whole number"
    assert here.allocated() == {"b": ["good"]}


def test_x05_a_claim_made_again_is_counted_once() -> None:
    here = cpus(4)
    here.claim("a", "c", cpu=2)
    here.settle()
    del here.claims["a", "c"]
    again = here.claim("a", "c", at=5, cpu=1)
    here.settle()
    assert [entry.uid for entry in here.record.claims["a"]] == [again.uid]
    assert here.record.releasing == {}
    assert here.last is not None
    assert here.last.used == read({CPU: 1})


def test_x07_a_resource_that_the_pool_gains_is_claimed_without_an_edit() -> None:
    here = cpus(2)
    here.claim("a", "c", pods=1)
    here.settle()
    assert here.said("a", "c") == "Assigned Failed: resource pods is not available in pool p"
    assert here.claims["a", "c"].assigned == ("", "")
    here.pool = pool({CPU: 2, "pods": 3})
    here.settle()
    assert here.said("a", "c") == BOUND


def test_x08_ten_of_twenty_simultaneous_claims_bind_by_name_and_namespace() -> None:
    here = cpus(10)
    names = [f"c{number:02}" for number in range(20)]
    for name in reversed(names):
        here.claim("ab"[int(name[1:]) % 2], name, cpu=1)
    here.settle()
    assert sorted(name for found in here.allocated().values() for name in found) == names[:10]


def test_x09_another_spelling_of_an_allocated_claim_changes_nothing() -> None:
    here = world({CPU: 2, "requests.memory": "2Gi", "pods": 1})
    here.claim("a", "c", {CPU: "1", "requests.memory": "1Gi", "pods": "0"})
    here.settle()
    claim = here.claims["a", "c"]
    here.claims["a", "c"] = replace(claim, amounts=read({CPU: "1000m", "requests.memory": "1024Mi", "pods": "0Gi"}))
    assert here.settle() == []


def test_x10_a_request_for_nothing_of_an_exhausted_resource_does_not_wait() -> None:
    here = world({CPU: 1, "limits.memory": "2Gi"}, ordered=True)
    here.claim("a", "all", at=1, cpu=1)
    here.claim("a", "more", at=2, cpu=1)
    here.claim("b", "c", {CPU: 0, "limits.memory": "1Gi"}, at=3)
    here.settle()
    assert here.said("b", "c") == BOUND


def test_x12_quota_raised_by_hand_is_reset_in_two_reconciles() -> None:
    here = cpus(2)
    here.claim("a", "c", cpu=1)
    here.settle()
    here.quotas["a"].hard[CPU] = read({"r": 100})["r"]
    assert here.once() == ["record"], "what was granted is recorded before it is taken back"
    assert here.settle() == ["apply a", "apply a", "record"], (
        "it is lowered, then its witness and the record are removed"
    )
    assert here.cores("a") == 1


def test_x12_a_quota_that_was_deleted_comes_back_at_once() -> None:
    here = cpus(2)
    here.claim("a", "c", cpu=1)
    here.settle()
    del here.quotas["a"]
    assert here.settle() == ["apply a"]


def test_x13_amount_in_use_is_reallocated_only_after_the_pods_end() -> None:
    here = cpus(4)
    here.claim("a", "c", at=1, cpu=4)
    here.claim("b", "waits", at=2, cpu=4)
    here.settle()
    assert here.use("a", cpu=3)
    del here.claims["a", "c"]
    here.settle()
    assert here.cores("a") == 0
    assert here.said("b", "waits") == "Bound PoolExhausted: requested: requests.cpu=4, available: requests.cpu=1"
    here.use("a", cpu=-3)
    here.settle()
    assert here.said("b", "waits") == BOUND
    assert here.cores("a") is None


def test_x13_a_claim_released_by_annotation_lets_others_go_first() -> None:
    here = cpus(4)
    here.claim("a", "c", at=1, cpu=4)
    here.claim("b", "waits", at=2, cpu=4)
    here.settle()
    here.use("a", cpu=3)
    here.release("a", "c")
    here.settle()
    assert here.said("a", "c") == "Bound Released: Released from pool p"
    assert here.said("b", "waits").startswith("Bound PoolExhausted")
    here.use("a", cpu=-3)
    here.settle()
    assert here.allocated() == {"b": ["waits"]}
    assert here.said("a", "c") == "Bound Released: Released from pool p"
    here.take_back("a", "c")
    here.settle()
    assert here.said("a", "c") == "Bound PoolExhausted: requested: requests.cpu=4, available: requests.cpu=0"


def test_x14_status_of_a_claim_lacking_two_resources_is_written_once() -> None:
    here = world(ordered=True)
    here.claim("a", "c", {"requests.memory": "4Gi", "requests.cpu": 3})
    here.settle()
    assert [here.once() for _ in range(10)] == [[]] * 10


def test_x17_hard_below_allocations_keeps_claims_and_accepts_no_new_claim() -> None:
    here = cpus(5)
    here.claim("a", "c", at=1, cpu=4)
    here.settle()
    here.pool = pool({CPU: 3})
    here.claim("b", "new", at=2, cpu=1)
    here.settle()
    assert here.allocated() == {"a": ["c"]}
    assert here.said("b", "new") == "Bound PoolExhausted: requested: requests.cpu=1, available: requests.cpu=0"
    assert here.last is not None
    assert (here.last.available, here.last.excess) == ({CPU: 0}, read({CPU: 1}))


def test_x18_changed_claim_among_a_thousand_namespaces_takes_one_write_each() -> None:
    here = cpus(5000, *(f"n{number}" for number in range(1000)))
    for number in range(1000):
        here.claim(f"n{number}", "c", at=number, cpu=1)
    here.settle()
    here.claim("n500", "another", at=2000, cpu=2)
    assert here.settle() == ["record", "apply n500", "say n500/another Succeeded"]


def test_x19_the_release_annotation_of_a_waiting_claim_is_taken_off() -> None:
    here = cpus(2)
    here.claim("a", "first", at=1, cpu=2)
    here.claim("a", "waits", at=2, cpu=2)
    here.claim("b", "after", at=3, cpu=2)
    here.settle()
    here.release("a", "waits")
    assert here.settle() == ["strip a/waits"]
    del here.claims["a", "first"]
    here.settle()
    assert here.allocated() == {"a": ["waits"]}


def test_x20_a_zero_goes_with_the_resource_that_the_pool_drops() -> None:
    here = world({CPU: 2, "pods": 7}, zero=True)
    here.settle()
    here.pool = pool({"pods": 7}, zero=True)
    here.settle()
    assert here.quotas["a"].hard == {"pods": 0}


def test_x23_released_claim_stays_released_until_it_is_edited_or_taken_back() -> None:
    here = cpus(2)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("a", "d", at=2, cpu=0)
    here.settle()
    here.release("a", "c")
    here.release("a", "d")
    here.settle()
    assert here.allocated() == {}
    assert here.said("a", "c") == here.said("a", "d") == "Bound Released: Released from pool p"
    assert here.claims["a", "c"].release
    assert here.once() == []
    here.claim("a", "c", cpu=1)
    here.take_back("a", "d")
    here.settle()
    assert here.allocated() == {"a": ["c", "d"]}
    assert not here.claims["a", "c"].release


@pytest.mark.parametrize("crash", range(4))
def test_claim_edited_while_its_release_is_recorded_is_queued_again(crash: int) -> None:
    here = cpus(4)
    here.claim("a", "c", at=1, cpu=3)
    here.claim("b", "waits", at=2, cpu=4)
    here.settle()
    here.release("a", "c")
    for _ in range(2):
        next(here.steps(), "")
    here.observe("a")
    assert here.claims["a", "c"].released
    here.claim("a", "c", cpu=1)
    for _, step in zip(range(crash), here.steps(), strict=False):
        assert step
    here.settle(check=lambda: _held_by_the_rule(here))
    assert here.said("a", "c") == BOUND
    assert here.cores("a") == 1


def test_x23_edited_released_claim_is_queued_again_and_binds_when_it_fits() -> None:
    here = cpus(2)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("b", "waits", at=2, cpu=1)
    here.settle()
    here.release("a", "c")
    here.settle()
    assert here.allocated() == {"b": ["waits"]}
    here.claim("a", "c", cpu=1)
    here.settle()
    assert here.allocated() == {"a": ["c"], "b": ["waits"]}


def test_x23_reduced_released_claim_binds_while_pods_still_run() -> None:
    here = cpus(4)
    here.claim("a", "c", cpu=4)
    here.settle()
    here.use("a", cpu=3)
    here.release("a", "c")
    here.settle()
    here.claim("a", "c", cpu=3)
    here.settle()
    assert here.said("a", "c") == BOUND
    assert here.cores("a") == 3
    assert here.record.releasing == {}


def test_x25_a_namespace_may_draw_on_what_it_still_holds() -> None:
    here = cpus(3)
    here.claim("a", "c", at=1, cpu=3)
    here.settle()
    here.use("a", cpu=3)
    del here.claims["a", "c"]
    here.settle()
    here.claim("b", "other", at=2, cpu=1)
    here.claim("a", "again", at=3, cpu=3)
    here.settle()
    assert here.allocated() == {"a": ["again"]}


def test_x26_a_key_stays_in_the_quota_until_the_use_fits() -> None:
    here = cpus(4)
    here.claim("a", "c", cpu=4)
    here.settle()
    here.use("a", cpu=2)
    here.claim("a", "c", pods=0)
    here.settle()
    assert here.cores("a") == 0
    here.use("a", cpu=-2)
    here.settle()
    assert here.cores("a") is None


def test_x28_claim_with_a_refused_quota_is_marked_and_frees_its_share() -> None:
    here = cpus(2)
    bad = here.claim("a", "bad", at=1, cpu=2)
    good = here.claim("b", "good", at=2, cpu=1)
    found = allocate(here.see(refused={bad.uid: "the server says no"}))
    assert found.decisions[bad.uid].message == "the server says no"
    assert found.decisions[good.uid].bound
    assert found.quotas["a"] == {}


# --- namespaces --------------------------------------------------------------------------------------------------------------------


def test_a_namespace_that_leaves_loses_its_quota_and_then_its_share() -> None:
    here = cpus(2)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("b", "waits", at=2, cpu=2)
    here.settle()
    here.selected.remove("a")
    assert here.once() == ["remove a", "say a/c Failed", "record"]
    assert here.said("a", "c") == "Assigned Failed: resourcepool not available"
    here.settle()
    assert here.said("b", "waits") == BOUND
    here.selected.add("a")
    here.settle()
    assert here.said("a", "c").startswith("Bound PoolExhausted")


def test_a_terminating_namespace_holds_until_it_is_gone() -> None:
    here = cpus(2)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("b", "waits", at=2, cpu=2)
    here.settle()
    here.selected.remove("a")
    here.terminating.add("a")
    assert here.settle() == []
    del here.claims["a", "c"]
    del here.quotas["a"]
    here.settle()
    assert here.said("b", "waits").startswith("Bound PoolExhausted")
    here.terminating.remove("a")
    here.settle()
    assert here.said("b", "waits") == BOUND
    assert here.record.releasing == {}


# --- failures -----------------------------------------------------------------------------------------------------------------------


def test_claim_with_unrecorded_bound_status_precedes_older_claims() -> None:
    here = cpus(2)
    here.claim("a", "c", at=5, cpu=2)
    here.settle()
    here.record = PoolRecord()
    here.claim("a", "older", at=1, cpu=2)
    here.settle()
    assert here.allocated() == {"a": ["c"]}


def test_allocated_claim_that_bypassed_admission_keeps_its_place_only_if_it_fits() -> None:
    here = cpus(5)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("b", "d", at=2, cpu=1)
    here.settle()
    here.claim("a", "c", cpu=4)
    here.settle()
    assert here.cores("a") == 4
    here.claim("a", "c", cpu=5)
    here.settle()
    assert here.said("a", "c") == "Bound PoolExhausted: requested: requests.cpu=5, available: requests.cpu=4"


def test_above_max_claims_no_claim_is_added_and_the_listed_ones_stay() -> None:
    here = cpus(9)
    here.max_claims = 2
    for name in "xyz":
        here.claim("a", name, at=ord(name), cpu=1)
    here.settle()
    assert here.allocated() == {"a": ["x", "y"]}
    assert here.said("a", "z").startswith("Bound TooManyClaims: the pool lists 2 claims")
    assert here.last is not None
    assert here.last.status_full
    here.max_claims = 1
    here.settle()
    assert here.allocated() == {"a": ["x", "y"]}


def test_a_quota_without_a_status_counts_as_fully_used() -> None:
    here = cpus(2)
    here.claim("a", "c", at=1, cpu=2)
    here.claim("b", "waits", at=2, cpu=2)
    here.settle()
    del here.claims["a", "c"]
    here.settle(observing=False)
    here.quotas["a"] = Rq(dict(here.quotas["a"].hard))
    here.settle(observing=False)
    assert here.said("b", "waits").startswith("Bound PoolExhausted")
    here.settle()
    assert here.said("b", "waits") == BOUND


@pytest.mark.parametrize("crash", range(1, 6))
def test_x27_what_was_granted_and_never_recorded_is_not_granted_again(crash: int) -> None:
    here = cpus(4, zero=True)
    here.claim("a", "c", at=1, cpu=4)
    assert here.once() == ["apply b", "record"]
    assert next(here.steps()) == "apply a", "the process dies here"
    here.record = PoolRecord()
    here.observe("a")
    here.use("a", cpu=4)
    del here.claims["a", "c"]
    here.claim("b", "waits", at=2, cpu=4)
    for _, step in zip(range(crash), here.steps(), strict=False):
        assert step != "apply a", "nothing is taken back before it is recorded"
    here.observe("a")
    here.settle()
    assert here.said("b", "waits").startswith("Bound PoolExhausted")
    here.use("a", cpu=-4)
    here.settle()
    assert here.said("b", "waits") == BOUND


@pytest.mark.parametrize("crash", range(1, 7))
def test_x27_release_interrupted_after_any_write_is_finished_by_the_next_process(crash: int) -> None:
    here = cpus(4, zero=True)
    here.claim("a", "c", at=1, cpu=4)
    here.claim("b", "waits", at=2, cpu=4)
    here.settle()
    here.release("a", "c")
    for _ in range(crash):
        next(here.steps(), "")
        for namespace in here.quotas:
            here.observe(namespace)
    here.settle(check=lambda: _held_by_the_rule(here))
    assert here.allocated() == {"b": ["waits"]}


def _held_by_the_rule(here: DryWorld) -> None:
    for resource, amount in here.held().items():
        assert amount <= max(here.hard()[resource], here.before[resource])


def test_claim_tried_in_another_pool_is_not_overtaken_in_its_ordered_queue() -> None:
    here = DryWorld(pool({CPU: 4}, ordered=True), "a", "b")
    here.claim("a", "first", at=1, cpu=3)
    here.claim("a", "older", at=2, cpu=3)
    here.claims["a", "older"] = replace(
        here.claims["a", "older"], pool="", queue=(here.pool.name, here.pool.uid), assigned=("q", "q-1")
    )
    here.claim("b", "younger", at=3, cpu=1)
    here.settle()
    assert here.said("b", "younger") == "Bound QueueExhausted: requested: requests.cpu=1, queued: requests.cpu=3"
    assert here.claims["a", "older"].condition is None, "the other pool says what becomes of it"
    assert here.last is not None
    assert here.last.exhaustions == {CPU: (WHOLE, 3 * WHOLE)}
    del here.claims["a", "first"]
    here.settle()
    assert here.allocated() == {"b": ["younger"]}


def test_default_lowered_during_use_is_not_claimed_even_if_status_lags() -> None:
    here = DryWorld(pool({CPU: 4}, defaults={CPU: 3}), "a", "b")
    here.claim("a", "c", at=1, cpu=1)
    here.settle()
    here.use("a", cpu=4)
    here.pool = pool({CPU: 4}, defaults={CPU: 1})
    here.once()
    assert here.cores("a") == 2
    here.once()  # the status of the quota still has 4
    assert here.record.releasing == {}
    assert here.last is not None
    assert here.last.settling == {"a", "b"}
    here.settle()
    here.claim("b", "d", at=2, cpu=3)
    here.settle()
    assert here.said("b", "d") == BOUND
    assert here.last.used == read({CPU: 4})


@pytest.mark.parametrize("observed", [True, False], ids=["the status followed", "the status lags"])
@pytest.mark.parametrize("annotated", [True, False], ids=["released", "deleted"])
@pytest.mark.parametrize(("before", "after"), [(1, 0), (3, 1), (3, 0), (0, 1), (1, 3)])
def test_default_that_changes_with_a_release_never_raises_the_grant(
    before: int, after: int, annotated: bool, observed: bool
) -> None:
    """A release leaves the grant of the ResourceQuota as it is until it is on record; a changed default is written at once."""
    here = DryWorld(pool({CPU: 6}, zero=True), "a")
    here.claim("a", "kept", at=1, cpu=1)
    here.claim("a", "given-back", at=2, cpu=2)
    here.settle()
    here.pool = pool({CPU: 6}, zero=True, defaults={CPU: before})
    here.once()
    if observed:
        here.observe("a")
    if annotated:
        here.release("a", "given-back")
    else:
        del here.claims["a", "given-back"]
    here.pool = pool({CPU: 6}, zero=True, defaults={CPU: after})
    for step in here.steps():
        assert here.held()[CPU] <= here.before[CPU] <= 3 * WHOLE, step
    here.settle()
    assert here.held() == {CPU: WHOLE}
    assert here.cores("a") == 1 + after


@pytest.mark.parametrize(("before", "after"), [(1, 0), (3, 1), (0, 1)])
def test_default_that_changes_leaves_the_grant_of_a_terminating_namespace(before: int, after: int) -> None:
    here = DryWorld(pool({CPU: 6}, zero=True, defaults={CPU: before}), "a")
    here.claim("a", "given-back", at=1, cpu=2)
    here.settle()
    here.selected.discard("a")
    here.terminating.add("a")
    del here.claims["a", "given-back"]
    here.pool = pool({CPU: 6}, zero=True, defaults={CPU: after})
    for _ in range(3):
        for step in here.steps():
            assert here.held()[CPU] <= here.before[CPU], step
    assert here.cores("a") == 2 + before


def test_a_default_that_is_raised_hands_out_nothing_twice() -> None:
    here = DryWorld(pool({CPU: 4}, defaults={CPU: 1}), "a", "b")
    here.claim("a", "c", at=1, cpu=4)
    here.settle()
    del here.claims["a", "c"]
    here.pool = pool({CPU: 4}, defaults={CPU: 3})
    here.claim("b", "d", at=2, cpu=2)
    here.once()
    assert here.said("b", "d").startswith("Bound PoolExhausted")
    here.settle()
    assert here.said("b", "d") == BOUND


def test_empty_claims_of_a_namespace_cannot_fill_the_pools_list() -> None:
    here = cpus(4)
    here.max_claims, here.namespace_share = 10, 0.5
    for number in range(8):
        here.claim("a", f"nothing-{number}", at=number, cpu=0)
    here.claim("b", "c", at=100, cpu=1)
    here.settle()
    assert len(here.allocated()["a"]) == 5
    assert here.said("a", "nothing-7") == (
        "Bound TooManyClaims: the pool lists 5 claims of namespace a and leaves the rest of its list to others; merge claims"
    )
    assert here.said("b", "c") == BOUND
    assert here.last is not None
    assert not here.last.status_full
    del here.claims["a", "nothing-0"]
    here.settle()
    assert "nothing-5" in here.allocated()["a"]


def test_long_claims_of_a_namespace_cannot_fill_the_pool_lists_bytes() -> None:
    here = cpus(4)
    here.max_status_bytes, here.namespace_share = 4000, 0.5
    for number in range(8):
        here.claim("a", f"{number}{'x' * 250}", at=number, cpu=0)
    here.claim("b", "c", at=100, cpu=1)
    here.settle()
    assert 4 <= len(here.allocated()["a"]) < 8
    assert here.said("b", "c") == BOUND


def test_allocated_claims_stay_if_the_share_of_a_namespace_is_lowered() -> None:
    here = cpus(4)
    for number in range(8):
        here.claim("a", f"nothing-{number}", at=number, cpu=0)
    here.settle()
    here.max_claims, here.namespace_share = 10, 0.1
    here.settle()
    assert len(here.allocated()["a"]) == 8
