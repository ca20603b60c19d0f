"""A stand-in for Argo's workflow-controller on an API server: no pods run, the world decides what each step does.

    world = ArgoWorld(steps={"runbook": (Step("check"), Step("approve", suspend=True), Step("upgrade"))})
    async with WorkflowController(config, world=world):
        ...                                 # Workflows of the template `runbook` wait at `approve`, then succeed

Guarantees: the phases, messages and suspend nodes that it writes, and their order, equal recordings of the real controller
(tests/recordings/argo; the comparison is a test): validation, locks, parallelism, both kinds of suspension, shutdown, retries, deadlines
and expiration. The CRDs are Argo's minimal CRDs: `spec` is an opaque value, and status is not a subresource.

Caveats: templates are names; `ArgoWorld`, not their spec, defines their steps.
"""

from __future__ import annotations

from konverge_testing.argo.controller import KINDS, WorkflowController
from konverge_testing.argo.world import ArgoWorld, Step
from konverge_testing.standin import Json, definitions

__all__ = ["KINDS", "ArgoWorld", "Step", "WorkflowController", "argo_crds"]


def argo_crds() -> list[Json]:
    """Return minimal CustomResourceDefinitions of Argo's kinds.

    >>> [crd["spec"]["names"]["kind"] for crd in argo_crds()]
    ['ClusterWorkflowTemplate', 'Workflow', 'WorkflowTemplate']
    """
    return definitions("konverge_testing.argo")
