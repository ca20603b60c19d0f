"""The decisions of a reconcile, in two pure steps with the applies between them.

`plan_apply` decides which children to apply: an instance that is invalid, denied, or needs kinds that the cluster lacks is Blocked, and
its children stay untouched. `request_annotations` and `plan_status` then decide whether to request a reconcile from Flux, and the status,
by the HelmRelease that the apply returned: the cached HelmRelease would still be Ready for the older spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from konverge.conditions import find_condition
from konverge.crds.apps_v1alpha1 import ApplicationInstance, ApplicationInstanceStatus, AppliedChart, HelmReleaseRef
from konverge.errors import ApiError, KonvergeError
from konverge.fields import digest
from konverge.kinds import kind_of
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.adoption import obstacles, on_conflict
from konverge.reconcilers.apps.observe import AppliedChildren, ObservedInstance, controls
from konverge.reconcilers.apps.origin import OriginReport, origin_of, with_origin
from konverge.reconcilers.apps.plans import Plan, plan_for
from konverge.reconcilers.apps.render import RenderedChildren, children_of, desired_release
from konverge.reconcilers.apps.report import ConditionReport, blocked, report, with_missing_values
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.validate import CheckInput, problem_of
from konverge.reconcilers.apps.words import Annotation, Blocked, Degraded, Flux, Ready, Reconciling, Stalled, Type
from konverge.reconcilers.shared.helm_release import values
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, ReleaseFacts, Translation
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease, FluxSource, since, time_of
from konverge.reconcilers.shared.helm_release.progress import no_progress
from konverge.reconcilers.shared.helm_release.redaction import without_values
from konverge.reconcilers.shared.helm_release.rollout import rollout_annotations
from konverge.reconcilers.shared.helm_release.sources import FluxSources
from konverge.reconcilers.shared.helm_release.translate import translate
from konverge.runtime import Child, Delete, Held

__all__ = [
    "Proceed",
    "StatusPlan",
    "plan_apply",
    "facts_of",
    "plan_status",
    "plan_refused",
    "request_annotations",
    "plan_yielding",
]

_SOONEST: Final = timedelta(seconds=1)
"""Times on the wire are whole seconds: a recheck sooner than that would be too early."""


# --- before the applies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proceed:
    """The children to apply, and the desired release to compare with Flux's status."""

    children: tuple[Child, ...]
    desired: DesiredRelease
    release: str
    """The name of the Helm release."""


def plan_apply(observed: ObservedInstance, settings: Settings, now: datetime) -> Plan | Proceed:
    """Return the children to apply, or the plan of an instance without anything to apply."""
    if observed.unserved:
        return _blocked(observed, Blocked.MISSING_DEPENDENCIES, messages.blocked_by_crds(observed.unserved), now)
    problem = problem_of(
        CheckInput(
            instance=observed.instance,
            settings=settings,
            release=observed.own_release,
            release_unknown=observed.release_unknown,
            namespace_labels=observed.namespace_labels,
        )
    )
    if problem is not None:
        return _blocked(observed, problem.reason, problem.message, now)
    if observed.instance.spec.mode != "managed":
        return _placeholder(observed, now)
    refusal = _foreign_child(observed)
    if refusal:
        return _blocked(observed, Blocked.POLICY_DENIED, refusal, now, RequeueAfter(settings.refused_retry))
    children = children_of(observed.instance, settings)
    if observed.release is not None and not controls(observed.instance.metadata, observed.release):
        why = "; ".join(obstacles(observed.release, children.release))
        if why:
            message = messages.not_adopted(observed.release.name, why)
            return _blocked(observed, Blocked.POLICY_DENIED, message, now, RequeueAfter(settings.refused_retry))
    return _proceed(observed, children)


def _proceed(observed: ObservedInstance, children: RenderedChildren) -> Proceed:
    """Hold fields that other managers own; only adoption takes an object by force, as a whole.

    An object that the cache does not show yet was not checked for obstacles, so it is not adopted.
    """
    adopt, owner = observed.instance.adopts, observed.instance.metadata
    token = observed.values.token if observed.values is not None else ""
    return Proceed(
        tuple(
            Child(child, on_conflict(owner, existing, adopt=adopt), adopt and existing is not None)
            for child, existing in ((children.source, observed.source), (children.release, observed.release))
        ),
        desired_release(observed.instance, children, token),
        children.release.get("spec", "releaseName"),
    )


