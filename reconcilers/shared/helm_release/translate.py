"""Translates Flux's conditions into an ApplicationInstance's conditions: the first row that matches wins
(docs/reference/apps.md#translation).

Guarantees: pure; every HelmRelease matches a row. Each row is a function named by the state that it recognises, in the order of `ROWS`;
its docstring gives the row's number in the reference.

The order matters because Flux's conditions contradict each other during a rollout. Ready is True for the old generation right after an
apply; Ready flips to Unknown in every retry of a failing release while Released keeps the failure; a rollback ends in Ready=False although
the old version runs; only the OCIRepository reports a missing OCI tag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from konverge.reconcilers.shared.helm_release import messages
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, ReleaseFacts, Translation
from konverge.reconcilers.shared.helm_release.freshness import FluxRelease
from konverge.reconcilers.shared.helm_release.progress import no_progress
from konverge.reconcilers.shared.helm_release.redaction import redacted, without_queries
from konverge.reconcilers.shared.helm_release.words import Degraded, Flux, Ready, Reconciling, Suspended

__all__ = ["ROWS", "translate"]

Row: TypeAlias = Callable[[ReleaseFacts], Translation | None]

_STABLE: Final = ConditionValue(False, Reconciling.STABLE)


def _ready_rolling_out(facts: ReleaseFacts) -> ConditionValue:
    message = messages.held_back if facts.held_back else messages.rolling_out
    return ConditionValue(False, facts.ready_reason, message(facts.desired.version))


def _reconciling(facts: ReleaseFacts) -> ConditionValue:
    return (
        _STABLE
        if facts.held_back
        else ConditionValue(True, facts.reconciling_reason, messages.rolling_out(facts.desired.version))
    )


def _no_progress(facts: ReleaseFacts) -> ConditionValue | None:
    stagnation = no_progress(facts)
    return None if stagnation is None else stagnation.stalled(facts.now)


def _upstream_reconciling(facts: ReleaseFacts) -> ConditionValue:
    return ConditionValue(True, Reconciling.RETRYING) if facts.reconciling else _STABLE


def _upstream_stalled(facts: ReleaseFacts) -> ConditionValue | None:
    stalled = facts.outcome(Flux.STALLED)
    return ConditionValue(True, stalled.reason, redacted(stalled)) if stalled is not None and stalled.is_true else None


def release_missing(facts: ReleaseFacts) -> Translation | None:
    """Row 1: the HelmRelease is missing."""
    if facts.release is not None:
        return None
    return Translation(
        row="release_missing",
        ready=ConditionValue(False, Ready.HELM_RELEASE_MISSING, "there is no HelmRelease; it is applied again"),
        reconciling=ConditionValue(True, Reconciling.HELM_RELEASE_INSTALLING),
    )


def being_deleted(facts: ReleaseFacts) -> Translation | None:
    """Row 2: the HelmRelease is under deletion."""
    if facts.release is None or not facts.release.deleting:
        return None
    failure = facts.release.find(Flux.RELEASED)
    stuck = failure is not None and failure.is_false and failure.reason == Flux.UNINSTALL_FAILED
    return Translation(
        row="being_deleted",
        ready=ConditionValue(False, Ready.DELETING, messages.release_deleting()),
        reconciling=ConditionValue(True, Reconciling.UNINSTALLING),
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_DEGRADED, messages.failed(failure)) if stuck else None,
    )


def suspended(facts: ReleaseFacts) -> Translation | None:
    """Row 3: the HelmRelease is suspended: its generation moves, the workload does not."""
    if facts.release is None or not facts.release.suspended:
        return None
    waiting = facts.release.rolled_out_intent != facts.desired.intent
    message = messages.suspended(waiting=waiting)
    return Translation(
        row="suspended",
        ready=ConditionValue(None, Ready.RECONCILING, message)
        if waiting
        else _ready_when_suspended(facts, facts.release, message),
        reconciling=_STABLE,
        suspended=ConditionValue(True, Suspended.MANUALLY_SUSPENDED, message),
    )


def _ready_when_suspended(facts: ReleaseFacts, release: FluxRelease, message: str) -> ConditionValue:
    """Return Ready from Flux's last conditions, of whatever generation: suspending moves the generation, so none is current."""
    before = release.last_ready
    if before is not None and before.is_true and release.deployed(facts.desired):
        return _ready_deployed(facts)
    if before is not None and before.is_false:
        return ConditionValue(False, Ready.HELM_RELEASE_FAILED, messages.failed(before))
    return ConditionValue(None, Ready.RECONCILING, message)


