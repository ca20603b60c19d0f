"""From verdicts to conditions: which conditions are kept or removed, and the effect of missing values."""

from typing import Any

import pytest

from konverge.conditions import Condition
from konverge.reconcilers.apps.report import blocked, report, with_missing_values
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, Translation
from konverge.reconcilers.shared.helm_release.values import ValuesFrom

KEEP = Translation(row="looking_again")


def condition(type_: str, status: Any, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, observed_generation=1)


def test_a_translation_without_a_value_keeps_the_condition() -> None:
    says = report(
        KEEP, [condition("Ready", "True", "HelmReleaseReady"), condition("Reconciling", "False", "Stable")]
    ).conditions
    assert not {"Ready", "Reconciling", "Degraded"} & set(says)


def test_without_a_value_and_without_a_condition_ready_is_unknown() -> None:
    says = report(KEEP, []).conditions
    assert says["Ready"].status is None
    assert says["Reconciling"].status is True


@pytest.mark.parametrize(
    "reason",
    [
        "ValidationFailed",
        "PolicyDenied",
        "MissingDependencies",
        "WaitingForSecret",
        "HelmReleaseMissing",
        "Placeholder",
        "ReconcileFailed",
    ],
)
def test_reasons_whose_cause_has_ended_are_not_kept(reason: str) -> None:
    assert report(KEEP, [condition("Ready", "False", reason)]).conditions["Ready"] == ConditionValue(
        None, "Reconciling"
    )


def test_stalled_and_deleting_exist_only_while_true() -> None:
    assert set(report(KEEP, []).remove) == {"Deleting", "Stalled"}
    stalled = report(Translation(row="stalled", stalled=ConditionValue(True, "RetriesExceeded")), [])
    assert stalled.conditions["Stalled"] == ConditionValue(True, "RetriesExceeded")
    assert stalled.remove == ("Deleting",)


def test_a_translated_instance_is_not_blocked() -> None:
    assert report(KEEP, []).conditions["Blocked"] == ConditionValue(False, "Unblocked")


def test_blocked_comes_with_ready_false_of_the_same_reason() -> None:
    says = blocked("PolicyDenied", "why").conditions
    assert says["Blocked"] == ConditionValue(True, "PolicyDenied", "why")
    assert says["Ready"] == ConditionValue(False, "PolicyDenied", "why")
    assert "Degraded" not in says


def test_long_texts_of_other_programs_are_cut_to_api_limits() -> None:
    says = report(Translation(row="x", ready=ConditionValue(False, "Some reason!", "x" * 40000)), []).conditions
    assert says["Ready"].reason == "Somereason"
    assert len(says["Ready"].message) == 32768


@pytest.mark.parametrize(
    ("kind", "token", "has_key", "reason", "says"),
    [
        ("Secret", "", None, "WaitingForSecret", "Secret team/vals does not exist; create it with the key values.yaml"),
        ("Secret", "t", False, "WaitingForSecret", "Secret team/vals has no key values.yaml"),
        ("ConfigMap", "", None, "ValuesError", "ConfigMap team/vals does not exist"),
        ("ConfigMap", "t", False, "ValuesError", "ConfigMap team/vals has no key values.yaml"),
    ],
)
def test_missing_values_are_reported_with_the_remedy_before_flux_notices(
    kind: str, token: str, has_key: bool | None, reason: str, says: str
) -> None:
    lacking = ValuesFrom(kind=kind, namespace="team", name="vals", key="values.yaml", token=token, has_key=has_key)
    translation = with_missing_values(
        Translation(row="ready", ready=ConditionValue(True, "HelmReleaseReady"), rolled_out=True), lacking
    )
    assert translation.ready is not None
    assert (translation.ready.status, translation.ready.reason) == (False, reason)
    assert says in translation.ready.message
    assert not translation.rolled_out


@pytest.mark.parametrize("row", ["suspended", "being_deleted"])
def test_missing_values_of_a_suspended_or_deleted_release_are_not_reported(row: str) -> None:
    lacking = ValuesFrom(kind="Secret", namespace="team", name="vals", key="k")
    translation = Translation(row=row)
    assert with_missing_values(translation, lacking) is translation


def test_a_report_tells_whether_it_changes_any_condition() -> None:
    before = [
        condition("Ready", "True", "HelmReleaseReady"),
        condition("Reconciling", "False", "Stable"),
        condition("Suspended", "False", "Active"),
        condition("Blocked", "False", "Unblocked"),
    ]
    same = report(KEEP, before)
    assert not same.changes(before, 1)
    assert same.changes(before, 2)
    assert same.changes([*before, condition("Stalled", "True", "RetriesExceeded")], 1)
    assert report(Translation(row="x", ready=ConditionValue(True, "HelmReleaseReady", "news")), before).changes(
        before, 1
    )
