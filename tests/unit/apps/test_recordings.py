"""The conditions of an instance in the 17 recordings of Flux, by the table of their README.

The whole reconciler is tested by the same table (tests/scenarios/apps). Events are transitions, counted exactly: none per attempt of Flux.
"""

from collections.abc import Callable
from typing import Any

import pytest
from apps.flux_ends import ENDS, GAVE_UP, HEALTHY, NEVER

Replays = Callable[..., Any]

INSTALLED = ["Ready=False", "Reconciling=True", "Ready=True", "Reconciling=False"]
ROLLED = ["Ready=False", "Reconciling=True", "Ready=True", "Reconciling=False"]
DELETED = ["Ready=False", "Reconciling=True"]
TRANSITIONS: dict[str, list[str]] = {
    "chart-version-missing": INSTALLED,
    "depends-on": INSTALLED,
    "drift-enabled": [
        *INSTALLED,
        *("Reconciling=True", "Degraded=True", "Reconciling=False", "Degraded=False"),
        *ROLLED,
        "Degraded=True",
    ],
    "install-failed": ["Ready=False", "Reconciling=True", "Degraded=True", "Reconciling=False", "Stalled=True"],
    "install-upgrade": [*INSTALLED, *ROLLED, *ROLLED, *DELETED],
    "oci-chart-ref": [*INSTALLED, *ROLLED, "Ready=False", "Reconciling=True"],
    "rename-release": [*INSTALLED, *ROLLED],
    "repo-unreachable": ["Ready=False", "Reconciling=True"],
    "retry-on-failure": [
        *INSTALLED,
        *("Ready=False", "Reconciling=True", "Degraded=True"),
        *("Ready=True", "Reconciling=False", "Degraded=False"),
    ],
    "source-missing": INSTALLED,
    "suspended": [
        *INSTALLED,
        *("Ready=Unknown", "Suspended=True", "Ready=False", "Reconciling=True", "Suspended=False"),
        *("Ready=True", "Reconciling=False", "Suspended=True", "Ready=False", "Reconciling=True", "Suspended=False"),
    ],
    "test-fails": ["Ready=False", "Reconciling=True", "Degraded=True", "Reconciling=False", "Stalled=True"],
    "uninstall-fails": [*INSTALLED, *DELETED, "Degraded=True"],
    "upgrade-failed-no-retries": [
        *INSTALLED,
        *("Ready=False", "Reconciling=True", "Degraded=True", "Reconciling=False", "Stalled=True"),
        *("Reconciling=True", "Ready=True", "Reconciling=False", "Degraded=False"),
    ],
    "upgrade-failed-rollback": [
        *INSTALLED,
        *("Ready=False", "Reconciling=True", "Degraded=True", "Reconciling=False", "Stalled=True"),
        *("Reconciling=True", "Ready=True", "Reconciling=False", "Degraded=False"),
    ],
    "upgrade-slow-times-out": [
        *INSTALLED,
        *("Ready=False", "Reconciling=True", "Degraded=True", "Reconciling=False", "Stalled=True"),
    ],
    "values-secret": [
        *("Ready=False", "Reconciling=True", "Degraded=True", "Ready=True", "Reconciling=False", "Degraded=False"),
        *ROLLED,
        *ROLLED,
    ],
}


@pytest.mark.parametrize("scenario", ENDS)
def test_a_recording_ends_as_its_table_says(replay: Replays, scenario: str) -> None:
    last = replay(scenario).feed().last
    assert {type_: last[type_] for type_ in ENDS[scenario]} == ENDS[scenario]


@pytest.mark.parametrize("scenario", ENDS)
def test_a_recording_never_shows_what_its_table_forbids(replay: Replays, scenario: str) -> None:
    fed = replay(scenario).feed()
    shown = {what: fed.ever(*what) for what in NEVER[scenario]}
    assert {what: said for what, said in shown.items() if said} == {}


@pytest.mark.parametrize("scenario", ENDS)
def test_a_recording_makes_one_event_per_transition_and_none_per_attempt(replay: Replays, scenario: str) -> None:
    assert [what for _, what in replay(scenario).feed().transitions] == TRANSITIONS[scenario]


