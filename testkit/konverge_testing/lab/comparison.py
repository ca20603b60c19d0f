"""Comparison of a run with the reference run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from konverge_testing.lab.changes import changes
from konverge_testing.lab.finalizing import LET_THROUGH
from konverge_testing.lab.masks import State
from konverge_testing.lab.owned import dotted, is_owned
from konverge_testing.lab.runs import EXPECTATION, REQUEST, Run

__all__ = ["differences", "problems_of"]

_MOST: int = 12


def problems_of(reference: Run, run: Run) -> list[str]:
    """Return everything that is wrong with a run, or nothing if it is as good as the reference."""
    # If a foreign change may stay, the scenario may never reach the state that it waits for, and its objects may be deleted.
    problems = [one for one in run.problems if run.plan.same_end or not one.startswith((EXPECTATION, REQUEST))]
    if any(one.do == "cancel" for one in run.plan.interruptions):
        problems = [one for one in problems if LET_THROUGH not in one]  # the plan did it
    if run.plan.same_end:
        found = differences(reference.state, run.state, reference.may_be_gone, reference.owned)
        problems += [f"the end state differs: {one}" for one in found]
    if not run.plan.foreign:
        loose = reference.may_differ
        problems += _counts("created", reference.created, run.created, loose)
        problems += _counts("deleted", reference.deleted, run.deleted, loose)
    return problems


def _counts(word: str, reference: Any, run: Any, loose: AbstractSet[str]) -> list[str]:
    return [
        f"{where} was {word} {times} times, in the reference run {reference.get(where, 0)}"
        for where, times in sorted(run.items())
        if times > reference.get(where, 0) and where.partition(" ")[0] not in loose
    ]


def differences(
    reference: State,
    state: State,
    may_be_gone: AbstractSet[str] = frozenset(),
    owned: Mapping[str, frozenset[str]] | None = None,
) -> list[str]:
    """Return where two end states differ, with both values; no more than a dozen lines.

    `may_be_gone` has objects that may be missing in the second state, and resources whose objects may all be missing. `owned` has the
    fields of each object that a client set: a difference in any other field names `may_differ`.
    """
    found = []
    for where in sorted({*reference, *state}):
        if where not in state and not {where, where.partition(" ")[0]}.isdisjoint(may_be_gone):
            continue
        if where not in state:
            found.append(f"{where} is missing")
        elif where not in reference:
            found.append(f"{where} is there and should not be")
        else:
            found += [
                f"{where} {path}: {now!r}, in the reference run {then!r}{_hint(reference[where], path, (owned or {}).get(where))}"
                for path, then, now in changes(reference[where], state[where])
            ]
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more"]


def _hint(data: Mapping[str, Any], path: str, owned: frozenset[str] | None) -> str:
    """Return what to do about a difference in a field that no client set, "" for other fields."""
    field = dotted(path)
    if owned is None or not field or is_owned(owned, field):
        return ""
    return (
        " (no client set this field; if the API server or another controller chooses its value, declare it: "
        f'lab.may_differ({str(data["kind"]).upper()}, "{field}", why="..."))'
    )
