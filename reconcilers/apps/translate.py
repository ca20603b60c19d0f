"""From what Flux reports to what an ApplicationInstance says: the first row that matches wins (docs/reference/apps.md#translation).

Promises: pure; every HelmRelease matches a row. Each row is a function named by what it recognises, in the order of `ROWS`; its docstring
gives the row's number in the reference.

Why the order is what it is: Flux's conditions contradict each other on the way. Ready is True for the old generation right after an
apply; Ready flips to Unknown in every retry of a failing release while Released keeps the failure; a rollback ends in Ready=False although
the old version runs; a missing OCI tag is seen by nobody but the OCIRepository.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.causes import told, without_queries
from konverge.reconcilers.apps.freshness import Release
from konverge.reconcilers.apps.silence import silence
from konverge.reconcilers.apps.verdict import Facts, Say, Verdict
from konverge.reconcilers.apps.words import Degraded, Flux, Ready, Reconciling, Suspended

__all__ = ["ROWS", "translate"]

Row: TypeAlias = Callable[[Facts], Verdict | None]

_STABLE: Final = Say(False, Reconciling.STABLE)


def _rolling_out(facts: Facts) -> Say:
    say = messages.held_back if facts.held_back else messages.rolling_out
    return Say(False, facts.phase, say(facts.wanted.version))


def _moving(facts: Facts) -> Say:
    return _STABLE if facts.held_back else Say(True, facts.motion, messages.rolling_out(facts.wanted.version))


def _forsaken(facts: Facts) -> Say | None:
    quiet = silence(facts)
    return None if quiet is None else quiet.stalls(facts.now)


def _upstream_motion(facts: Facts) -> Say:
    return Say(True, Reconciling.RETRYING) if facts.reconciling else _STABLE


def _upstream_stall(facts: Facts) -> Say | None:
    stalled = facts.outcome(Flux.STALLED)
    return Say(True, stalled.reason, told(stalled)) if stalled is not None and stalled.is_true else None


def release_missing(facts: Facts) -> Verdict | None:
    """Row 1: there is no HelmRelease."""
    if facts.release is not None:
        return None
    return Verdict(
        row="release_missing",
        ready=Say(False, Ready.HELM_RELEASE_MISSING, "there is no HelmRelease; it is applied again"),
        reconciling=Say(True, Reconciling.HELM_RELEASE_INSTALLING),
    )


def being_deleted(facts: Facts) -> Verdict | None:
    """Row 2: the HelmRelease is under deletion, by us or by hand."""
    if facts.release is None or not facts.release.deleting:
        return None
    failure = facts.release.find(Flux.RELEASED)
    stuck = failure is not None and failure.is_false and failure.reason == Flux.UNINSTALL_FAILED
    return Verdict(
        row="being_deleted",
        ready=Say(False, Ready.DELETING, messages.dying_release()),
        reconciling=Say(True, Reconciling.UNINSTALLING),
        degraded=Say(True, Degraded.HELM_RELEASE_DEGRADED, messages.failed(failure)) if stuck else None,
    )


def suspended(facts: Facts) -> Verdict | None:
    """Row 3: somebody suspended the HelmRelease. Its generation moves, what runs does not."""
    if facts.release is None or not facts.release.suspended:
        return None
    waiting = facts.release.settled_intent != facts.wanted.intent
    message = messages.suspended(waiting=waiting)
    return Verdict(
        row="suspended",
        ready=Say(None, Ready.RECONCILING, message) if waiting else _as_flux_left_it(facts, facts.release, message),
        reconciling=_STABLE,
        suspended=Say(True, Suspended.MANUALLY_SUSPENDED, message),
    )


def _as_flux_left_it(facts: Facts, release: Release, message: str) -> Say:
    """How the intent that runs fared when Flux last looked: suspending moves the generation, so no condition counts any more."""
    before = release.ready_before
    if before is not None and before.is_true and release.deployed(facts.wanted):
        return _is_ready(facts)
    if before is not None and before.is_false:
        return Say(False, Ready.HELM_RELEASE_FAILED, messages.failed(before))
    return Say(None, Ready.RECONCILING, message)


def remediated(facts: Facts) -> Verdict | None:
    """Row 4: a failed release was rolled back or uninstalled. The failure stays: what was asked for does not run."""
    remedy = facts.outcome(Flux.REMEDIATED)
    if remedy is None:
        return None
    failure = facts.outcome(Flux.RELEASED)
    message = messages.remediated(failure if failure is not None and failure.is_false else None, remedy)
    return Verdict(
        row="remediated",
        ready=Say(False, Ready.ROLLED_BACK if remedy.is_true else Ready.REMEDIATION_FAILED, message),
        reconciling=_upstream_motion(facts),
        degraded=Say(True, Degraded.HELM_RELEASE_FAILED, message),
        stalled=_upstream_stall(facts),
    )


def stalled(facts: Facts) -> Verdict | None:
    """Row 5: Flux gave up."""
    if not facts.current or not facts.outcome_is(Flux.STALLED, "True"):
        return None
    message = messages.failed(facts.failure)
    return Verdict(
        row="stalled",
        ready=Say(False, Ready.HELM_RELEASE_FAILED, message),
        reconciling=_STABLE,
        degraded=Say(True, Degraded.HELM_RELEASE_FAILED, message),
        stalled=_upstream_stall(facts),
    )


def waiting_for_dependency(facts: Facts) -> Verdict | None:
    """Row 6: a release that this one depends on is not ready."""
    if not facts.ready_is("False", Flux.DEPENDENCY_NOT_READY):
        return None
    message = told(facts.ready) if facts.ready else ""
    return Verdict(
        row="waiting_for_dependency",
        ready=Say(False, Ready.WAITING_FOR_DEPENDENCY, message),
        reconciling=_moving(facts),
    )


def source_syncing(facts: Facts) -> Verdict | None:
    """Row 7: the chart is not there yet, or not yet from where the spec says, and nothing is wrong with that so far."""
    trouble = facts.trouble
    if not (facts.waits_for_source or facts.source_behind):
        return None
    if trouble is not None and trouble.lasted(facts.now, facts.grace):
        return None
    if trouble is not None:
        message = trouble.message
    else:
        message = messages.source_behind() if facts.source_behind else ""
    return Verdict(
        row="source_syncing",
        ready=_rolling_out(facts),
        reconciling=Say(True, Reconciling.CHART_SOURCE_SYNCING, message),
        stalled=_forsaken(facts),
    )


def chart_unreachable(facts: Facts) -> Verdict | None:
    """Row 8: the source has been failing for longer than the grace time; also while a release from elsewhere runs on."""
    trouble = facts.trouble
    if trouble is None or not trouble.lasted(facts.now, facts.grace):
        return None
    return Verdict(
        row="chart_unreachable",
        ready=Say(False, Ready.CHART_UNREACHABLE, trouble.message),
        reconciling=Say(True, Reconciling.CHART_SOURCE_SYNCING, trouble.message),
        degraded=Say(True, Degraded.CHART_UNREACHABLE, trouble.message),
        stalled=Say(True, trouble.stalled.reason, without_queries(trouble.stalled.message))
        if trouble.stalled
        else None,
    )


def _failed_before_release(facts: Facts, row: str) -> Verdict:
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
        message = told(ready) if ready is not None else ""
    return Verdict(
        row=row,
        ready=Say(False, reason, message),
        reconciling=_moving(facts),
        degraded=Say(True, Degraded.HELM_RELEASE_FAILED, message),
    )


def prerequisite_failed(facts: Facts) -> Verdict | None:
    """Row 9: something other than the chart stands in the way: values, access, a broken reference."""
    return (
        _failed_before_release(facts, "prerequisite_failed")
        if facts.ready_is("False", *Flux.PREREQUISITE_ERRORS)
        else None
    )


def retrying(facts: Facts) -> Verdict | None:
    """Row 10: the release failed and Flux tries again. Ready flips in each attempt, what went wrong does not."""
    failed = (
        facts.outcome_is(Flux.RELEASED, "False", Flux.INSTALL_FAILED, Flux.UPGRADE_FAILED)
        or facts.outcome_is(Flux.TEST_SUCCESS, "False", Flux.TEST_FAILED)
        or facts.outcome_is(Flux.READY, "False", Flux.TEST_FAILED)
    )
    if not failed or not facts.reconciling:
        return None
    test = facts.outcome(Flux.TEST_SUCCESS)
    message = messages.failed(test if test is not None and test.is_false else facts.failure)
    return Verdict(
        row="retrying",
        ready=Say(False, Ready.HELM_RELEASE_FAILED, message),
        reconciling=Say(True, Reconciling.RETRYING),
        degraded=Say(True, Degraded.HELM_RELEASE_FAILED, message),
    )


def not_the_wanted_version(facts: Facts) -> Verdict | None:
    """Row 11: Flux is content, but with another version (oci: nothing on the release tells), or its history lags behind."""
    if not facts.current or not facts.ready_is("True") or facts.deployed:
        return None
    return Verdict(row="not_the_wanted_version", ready=_rolling_out(facts), reconciling=_moving(facts))


def drifted(facts: Facts) -> Verdict | None:
    """Row 12: somebody changed what the chart made. Flux corrects it, or only tells; we only tell."""
    if not facts.current or not facts.outcome_is(Flux.DRIFTED, "True"):
        return None
    found = facts.outcome(Flux.DRIFTED)
    runs = facts.ready_is("True") and not facts.reconciling
    return Verdict(
        row="drifted",
        ready=_is_ready(facts) if runs else None,
        reconciling=Say(True, Reconciling.HELM_RELEASE_UPGRADING) if facts.reconciling else _STABLE,
        degraded=Say(True, Degraded.DRIFTED, found.message if found is not None else ""),
        rolled_out=runs,
    )


def rolling_out(facts: Facts) -> Verdict | None:
    """Row 13: Flux has not judged the present intent yet."""
    if facts.current and facts.ready is not None and facts.ready.status != "Unknown":
        return None
    failed = facts.outcome_is(Flux.RELEASED, "False", Flux.INSTALL_FAILED, Flux.UPGRADE_FAILED)
    return Verdict(
        row="rolling_out",
        ready=_rolling_out(facts),
        reconciling=_moving(facts),
        degraded=Say(True, Degraded.HELM_RELEASE_FAILED, messages.failed(facts.failure)) if failed else None,
        stalled=_forsaken(facts),
    )


def health_check_canceled(facts: Facts) -> Verdict | None:
    """Row 14: Flux broke off waiting because something newer came."""
    if not facts.ready_is("False", Flux.HEALTH_CHECK_CANCELED):
        return None
    return Verdict(
        row="health_check_canceled",
        ready=Say(False, Ready.UPGRADING, messages.rolling_out(facts.wanted.version)),
        reconciling=Say(True, Reconciling.HELM_RELEASE_UPGRADING),
    )


def looking_again(facts: Facts) -> Verdict | None:
    """Row 15: all is well and Flux looks whether it still is; or it is about to say that it is done."""
    return Verdict(row="looking_again") if facts.current and facts.ready_is("True") and facts.reconciling else None


def _is_ready(facts: Facts) -> Say:
    return Say(True, Ready.HELM_RELEASE_READY, f"version {facts.wanted.version} is deployed")


def ready(facts: Facts) -> Verdict | None:
    """Row 16: the wanted version is deployed and Flux is at rest."""
    if not facts.current or not facts.ready_is("True"):
        return None
    return Verdict(
        row="ready",
        ready=_is_ready(facts),
        reconciling=_STABLE,
        degraded=Say(False, Degraded.RECOVERED),
        rolled_out=True,
    )


def other_failure(facts: Facts) -> Verdict | None:
    """Row 17: Flux says no in words that this version does not know."""
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


def _one_of_two(verdict: Verdict) -> Verdict:
    """Stalled and Reconciling exclude each other (kstatus): what does not move is not in progress, though Flux may yet try again."""
    return verdict if verdict.stalled is None else replace(verdict, reconciling=_STABLE)


def _recheck(facts: Facts, verdict: Verdict) -> Verdict:
    """Note when time alone will change the verdict: the grace time of a source ends, or patience with a silent Flux."""
    moments = []
    trouble, quiet = facts.trouble, silence(facts)
    if trouble is not None and not trouble.lasted(facts.now, facts.grace):
        moments.append(facts.now + trouble.rest(facts.now, facts.grace))
    if quiet is not None and verdict.row in {"rolling_out", "source_syncing"}:
        ends = {quiet.since + facts.stuck_after, quiet.since + quiet.patience}
        moments += [end for end in ends if end > facts.now]
    return replace(verdict, recheck=min(moments)) if moments else verdict


def translate(facts: Facts) -> Verdict:
    """Return the verdict of the first row that matches."""
    for row in ROWS:
        verdict = row(facts)
        if verdict is not None:
            return _recheck(facts, _one_of_two(verdict))
    raise AssertionError("the last row matches everything")