@pytest.mark.parametrize("scenario", ENDS)
def test_stalled_and_reconciling_are_never_both_true_whenever_flux_falls_silent(replay: Replays, scenario: str) -> None:
    """Flux stops after each event, one by one, and time passes; `Replay` checks each reconcile too."""
    whole = replay(scenario)
    for position, entry in enumerate(whole.entries):
        if entry.object is not None and position % 20 == 0:
            cut = replay(scenario)
            cut.entries = whole.entries[: position + 1]
            cut.feed()
            for minutes in (1, 20, 40):
                cut.wait_until(entry.at + 60 * minutes)
            for said in cut.said:
                assert not (said["Stalled"].startswith("True") and said["Reconciling"].startswith("True")), said


# --- install-upgrade -------------------------------------------------------------------------------------------------------------


def test_a_spec_change_is_not_ready_until_the_new_release_is(replay: Replays) -> None:
    fed = replay("install-upgrade").feed(before="delete release")
    pending = [
        entry.at
        for entry in fed.entries
        if entry.object is not None
        and entry.object.kind_name == "HelmRelease"
        and (released := entry.object.find_condition("Released")) is not None
        and released.observed_generation != entry.object.metadata.generation
    ]
    waiting = [said for said in fed.said if said.at in pending]
    assert len(waiting) >= 10
    assert {said["Ready"] for said in waiting} == {"False/Upgrading"}


# --- failures --------------------------------------------------------------------------------------------------------------------


def test_a_failed_upgrade_is_degraded_with_the_servers_text(replay: Replays) -> None:
    fed = replay("upgrade-failed-no-retries").feed(before="recover")
    assert {type_: fed.last[type_] for type_ in GAVE_UP} == GAVE_UP
    assert "UpgradeFailed" in fed.last.message("Degraded")
    assert 'Service "shop-bad" is invalid' in fed.last.message("Degraded")


def test_a_failed_upgrade_is_degraded_before_flux_says_stalled(replay: Replays) -> None:
    fed = replay("upgrade-failed-no-retries").feed(before="recover")
    degraded = fed.ever("Degraded", "True/HelmReleaseFailed")[0].at
    stalled = fed.ever("Stalled", "True/RetriesExceeded")[0].at
    assert degraded < stalled
    assert all(not said["Ready"].startswith("True") for said in fed.said if said.at >= degraded)


def test_a_rollback_is_reported_and_does_not_end_the_failure(replay: Replays) -> None:
    fed = replay("upgrade-failed-rollback").feed(before="recover")
    assert fed.last["Ready"] == "False/RolledBack"
    assert fed.last["Degraded"] == "True/HelmReleaseFailed"
    for words in ("UpgradeFailed", "shop-bad", "RollbackSucceeded", "Helm rollback to previous release"):
        assert words in fed.last.message("Degraded")
    assert fed.changes("Degraded") == ["True"]
    assert fed.feed().changes("Degraded") == ["True", "False"]


def test_a_timeout_is_degraded_and_says_what_it_waited_for(replay: Replays) -> None:
    assert "timeout waiting for" in replay("upgrade-slow-times-out").feed().last.message("Degraded")


def test_four_failed_attempts_are_reported_as_one_failure(replay: Replays) -> None:
    fed = replay("retry-on-failure").feed(before="recover")
    assert fed.changes("Degraded") == ["True"]
    assert fed.changes("Ready") == ["False", "True", "False"]
    assert fed.changes("Reconciling") == ["True", "False", "True"]
    since_failure = fed.ever("Degraded", "True/HelmReleaseFailed")[0].at
    assert all(said["Degraded"] == "True/HelmReleaseFailed" for said in fed.said if said.at >= since_failure)


def test_a_failed_helm_test_is_reported_by_its_name(replay: Replays) -> None:
    last = replay("test-fails").feed().last
    assert "TestFailed" in last.message("Degraded")


