"""What a pass decides, in two pure steps with the applies between them.

`begin` decides whether there is anything to apply: an instance that is invalid, denied, or asks for kinds that the cluster lacks
is Blocked, and its children stay untouched. `requests` and then `judge` decide what Flux is asked for and what the instance says,
by the HelmRelease as this very pass's apply returned it: the cache's copy would still be Ready for the older spec.
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
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps import messages, values
from konverge.reconcilers.apps.adoption import hindrances, on_conflict
from konverge.reconcilers.apps.causes import without_values
from konverge.reconcilers.apps.freshness import Release, Source, Wanted, since, time_of
from konverge.reconcilers.apps.observe import Seen, ours
from konverge.reconcilers.apps.plans import Plan, plan_for
from konverge.reconcilers.apps.render import Children, children_of, wanted
from konverge.reconcilers.apps.report import Report, blocked, report, with_values
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.silence import silence
from konverge.reconcilers.apps.sources import Sources
from konverge.reconcilers.apps.translate import translate
from konverge.reconcilers.apps.validate import Subject, problem_of
from konverge.reconcilers.apps.verdict import Facts, Say, Verdict
from konverge.reconcilers.apps.words import Annotation, Blocked, Degraded, Flux, Ready, Reconciling, Stalled, Type
from konverge.runtime import Child, Delete, Held

__all__ = ["Go", "Judgement", "Landed", "begin", "facts", "judge", "refused", "requests", "yielding"]

_SOONEST: Final = timedelta(seconds=1)
"""Times on the wire are whole seconds: a recheck sooner than that would come too early."""


# --- before the applies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing stands in the way: what to apply, and what Flux's reports will be compared with."""

    children: tuple[Child, ...]
    wanted: Wanted
    release: str
    """The name of the Helm release."""


def begin(seen: Seen, settings: Settings, now: datetime) -> Plan | Go:
    """Return what to apply, or the plan of an instance for which nothing is applied."""
    if seen.unserved:
        return _blocked(seen, Blocked.MISSING_DEPENDENCIES, messages.blocked_by_crds(seen.unserved), now)
    problem = problem_of(
        Subject(
            instance=seen.instance,
            settings=settings,
            release=seen.own_release,
            release_unknown=seen.release_unknown,
            namespace_labels=seen.namespace_labels,
        )
    )
    if problem is not None:
        return _blocked(seen, problem.reason, problem.message, now)
    if seen.instance.spec.mode != "managed":
        return _placeholder(seen, now)
    stranger = _stranger(seen)
    if stranger:
        return _blocked(seen, Blocked.POLICY_DENIED, stranger, now, RequeueAfter(settings.refused_retry))
    children = children_of(seen.instance, settings)
    if seen.release is not None and not ours(seen.instance.metadata, seen.release):
        why = "; ".join(hindrances(seen.release, children.release))
        if why:
            says = messages.not_adopted(seen.release.name, why)
            return _blocked(seen, Blocked.POLICY_DENIED, says, now, RequeueAfter(settings.refused_retry))
    return _go(seen, children)


def _go(seen: Seen, children: Children) -> Go:
    """Fields that others changed are held, never taken back by force; only an object that is taken over is taken whole.

    What the cache does not show yet was not looked at for hindrances, so it is not adopted.
    """
    adopt, owner = seen.instance.adopts, seen.instance.metadata
    token = seen.values.token if seen.values is not None else ""
    return Go(
        tuple(
            Child(child, on_conflict(owner, existing, adopt=adopt), adopt and existing is not None)
            for child, existing in ((children.source, seen.source), (children.release, seen.release))
        ),
        wanted(seen.instance, children, token),
        children.release.get("spec", "releaseName"),
    )


