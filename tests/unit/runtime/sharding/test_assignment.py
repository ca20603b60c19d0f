"""The coordinator's decision on one object, row by row."""

import pytest

from konverge.runtime.sharding.assignment import Assignment, assign, replica_name
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.stamp import Stamp
from konverge.selectors import LabelSelector

READY, EXPIRED, DRAINING, DEAD, RELEASED, UNKNOWN = (
    MemberState.READY,
    MemberState.EXPIRED,
    MemberState.DRAINING,
    MemberState.DEAD,
    MemberState.RELEASED,
    MemberState.UNKNOWN,
)
HERE, MOVING, THERE, NEW = Assignment("a"), Assignment("a", "b"), Assignment("b"), Assignment()


@pytest.mark.parametrize(
    ("present", "desired", "owner", "state", "wanted"),
    [
        (NEW, "a1", "", READY, HERE),
        (NEW, "", "", READY, NEW),
        (HERE, "", "a1", DEAD, HERE),
        (HERE, "a1", "a1", READY, HERE),
        (HERE, "b1", "a1", READY, MOVING),
        (HERE, "b1", "a1", EXPIRED, MOVING),
        (HERE, "b1", "a1", UNKNOWN, MOVING),
        (HERE, "b1", "a1", DRAINING, HERE),
        (HERE, "b1", "a1", DEAD, THERE),
        (HERE, "b1", "a1", RELEASED, THERE),
        (HERE, "b1", "", READY, THERE),
        (MOVING, "b1", "", READY, THERE),
        (MOVING, "a1", "a1", READY, HERE),
        (MOVING, "a1", "", READY, HERE),
        (NEW, "b1", "a1", READY, MOVING),
        (THERE, "b1", "a1", READY, MOVING),
        (THERE, "a1", "a1", READY, HERE),
        (NEW, "b1", "-1", READY, THERE),
        (Assignment("nowhere", "nowhere"), "a1", "", READY, HERE),
    ],
)
@pytest.mark.parametrize("lost", [False, True], ids=["stamped", "whose stamp was removed by hand"])
def test_assignment_depends_on_the_owner_and_the_intended_member(
    present: Assignment, desired: str, owner: str, state: MemberState, wanted: Assignment, lost: bool
) -> None:
    stamp = Stamp(owner, 7)
    found = assign(
        present,
        desired=desired,
        stamp=None if lost else stamp,
        former=stamp if lost else None,
        state_of=lambda _: state,
        replica_of=lambda member: member.rstrip("1-"),
    )
    assert found == wanted


def test_an_object_stays_with_the_owner_before_a_forged_stamp() -> None:
    found = assign(
        HERE,
        desired="a1",
        stamp=Stamp("b1", 9),
        former=Stamp("a1", 7),
        state_of=lambda _: READY,
        replica_of=lambda member: member[0],
    )
    assert found == HERE


@pytest.mark.parametrize("host", ["operator-0", "", "-.-", "Node.Example.COM", "x" * 300, "ä" * 70])
def test_a_replica_has_a_name_that_a_label_can_hold(host: str) -> None:
    name = replica_name(host, 2**40 - 1)
    assert 11 < len(name) <= 63
    assert name.isascii()
    assert name[0].isalnum()
    LabelSelector.given(f"shard.konverge.dev/shop={name}", "test")  # raises for a value that no label can have
