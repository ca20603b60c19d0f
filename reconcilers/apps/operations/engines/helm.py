"""The engine `helm`: edits the spec of the ApplicationInstance, and waits until its release runs the edited spec.

The instance has one desired state, its spec. The edit is one merge patch, so the version and values of the Operation stay, and the
instance reconciler rolls them out (docs/adr/0013-an-upgrade-is-one-merge-patch-of-the-instance.md).

Helm cannot be stopped, and a release may never settle: Flux retries a chart that it cannot fetch for ever. So an Operation that has to stop
waits only for an action of Helm that has begun, no longer than that action may take, and ends. The edit stays, and the end reports that: an
undo would be a second rollout that the user did not request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.crds.durations import parse_duration
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    Edit,
    EngineBlocked,
    EngineRequest,
    EngineState,
    ObjectKey,
    ObjectRef,
    Observation,
    Refused,
    WaitForEnd,
    object_lost,
)
from konverge.reconcilers.apps.operations.engines.parameters import BadParameter, Parameters
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.words import (
    BlockedReason,
    CancelledReason,
    FailedReason,
    RunningReason,
    SucceededReason,
)
from konverge.reconcilers.apps.words import Blocked as InstanceBlocked
from konverge.reconcilers.apps.words import Flux, Ready
from konverge.reconcilers.apps.words import Type as InstanceCondition
from konverge.reconcilers.shared.helm_release.freshness import FluxRelease, since

__all__ = ["HelmEngine"]

_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")
_ACTION: Final = re.compile(r"Running '(?P<action>[a-z]+)' action with timeout of (?P<timeout>\S+)")
"""How helm-controller reports an action that it has begun (the recordings of Flux)."""
_KNOWN: Final = ("targetVersion", "valuesPatch", "exclusive")
"""The parameters of an upgrade."""
_ATTEMPTS: Final = frozenset({"install", "upgrade"})
_LATE: Final = timedelta(minutes=1)
"""How long the end of an action, or its report by the instance, may be overdue: then its controller may be down."""
_LONGEST: Final = timedelta(days=1)
"""The longest plausible timeout of an action: another controller wrote the text."""
_GAVE_UP: Final = frozenset({Ready.HELM_RELEASE_FAILED, Ready.ROLLED_BACK, Ready.REMEDIATION_FAILED})


def _instance(request: EngineRequest) -> ObjectRef:
    return ObjectRef(INSTANCE, request.target.namespace, request.target.name)


def _release(request: EngineRequest) -> ObjectRef:
    return ObjectRef(HELM_RELEASE, request.target.namespace, request.target.name)


class HelmEngine:
    """Upgrades of the chart's version, of values, or of both.

    >>> HelmEngine().name
    'helm'
    """

    name = "helm"
    makes: tuple[Kind[Object], ...] = (INSTANCE,)
    reads: tuple[Kind[Object], ...] = (HELM_RELEASE,)
    gets: tuple[Kind[Object], ...] = ()

    def kind(self, _request: EngineRequest) -> Kind[Object]:
        """Return ApplicationInstance."""
        return INSTANCE

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return the place of the target."""
        return ObjectKey(request.operation.namespace, request.target.name)

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the instance and its release."""
        return (_instance(request), _release(request))

    def render(self, request: EngineRequest) -> Edit | Refused | EngineBlocked:
        """Return the patch of the instance."""
        try:
            parameters = Parameters(request.parameters, known=_KNOWN)
            parameters.switch("exclusive")
            version, values = parameters.text("targetVersion"), parameters.mapping("valuesPatch")
        except BadParameter as error:
            return Refused(str(error))
        if not version and not values:
            return Refused("parameters.targetVersion or parameters.valuesPatch is needed; write one of them or both")
        if version and _VERSION.fullmatch(version) is None:
            return Refused("parameters.targetVersion is not one exact version; write one, for instance 1.2.3")
        instance = request.related.find(_instance(request))
        if instance is None:
            return EngineBlocked(
                BlockedReason.TARGET_NOT_READY, f"ApplicationInstance {request.target.name} is missing"
            )
        spec: Mapping[str, Any] = instance.get("spec") or {}
        if spec.get("mode") == "placeholder" or not spec.get("chart"):
            return Refused(f"ApplicationInstance {request.target.name} is a placeholder and has no release to upgrade")
        if values and (spec.get("values") or {}).get("source") != "inline":
            return Refused(
                "parameters.valuesPatch needs inline values; change the Secret or ConfigMap of the instance instead"
            )
        before = str(spec["chart"].get("version", ""))
        patch: dict[str, Any] = {}
        if version:
            patch["chart"] = {"version": version}
        if values:
            patch["values"] = {"inline": values}
        return Edit(
            INSTANCE,
            request.target.namespace,
            request.target.name,
            {"spec": patch},
            outputs={"fromVersion": before, "toVersion": version or before},
        )

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,  # noqa: ARG002  # of the interface
        now: datetime,
    ) -> Observation:
        """Return the state of the rollout; an Operation that has to stop, and has not ended, is over if Helm does not act."""
        seen = self._rollout(request, Object(dict(child)))
        if not asked_to_cancel or seen.state.final:
            return seen
        left = _left(request, now)
        return _let_go(request, seen) if left is None else replace(seen, recheck_after=left)

    def _rollout(self, request: EngineRequest, instance: Object) -> Observation:
        """Return the state of the rollout, from the conditions of the instance that are about the edited spec."""
        if instance.metadata.deleting:
            return _failed(FailedReason.ENGINE_FAILED, "the ApplicationInstance is being deleted")
        if instance.metadata.generation < (
            request.generation or 0
        ):  # the cache of a new process may lag behind the edit
            return Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, "the spec was edited")
        undone = _undone(request, instance)
        if undone:
            return _failed(FailedReason.SPEC_CHANGED, f"{undone} was changed again before the release reached it")
        generation = request.generation or 1
        conditions = {
            condition.type: condition
            for condition in instance.conditions
            if (condition.observed_generation or 0) >= generation
        }
        ready, blocked = conditions.get(InstanceCondition.READY), conditions.get(InstanceCondition.BLOCKED)
        if blocked is not None and blocked.is_true:
            if blocked.reason == InstanceBlocked.MISSING_DEPENDENCIES:
                waits = EngineBlocked(BlockedReason.DEPENDENCY_MISSING, blocked.message)
                return Observation(
                    EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, blocked.message, blocked=waits
                )
            return _failed(blocked.reason, blocked.message)
        if ready is None or ready.reason == Ready.RECONCILING:
            message = "the spec was edited" if ready is None or not ready.message else ready.message
            return Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, message)
        working = conditions.get(InstanceCondition.RECONCILING)
        rests = working is None or not working.is_true
        if ready.is_true and rests:
            message = f"the release runs {instance.get('spec', 'chart', 'version')}"
            return Observation(
                EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, message, outputs=_revision(request)
            )
        stalled = conditions.get(InstanceCondition.STALLED)
        if not ready.is_true and rests and ready.reason in _GAVE_UP:
            return _failed(ready.reason, ready.message)
        if not ready.is_true and rests and stalled is not None and stalled.is_true:
            return _failed(stalled.reason, stalled.message or ready.message)
        return Observation(
            EngineState.RUNNING, RunningReason.ENGINE_STARTED, f"{ready.reason}: {ready.message}".rstrip(": ")
        )

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose instance was deleted."""
        return object_lost(
            f"ApplicationInstance {request.target.namespace}/{request.target.name}", asked_to_cancel=asked_to_cancel
        )

    def cancel(self, _request: EngineRequest, _child: Mapping[str, Any]) -> CancelAction:
        """Wait for the action that Helm has begun; `observe` ends the Operation if there is none."""
        return WaitForEnd("Helm cannot be stopped; the Operation ends when the action that it has begun is over")