# --- sources ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "before", "says"),
    [
        ("source-missing", "HelmRepository appears", 'HelmRepository.source.toolkit.fluxcd.io "shop" not found'),
        ("chart-version-missing", "fix", "no 'shop' chart with version matching '9.9.9' found"),
        ("repo-unreachable", "", "connection refused"),
    ],
)
def test_a_failing_source_is_unreachable_after_the_grace_time(
    replay: Replays, scenario: str, before: str, says: str
) -> None:
    fed = replay(scenario).feed(before=before)
    assert fed.last["Ready"] == "False/Installing"
    assert not fed.ever("Degraded", "True/")
    failing = min(said.at for said in fed.said if said.row == "source_syncing")
    fed.wait_until(failing + 29)
    assert fed.last["Ready"] == "False/Installing"
    fed.wait_until(failing + 33)
    assert fed.last["Ready"] == "False/ChartUnreachable"
    assert fed.last["Reconciling"] == ("False/Stable" if fed.last["Stalled"] else "True/ChartSourceSyncing")
    assert fed.last["Degraded"] == "True/ChartUnreachable"
    assert says in fed.last.message("Degraded")


def test_a_requeue_is_set_for_the_end_of_the_grace_time(replay: Replays) -> None:
    fed = replay("repo-unreachable").feed()
    recheck = fed.translations[-1].recheck
    assert recheck is not None
    fed.wait_until((recheck - fed._epoch).total_seconds())
    assert fed.last["Ready"] == "False/ChartUnreachable"
    assert fed.translations[-1].recheck is None


def test_a_chart_that_flux_gave_up_on_is_stalled_with_its_reason(replay: Replays) -> None:
    fed = replay("chart-version-missing").feed(before="fix").wait_until(60)
    assert fed.last["Stalled"] == "True/InvalidChartReference"


@pytest.mark.parametrize(
    ("scenario", "before"), [("source-missing", "HelmRepository appears"), ("chart-version-missing", "fix")]
)
def test_an_instance_recovers_when_its_source_does(replay: Replays, scenario: str, before: str) -> None:
    fed = replay(scenario).feed(before=before).wait_until(90)
    assert fed.last["Degraded"] == "True/ChartUnreachable"
    fed.feed()
    assert {type_: fed.last[type_] for type_ in HEALTHY} == HEALTHY


def test_an_unreachable_repository_recovers_with_the_events_of_a_healthy_one(replay: Replays) -> None:
    fed = replay("repo-unreachable").feed().wait_until(60)
    assert fed.last["Ready"] == "False/ChartUnreachable"
    healthy = replay("install-upgrade")
    until = healthy.step("upgrade to 1.1.0")
    healthy.entries = [entry for entry in healthy.entries if entry.at <= until]
    fed.graft(healthy, lambda _: True, after=70)
    assert {type_: fed.last[type_] for type_ in HEALTHY} == HEALTHY


def test_missing_tag_is_not_ready_although_the_release_reports_ready(replay: Replays) -> None:
    fed = replay("oci-chart-ref").feed()
    asked = fed.step("ref to a tag that does not exist")
    release = [
        entry.object for entry in fed.entries if entry.object is not None and entry.object.kind_name == "HelmRelease"
    ][-1]
    assert release.condition("Ready").status == "True"
    assert all(said["Ready"] == "False/Upgrading" for said in fed.said if said.at > asked)
    fed.wait_until(asked + 40)
    assert fed.last["Ready"] == "False/ChartUnreachable"
    assert fed.last["Degraded"] == "True/ChartUnreachable"
    assert "MANIFEST_UNKNOWN" in fed.last.message("Ready")


def test_an_oci_release_is_ready_at_each_version_although_its_generation_stays(replay: Replays) -> None:
    fed = replay("oci-chart-ref").feed()
    ready = [said.message("Ready") for said in fed.said if said["Ready"].startswith("True")]
    assert list(dict.fromkeys(ready)) == ["version 1.0.0 is deployed", "version 1.1.0 is deployed"]


# --- suspension ------------------------------------------------------------------------------------------------------------------