def _stranger(seen: Seen) -> str:
    """What to say about a release or source of the instance's name that is somebody else's, "" where there is none."""
    for child in (seen.release, seen.source):
        if child is None or ours(seen.instance.metadata, child):
            continue
        controller = child.metadata.controller
        if controller is not None or not seen.instance.adopts:
            owner = f"{controller.kind} {controller.name}" if controller is not None else ""
            return messages.foreign(f"{child.kind_name} {child.name}", owner)
    return ""


def _blocked(seen: Seen, reason: str, message: str, now: datetime, outcome: Outcome | None = None) -> Plan:
    """Nobody tells when a stranger's object goes, or what made the server refuse: such plans come with a time to look again."""
    return plan_for(seen.instance, blocked(reason, message), now, outcome=outcome or Done())


def _placeholder(seen: Seen, now: datetime) -> Plan:
    """A target for operations on a cluster, without any release. Sources that an earlier mode left behind go."""
    says = Report(
        {
            Type.READY: Say(True, Ready.PLACEHOLDER),
            Type.RECONCILING: Say(False, Reconciling.STABLE),
            Type.BLOCKED: Say(False, Blocked.UNBLOCKED),
        },
        (Type.DEGRADED, Type.SUSPENDED, Type.DELETING, Type.STALLED),
    )
    deletes = tuple(
        Delete(kind_of(stray), stray.name, stray.namespace, uid=stray.metadata.uid) for stray in seen.strays
    )
    draft = ApplicationInstanceStatus(helm_release_ref=None, last_applied_chart=None)
    return plan_for(seen.instance, says, now, draft=draft, deletes=deletes)


def yielding(seen: Seen, release: str, keeper: str, now: datetime, retry: timedelta) -> Plan:
    """Return the plan of an instance whose Helm release another one keeps."""
    says = blocked(Blocked.POLICY_DENIED, messages.release_taken(release, keeper))
    draft = ApplicationInstanceStatus(helm_release_ref=None)
    return plan_for(seen.instance, says, now, draft=draft, outcome=RequeueAfter(retry))


def refused(seen: Seen, error: KonvergeError, now: datetime, retry: timedelta) -> Plan:
    """Return the plan after the API server, or an owner that the cache did not show, refused a child."""
    reason = Blocked.VALIDATION_FAILED if isinstance(error, ApiError) else Blocked.POLICY_DENIED
    return _blocked(seen, reason, without_values(str(error)), now, RequeueAfter(retry))


# --- after the applies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The children after the applies of this pass; `made` tells that this pass created the release."""

    release: Object | None
    source: Object | None
    chart: Object | None
    held: tuple[Held, ...] = ()
    made: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a pass ends: annotations to note on the HelmRelease, and the plan for the status. `row` is the translation's."""

    row: str
    note: Mapping[str, str]
    plan: Plan


def facts(seen: Seen, asked: Wanted, landed: Landed, settings: Settings, now: datetime) -> Facts:
    """Return what the translation looks at."""
    return Facts(
        release=None if landed.release is None else Release.of(landed.release),
        sources=Sources(
            oci=asked.oci,
            chart=None if landed.chart is None else Source.of(landed.chart),
            repository=None if landed.source is None else Source.of(landed.source),
        ),
        wanted=asked,
        values=seen.values,
        first=seen.instance.status.last_applied_chart is None,
        held=bool(landed.held),
        waiting_since=_waiting_since(seen.instance, settings.stuck_after, now),
        now=now,
        grace=settings.source_grace,
        stuck_after=settings.stuck_after,
    )


def _waiting_since(instance: ApplicationInstance, stuck_after: timedelta, now: datetime) -> datetime:
    """Return since when the instance has said the same about a rollout; the status changes with any news, and its time with it.

    Once it said Stalled, that stands until Flux moves or the spec changes.
    """
    generation = instance.generation
    stalled, moving = (find_condition(instance.conditions, type_) for type_ in (Type.STALLED, Type.RECONCILING))
    if stalled is not None and stalled.reason == Stalled.PROGRESS_DEADLINE_EXCEEDED:
        told = since(stalled)
        if stalled.observed_generation == generation and told is not None:
            return told - stuck_after
    if moving is None or not moving.is_true or moving.observed_generation != generation:
        return now
    return min(time_of(instance.status.last_reconcile_time) or now, now)


