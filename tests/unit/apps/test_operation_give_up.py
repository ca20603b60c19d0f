"""When an Operation is given up: at its deadline, if its object may have been removed, or after a minute without a right."""

from datetime import UTC, datetime, timedelta

import pytest

from konverge.crds.ops_v1alpha1 import Operation, OperationStatus
from konverge.kinds import kind
from konverge.reconcilers.apps.operations.engines.engine import EngineState, Observation, Rendered
from konverge.reconcilers.apps.operations.running.give_up import (
    Stop,
    cancelled,
    may_be_removed,
    missing_since,
    right_is_missing_for_long,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JOB = Rendered(kind("batch/v1", "Job").new("run", "web"), kept=timedelta(minutes=10))


def operation(*, cancel: bool = False, seconds: int | None = 60) -> Operation:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    spec = {"type": "RunCommand", "engine": "job", "targetRef": target, "parameters": {}, "cancel": cancel}
    return Operation.decode(
        {
            "apiVersion": "ops.vworkspace.io/v1alpha1",
            "kind": "Operation",
            "metadata": {"name": "run", "namespace": "web", "uid": "1"},
            "spec": {**spec, **({} if seconds is None else {"timeoutSeconds": seconds})},
        }
    )


@pytest.mark.parametrize(
    ("cancel", "seconds", "waited", "due", "left", "reason"),
    [
        pytest.param(False, None, MINUTE, False, None, "UserCancelled", id="no deadline"),
        pytest.param(False, 60, MINUTE / 2, False, MINUTE / 2, "UserCancelled", id="before the deadline"),
        pytest.param(False, 60, MINUTE, True, None, "Timeout", id="at the deadline"),
        pytest.param(True, 60, MINUTE, True, None, "UserCancelled", id="cancelled, and late as well"),
    ],
)
def test_an_operation_stops_at_its_deadline_or_if_a_user_cancels_it(
    cancel: bool, seconds: int | None, waited: timedelta, due: bool, left: timedelta | None, reason: str
) -> None:
    stop = Stop(operation(cancel=cancel, seconds=seconds), NOW - waited, NOW)
    assert (stop.due, stop.left, stop.end(cancelled("stopped")).reason) == (due, left, reason)


def test_an_object_that_ended_by_itself_keeps_its_result_after_the_deadline() -> None:
    seen = Observation(EngineState.SUCCEEDED, "Completed")
    assert Stop(operation(), NOW - MINUTE, NOW).end(seen) is seen


@pytest.mark.parametrize(
    ("started", "held", "removed"),
    [
        pytest.param(9, None, False, id="younger than an object is kept"),
        pytest.param(11, None, True, id="older than an object is kept"),
        pytest.param(1, 11, True, id="a status with a later start than the Lease"),
        pytest.param(11, 1, True, id="a Lease with a later start than the status"),
    ],
)
def test_a_missing_object_may_be_removed_once_it_need_not_exist(started: int, held: int | None, removed: bool) -> None:
    since = None if held is None else NOW - held * MINUTE
    assert may_be_removed(JOB, NOW - started * MINUTE, since, NOW) is removed


def test_a_right_is_missing_for_long_after_a_minute() -> None:
    assert [right_is_missing_for_long(NOW - part * MINUTE, NOW) for part in (0.9, 1)] == [False, True]


@pytest.mark.parametrize(("text", "minutes"), [(None, 0), ("2029-12-31T23:58:00Z", 2), ("2031-01-01T00:00:00Z", 0)])
def test_an_object_is_missing_since_its_first_report_unless_that_is_impossible(text: str | None, minutes: int) -> None:
    assert missing_since(OperationStatus(engine_missing_since=text), NOW) == NOW - minutes * MINUTE
