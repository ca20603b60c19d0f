"""Flux's recordings through the engine helm: an Upgrade from its edit to its end, event by event.

The instance has the status that its reconciler derives from each event (tests/support/apps/replay.py), and the engine reads this status.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pytest
from apps.engine_replay import request_of
from apps.replay import Replay

from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.engines.engine import ObjectRef, Observation
from konverge.reconcilers.apps.operations.engines.helm import HelmEngine
from konverge.reconcilers.shared.helm_release.facts import Translation
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease

RELEASE = ObjectRef(HELM_RELEASE, "team", "shop")
RUNS = "RUNNING/EngineStarted"
WAITS = "ACCEPTED/EngineNotStarted"
DONE = [RUNS, "SUCCEEDED/EngineCompleted"]
GAVE_UP = [RUNS, "FAILED/HelmReleaseFailed"]

WAYS: dict[tuple[str, str, str], list[str]] = {
    ("install-upgrade", "upgrade to 1.1.0", "1.1.0"): DONE,
    ("upgrade-failed-no-retries", "upgrade to broken 1.2.0", "1.2.0"): GAVE_UP,
    ("upgrade-failed-no-retries", "recover: 1.3.0", "1.3.0"): DONE,
    ("upgrade-failed-rollback", "upgrade to broken 1.2.0", "1.2.0"): [RUNS, "FAILED/RolledBack"],
    ("upgrade-failed-rollback", "recover: back to 1.0.0", "1.0.0"): DONE,
    ("upgrade-slow-times-out", "upgrade with a Deployment", "1.1.0"): GAVE_UP,
    ("retry-on-failure", "upgrade to broken 1.2.0", "1.2.0"): [RUNS],
    ("retry-on-failure", "recover 1.3.0", "1.3.0"): DONE,
    ("oci-chart-ref", "OCIRepository ref to 1.1.0", "1.1.0"): DONE,
    ("oci-chart-ref", "ref to a tag that does not exist", "9.9.9"): [RUNS],
}
"""Recording, the step that edits the version, the version; and the states of the Operation."""


class Rollout(Replay):
    """A recording of Flux, with the HelmRelease of each reconcile."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.releases: list[Object | None] = []
        self.intents: list[str] = []

    def _fold(self, at: float, now: datetime, translation: Translation, desired: DesiredRelease) -> None:
        super()._fold(at, now, translation, desired)
        self.releases.append(self._objects.get("HelmRelease/shop"))
        self.intents.append(desired.intent)


def observations(recording: str, step: str, version: str) -> list[tuple[float, Observation]]:
    """Return the observations from the edit on, up to the next step or the end."""
    played = Rollout(recording)
    played.feed(before=step)
    first, edits = len(played.said), [entry.step for entry in played.entries if entry.step]
    later = edits[next(n for n, text in enumerate(edits) if text.startswith(step)) + 1 :]
    played._position += 1
    played.feed(before=later[0] if later else "")
    found: list[tuple[float, Observation]] = []
    before = played.intents[first - 1]
    reconciles = list(zip(played.said, played.releases, played.intents, strict=True))
    for said, release, intent in reconciles[first:]:
        conditions = [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "observedGeneration": 1 if intent == before else 2,  # an event from before the edit
            }
            for one in said.conditions
        ]
        child: dict[str, Any] = {
            "metadata": {"name": "shop", "namespace": "team", "generation": 2},
            "spec": {"chart": {"version": version}},
            "status": {"conditions": conditions},
        }
        related = {RELEASE: None if release is None else release.to_dict()}
        asked = replace(request_of("Upgrade", related, targetVersion=version), generation=2)
        now = played._epoch + timedelta(seconds=said.at)
        seen = HelmEngine().observe(asked, child, asked_to_cancel=False, started=now, now=now)
        found.append((said.at, seen))
        if seen.state.final:
            break
    return found


@pytest.mark.parametrize("which", WAYS, ids=" ".join)
def test_an_upgrade_goes_the_recorded_way(which: tuple[str, str, str]) -> None:
    seen = observations(*which)
    states = [state for state, _ in groupby(f"{one.state.name}/{one.reason}" for _, one in seen)]
    assert states[1 if states[0] == WAITS else 0 :] == WAYS[which], "an event from before the edit may come first"


def test_an_upgrade_names_the_revision_of_helm() -> None:
    _, last = observations("install-upgrade", "upgrade to 1.1.0", "1.1.0")[-1]
    assert last.outputs == {"revision": "2"}


@pytest.mark.parametrize(
    ("recording", "version", "words"),
    [
        ("upgrade-failed-no-retries", "1.2.0", 'Service "shop-bad" is invalid'),
        ("upgrade-failed-rollback", "1.2.0", "then RollbackSucceeded: Helm rollback to previous release"),
    ],
)
def test_a_failed_upgrade_quotes_helm(recording: str, version: str, words: str) -> None:
    _, last = observations(recording, "upgrade to broken 1.2.0", version)[-1]
    assert words in last.message
