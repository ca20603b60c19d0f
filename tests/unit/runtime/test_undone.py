"""The decision that names the writer who undid an apply."""

from typing import Any

import pytest

from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.consistency.undone import OFTEN, WINDOW, PendingApply, UndoneApplies, Writer

CONFIG_MAP = kind("v1", "ConfigMap")
TARGET = (Key("", CONFIG_MAP, "web", "shared"), "")


def writer(name: str, manager: str = "konverge") -> Writer:
    return Writer(name, Key("", CONFIG_MAP, "web", name), manager)


def apply(by: str, intent: str | None = None, **how: Any) -> PendingApply:
    return PendingApply(TARGET, writer(by, **how), by if intent is None else intent)


OURS = apply("a")


@pytest.mark.parametrize(
    ("again", "cached", "found"),
    [
        (OURS, ("u", "11"), True),
        (OURS, ("u", "10"), False),
        (OURS, ("u", "9"), False),
        (OURS, ("u", "x"), False),
        (OURS, ("other", "11"), False),
        (apply("a", "another intent"), ("u", "11"), False),
        (apply("b"), ("u", "11"), False),
        (OURS, None, False),
    ],
    ids=[
        "the object changed after it",
        "the cache shows the apply itself",
        "the cache is behind",
        "versions that cannot be compared",
        "a successor of the same name",
        "the intent changed",
        "the first apply of this writer",
        "not cached, and no other writer of this manager wrote",
    ],
)
def test_apply_was_undone_only_if_its_object_changed_and_intent_did_not(
    again: PendingApply, cached: tuple[str, str] | None, found: bool
) -> None:
    undone = UndoneApplies()
    undone.sent(OURS, "u", "10", undone=False, now=0.0)
    assert (undone.rival(again, cached, now=1.0) is not None) == found


@pytest.mark.parametrize(
    ("other", "cached", "known"),
    [
        (apply("b"), ("u", "12"), "b"),
        (apply("b", "a"), ("u", "12"), ""),
        (apply("b"), None, "b"),
        (apply("b", "a"), None, None),
        (apply("b", manager="konverge.b"), None, None),
        (apply("b", manager="konverge.b"), ("u", "12"), "b"),
    ],
    ids=[
        "another writer of this manager",
        "one with the same intent: it was another one",
        "not cached",
        "not cached, with the same intent",
        "not cached, with a field manager of its own: it may have other fields",
        "one with a field manager of its own",
    ],
)
def test_the_last_other_writer_of_this_manager_with_another_intent_is_named(
    other: PendingApply, cached: tuple[str, str] | None, known: str | None
) -> None:
    undone = UndoneApplies()
    undone.sent(OURS, "u", "10", undone=False, now=0.0)
    undone.sent(other, "u", "11", undone=False, now=1.0)
    rival = undone.rival(OURS, cached, now=2.0)
    if known is None:
        assert rival is None
    else:
        assert rival is not None
        assert ("" if rival.writer is None else rival.writer.controller) == known


def test_writer_is_undone_often_from_the_third_time_in_the_window() -> None:
    undone, found = UndoneApplies(), list[bool]()
    undone.sent(OURS, "u", "1", undone=False, now=0.0)
    for number, at in enumerate((10.0, 20.0, 30.0, 10.0 + WINDOW, 10.0 + 3 * WINDOW), 1):
        rival = undone.rival(OURS, ("u", str(2 * number)), now=at)
        assert rival is not None
        found.append(rival.often)
        undone.sent(OURS, "u", str(2 * number + 1), undone=True, now=at)
    assert OFTEN == 3
    assert found == [False, False, True, True, False]


def test_a_report_is_repeated_after_the_window_alone() -> None:
    undone = UndoneApplies()
    undone.sent(OURS, "u", "1", undone=False, now=0.0)
    undone.reported(OURS, now=5.0)
    seen = [undone.rival(OURS, ("u", "2"), now=at) for at in (6.0, 4.0 + WINDOW, 5.0 + WINDOW)]
    assert [one is not None and one.reported for one in seen] == [True, True, False]


def test_the_objects_that_were_applied_longest_ago_are_forgotten_first() -> None:
    undone = UndoneApplies(limit=2)
    for name in ("a", "b", "a", "c"):
        target = (Key("", CONFIG_MAP, "web", name), "")
        undone.sent(PendingApply(target, writer("x"), "i"), "u", "1", undone=False, now=0.0)
    assert len(undone) == 2
    kept = [
        name
        for name in ("a", "b", "c")
        if undone.rival(PendingApply((Key("", CONFIG_MAP, "web", name), ""), writer("x"), "i"), ("u", "2"), now=0.0)
    ]
    assert kept == ["a", "c"]


def test_of_one_object_the_last_four_writers_are_kept() -> None:
    undone = UndoneApplies()
    for number in range(6):
        undone.sent(apply(f"w{number}"), "u", str(number + 1), undone=False, now=0.0)
    kept = [number for number in range(6) if undone.rival(apply(f"w{number}"), ("u", "100"), now=0.0)]
    assert kept == [2, 3, 4, 5]
