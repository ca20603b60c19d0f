"""The table of docs/reference/apps.md#translation, row by row, with hand-written releases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from konverge.reconcilers.shared.helm_release.facts import Translation
from konverge.reconcilers.shared.helm_release.translate import ROWS, translate

SAID = tuple[bool | None, str] | None
"""Status and reason, None where the condition is kept (Stalled: absent)."""


def said(translation: Translation) -> dict[str, SAID]:
    return {
        name: None if (say := getattr(translation, name)) is None else (say.status, say.reason)
        for name in ("ready", "reconciling", "degraded", "stalled", "suspended")
    }


def translation_of(make: Any, *conditions: Any, release: dict[str, Any] | None = None, **facts: Any) -> Translation:
    return translate(make.facts(make.release(*conditions, **(release or {})), **facts))


UPGRADING = (False, "Upgrading")
MOVING = (True, "HelmReleaseUpgrading")
STABLE = (False, "Stable")
FAILED = (False, "HelmReleaseFailed")
DEGRADED = (True, "HelmReleaseFailed")


def test_row_1_a_missing_release_is_reported_and_degraded_is_kept(make: Any) -> None:
    assert said(translate(make.facts(None))) == {
        "ready": (False, "HelmReleaseMissing"),
        "reconciling": (True, "HelmReleaseInstalling"),
        "degraded": None,
        "stalled": None,
        "suspended": None,
    }


def test_row_2_a_release_under_deletion_is_deleting(make: Any) -> None:
    translation = translation_of(make, make.condition("Ready", "True", "InstallSucceeded"), release={"deleted": 1})
    assert said(translation)["ready"] == (False, "Deleting")
    assert said(translation)["reconciling"] == (True, "Uninstalling")
    assert translation.degraded is None


def test_row_2_a_failing_uninstall_degrades(make: Any) -> None:
    failed = make.condition("Released", "False", "UninstallFailed", "post-delete hooks failed")
    translation = translation_of(make, failed, release={"deleted": 1})
    assert said(translation)["degraded"] == (True, "HelmReleaseDegraded")
    assert translation.degraded is not None
    assert "post-delete hooks failed" in translation.degraded.message


@pytest.mark.parametrize(
    ("settled", "ready"),
    [("intent", (True, "HelmReleaseReady")), ("older", (None, "Reconciling")), ("", (None, "Reconciling"))],
)
def test_row_3_suspended_release_is_ready_only_for_a_rolled_out_intent(make: Any, settled: str, ready: SAID) -> None:
    release = {"spec": {"suspend": True}, "annotations": {"vworkspace.io/applied-intent-hash": settled}}
    translation = translation_of(make, make.condition("Ready", "True", "InstallSucceeded"), release=release)
    assert said(translation)["ready"] == ready
    assert said(translation)["reconciling"] == STABLE
    assert said(translation)["suspended"] == (True, "ManuallySuspended")


@pytest.mark.parametrize(
    ("status", "reason", "ready"),
    [
        ("True", "RollbackSucceeded", "RolledBack"),
        ("True", "UninstallSucceeded", "RolledBack"),
        ("False", "RollbackFailed", "RemediationFailed"),
        ("False", "UninstallFailed", "RemediationFailed"),
    ],
)
def test_row_4_a_remediated_release_stays_failed_with_both_texts(
    make: Any, status: str, reason: str, ready: str
) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "False", reason, "context canceled"),
        make.condition("Released", "False", "UpgradeFailed", "field is immutable"),
        make.condition("Remediated", status, reason, "context canceled"),
    )
    assert said(translation)["ready"] == (False, ready)
    assert said(translation)["degraded"] == DEGRADED
    assert translation.degraded is not None
    first, _, then = translation.degraded.message.partition("; then ")
    assert first.startswith("UpgradeFailed: field is immutable")
    assert then.startswith(f"{reason}: context canceled")


@pytest.mark.parametrize(
    ("more", "reconciling", "stalled"),
    [
        (("Reconciling", "True", "ProgressingWithRetry"), (True, "Retrying"), None),
        (("Stalled", "True", "RetriesExceeded"), STABLE, (True, "RetriesExceeded")),
    ],
)
def test_row_4_reconciling_and_stalled_are_taken_from_flux(
    make: Any, more: Any, reconciling: SAID, stalled: SAID
) -> None:
    translation = translation_of(make, make.condition("Remediated", "True", "RollbackSucceeded"), make.condition(*more))
    assert said(translation)["reconciling"] == reconciling
    assert said(translation)["stalled"] == stalled


def test_row_4_a_remediation_of_an_older_generation_does_not_count(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Remediated", "True", "RollbackSucceeded", generation=1),
        release={"generation": 2, "attempted": 1},
    )
    assert translation.row == "rolling_out"


def test_row_5_release_that_flux_gave_up_on_is_stalled_and_degraded(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "False", "InstallFailed", "context deadline exceeded"),
        make.condition("Released", "False", "InstallFailed", "context deadline exceeded"),
        make.condition("Stalled", "True", "RetriesExceeded", "after 1 attempt"),
    )
    assert said(translation) == {
        "ready": FAILED,
        "reconciling": STABLE,
        "degraded": DEGRADED,
        "stalled": (True, "RetriesExceeded"),
        "suspended": None,
    }
    assert translation.degraded is not None
    assert translation.degraded.message.startswith("InstallFailed: context deadline exceeded")


def test_row_6_a_dependency_is_waited_for_without_being_degraded(make: Any) -> None:
    translation = translation_of(
        make, make.condition("Ready", "False", "DependencyNotReady", "base"), release={"attempted": None}
    )
    assert said(translation)["ready"] == (False, "WaitingForDependency")
    assert said(translation)["reconciling"] == MOVING
    assert translation.degraded is None


@pytest.mark.parametrize("reason", ["SourceNotReady", "ArtifactFailed"])
def test_row_7_a_source_that_is_not_ready_yet_is_syncing(make: Any, reason: str) -> None:
    translation = translation_of(make, make.condition("Ready", "False", reason))
    assert said(translation)["ready"] == UPGRADING
    assert said(translation)["reconciling"] == (True, "ChartSourceSyncing")
    assert translation.degraded is None
    assert translation.recheck is None


@pytest.mark.parametrize(("ago", "row"), [(0, "source_syncing"), (29, "source_syncing"), (30, "chart_unreachable")])
def test_failing_source_moves_from_row_7_to_8_after_the_grace_time(make: Any, ago: int, row: str) -> None:
    chart = make.source("HelmChart", make.condition("FetchFailed", "True", "NoSource", "gone", ago=ago))
    translation = translation_of(make, make.condition("Ready", "False", "SourceNotReady", ago=1), chart=chart)
    assert translation.row == row
    assert translation.recheck == (make.now + timedelta(seconds=30 - ago) if ago < 30 else None)


def test_row_8_reports_source_messages_and_is_stalled_if_sources_are(make: Any) -> None:
    chart = make.source(
        "HelmChart",
        make.condition("FetchFailed", "True", "NoSourceArtifact", "no artifact", ago=60),
        make.condition("Stalled", "True", "InvalidChartReference", "no such version", ago=60),
    )
    repository = make.source(
        "HelmRepository", make.condition("FetchFailed", "True", "Failed", "connection refused", ago=90)
    )
    translation = translation_of(
        make, make.condition("Ready", "False", "SourceNotReady"), chart=chart, repository=repository
    )
    assert said(translation) == {
        "ready": (False, "ChartUnreachable"),
        "reconciling": STABLE,
        "degraded": (True, "ChartUnreachable"),
        "stalled": (True, "InvalidChartReference"),
        "suspended": None,
    }
    assert translation.ready is not None
    assert translation.ready.message == "HelmChart team-shop: no artifact; HelmRepository shop: connection refused"


def test_row_8_failure_of_an_older_source_generation_does_not_count(make: Any) -> None:
    chart = make.source(
        "HelmChart", make.condition("FetchFailed", "True", "X", "old", generation=1, ago=90), generation=2
    )
    assert translation_of(make, make.condition("Ready", "False", "SourceNotReady"), chart=chart).row == "source_syncing"


@pytest.mark.parametrize(("ahead", "left"), [(10, 20), (86_400, None)])
def test_failure_time_ahead_of_our_clock_does_not_hide_an_unreachable_chart(
    make: Any, ahead: int, left: int | None
) -> None:
    chart = make.source("HelmChart", make.condition("FetchFailed", "True", "NoSource", "gone", ago=-ahead))
    translation = translation_of(make, make.condition("Ready", "False", "SourceNotReady", ago=1), chart=chart)
    assert translation.recheck == (None if left is None else make.now + timedelta(seconds=left))
    assert translation.row == ("chart_unreachable" if left is None else "source_syncing")


@pytest.mark.parametrize("condition", ["FetchFailed", "BuildFailed", "StorageOperationFailed"])
def test_row_8_any_failure_of_a_source_counts(make: Any, condition: str) -> None:
    chart = make.source("HelmChart", make.condition(condition, "True", "X", "broken", ago=90))
    assert (
        translation_of(make, make.condition("Ready", "False", "SourceNotReady"), chart=chart).row == "chart_unreachable"
    )


@pytest.mark.parametrize(("ago", "row"), [(10, "source_syncing"), (31, "chart_unreachable")])
def test_row_8_a_missing_source_fails_since_the_release_reported_it(make: Any, ago: int, row: str) -> None:
    translation = translation_of(make, make.condition("Ready", "False", "SourceNotReady", ago=ago), chart=None)
    assert translation.row == row
    assert "does not exist" in (translation.reconciling.message if translation.reconciling else "")


@pytest.mark.parametrize(
    ("version", "ago", "row"),
    [("1.0.0", 90, "ready"), ("7.7.7", 10, "rolling_out"), ("7.7.7", 90, "chart_unreachable")],
    ids=["the wanted version runs", "within the grace time", "another version runs"],
)
def test_row_8_an_oci_outage_matters_only_while_another_version_runs(
    make: Any, version: str, ago: int, row: str
) -> None:
    repository = make.source(
        "OCIRepository", make.condition("FetchFailed", "True", "OCIArtifactPullFailed", "503", ago=ago)
    )
    translation = translation_of(
        make,
        make.condition("Ready", "True", "InstallSucceeded"),
        release={"version": "1.0.0+ca03b1e9e415"},
        oci=True,
        repository=repository,
        version=version,
    )
    assert translation.row == row
    assert (translation.recheck is not None) is (version == "7.7.7" and ago < 30)


def test_a_helm_outage_does_not_make_a_running_release_unready(make: Any) -> None:
    repository = make.source("HelmRepository", make.condition("FetchFailed", "True", "Failed", "refused", ago=3600))
    assert (
        translation_of(make, make.condition("Ready", "True", "InstallSucceeded"), repository=repository).row == "ready"
    )


@pytest.mark.parametrize(
    "reason",
    [
        *(
            "ChartMutateError",
            "RESTClientError",
            "ResourceManagerError",
            "FactoryError",
            "ConfigFactoryErr",
            "StateError",
        ),
        *("ReconcileError", "AccessDenied", "InvalidCELExpression"),
    ],
)
def test_row_9_a_failed_prerequisite_is_reported_with_fluxs_reason_and_cause(make: Any, reason: str) -> None:
    translation = translation_of(
        make, make.condition("Ready", "False", reason, "connection refused"), release={"attempted": 0}
    )
    assert said(translation)["ready"] == (False, reason)
    assert said(translation)["reconciling"] == MOVING
    assert said(translation)["degraded"] == DEGRADED
    assert translation.ready is not None
    assert translation.ready.message.startswith("connection refused")


def test_row_9_a_values_error_never_repeats_fluxs_text(make: Any) -> None:
    text = "could not resolve Secret chart values reference 'team/vals': yaml: unknown anchor 'hunter2' referenced"
    translation = translation_of(make, make.condition("Ready", "False", "ValuesError", text), release={"attempted": 0})
    assert said(translation)["ready"] == (False, "ValuesError")
    assert "hunter2" not in repr(translation)


@pytest.mark.parametrize(
    "failure",
    [
        ("Released", "False", "UpgradeFailed"),
        ("Released", "False", "InstallFailed"),
        ("TestSuccess", "False", "TestFailed"),
        ("Ready", "False", "TestFailed"),
    ],
)
@pytest.mark.parametrize("ready", [("Ready", "Unknown", "Progressing"), ("Ready", "False", "UpgradeFailed")])
def test_row_10_a_failure_is_reported_throughout_every_retry(make: Any, failure: Any, ready: Any) -> None:
    conditions = [
        make.condition(*failure, "context deadline exceeded"),
        make.condition("Reconciling", "True", "Progressing"),
    ]
    if failure[0] != "Ready":
        conditions.append(make.condition(*ready, "context deadline exceeded"))
    translation = translation_of(make, *conditions)
    assert said(translation)["ready"] == FAILED
    assert said(translation)["reconciling"] == (True, "Retrying")
    assert said(translation)["degraded"] == DEGRADED
    assert translation.degraded is not None
    assert translation.degraded.message.startswith(f"{failure[2]}: context deadline exceeded")


@pytest.mark.parametrize(
    "release", [{"version": "0.9.0"}, {"history": ""}, {"history": "failed"}, {"history": "superseded"}], ids=str
)
def test_row_11_ready_of_another_version_is_not_ready(make: Any, release: dict[str, Any]) -> None:
    translation = translation_of(make, make.condition("Ready", "True", "UpgradeSucceeded"), release=release)
    assert translation.row == "not_the_wanted_version"
    assert said(translation)["ready"] == UPGRADING


def test_row_12_drift_degrades_and_the_instance_stays_ready(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "True", "InstallSucceeded"),
        make.condition("Drifted", "True", "DriftDetected", "ConfigMap changed"),
    )
    assert said(translation)["ready"] == (True, "HelmReleaseReady")
    assert said(translation)["reconciling"] == STABLE
    assert said(translation)["degraded"] == (True, "Drifted")


def test_row_12_ready_is_kept_while_flux_corrects_drift(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "Unknown", "Progressing"),
        make.condition("Drifted", "True", "DriftDetected"),
        make.condition("Reconciling", "True", "Progressing"),
    )
    assert translation.ready is None
    assert said(translation)["reconciling"] == MOVING
    assert said(translation)["degraded"] == (True, "Drifted")


@pytest.mark.parametrize(
    "release",
    [
        {"generation": 2, "attempted": 1, "observed": 2},
        {"generation": 2, "attempted": 1, "observed": 1},
        {"generation": 1, "attempted": None, "observed": -1},
    ],
    ids=["only the generation was stamped", "not seen yet", "never seen"],
)
def test_row_13_an_older_ready_does_not_count(make: Any, release: dict[str, Any]) -> None:
    translation = translation_of(make, make.condition("Ready", "True", "InstallSucceeded"), release=release)
    assert translation.row == "rolling_out"
    assert said(translation)["ready"] == UPGRADING
    assert translation.degraded is None


@pytest.mark.parametrize(
    ("first", "ready", "motion"),
    [(True, "Installing", "HelmReleaseInstalling"), (False, "Upgrading", "HelmReleaseUpgrading")],
)
def test_row_13_the_reason_is_installing_until_the_instance_was_ready_once(
    make: Any, first: bool, ready: str, motion: str
) -> None:
    translation = translation_of(make, make.condition("Ready", "Unknown", "Progressing"), first=first)
    assert (said(translation)["ready"], said(translation)["reconciling"]) == ((False, ready), (True, motion))


def test_row_13_released_false_of_this_generation_degrades(make: Any) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "Unknown", "Progressing"),
        make.condition("Released", "False", "UpgradeFailed", "context deadline exceeded"),
    )
    assert translation.row == "rolling_out"
    assert said(translation)["degraded"] == DEGRADED


def test_row_14_a_cancelled_health_check_is_still_upgrading(make: Any) -> None:
    translation = translation_of(make, make.condition("Ready", "False", "HealthCheckCanceled"))
    assert (translation.row, said(translation)["ready"], said(translation)["reconciling"]) == (
        "health_check_canceled",
        UPGRADING,
        MOVING,
    )


def test_row_15_a_repeated_reconcile_by_flux_keeps_all_conditions(make: Any) -> None:
    translation = translation_of(
        make, make.condition("Ready", "True", "UpgradeSucceeded"), make.condition("Reconciling", "True", "Progressing")
    )
    assert (translation.ready, translation.reconciling, translation.degraded, translation.stalled) == (
        None,
        None,
        None,
        None,
    )
    assert translation.row == "looking_again"


def test_row_16_a_finished_and_deployed_release_is_ready_and_recovered(make: Any) -> None:
    translation = translation_of(make, make.condition("Ready", "True", "UpgradeSucceeded"))
    assert said(translation) == {
        "ready": (True, "HelmReleaseReady"),
        "reconciling": STABLE,
        "degraded": (False, "Recovered"),
        "stalled": None,
        "suspended": None,
    }
    assert translation.rolled_out


def test_row_17_a_failure_with_an_unknown_reason_is_passed_on(make: Any) -> None:
    translation = translation_of(make, make.condition("Ready", "False", "SomethingNew", "text"))
    assert translation.row == "other_failure"
    assert said(translation)["ready"] == (False, "SomethingNew")
    assert said(translation)["degraded"] == DEGRADED


def test_the_rows_are_the_seventeen_of_the_table() -> None:
    assert len(ROWS) == 17


# --- beyond the table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stale", ["Stalled", "Remediated", "Drifted"])
def test_result_of_an_older_oci_tag_does_not_count_for_newer_tags(make: Any, stale: str) -> None:
    translation = translation_of(
        make,
        make.condition("Ready", "False", "UpgradeFailed"),
        make.condition("Released", "False", "UpgradeFailed"),
        make.condition(stale, "True", "RetriesExceeded"),
        release={"version": "1.2.0+aaaaaaaaaaaa", "history": "failed"},
        oci=True,
        repository=make.source("OCIRepository"),
        version="1.3.0",
    )
    assert translation.row == "rolling_out"


@pytest.mark.parametrize(
    ("settled", "handled", "row"),
    [("older", "values-1", "rolling_out"), ("older", "values-2", "ready"), ("intent", "values-1", "ready")],
    ids=["asked and not handled", "handled", "rolled out before, and somebody asked again"],
)
def test_new_values_are_rolled_out_when_flux_has_handled_our_request(
    make: Any, settled: str, handled: str, row: str
) -> None:
    annotations = {"vworkspace.io/applied-intent-hash": settled, "reconcile.fluxcd.io/requestedAt": "values-2"}
    translation = translation_of(
        make,
        make.condition("Ready", "True", "UpgradeSucceeded"),
        release={"annotations": annotations, "handled": handled},
        token="values-2",
    )
    assert translation.row == row


@pytest.mark.parametrize(("settled", "row"), [("intent", "ready"), ("older", "rolling_out")])
def test_held_release_is_ready_only_for_a_rolled_out_intent(make: Any, settled: str, row: str) -> None:
    release = {"annotations": {"vworkspace.io/applied-intent-hash": settled}}
    assert (
        translation_of(make, make.condition("Ready", "True", "UpgradeSucceeded"), release=release, held=True).row == row
    )


MINUTE = 60


@pytest.mark.parametrize(
    ("ago", "stalled", "recheck"),
    [
        (1 * MINUTE, None, 14 * MINUTE),
        (16 * MINUTE, None, 14 * MINUTE),
        (31 * MINUTE, (True, "ProgressDeadlineExceeded"), None),
    ],
)
def test_a_release_whose_ready_stays_unknown_is_stalled_after_twice_the_deadline(
    make: Any, ago: int, stalled: SAID, recheck: int | None
) -> None:
    translation = translation_of(make, make.condition("Ready", "Unknown", "Progressing", ago=ago))
    assert said(translation)["stalled"] == stalled
    assert translation.recheck == (None if recheck is None else make.now + timedelta(seconds=recheck))


def test_a_release_without_any_condition_is_stalled_after_the_deadline(make: Any) -> None:
    translation = translation_of(make, release={"observed": -1, "attempted": None, "history": ""})
    assert said(translation)["stalled"] == (True, "ProgressDeadlineExceeded")
    assert translation.stalled is not None
    assert "helm-controller" in translation.stalled.message


MANGLED: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda status: status.clear(),
    lambda status: status.update(conditions="none"),
    lambda status: status.update(conditions=[1, {"type": 5}, {"status": "True"}]),
    lambda status: status.update(history={"0": "x"}),
    lambda status: status.update(history=["x"]),
    lambda status: status.update(observedGeneration="1", lastAttemptedGeneration=True, lastAttemptedRevision=7),
    lambda status: status["conditions"][0].update(lastTransitionTime="yesterday"),
    lambda status: status["conditions"][0].update(status="Perhaps"),
)


@pytest.mark.parametrize("mangle", MANGLED)
def test_a_malformed_status_is_translated_without_an_exception(
    make: Any, mangle: Callable[[dict[str, Any]], Any]
) -> None:
    release = make.release(make.condition("Ready", "True", "InstallSucceeded"))
    mangle(release.data["status"])
    assert translate(make.facts(release)).row in {"rolling_out", "ready", "not_the_wanted_version"}
