"""The decision on one object, row by row; test_model searches all interleavings of members."""

from dataclasses import replace
from typing import Any

import pytest

from konverge.runtime.sharding.decision import (
    MemberState,
    ShardAction,
    ShardDecision,
    ShardView,
    decide,
    former_after,
)
from konverge.runtime.sharding.stamp import Stamp

STATES = {
    "me": MemberState.READY,
    "ready": MemberState.READY,
    "expired": MemberState.EXPIRED,
    "draining": MemberState.DRAINING,
    "dead": MemberState.DEAD,
    "released": MemberState.RELEASED,
}
VIEW = ShardView("me", desired="me", stamp=None, version="12")
HELD = replace(VIEW, stamp=Stamp("me", 9), held=9)
KEEP, CLAIM, CLEAR, DRAIN, WAIT = ShardAction


def state_of(member: str) -> MemberState:
    return STATES.get(member, MemberState.UNKNOWN)


@pytest.mark.parametrize(
    ("why", "change", "action", "epoch"),
    [
        ("no member has it", {}, CLAIM, 12),
        ("no member has it, and another should", {"desired": "ready"}, WAIT, 0),
        ("no member has it, and none should", {"desired": ""}, WAIT, 0),
        ("its owner gave it back", {"stamp": Stamp("", 7)}, CLAIM, 12),
        ("its owner is dead", {"stamp": Stamp("dead", 7)}, CLAIM, 12),
        ("its owner has released its Lease", {"stamp": Stamp("released", 7)}, CLAIM, 12),
        ("its owner lives", {"stamp": Stamp("ready", 7)}, WAIT, 0),
        ("its owner may come back", {"stamp": Stamp("expired", 7)}, WAIT, 0),
        ("its owner still stops", {"stamp": Stamp("draining", 7)}, WAIT, 0),
        ("its owner was never seen", {"stamp": Stamp("stranger", 7)}, WAIT, 0),
        ("a stamp names this member", {"stamp": Stamp("me", 7)}, CLAIM, 12),
        ("a stamp that is ahead of the version", {"stamp": Stamp("me", 70)}, CLAIM, 71),
        ("it names this member, and another should have it", {"stamp": Stamp("me", 7), "desired": "ready"}, CLEAR, 7),
        ("and a reconcile runs", {"stamp": Stamp("me", 7), "desired": "ready", "running": True}, WAIT, 0),
        ("it names this member, and none should have it", {"stamp": Stamp("me", 7), "desired": ""}, WAIT, 0),
        ("the owner before lives", {"former": Stamp("ready", 7)}, WAIT, 0),
        ("the owner before lives", {"former": Stamp("ready", 7), "stamp": Stamp("me", 9)}, WAIT, 0),
        ("the owner before is dead", {"former": Stamp("dead", 7)}, CLAIM, 12),
    ],
)
def test_an_object_that_this_member_does_not_hold(
    why: str, change: dict[str, Any], action: ShardAction, epoch: int
) -> None:
    assert decide(replace(VIEW, **change), state_of) == ShardDecision(action, epoch), why


@pytest.mark.parametrize(
    ("why", "change", "action", "epoch"),
    [
        ("its stamp is there", {}, KEEP, 9),
        ("and no member is known that should have it", {"desired": ""}, KEEP, 9),
        ("another should have it", {"desired": "ready"}, CLEAR, 9),
        ("another should, and a reconcile runs", {"desired": "ready", "running": True}, DRAIN, 9),
        ("the stamp was removed", {"stamp": None}, CLAIM, 12),
        ("the stamp was replaced", {"stamp": Stamp("ready", 10)}, CLAIM, 12),
        ("it has another epoch", {"stamp": Stamp("me", 20)}, CLAIM, 21),
        ("a claim is ahead of what was held", {"stamp": None, "version": "3"}, CLAIM, 10),
        ("the cache shows what was before its stamp", {"stamp": Stamp("dead", 7), "current": False}, KEEP, 9),
    ],
)
def test_an_object_that_this_member_holds(why: str, change: dict[str, Any], action: ShardAction, epoch: int) -> None:
    assert decide(replace(HELD, **change), state_of) == ShardDecision(action, epoch), why


@pytest.mark.parametrize(
    ("why", "former", "old", "new", "after"),
    [
        ("no stamp was there", None, None, Stamp("b", 9), None),
        ("it was given back before", None, Stamp("", 7), Stamp("b", 9), None),
        ("its owner gives it back", None, Stamp("a", 7), Stamp("", 7), None),
        ("an acknowledgement that is too old is none", None, Stamp("a", 7), Stamp("", 6), Stamp("a", 7)),
        ("the owner writes its stamp again", None, Stamp("a", 7), Stamp("a", 9), None),
        ("it is replaced", None, Stamp("a", 7), Stamp("b", 9), Stamp("a", 7)),
        ("it is removed", None, Stamp("a", 7), None, Stamp("a", 7)),
        ("it is replaced twice", Stamp("a", 7), Stamp("b", 9), Stamp("c", 12), Stamp("a", 7)),
        ("the first owner has it back", Stamp("a", 7), Stamp("b", 9), Stamp("a", 12), None),
    ],
)
def test_former_owner_counts_until_it_owns_or_releases_the_object(
    why: str, former: Stamp | None, old: Stamp | None, new: Stamp | None, after: Stamp | None
) -> None:
    assert former_after(former, old, new) == after, why
