"""The engine `workflow`: a Workflow of Argo from a WorkflowTemplate in the Operation's namespace (docs/reference/argo.md).

The whole spec is written once. Argo's minimal CRD treats the spec as one value, so another apply would erase the `shutdown` of a
cancel (docs/reference/argo.md#crds).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from konverge.crds.ops_v1alpha1 import LogsRef
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    DeleteChild,
    EngineBlocked,
    EngineRequest,
    EngineState,
    ObjectKey,
    ObjectRef,
    Observation,
    PatchChild,
    Refused,
    Rendered,
    WaitForEnd,
    child_name,
    child_place,
    object_lost,
)
from konverge.reconcilers.apps.operations.engines.silence import silence
from konverge.reconcilers.apps.operations.engines.texts import excerpt
from konverge.reconcilers.apps.operations.engines.typed_parameters import (
    EngineParameters,
    ObjectName,
    read_parameters,
)
from konverge.reconcilers.apps.operations.words import (
    BlockedReason,
    CancelledReason,
    FailedReason,
    RunningReason,
    SucceededReason,
)

__all__ = ["CLUSTER_WORKFLOW_TEMPLATE", "WORKFLOW", "WORKFLOW_TEMPLATE", "WorkflowEngine", "WorkflowParameters"]

WORKFLOW: Final = kind("argoproj.io/v1alpha1", "Workflow", namespaced=True, plural="workflows")
WORKFLOW_TEMPLATE: Final = kind("argoproj.io/v1alpha1", "WorkflowTemplate", namespaced=True, plural="workflowtemplates")
CLUSTER_WORKFLOW_TEMPLATE: Final = kind(
    "argoproj.io/v1alpha1", "ClusterWorkflowTemplate", namespaced=False, plural="clusterworkflowtemplates"
)

_UNSEEN: Final = timedelta(minutes=2)
"""After this time a Workflow without any status is worth a hint: its controller is down or serves another instance id."""
_MOST_OUTPUTS: Final = 50
_LONGEST_OUTPUT: Final = 1024


class WorkflowParameters(EngineParameters):
    """The parameters of a Workflow."""

    workflow_template: ObjectName | None = None
    template: ObjectName | None = None
    """Another name of `workflowTemplate`."""
    cluster_scope: bool = False
    """Take a ClusterWorkflowTemplate."""
    workflow_template_parameters: dict[str, Any] = Field(default_factory=dict)
    service_account_name: ObjectName | None = None
    """The runner of the settings, or the account that the template names: an Operation gives no other rights to its pods."""
    target_chart_version: str | None = None
    snapshot_class_name: str | None = None
    failure_action: str | None = None
    """This parameter and the two before are passed to the template as parameters of the same names."""
    timeout_seconds: Annotated[int, Field(ge=1)] | None = None
    """How long Argo lets the Workflow run."""
    cancel_strategy: Literal["Stop", "Terminate"] = "Stop"
    """With Stop, exit handlers run when the Operation is cancelled."""

    @model_validator(mode="after")
    def _one_template(self) -> Self:
        if not (self.workflow_template or self.template):
            raise ValueError("workflowTemplate is required")
        if self.workflow_template and self.template not in (None, self.workflow_template):
            raise ValueError("workflowTemplate and template name the same thing; write one of them")
        return self

    @property
    def source(self) -> str:
        """The name of the template."""
        return self.workflow_template or self.template or ""

    @property
    def arguments(self) -> dict[str, str]:
        """The parameters of the template as texts, sorted by name."""
        extra = {
            "targetChartVersion": self.target_chart_version,
            "snapshotClassName": self.snapshot_class_name,
            "failureAction": self.failure_action,
        }
        given = {name: value for name, value in extra.items() if value is not None}
        return {name: _text(value) for name, value in sorted({**given, **self.workflow_template_parameters}.items())}


def _text(value: Any) -> str:
    """Write a value for Argo, which only takes texts."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)


def _template(request: EngineRequest, parameters: WorkflowParameters) -> ObjectRef:
    if parameters.cluster_scope:
        return ObjectRef(CLUSTER_WORKFLOW_TEMPLATE, "", parameters.source)
    return ObjectRef(WORKFLOW_TEMPLATE, request.operation.namespace, parameters.source)


