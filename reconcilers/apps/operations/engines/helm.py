"""The engine `helm`: edits the spec of the ApplicationInstance, and waits until its release runs that.

The instance has one desired state, its spec. The edit is one merge patch, so version and values stay what the Operation made them, and the
instance reconciler rolls them out (docs/adr/0013-an-upgrade-is-one-merge-patch-of-the-instance.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    Edit,
    EngineBlocked,
    EngineRequest,
    EngineState,
    ObjectRef,
    Observation,
    Refused,
    WaitForEnd,
    object_lost,
)
from konverge.reconcilers.apps.operations.engines.parameters import BadParameter, Parameters
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.words import BlockedReason, FailedReason, RunningReason, SucceededReason
from konverge.reconcilers.apps.words import Blocked as InstanceBlocked
from konverge.reconcilers.apps.words import Flux, Ready
from konverge.reconcilers.apps.words import Type as InstanceCondition

__all__ = ["HelmEngine"]

_VERSION: Final = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")
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

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the instance and its release."""
        return (_instance(request), _release(request))

    def render(self, request: EngineRequest) -> Edit | Refused | EngineBlocked:
        """Return the patch of the instance."""
        try:
            parameters = Parameters(request.parameters, known=("targetVersion", "valuesPatch", "exclusive"))
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
        asked_to_cancel: bool,  # noqa: ARG002  # of the interface; Helm cannot be stopped
        started: datetime,  # noqa: ARG002  # of the interface
        now: datetime,  # noqa: ARG002  # of the interface
    ) -> Observation:
        """Return the state of the rollout, from the conditions of the instance that speak of the edited spec."""
        instance = Object(dict(child))
        wanted = request.parameters.get("targetVersion")
        if instance.metadata.deleting:
            return _failed(FailedReason.ENGINE_FAILED, "the ApplicationInstance is being deleted")
        if wanted and instance.get("spec", "chart", "version") != wanted:
            return _failed(
                FailedReason.SPEC_CHANGED, "spec.chart.version was changed again before the release reached it"
            )
        found = {
            one.type: one for one in instance.conditions if (one.observed_generation or 0) >= (request.generation or 1)
        }
        ready, blocked = found.get(InstanceCondition.READY), found.get(InstanceCondition.BLOCKED)
        if blocked is not None and blocked.is_true:
            if blocked.reason == InstanceBlocked.MISSING_DEPENDENCIES:
                waits = EngineBlocked(BlockedReason.DEPENDENCY_MISSING, blocked.message)
                return Observation(
                    EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, blocked.message, blocked=waits
                )
            return _failed(blocked.reason, blocked.message)
        if ready is None or ready.reason == Ready.RECONCILING:
            return Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, "the spec was edited")
        working = found.get(InstanceCondition.RECONCILING)
        rests = working is None or not working.is_true
        if ready.is_true and rests:
            message = f"the release runs {instance.get('spec', 'chart', 'version')}"
            return Observation(
                EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, message, outputs=_revision(request)
            )
        stalled = found.get(InstanceCondition.STALLED)
        if not ready.is_true and rests and (ready.reason in _GAVE_UP or (stalled is not None and stalled.is_true)):
            return _failed(ready.reason, ready.message)
        return Observation(
            EngineState.RUNNING, RunningReason.ENGINE_STARTED, f"{ready.reason}: {ready.message}".rstrip(": ")
        )

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose instance was deleted."""
        return object_lost(
            f"ApplicationInstance {request.target.namespace}/{request.target.name}", asked_to_cancel=asked_to_cancel
        )

    def cancel(self, _request: EngineRequest, _child: Mapping[str, Any]) -> CancelAction:
        """Wait: Helm finishes the action that it has begun."""
        return WaitForEnd("Helm cannot be stopped; its end is reported, then another version can be applied")


def _failed(reason: str, message: str) -> Observation:
    return Observation(EngineState.FAILED, reason, message)


def _revision(request: EngineRequest) -> dict[str, str]:
    release = request.related.find(_release(request))
    history = [] if release is None else (release.get("status") or {}).get("history") or []
    if not history or history[0].get("status") != Flux.DEPLOYED:
        return {}
    return {"revision": str(history[0].get("version", ""))}