def remediated(facts: ReleaseFacts) -> Translation | None:
    """Row 4: a failed release was rolled back or uninstalled. The failure stays, since the desired version does not run."""
    remedy = facts.outcome(Flux.REMEDIATED)
    if remedy is None:
        return None
    failure = facts.outcome(Flux.RELEASED)
    message = messages.remediated(failure if failure is not None and failure.is_false else None, remedy)
    return Translation(
        row="remediated",
        ready=ConditionValue(False, Ready.ROLLED_BACK if remedy.is_true else Ready.REMEDIATION_FAILED, message),
        reconciling=_upstream_reconciling(facts),
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_FAILED, message),
        stalled=_upstream_stalled(facts),
    )


def stalled(facts: ReleaseFacts) -> Translation | None:
    """Row 5: Flux gave up."""
    if not facts.current or not facts.outcome_is(Flux.STALLED, "True"):
        return None
    message = messages.failed(facts.failure)
    return Translation(
        row="stalled",
        ready=ConditionValue(False, Ready.HELM_RELEASE_FAILED, message),
        reconciling=_STABLE,
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_FAILED, message),
        stalled=_upstream_stalled(facts),
    )


def waiting_for_dependency(facts: ReleaseFacts) -> Translation | None:
    """Row 6: another release, which this release depends on, is not ready."""
    if not facts.ready_is("False", Flux.DEPENDENCY_NOT_READY):
        return None
    message = redacted(facts.ready) if facts.ready else ""
    return Translation(
        row="waiting_for_dependency",
        ready=ConditionValue(False, Ready.WAITING_FOR_DEPENDENCY, message),
        reconciling=_reconciling(facts),
    )


def source_syncing(facts: ReleaseFacts) -> Translation | None:
    """Row 7: the chart is not fetched yet, or not from the source of the spec, and the grace time has not passed."""
    source_failure = facts.source_failure
    if not (facts.waits_for_source or facts.source_behind):
        return None
    if source_failure is not None and source_failure.outlasted(facts.now, facts.grace):
        return None
    if source_failure is not None:
        message = source_failure.message
    else:
        message = messages.source_behind() if facts.source_behind else ""
    return Translation(
        row="source_syncing",
        ready=_ready_rolling_out(facts),
        reconciling=ConditionValue(True, Reconciling.CHART_SOURCE_SYNCING, message),
        stalled=_no_progress(facts),
    )


def chart_unreachable(facts: ReleaseFacts) -> Translation | None:
    """Row 8: the source has failed for longer than the grace time, even while a release from another source runs."""
    source_failure = facts.source_failure
    if source_failure is None or not source_failure.outlasted(facts.now, facts.grace):
        return None
    return Translation(
        row="chart_unreachable",
        ready=ConditionValue(False, Ready.CHART_UNREACHABLE, source_failure.message),
        reconciling=ConditionValue(True, Reconciling.CHART_SOURCE_SYNCING, source_failure.message),
        degraded=ConditionValue(True, Degraded.CHART_UNREACHABLE, source_failure.message),
        stalled=ConditionValue(True, source_failure.stalled.reason, without_queries(source_failure.stalled.message))
        if source_failure.stalled
        else None,
    )


def _failed_before_release(facts: ReleaseFacts, row: str) -> Translation:
    ready = facts.ready
    reason = ready.reason if ready is not None and ready.reason else Ready.HELM_RELEASE_FAILED
    if reason == Flux.VALUES_ERROR:
        lacking = facts.values is not None and facts.values.lacking
        message = (
            messages.missing_values(facts.values)
            if facts.values and lacking
            else messages.unusable_values(facts.values)
        )
    else:
        message = redacted(ready) if ready is not None else ""
    return Translation(
        row=row,
        ready=ConditionValue(False, reason, message),
        reconciling=_reconciling(facts),
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_FAILED, message),
    )


def prerequisite_failed(facts: ReleaseFacts) -> Translation | None:
    """Row 9: the release fails for a reason other than the chart: values, access, a broken reference."""
    return (
        _failed_before_release(facts, "prerequisite_failed")
        if facts.ready_is("False", *Flux.PREREQUISITE_ERRORS)
        else None
    )


def retrying(facts: ReleaseFacts) -> Translation | None:
    """Row 10: the release failed and Flux retries. Ready flips in each attempt, the failure stays."""
    failed = (
        facts.outcome_is(Flux.RELEASED, "False", Flux.INSTALL_FAILED, Flux.UPGRADE_FAILED)
        or facts.outcome_is(Flux.TEST_SUCCESS, "False", Flux.TEST_FAILED)
        or facts.outcome_is(Flux.READY, "False", Flux.TEST_FAILED)
    )
    if not failed or not facts.reconciling:
        return None
    test = facts.outcome(Flux.TEST_SUCCESS)
    message = messages.failed(test if test is not None and test.is_false else facts.failure)
    return Translation(
        row="retrying",
        ready=ConditionValue(False, Ready.HELM_RELEASE_FAILED, message),
        reconciling=ConditionValue(True, Reconciling.RETRYING),
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_FAILED, message),
    )