class WorkflowEngine:
    """Workflows.

    Guarantees
    - The template exists before the Workflow is created: Argo ends a Workflow without one for good.
    - A cancel is final when the Workflow is; a Workflow that succeeded in spite of `shutdown` has succeeded.
    """

    name: Final = "workflow"
    makes: Final = (WORKFLOW,)
    reads: Final = (WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE)
    gets: Final[tuple[Kind[Object], ...]] = ()

    def kind(self, request: EngineRequest) -> Kind[Object]:  # noqa: ARG002  # the interface
        """Return Workflow."""
        return WORKFLOW

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return the place of the Workflow."""
        return child_place(request)

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the template."""
        parameters = read_parameters(WorkflowParameters, request.parameters)
        return () if isinstance(parameters, Refused) else (_template(request, parameters),)

    def render(self, request: EngineRequest) -> Rendered | Refused | EngineBlocked:
        """Return the Workflow."""
        parameters = read_parameters(WorkflowParameters, request.parameters)
        if isinstance(parameters, Refused):
            return parameters
        ref = _template(request, parameters)
        template = request.related.find(ref)
        if template is None:
            return EngineBlocked(
                BlockedReason.DEPENDENCY_MISSING, f"{ref.kind.kind} {parameters.source} does not exist; create it"
            )
        runner = request.settings.runner_service_account
        own_account = str((template.get("spec") or {}).get("serviceAccountName") or "")
        account = parameters.service_account_name or own_account or runner
        if account not in (own_account, runner):
            return Refused(f"parameters.serviceAccountName: write {runner}, or name the account in the template")
        spec: dict[str, Any] = {
            "workflowTemplateRef": {
                "name": parameters.source,
                **({"clusterScope": True} if parameters.cluster_scope else {}),
            },
            "serviceAccountName": account,
            "ttlStrategy": {"secondsAfterCompletion": int(request.settings.job_ttl.total_seconds())},
        }
        if parameters.arguments:
            spec["arguments"] = {"parameters": [{"name": n, "value": v} for n, v in parameters.arguments.items()]}
        if parameters.timeout_seconds is not None:
            spec["activeDeadlineSeconds"] = parameters.timeout_seconds
        workflow = WORKFLOW.new(child_name(request), request.operation.namespace, spec=spec)
        return Rendered(workflow, {"workflowName": workflow.name})

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        """Translate the phase; a Workflow that its controller does not shut down is deleted together with its pods."""
        seen = self._phase(request, child, asked_to_cancel=asked_to_cancel, waited=now - started)
        phase = (child.get("status") or {}).get("phase")
        return silence(request, f"Workflow {seen.outputs['workflowName']}", now).judge(
            seen,
            child,
            self.cancel(request, child) if asked_to_cancel else None,
            usual=bool(phase),
            advice="the Workflow is deleted, and the garbage collector ends its pods",
            stop=DeleteChild(),
        )

    def _phase(
        self, request: EngineRequest, child: Mapping[str, Any], *, asked_to_cancel: bool, waited: timedelta
    ) -> Observation:
        """Translate the phase (docs/reference/argo.md#phases). Nodes only explain: a failed node can succeed later."""
        status: Mapping[str, Any] = child.get("status") or {}
        metadata = child.get("metadata") or {}
        name = str(metadata.get("name", ""))
        outputs = {"workflowName": name, **({"runId": str(metadata["uid"])} if metadata.get("uid") else {})}
        logs = LogsRef(kind=WORKFLOW.kind, name=name, namespace=request.operation.namespace)
        phase = str(status.get("phase") or "")
        if phase in ("", "Pending"):
            return _waiting(status, phase, outputs, logs, waited)
        if phase == "Succeeded":
            late = "it succeeded before the cancel reached it" if asked_to_cancel else ""
            outputs = {**_parameters(status), **outputs}
            return Observation(EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, late, outputs, logs)
        if phase in ("Failed", "Error"):
            if asked_to_cancel and (child.get("spec") or {}).get("shutdown"):
                message = excerpt(status.get("message")) or "it was shut down"
                return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message, outputs, logs)
            return Observation(EngineState.FAILED, FailedReason.ENGINE_FAILED, _failure(status, phase), outputs, logs)
        return _running(child, status, outputs, logs, asked_to_cancel=asked_to_cancel)

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose Workflow is missing."""
        return object_lost(f"Workflow {child_name(request)}", asked_to_cancel=asked_to_cancel)

    def cancel(self, request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:
        """Shut it down. `suspend` is cleared in the same patch, since Argo ignores a shutdown while it is set (argo-workflows#17041)."""
        phase = str((child.get("status") or {}).get("phase") or "")
        if not phase:
            return DeleteChild()
        if phase in ("Succeeded", "Failed", "Error"):
            return WaitForEnd()
        spec = child.get("spec") or {}
        if spec.get("shutdown") and not spec.get("suspend"):
            return WaitForEnd(f"shutdown with strategy {spec['shutdown']} was requested; its end is awaited")
        parameters = read_parameters(WorkflowParameters, request.parameters)
        strategy = "Stop" if isinstance(parameters, Refused) else parameters.cancel_strategy
        return PatchChild({"spec": {"shutdown": strategy, "suspend": None}})


def _waiting(
    status: Mapping[str, Any], phase: str, outputs: Mapping[str, str], logs: LogsRef, waited: timedelta
) -> Observation:
    reason = RunningReason.ENGINE_NOT_STARTED
    if phase:
        return Observation(EngineState.ACCEPTED, reason, excerpt(status.get("message")) or phase, outputs, logs)
    message = "no Argo controller has seen the Workflow"
    if waited < _UNSEEN:
        left = _UNSEEN - max(waited, timedelta(0))
        return Observation(EngineState.ACCEPTED, reason, message, outputs, logs, recheck_after=left)
    hint = f"{message} for minutes; is it running, and does it serve this namespace and instance id?"
    return Observation(EngineState.ACCEPTED, reason, hint, outputs, logs)


def _running(
    child: Mapping[str, Any],
    status: Mapping[str, Any],
    outputs: Mapping[str, str],
    logs: LogsRef,
    *,
    asked_to_cancel: bool,
) -> Observation:
    spec = child.get("spec") or {}
    progress = f"progress {status['progress']}" if status.get("progress") else ""
    if asked_to_cancel or spec.get("shutdown"):
        return Observation(EngineState.RUNNING, RunningReason.STOPPING, progress, outputs, logs)
    waits_at = "spec.suspend" if spec.get("suspend") else next(_suspended_at(status), "")
    if not waits_at:
        return Observation(EngineState.RUNNING, RunningReason.ENGINE_STARTED, progress, outputs, logs)
    message = f"the Workflow waits at {waits_at}; resume it (`argo resume {outputs['workflowName']}`)"
    blocked = EngineBlocked(BlockedReason.AWAITING_RESUME, message)
    return Observation(EngineState.RUNNING, RunningReason.SUSPENDED, progress, outputs, logs, blocked)


def _nodes(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes by their id. They may be absent: Argo compresses large nodes, or stores them elsewhere."""
    nodes = status.get("nodes")
    if isinstance(nodes, Mapping):
        for _, node in sorted(nodes.items()):
            if isinstance(node, Mapping):
                yield node


def _suspended_at(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield the steps that wait for a person: the phase stays Running, and a step with a duration continues by itself."""
    for node in _nodes(status):
        if node.get("type") == "Suspend" and node.get("phase") == "Running" and not _resumes_itself(status, node):
            yield f"step {node.get('displayName') or node.get('name', '')}"


def _resumes_itself(status: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    templates = status.get("storedTemplates")
    for stored in templates.values() if isinstance(templates, Mapping) else ():
        suspend = stored.get("suspend") if isinstance(stored, Mapping) else None
        if isinstance(suspend, Mapping) and suspend.get("duration") and stored.get("name") == node.get("templateName"):
            return True
    return False


def _parameters(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the global output parameters; Argo writes them last. Argo's smaller CRDs admit any shape."""
    outputs = status.get("outputs")
    parameters = outputs.get("parameters") if isinstance(outputs, Mapping) else None
    entries = [entry for entry in parameters if isinstance(entry, Mapping)] if isinstance(parameters, list) else []
    named = {
        excerpt(entry["name"], _LONGEST_OUTPUT): excerpt(entry.get("value"), _LONGEST_OUTPUT)
        for entry in entries
        if entry.get("name")
    }
    return dict(sorted(named.items())[:_MOST_OUTPUTS])


def _failure(status: Mapping[str, Any], phase: str) -> str:
    """Return why it failed. The message of the Workflow names a node only by its id, so the failed leaf is quoted."""
    message = excerpt(status.get("message"))
    if message and not message.startswith("child "):
        return message
    for node in _nodes(status):
        text = str(node.get("message") or "")
        if node.get("phase") in ("Failed", "Error") and text and not text.startswith("child "):
            return f"step {node.get('displayName') or node.get('name', '')}: {excerpt(text)}"
    return message or phase
