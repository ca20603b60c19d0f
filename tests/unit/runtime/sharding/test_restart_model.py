"""Replicas that end and start again, in every order: an object waits for 30 s at most, and no member takes an object that another member
reconciles.
"""

from collections.abc import Callable
from typing import Any

import pytest
from shard_model import Model, Overlap, search
from shard_restarts import Late, Restarts, search_restarts

from konverge.runtime.sharding.decision import MemberState, ShardDecision, ShardView, decide


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(Restarts(hosts=2, faults=2), 400, id="two faults, the newest owns"),
        pytest.param(Restarts(hosts=2, faults=2, newest_first=False), 400, id="two faults, the oldest owns"),
        pytest.param(Restarts(hosts=3, faults=1), 150, id="three replicas, the newest owns"),
        pytest.param(Restarts(hosts=3, faults=1, newest_first=False), 150, id="three replicas, the oldest owns"),
        pytest.param(Restarts(hosts=3, faults=2), 4_000, id="three replicas, two faults", marks=pytest.mark.slow),
    ],
)
def test_after_the_last_fault_an_object_is_owned_within_30_seconds(model: Restarts, at_least: int) -> None:
    assert search_restarts(model) > at_least


@pytest.mark.parametrize("newest_first", [True, False], ids=["the newest owns", "the oldest owns"])
@pytest.mark.parametrize("hosts", [2, 3])
def test_no_object_waits_longer_than_30_seconds_however_often_one_replica_crashes(
    hosts: int, newest_first: bool
) -> None:
    assert search_restarts(Restarts(hosts=hosts, loops=True, newest_first=newest_first)) > 100


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(Model(members=2, newcomers=1, writes=3, faults=2), 10_000, id="one starts after another"),
        pytest.param(Model(members=3, newcomers=1, writes=2, faults=1), 10_000, id="one starts beside another"),
        pytest.param(
            Model(members=3, newcomers=2, writes=2, faults=2, tampering=False),
            10_000,
            id="two start after another",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_no_object_has_two_reconciles_at_once_after_a_crash_restart(model: Model, at_least: int) -> None:
    assert search(model) > at_least


def takes_any(view: ShardView, state_of: Callable[[str], MemberState]) -> ShardDecision:
    return decide(view, lambda _: MemberState.DEAD)


def takes_nothing_of_the_dead(view: ShardView, state_of: Callable[[str], MemberState]) -> ShardDecision:
    def undecided(member: str) -> MemberState:
        return MemberState.EXPIRED if state_of(member) is MemberState.DEAD else state_of(member)

    return decide(view, undecided)


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        pytest.param({"joins_at_once": True, "loops": True}, Late, id="a newcomer is counted before it has judged all"),
        pytest.param({"judges_as_others": True}, Late, id="a newcomer waits as long as those that saw a renewal"),
        pytest.param({"reports": False, "loops": True}, Late, id="a dead member is not reported to newcomers"),
        pytest.param(
            {"decide": takes_nothing_of_the_dead, "reports": False}, Late, id="a dead member keeps its objects"
        ),
        pytest.param({"decide": takes_any}, Overlap, id="a member takes what another works on"),
    ],
)
def test_the_search_of_restarts_finds_a_mistake_in_the_protocol(
    mistake: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        search_restarts(Restarts(hosts=2, **mistake))