def not_the_wanted_version(facts: ReleaseFacts) -> Translation | None:
    """Row 11: Flux reports Ready for another version (of an OCI chart the release does not show it), or its history lags behind."""
    if not facts.current or not facts.ready_is("True") or facts.deployed:
        return None
    return Translation(row="not_the_wanted_version", ready=_ready_rolling_out(facts), reconciling=_reconciling(facts))


def drifted(facts: ReleaseFacts) -> Translation | None:
    """Row 12: objects of the chart have drifted. Flux corrects or only reports the drift; the instance reports it."""
    if not facts.current or not facts.outcome_is(Flux.DRIFTED, "True"):
        return None
    condition = facts.outcome(Flux.DRIFTED)
    runs = facts.ready_is("True") and not facts.reconciling
    return Translation(
        row="drifted",
        ready=_ready_deployed(facts) if runs else None,
        reconciling=ConditionValue(True, Reconciling.HELM_RELEASE_UPGRADING) if facts.reconciling else _STABLE,
        degraded=ConditionValue(True, Degraded.DRIFTED, condition.message if condition is not None else ""),
        rolled_out=runs,
    )


def rolling_out(facts: ReleaseFacts) -> Translation | None:
    """Row 13: Flux has not finished the present intent."""
    if facts.current and facts.ready is not None and facts.ready.status != "Unknown":
        return None
    failed = facts.outcome_is(Flux.RELEASED, "False", Flux.INSTALL_FAILED, Flux.UPGRADE_FAILED)
    return Translation(
        row="rolling_out",
        ready=_ready_rolling_out(facts),
        reconciling=_reconciling(facts),
        degraded=ConditionValue(True, Degraded.HELM_RELEASE_FAILED, messages.failed(facts.failure)) if failed else None,
        stalled=_no_progress(facts),
    )


def health_check_canceled(facts: ReleaseFacts) -> Translation | None:
    """Row 14: Flux cancelled its health checks for a newer spec."""
    if not facts.ready_is("False", Flux.HEALTH_CHECK_CANCELED):
        return None
    return Translation(
        row="health_check_canceled",
        ready=ConditionValue(False, Ready.UPGRADING, messages.rolling_out(facts.desired.version)),
        reconciling=ConditionValue(True, Reconciling.HELM_RELEASE_UPGRADING),
    )


def looking_again(facts: ReleaseFacts) -> Translation | None:
    """Row 15: the release is ready and Flux reconciles it again, or is about to report that it is done."""
    return Translation(row="looking_again") if facts.current and facts.ready_is("True") and facts.reconciling else None


def _ready_deployed(facts: ReleaseFacts) -> ConditionValue:
    return ConditionValue(True, Ready.HELM_RELEASE_READY, f"version {facts.desired.version} is deployed")


def ready(facts: ReleaseFacts) -> Translation | None:
    """Row 16: the desired version is deployed and Flux is at rest."""
    if not facts.current or not facts.ready_is("True"):
        return None
    return Translation(
        row="ready",
        ready=_ready_deployed(facts),
        reconciling=_STABLE,
        degraded=ConditionValue(False, Degraded.RECOVERED),
        rolled_out=True,
    )


def other_failure(facts: ReleaseFacts) -> Translation | None:
    """Row 17: Flux reports a failure with a reason that this version of konverge does not know."""
    return _failed_before_release(facts, "other_failure")


ROWS: Final[tuple[Row, ...]] = (
    release_missing,
    being_deleted,
    suspended,
    remediated,
    stalled,
    waiting_for_dependency,
    source_syncing,
    chart_unreachable,
    prerequisite_failed,
    retrying,
    not_the_wanted_version,
    drifted,
    rolling_out,
    health_check_canceled,
    looking_again,
    ready,
    other_failure,
)


def _without_reconciling_if_stalled(translation: Translation) -> Translation:
    """Stalled and Reconciling exclude each other (kstatus): a stalled release is not in progress, although Flux may retry."""
    return translation if translation.stalled is None else replace(translation, reconciling=_STABLE)


def _with_recheck(facts: ReleaseFacts, translation: Translation) -> Translation:
    """Set when the translation changes without an event: the end of a source's grace time, or a progress deadline."""
    moments = []
    source_failure, progress = facts.source_failure, no_progress(facts)
    if source_failure is not None and not source_failure.outlasted(facts.now, facts.grace):
        moments.append(facts.now + source_failure.grace_left(facts.now, facts.grace))
    if progress is not None and translation.row in {"rolling_out", "source_syncing"}:
        ends = {progress.since + facts.stuck_after, progress.since + progress.patience}
        moments += [end for end in ends if end > facts.now]
    return replace(translation, recheck=min(moments)) if moments else translation


def translate(facts: ReleaseFacts) -> Translation:
    """Return the translation of the first row that matches."""
    for row in ROWS:
        translation = row(facts)
        if translation is not None:
            return _with_recheck(facts, _without_reconciling_if_stalled(translation))
    raise AssertionError("the last row matches everything")