def _foreign_child(observed: ObservedInstance) -> str:
    """Return the message about a release or source of the instance's name that another controller owns, "" without one."""
    for child in (observed.release, observed.source):
        if child is None or controls(observed.instance.metadata, child):
            continue
        controller = child.metadata.controller
        if controller is not None or not observed.instance.adopts:
            owner = f"{controller.kind} {controller.name}" if controller is not None else ""
            return messages.foreign(f"{child.kind_name} {child.name}", owner)
    return ""


def _blocked(
    observed: ObservedInstance, reason: str, message: str, now: datetime, outcome: Outcome | None = None
) -> Plan:
    """Return the plan of a blocked instance; it requeues if no watch event unblocks the instance (a foreign object, a refusal)."""
    return plan_for(observed.instance, blocked(reason, message), now, outcome=outcome or Done())


def _placeholder(observed: ObservedInstance, now: datetime) -> Plan:
    """Return the plan of a placeholder, which has no release; sources that an earlier mode left behind are deleted."""
    report = ConditionReport(
        {
            Type.READY: ConditionValue(True, Ready.PLACEHOLDER),
            Type.RECONCILING: ConditionValue(False, Reconciling.STABLE),
            Type.BLOCKED: ConditionValue(False, Blocked.UNBLOCKED),
        },
        (Type.DEGRADED, Type.SUSPENDED, Type.DELETING, Type.STALLED),
    )
    deletes = tuple(
        Delete(kind_of(source), source.name, source.namespace, uid=source.metadata.uid)
        for source in observed.unused_sources
    )
    draft = ApplicationInstanceStatus(helm_release_ref=None, last_applied_chart=None)
    return plan_for(observed.instance, report, now, draft=draft, deletes=deletes)


def plan_yielding(observed: ObservedInstance, release: str, keeper: str, now: datetime, retry: timedelta) -> Plan:
    """Return the plan of an instance whose Helm release belongs to another instance."""
    report = blocked(Blocked.POLICY_DENIED, messages.release_taken(release, keeper))
    draft = ApplicationInstanceStatus(helm_release_ref=None)
    return plan_for(observed.instance, report, now, draft=draft, outcome=RequeueAfter(retry))


def plan_refused(observed: ObservedInstance, error: KonvergeError, now: datetime, retry: timedelta) -> Plan:
    """Return the plan after a child was refused by the API server, or for an owner that the cache did not show."""
    reason = Blocked.VALIDATION_FAILED if isinstance(error, ApiError) else Blocked.POLICY_DENIED
    return _blocked(observed, reason, without_values(str(error)), now, RequeueAfter(retry))


# --- after the applies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatusPlan:
    """Annotations to record on the HelmRelease, and the plan for the status; `row` is the matched row of the translation."""

    row: str
    annotations: Mapping[str, str]
    plan: Plan


def facts_of(
    observed: ObservedInstance, desired: DesiredRelease, applied: AppliedChildren, settings: Settings, now: datetime
) -> ReleaseFacts:
    """Return the input of the translation."""
    return ReleaseFacts(
        release=None if applied.release is None else FluxRelease.of(applied.release),
        sources=FluxSources(
            oci=desired.oci,
            chart=None if applied.chart is None else FluxSource.of(applied.chart),
            repository=None if applied.source is None else FluxSource.of(applied.source),
        ),
        desired=desired,
        values=observed.values,
        first=observed.instance.status.last_applied_chart is None,
        held=bool(applied.held),
        waiting_since=_waiting_since(observed.instance, settings.stuck_after, now),
        now=now,
        grace=settings.source_grace,
        stuck_after=settings.stuck_after,
    )


def _waiting_since(instance: ApplicationInstance, stuck_after: timedelta, now: datetime) -> datetime:
    """Return since when the conditions of a rollout have not changed: `lastReconcileTime` moves with every change of the status.

    Stalled stays until Flux makes progress or the spec changes.
    """
    generation = instance.generation
    stalled, reconciling = (find_condition(instance.conditions, type_) for type_ in (Type.STALLED, Type.RECONCILING))
    if stalled is not None and stalled.reason == Stalled.PROGRESS_DEADLINE_EXCEEDED:
        since_stalled = since(stalled)
        if stalled.observed_generation == generation and since_stalled is not None:
            return since_stalled - stuck_after
    if reconciling is None or not reconciling.is_true or reconciling.observed_generation != generation:
        return now
    return min(time_of(instance.status.last_reconcile_time) or now, now)


