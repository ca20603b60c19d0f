"""Rollouts as the engine `helm` reports them: from a lagging cache, and while the Operation has to stop."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apps.engine_replay import request_of
from recordings import Json

from konverge.clock import rfc3339
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.engines.engine import EngineState, ObjectRef, Observation
from konverge.reconcilers.apps.operations.engines.helm import HelmEngine

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
RELEASE = ObjectRef(HELM_RELEASE, "team", "shop")
MINUTE = timedelta(minutes=1)


def instance(generation: int = 2, version: str = "1.1.0") -> Json:
    return {
        "metadata": {"name": "shop", "namespace": "team", "generation": generation},
        "spec": {"chart": {"version": version}},
    }


def release(**conditions: tuple[str, str, timedelta]) -> Json:
    """Return a HelmRelease with conditions: status, message and age of each."""
    return {
        "metadata": {"generation": 1},
        "status": {
            "conditions": [
                {
                    "type": type_,
                    "status": status,
                    "reason": "Any",
                    "message": message,
                    "observedGeneration": 1,
                    "lastTransitionTime": rfc3339(NOW - age),
                }
                for type_, (status, message, age) in conditions.items()
            ]
        },
    }


def seen(child: Json, found: Json | None, *, stops: bool = True) -> Observation:
    asked = request_of("Upgrade", {RELEASE: found}, targetVersion="1.1.0")
    asked = replace(asked, generation=2, outputs={"fromVersion": "1.0.0"})
    return HelmEngine().observe(asked, child, asked_to_cancel=stops, started=NOW, now=NOW)


def test_stale_instance_from_before_the_edit_is_not_a_foreign_change() -> None:
    assert seen(instance(1, "1.0.0"), None, stops=False).state is EngineState.ACCEPTED
    assert seen(instance(3, "1.0.0"), None, stops=False).reason == "SpecChanged"


def acts(action: str = "upgrade", timeout: str = "5m0s", age: timedelta = MINUTE) -> dict[str, Any]:
    text = f"Running '{action}' action with timeout of {timeout}"
    return {"Reconciling": ("True", text, age), "Ready": ("Unknown", text, age)}


FAILED_BEFORE = {"Released": ("False", "Helm upgrade failed", 2 * MINUTE)}
FAILED_JUST_NOW = {"Released": ("False", "Helm upgrade failed", timedelta(0)), "Ready": ("False", "", timedelta(0))}


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (None, None),
        (release(), None),
        (release(**acts()), 5 * MINUTE),
        (release(**acts(timeout="8s", age=timedelta(0))), timedelta(seconds=68)),
        (release(**acts(age=6 * MINUTE)), None),
        (release(**acts(age=-60 * MINUTE)), 6 * MINUTE),
        (release(**acts(timeout="9999999h")), timedelta(days=1)),
        (release(**acts(timeout="soon")), None),
        (release(**acts(), **FAILED_BEFORE), None),
        (release(**{**acts(), **FAILED_JUST_NOW}), 5 * MINUTE),
        (release(**acts("rollback"), **FAILED_BEFORE), 5 * MINUTE),
        (release(Reconciling=("True", "Fulfilling prerequisites", MINUTE), Ready=("False", "no chart", MINUTE)), None),
        (release(Ready=("True", "Helm upgrade succeeded", timedelta(seconds=10))), timedelta(seconds=50)),
        (release(Ready=("True", "Helm upgrade succeeded", MINUTE)), None),
    ],
    ids=[
        *("missing", "silent", "acts", "short action", "overdue action", "clock ahead", "absurd timeout", "no timeout"),
        *("repeats", "fails", "rolls back", "no chart", "just ended", "ended before"),
    ],
)
def test_stopping_upgrade_waits_only_for_a_helm_action(found: Json | None, left: timedelta | None) -> None:
    observation = seen(instance(), found)
    assert observation.state is (EngineState.CANCELLED if left is None else EngineState.ACCEPTED)
    assert observation.recheck_after == left
