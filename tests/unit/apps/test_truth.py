"""Silence, suspension, held fields, and conditions that exclude each other: translation beyond its table."""

from datetime import timedelta
from typing import Any

import pytest
from apps.made import Make
from hypothesis import given
from hypothesis import strategies as st

from konverge.reconcilers.shared.helm_release.facts import Translation
from konverge.reconcilers.shared.helm_release.translate import translate

SAID = tuple[bool | None, str] | None
MINUTE = 60
MOVING = (True, "HelmReleaseUpgrading")
STABLE = (False, "Stable")
FAILED = (False, "HelmReleaseFailed")


def said(translation: Translation) -> dict[str, SAID]:
    return {
        name: None if (say := getattr(translation, name)) is None else (say.status, say.reason)
        for name in ("ready", "reconciling", "stalled")
    }


def translation_of(make: Any, *conditions: Any, release: dict[str, Any] | None = None, **facts: Any) -> Translation:
    return translate(make.facts(make.release(*conditions, **(release or {})), **facts))


SETTLED = {"vworkspace.io/applied-intent-hash": "older", "vworkspace.io/applied-source": "source@HelmRepository-uid/1"}
NOT_TAKEN_UP = {"generation": 2, "attempted": 1, "observed": 1, "annotations": SETTLED}


@pytest.mark.parametrize(
    ("waiting", "stalled", "recheck"),
    [(0, None, 15 * MINUTE), (14 * MINUTE, None, 1 * MINUTE), (15 * MINUTE, (True, "ProgressDeadlineExceeded"), None)],
)
def test_upgrade_that_flux_ignores_is_stalled_after_the_deadline(
    make: Any, waiting: int, stalled: SAID, recheck: int | None
) -> None:
    old = make.condition("Ready", "True", "InstallSucceeded", generation=1, ago=86400)
    since = make.now - timedelta(seconds=waiting)
    translation = translation_of(make, old, release=NOT_TAKEN_UP, waiting_since=since)
    assert translation.row == "rolling_out"
    assert said(translation)["stalled"] == stalled
    assert said(translation)["reconciling"] == (MOVING if stalled is None else STABLE)
    assert translation.recheck == (None if recheck is None else make.now + timedelta(seconds=recheck))


def test_the_deadline_of_an_upgrade_restarts_when_flux_starts_to_reconcile_it(make: Any) -> None:
    since = make.now - timedelta(hours=1)
    old = make.condition("Ready", "True", "InstallSucceeded", generation=1, ago=86400)
    at_work = make.condition("Reconciling", "True", "Progressing", generation=2, ago=60)
    assert translation_of(make, old, at_work, release=NOT_TAKEN_UP, waiting_since=since).stalled is None


def test_url_that_source_controller_ignores_is_stalled_and_names_the_controller(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "True", "InstallSucceeded", ago=86400),
        release={"annotations": {"vworkspace.io/applied-source": "older@HelmRepository-uid/1"}},
        repository=make.source("HelmRepository", generation=2, fetched=1),
        waiting_since=make.now - timedelta(minutes=16),
    )
    assert translation.row == "source_syncing"
    assert translation.stalled is not None
    assert "source-controller" in translation.stalled.message


@pytest.mark.parametrize(
    ("before", "ready"),
    [
        (("True", "InstallSucceeded"), (True, "HelmReleaseReady")),
        (("False", "UpgradeFailed"), FAILED),
        (("Unknown", "Progressing"), (None, "Reconciling")),
    ],
)
def test_row_3_ready_of_a_suspended_release_is_fluxs_last_result(make: Any, before: Any, ready: SAID) -> None:
    release = {
        "generation": 4,
        "attempted": 1,
        "spec": {"suspend": True},
        "annotations": {"vworkspace.io/applied-intent-hash": "intent"},
    }
    assert said(translation_of(make, make.condition("Ready", *before), release=release))["ready"] == ready


def test_ready_calls_a_version_held_while_its_apply_is_held(make: Any) -> None:
    translation = translation_of(
        make, make.condition("Ready", "True", "UpgradeSucceeded"), held=True, waiting_since=make.now
    )
    assert translation.ready is not None
    assert "held" in translation.ready.message
    assert "rolled out" not in translation.ready.message
    assert (said(translation)["reconciling"], translation.recheck) == (STABLE, None)


CONDITIONS = st.builds(
    lambda type_, status, reason, generation, ago: (type_, status, reason, generation, ago),
    st.sampled_from(["Ready", "Reconciling", "Stalled", "Released", "Remediated", "TestSuccess", "Drifted"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(
        ["UpgradeFailed", "SourceNotReady", "DependencyNotReady", "StateError", "Progressing", "RollbackSucceeded"]
    ),
    st.integers(1, 2),
    st.sampled_from([0, 60, 86400]),
)
SOURCES = st.tuples(
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 60]),
)


@given(
    conditions=st.lists(CONDITIONS, max_size=6, unique_by=lambda one: one[0]),
    attempted=st.integers(1, 2),
    source=SOURCES,
    waited=st.sampled_from([0, 3600]),
    held=st.booleans(),
    deleted=st.booleans(),
    suspended=st.booleans(),
)
def test_stalled_and_reconciling_are_never_both_true_for_any_conditions_of_flux(
    conditions: Any, attempted: int, source: Any, waited: int, held: bool, deleted: bool, suspended: bool
) -> None:
    fetched, failing, stalled, ago = source
    said_by_source = [
        Make.condition(type_, "True", "Failed", generation=2, ago=ago)
        for type_, there in (("FetchFailed", failing), ("Stalled", stalled))
        if there
    ]
    release = Make.release(
        *(
            Make.condition(type_, status, reason, generation=at, ago=ago)
            for type_, status, reason, at, ago in conditions
        ),
        generation=2,
        attempted=attempted,
        spec={"suspend": suspended},
        **({"deleted": 5} if deleted else {}),
    )
    facts = Make.facts(
        release,
        repository=Make.source("HelmRepository", *said_by_source, generation=2, fetched=fetched),
        held=held,
        waiting_since=Make.now - timedelta(seconds=waited),
    )
    translation = translate(facts)
    both = translation.stalled is not None and (
        translation.reconciling is None or translation.reconciling.status is True
    )
    assert not both, translation