def requests(known: Facts, landed: Landed) -> Mapping[str, str]:
    """Return annotations that ask Flux for a reconcile: new values, or a release about which it has fallen silent."""
    release = known.release
    if release is None or landed.release is None or release.deleting:
        return {}
    recorded = landed.release.metadata.annotation(Annotation.VALUES_TOKEN)
    fresh = landed.made and release.silent
    asked = values.requests(known.values, None if fresh else release, recorded)
    return asked or _nudge(known)


def _nudge(known: Facts) -> Mapping[str, str]:
    """Ask once for each silence: the token is made of what the silence is about."""
    release, quiet = known.release, silence(known)
    if release is None or quiet is None or quiet.lasts(known.now) < known.stuck_after or release.silent:
        return {}
    about = str(quiet.since) if quiet.hung else known.wanted.intent
    token = f"nudge-{digest([release.generation, about])}"
    return {} if token in (release.requested, release.handled) else {Flux.REQUESTED_AT: token}


def judge(seen: Seen, known: Facts, landed: Landed) -> Judgement:
    """Return how the pass ends."""
    instance = seen.instance
    verdict = with_values(translate(known), known.values)
    says = report(verdict, instance.conditions)
    if landed.held:
        says = _held(says, landed.held)
    draft = ApplicationInstanceStatus(helm_release_ref=_reference(instance))
    if verdict.rolled_out:
        draft.last_applied_chart = _chart(instance)
    return Judgement(
        verdict.row,
        _note(instance, known, verdict),
        plan_for(instance, says, known.now, draft=draft, outcome=_outcome(verdict, known.now)),
    )


def _held(says: Report, held: Sequence[Held]) -> Report:
    """Fields of ours are others': said as drift, and nothing is at work on it."""
    message = "; ".join(messages.conflict(f"{entry.key.kind.kind} {entry.key.name}", entry.conflicts) for entry in held)
    drift = {
        Type.DEGRADED: Say(True, Degraded.DRIFTED, message),
        Type.RECONCILING: Say(False, Reconciling.STABLE),
    }
    return replace(says, says={**says.says, **drift})


def _note(instance: ApplicationInstance, known: Facts, verdict: Verdict) -> Mapping[str, str]:
    """Return what to note about an intent that was rolled out; empty where it stands there already."""
    release = known.release
    if release is None or not verdict.rolled_out:
        return {}
    repository = known.sources.repository
    note = {
        Annotation.INTENT_HASH: known.wanted.intent,
        Annotation.APPLIED_GENERATION: str(instance.generation),
        Annotation.APPLIED_SOURCE: f"{known.wanted.source}@{repository.mark}" if repository is not None else "",
    }
    noted = {
        Annotation.INTENT_HASH: release.settled_intent,
        Annotation.APPLIED_GENERATION: release.settled_generation,
        Annotation.APPLIED_SOURCE: release.settled_source,
    }
    if known.held:  # the source may be others' by now; what was rolled out before stands
        del note[Annotation.APPLIED_SOURCE], noted[Annotation.APPLIED_SOURCE]
    return {} if note == noted else note


def _reference(instance: ApplicationInstance) -> HelmReleaseRef:
    return HelmReleaseRef(name=instance.name, namespace=instance.namespace)


def _chart(instance: ApplicationInstance) -> AppliedChart | None:
    chart = instance.spec.chart
    if chart is None:
        return None
    return AppliedChart(source_type=chart.source_type, url=chart.url, name=chart.name, version=chart.version)


def _outcome(verdict: Verdict, now: datetime) -> Outcome:
    return Done() if verdict.recheck is None else RequeueAfter(max(verdict.recheck - now, _SOONEST))