def _failed(reason: str, message: str) -> Observation:
    return Observation(EngineState.FAILED, reason, message)


def _undone(request: EngineRequest, instance: Object) -> str:
    """Return the field of the spec that another writer changed since the edit, "" if the instance keeps the edit."""
    version, patch = request.parameters.get("targetVersion"), request.parameters.get("valuesPatch")
    if version and instance.get("spec", "chart", "version") != version:
        return "spec.chart.version"
    if patch and instance.get("spec", "values", "source") != "inline":
        return "spec.values.source"
    return "spec.values.inline" if patch and not _keeps(instance.get("spec", "values", "inline"), patch) else ""


def _keeps(stored: Any, patch: Any) -> bool:
    """Tell whether a JSON merge patch would change nothing."""
    if isinstance(patch, Mapping):
        return isinstance(stored, Mapping) and all(
            stored.get(key) is None if value is None else _keeps(stored.get(key), value) for key, value in patch.items()
        )
    return isinstance(stored, bool) == isinstance(patch, bool) and bool(stored == patch)  # True == 1 in Python


def _left(request: EngineRequest, now: datetime) -> timedelta | None:
    """Return how long to wait for the end of an action of Helm; None if Helm does not act.

    The condition Reconciling names the action from its begin to its last write. The instance repeats the result a moment later. A repeated
    attempt of a release that has failed is not waited for: Flux may repeat it for ever.
    """
    stored = request.related.find(_release(request))
    release = None if stored is None else FluxRelease.of(Object(dict(stored)))
    if release is None:
        return None
    if not release.reconciling:
        return _until(since(release.ready), _LATE, now)
    working, released = release.find(Flux.RECONCILING), release.find(Flux.RELEASED)
    running, began = _ACTION.match("" if working is None else working.message), since(working)
    failed = since(released) if released is not None and released.is_false else None
    if running is None or began is None:
        return None
    if running["action"] in _ATTEMPTS and failed is not None and failed < began:
        return None
    try:
        return _until(began, min(parse_duration(running["timeout"]), _LONGEST) + _LATE, now)
    except ValueError:
        return None


def _until(began: datetime | None, patience: timedelta, now: datetime) -> timedelta | None:
    """Return the rest of a wait; the clock of another controller may be ahead."""
    left = timedelta(0) if began is None else min(began, now) + patience - now
    return left if left > timedelta(0) else None


def _let_go(request: EngineRequest, seen: Observation) -> Observation:
    """Return the end of an Operation that had to stop before its release settled."""
    undo = []
    if request.parameters.get("targetVersion"):
        undo.append(f"set its spec.chart.version back to {request.outputs.get('fromVersion') or 'the one before'}")
    if request.parameters.get("valuesPatch"):
        undo.append("take parameters.valuesPatch out of its spec.values.inline")
    message = (
        f"ApplicationInstance {request.target.name} keeps the edit, and Flux goes on with it; to undo it, {' and '.join(undo)}. "
        f"The release has not settled: {seen.message or seen.reason}"
    )
    return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message)


def _revision(request: EngineRequest) -> dict[str, str]:
    release = request.related.find(_release(request))
    history = [] if release is None else (release.get("status") or {}).get("history") or []
    if not history or history[0].get("status") != Flux.DEPLOYED:
        return {}
    return {"revision": str(history[0].get("version", ""))}
