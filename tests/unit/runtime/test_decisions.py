from typing import Any

import pytest

from konverge.errors import (
    AlreadyExists,
    Conflict,
    FieldConflict,
    Invalid,
    NotAnOutcome,
    NotFound,
    NotLeading,
    ReconcileTimeout,
    RetryAfter,
    Terminal,
)
from konverge.keys import Key
from konverge.kinds import kind
from konverge.outcome import Done, RequeueAfter
from konverge.runtime.apply.conflicts import FieldsHeld, Held
from konverge.runtime.controller.aftermath import Action, requeue_decision
from konverge.runtime.controller.pipeline import check_outcome

HELD = FieldsHeld(Held(Key("", kind("v1", "ConfigMap"), "web", "a"), (FieldConflict("kubectl", ".data.k"),)))

TABLE: list[tuple[Any, Action, str, float, dict[str, bool]]] = [
    (Done(), Action.FORGET, "success", 0, {}),
    (RequeueAfter(30), Action.FORGET_AND_ADD_AFTER, "requeue_after", 30, {}),
    (ValueError("bug"), Action.BACK_OFF, "error", 0, {"unexpected": True}),
    (NotFound("gone", status=404), Action.BACK_OFF, "error", 0, {}),
    (RetryAfter(5), Action.ADD_AFTER, "error", 5, {}),
    (Terminal("no"), Action.FORGET, "error", 0, {"terminal": True}),
    (HELD, Action.FORGET, "error", 0, {}),
    (ReconcileTimeout("slow"), Action.BACK_OFF, "error", 0, {"timeout": True}),
]


GROUPS: list[tuple[list[Exception], type[Exception], Action, float]] = [
    ([NotFound("gone", status=404)], NotFound, Action.BACK_OFF, 0),
    ([Terminal("no"), RetryAfter(5)], RetryAfter, Action.ADD_AFTER, 5),
    ([ExceptionGroup("inner", [RetryAfter(5)]), Terminal("no")], RetryAfter, Action.ADD_AFTER, 5),
    ([Terminal("no"), HELD], Terminal, Action.FORGET, 0),
    ([RetryAfter(5), ValueError("bug")], ExceptionGroup, Action.BACK_OFF, 0),
]


@pytest.mark.parametrize(("errors", "leading", "action", "delay"), GROUPS)
def test_exception_group_requeues_as_its_first_retried_error_unless_a_bug(
    errors: list[Exception], leading: type[Exception], action: Action, delay: float
) -> None:
    verdict = requeue_decision(ExceptionGroup("of a TaskGroup", errors))
    assert (type(verdict.error), verdict.action, verdict.delay) == (leading, action, delay)
    assert verdict.unexpected is (leading is ExceptionGroup)


def because_of(cause: Exception) -> RetryAfter:
    error = RetryAfter(1, "it changed; reading it again")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("ended", "raced"),
    [
        (Conflict("modified", status=409), True),
        (AlreadyExists("exists", status=409), True),
        (because_of(Conflict("modified", status=409)), True),
        (because_of(NotFound("gone", status=404)), True),
        (ExceptionGroup("of a TaskGroup", [because_of(Conflict("modified", status=409))]), True),
        (RetryAfter(1), False),
        (because_of(Invalid("no", status=422)), False),
        (NotFound("gone", status=404), False),
        (HELD, False),
        (ValueError("bug"), False),
        (Done(), False),
    ],
    ids=repr,
)
def test_a_reconcile_lost_a_race_if_another_write_came_first(ended: Any, raced: bool) -> None:
    assert requeue_decision(ended).raced is raced


@pytest.mark.parametrize(
    ("ended", "action", "result", "delay", "flags"), TABLE, ids=[type(row[0]).__name__ for row in TABLE]
)
def test_the_end_of_a_reconcile_decides_how_its_key_is_requeued(
    ended: Any, action: Action, result: str, delay: float, flags: dict[str, bool]
) -> None:
    decision = requeue_decision(ended)
    assert not decision.interrupted
    assert (decision.action, decision.result, decision.delay) == (action, result, delay)
    assert decision.failed is isinstance(ended, Exception)
    for flag in ("terminal", "timeout", "unexpected"):
        assert getattr(decision, flag) is flags.get(flag, False), flag


@pytest.mark.parametrize("ended", [NotLeading("not sent"), ExceptionGroup("of a TaskGroup", [NotLeading("not sent")])])
def test_a_reconcile_that_meets_the_closed_fence_is_interrupted_and_no_error(ended: Exception) -> None:
    decision = requeue_decision(ended)
    assert (decision.action, decision.interrupted, decision.failed) == (Action.BACK_OFF, True, False)


@pytest.mark.parametrize("returned", [None, True, 5, "done", Done])
def test_reconciler_without_an_outcome_gets_an_error_that_lists_legal_results(returned: Any) -> None:
    with pytest.raises(NotAnOutcome) as caught:
        check_outcome("backup", "reconcile", returned)
    assert "'backup'" in str(caught.value)
    assert "return Done()" in str(caught.value)
    assert "RetryAfter" in str(caught.value)


def test_an_outcome_that_a_reconciler_returns_is_accepted() -> None:
    assert check_outcome("backup", "reconcile", Done()) == Done()


@pytest.mark.parametrize("delay", [0, -1, float("inf"), float("nan")])
def test_a_requeue_needs_a_finite_time_above_zero(delay: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        RequeueAfter(delay)
    with pytest.raises(ValueError, match="above zero"):
        RetryAfter(delay)
