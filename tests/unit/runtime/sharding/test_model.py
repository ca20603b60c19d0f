"""The hand-over protocol, in every order of its parts' actions; and mistakes in it, which the search finds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from shard_model import Model, Overlap, search
from shard_search import search_all

from konverge.runtime.sharding.assignment import Assignment
from konverge.runtime.sharding.decision import MemberState, ShardAction, ShardDecision, ShardView, decide

StateOf = Callable[[str], MemberState]


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(Model(members=3, writes=2, faults=1), 50_000, id="three members that claim and clear once"),
        pytest.param(Model(members=2, writes=3, faults=2), 50_000, id="two members, two faults and three writes"),
    ],
)
def test_no_two_members_reconcile_an_object_at_once_and_epochs_increase(model: Model, at_least: int) -> None:
    assert search(model) > at_least


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(Model(members=3, objects=2, writes=1, faults=1), 250_000, id="three members take, and one dies"),
        pytest.param(
            Model(members=2, objects=2, writes=2, faults=1), 1_000_000, id="two hand over", marks=pytest.mark.slow
        ),
    ],
)
def test_search_of_two_objects_finds_no_overlap_and_no_new_object_state(model: Model, at_least: int) -> None:
    """So a search of one object covers any number of objects with these faults and writes among them."""
    found = search_all(model, limit=4_000_000)
    assert found.states > at_least
    assert found.of_one <= search_all(replace(model, objects=1)).of_one


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(Model(members=3, writes=2, faults=2), 40_000, id="three members and two faults"),
        pytest.param(
            Model(members=3, writes=3, faults=1), 100_000, id="three members hand over", marks=pytest.mark.slow
        ),
    ],
)
def test_no_two_members_reconcile_one_of_any_number_of_objects_at_once(model: Model, at_least: int) -> None:
    assert search_all(model).states > at_least


LABELS = Model(members=2, labels=True, writes=6, faults=1)


@pytest.mark.parametrize(
    ("model", "at_least"),
    [
        pytest.param(replace(LABELS, writes=7, faults=0), 25_000, id="a whole hand-over"),
        pytest.param(LABELS, 100_000, id="a crash, a stop or an edit"),
        pytest.param(replace(LABELS, members=3, writes=4), 10_000, id="three members"),
    ],
)
def test_with_coordinator_labels_no_two_members_reconcile_an_object_at_once(model: Model, at_least: int) -> None:
    assert search_all(model).states > at_least


def label_of_the_next(*_: Any, desired: str, **__: Any) -> Assignment:
    """Give an object to its rightful member, although another member owns it."""
    return Assignment(desired)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param({"coordinator_forgets": True}, id="the coordinator forgets the stamp before an edit"),
        pytest.param({"assign": label_of_the_next}, id="the coordinator gives away what has an owner"),
    ],
)
def test_the_search_with_labels_finds_a_mistake_in_the_protocol(mistake: dict[str, Any]) -> None:
    with pytest.raises(Overlap, match="begins"):
        search_all(replace(LABELS, **mistake))


def test_search_without_symmetric_states_visits_at_most_a_third() -> None:
    model = Model(members=3, writes=1, faults=1)
    assert search_all(model).states * 3 < search(model) <= search_all(model).states * 6


def takes_what_expired(view: ShardView, state_of: StateOf) -> ShardDecision:
    def hasty(member: str) -> MemberState:
        return MemberState.DEAD if state_of(member) is not MemberState.UNKNOWN else MemberState.UNKNOWN

    return decide(view, hasty)


def clears_while_it_runs(view: ShardView, state_of: StateOf) -> ShardDecision:
    return decide(replace(view, running=False), state_of)


def trusts_its_name(view: ShardView, state_of: StateOf) -> ShardDecision:
    if view.stamp is not None and view.stamp.owner == view.me:
        return ShardDecision(ShardAction.KEEP, view.stamp.epoch)
    return decide(view, state_of)


def begins_epochs_anew(view: ShardView, state_of: StateOf) -> ShardDecision:
    decision = decide(view, state_of)
    return replace(decision, epoch=1) if decision.action is ShardAction.CLAIM and view.stamp is None else decision


def keeps_what_it_should_hand_over(view: ShardView, state_of: StateOf) -> ShardDecision:
    """Reconcile while the stamp is being cleared."""
    decision = decide(view, state_of)
    return replace(decision, action=ShardAction.CLEAR) if decision.action is ShardAction.DRAIN else decision


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param({"decide": takes_what_expired}, id="a member takes objects of one that has only expired"),
        pytest.param({"decide": clears_while_it_runs}, id="an owner clears its stamp while its reconcile runs"),
        pytest.param({"decide": trusts_its_name}, id="a member takes any stamp with its name for its own"),
        pytest.param({"decide": begins_epochs_anew}, id="epochs begin anew after a stamp was removed"),
        pytest.param({"decide": keeps_what_it_should_hand_over}, id="a drain is taken for its acknowledgement"),
        pytest.param({"blind_writes": True}, id="a stamp is written without comparing the version"),
        pytest.param({"holds_after_clear": True}, id="an owner goes on after a clear whose response was lost"),
        pytest.param({"releases_while_running": True}, id="a member releases its lease before its last reconcile ends"),
        pytest.param({"comes_back": True}, id="a member that was dead comes back under its name"),
        pytest.param({"former": lambda *_: None}, id="the stamp before one that was removed by hand is forgotten"),
    ],
)
def test_the_search_finds_a_mistake_in_the_protocol(mistake: dict[str, Any]) -> None:
    with pytest.raises(Overlap, match="begins"):
        search(replace(Model(members=2, writes=4, faults=2), **mistake), limit=400_000)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param({"decide": takes_what_expired}, id="a member takes objects of one that has only expired"),
        pytest.param({"blind_writes": True}, id="a stamp is written without comparing the version"),
    ],
)
def test_the_search_of_two_objects_finds_a_mistake_in_the_protocol(mistake: dict[str, Any]) -> None:
    with pytest.raises(Overlap, match="begins"):
        search_all(replace(Model(members=2, objects=2, writes=2, faults=1), **mistake))