def request_annotations(facts: ReleaseFacts, applied: AppliedChildren) -> Mapping[str, str]:
    """Return annotations that request a reconcile from Flux: for new values, or after a rollout without progress."""
    release = facts.release
    if release is None or applied.release is None or release.deleting:
        return {}
    recorded = applied.release.metadata.annotation(Annotation.VALUES_TOKEN)
    fresh = applied.created and release.unreported
    requested = values.request_annotations(facts.values, None if fresh else release, recorded)
    return requested or _request_after_no_progress(facts)


def _request_after_no_progress(facts: ReleaseFacts) -> Mapping[str, str]:
    """Request a reconcile once for each stall: the token is derived from the release and its intent."""
    release, progress = facts.release, no_progress(facts)
    if release is None or progress is None or progress.lasts(facts.now) < facts.stuck_after or release.unreported:
        return {}
    about = str(progress.since) if progress.hung else facts.desired.intent
    token = f"nudge-{digest([release.generation, about])}"
    return {} if token in (release.requested, release.handled) else {Flux.REQUESTED_AT: token}


def plan_status(observed: ObservedInstance, facts: ReleaseFacts, applied: AppliedChildren) -> StatusPlan:
    """Return the status of the instance, and the annotations that record a finished rollout."""
    instance = observed.instance
    origin = _origin(instance, facts, applied)
    translation = with_origin(with_missing_values(translate(facts), facts.values), origin)
    conditions = report(translation, instance.conditions)
    if applied.held:
        conditions = _with_held_fields(conditions, applied.held)
    draft = ApplicationInstanceStatus(helm_release_ref=_reference(instance))
    if translation.rolled_out and not origin.warning:
        draft.last_applied_chart = _chart(instance)
    return StatusPlan(
        translation.row,
        _records(facts, translation, origin, instance.generation, applied),
        plan_for(instance, conditions, facts.now, draft=draft, outcome=_outcome(translation, facts.now)),
    )


def _origin(instance: ApplicationInstance, facts: ReleaseFacts, applied: AppliedChildren) -> OriginReport:
    """Return the origin of the chart that runs; unknown while an apply is held, since the stored source is not the desired source."""
    if applied.held:
        return OriginReport()
    last = instance.status.last_applied_chart
    former = "" if last is None else last.url
    return origin_of(applied.release, applied.source, applied.chart, oci=facts.desired.oci, former=former)


def _records(
    facts: ReleaseFacts, translation: Translation, origin: OriginReport, generation: int, applied: AppliedChildren
) -> Mapping[str, str]:
    """Return the annotations that record a finished rollout; empty if the release has them already."""
    records = dict(rollout_annotations(facts, translation, generation))
    if translation.rolled_out and applied.release is not None:
        present = applied.release.metadata.annotation
        records |= {name: text for name, text in origin.annotations.items() if present(name) != text}
    return records


def _with_held_fields(report: ConditionReport, held: Sequence[Held]) -> ConditionReport:
    """Report fields that other managers own as drift; Reconciling is False, because nothing acts on them."""
    message = "; ".join(
        messages.held_fields(f"{entry.key.kind.kind} {entry.key.name}", entry.conflicts) for entry in held
    )
    drift = {
        Type.DEGRADED: ConditionValue(True, Degraded.DRIFTED, message),
        Type.RECONCILING: ConditionValue(False, Reconciling.STABLE),
    }
    return replace(report, conditions={**report.conditions, **drift})


def _reference(instance: ApplicationInstance) -> HelmReleaseRef:
    return HelmReleaseRef(name=instance.name, namespace=instance.namespace)


def _chart(instance: ApplicationInstance) -> AppliedChart | None:
    chart = instance.spec.chart
    if chart is None:
        return None
    return AppliedChart(source_type=chart.source_type, url=chart.url, name=chart.name, version=chart.version)


def _outcome(translation: Translation, now: datetime) -> Outcome:
    return Done() if translation.recheck is None else RequeueAfter(max(translation.recheck - now, _SOONEST))