def test_change_during_suspension_is_not_rolled_out_although_flux_observed_it(replay: Replays) -> None:
    fed = replay("suspended").feed(before="resume")
    assert fed.last["Suspended"] == "True/ManuallySuspended"
    assert fed.last["Ready"] == "Unknown/Reconciling"
    assert "flux resume" in fed.last.message("Suspended")


def test_suspending_without_another_change_keeps_the_conditions(replay: Replays) -> None:
    fed = replay("suspended").feed(before="delete while suspended")
    assert fed.last["Suspended"] == "True/ManuallySuspended"
    assert fed.last["Ready"] == "True/HelmReleaseReady"


# --- values ----------------------------------------------------------------------------------------------------------------------


def test_values_errors_are_reported_in_three_conditions_and_without_fluxs_text(replay: Replays) -> None:
    fed = replay("values-secret").feed(before="Secret good")
    redacted = fed.ever("Ready", "False/ValuesError")
    assert len(redacted) >= 3
    texts = {said.message(type_) for said in redacted for type_ in ("Ready", "Degraded")}
    assert texts == {
        "Flux cannot use the values in Secret team/vals, key values.yaml: the key must exist and hold one YAML mapping; correct it there"
    }


def test_an_edited_secret_rolls_out_without_any_generation(replay: Replays) -> None:
    fed = replay("values-secret").feed(before="label removed")
    edited = fed.step("Secret edited")
    assert [said["Ready"].split("/")[0] for said in fed.said if said.at > edited][-1] == "True"
    assert any(said["Ready"] == "False/Upgrading" for said in fed.said if said.at > edited)


def test_readiness_waits_until_flux_has_handled_the_token(replay: Replays) -> None:
    fed = replay("values-secret", token=lambda at: "token-1" if at > 25 else "token-0")
    fed.feed()
    waiting = list(fed.between(29.66, 29.98))
    assert waiting
    assert all(said["Ready"] == "False/Upgrading" for said in waiting)
    assert fed.last["Ready"] == "True/HelmReleaseReady"


# --- drift, dependencies, uninstall ----------------------------------------------------------------------------------------------


def test_drift_is_reported_while_flux_corrects_it_and_the_instance_stays_ready(replay: Replays) -> None:
    fed = replay("drift-enabled").feed(before="mode warn")
    drifted = fed.ever("Degraded", "True/Drifted")
    assert {said["Ready"] for said in drifted} == {"True/HelmReleaseReady"}
    assert "ConfigMap/team/shop-cm changed" in drifted[0].message("Degraded")
    assert fed.last["Degraded"] == "False/Recovered"


def test_an_instance_waits_for_a_dependency_of_its_release(replay: Replays) -> None:
    fed = replay("depends-on").feed(before="dependency appears")
    assert fed.last["Ready"] == "False/WaitingForDependency"
    assert "team/base" in fed.last.message("Ready")


def test_a_failing_uninstall_is_reported_with_its_cause(replay: Replays) -> None:
    fed = replay("uninstall-fails").feed(before="hold released")
    assert fed.last["Ready"] == "False/Deleting"
    assert fed.last["Degraded"] == "True/HelmReleaseDegraded"
    assert "UninstallFailed" in fed.last.message("Degraded")
    assert "termination timeout" in fed.last.message("Degraded")


# --- all of them -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ENDS)
def test_every_reconcile_sets_ready_and_reconciling(replay: Replays, scenario: str) -> None:
    for said in replay(scenario).feed().said:
        assert said["Ready"]
        assert said["Reconciling"]


@pytest.mark.parametrize("scenario", ENDS)
def test_ready_becomes_true_only_with_the_deployed_version(replay: Replays, scenario: str) -> None:
    fed = replay(scenario).feed()
    releases = [
        entry
        for entry in fed.entries
        if entry.object is not None and entry.object.kind_name == "HelmRelease" and entry.object.name == "shop"
    ]
    for said in fed.said:
        if said.row == "ready":
            release = next(entry.object for entry in reversed(releases) if entry.at <= said.at)
            assert release.get("status", "history", 0, "status") == "deployed"
            assert said.message("Ready").split()[1] == release.get("status", "history", 0, "chartVersion").split("+")[0]
