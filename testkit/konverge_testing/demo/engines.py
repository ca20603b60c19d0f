"""Stand-ins for everything that Operations and pull mode need beside this daemon: engines, a kubelet, a control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

from konverge.client import ClientConfig
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.agent_server import AgentServer, serving
from konverge_testing.argo import WorkflowController, argo_crds
from konverge_testing.demo.samples import NAMESPACE, pull_job
from konverge_testing.standin import Json, StandIn
from konverge_testing.velero import VeleroServer, velero_crds
from konverge_testing.volsync import VolSyncController, volsync_crds

__all__ = ["engine_crds", "engines"]

_PACE = 0.1
"""The stand-ins run ten times as fast as the recorded controllers."""
_VELERO = "velero"
_RUNS = 0.5
"""About the seconds that a command runs."""


def engine_crds() -> list[dict[str, Any]]:
    """Return the definitions of the kinds of Velero, Argo Workflows and VolSync."""
    return [*velero_crds(), *argo_crds(), *volsync_crds()]


class Kubelet(StandIn):
    """Lets every pod succeed, as a kubelet would report it; the Job controller does the rest."""

    NAME: ClassVar[str] = "kubelet"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = {"Pod": kind("v1", "Pod", namespaced=True, plural="pods")}

    async def story(self, manifest: Json) -> None:
        """Play a pod."""
        await self.sleep(_RUNS)
        await self.write(manifest, lambda pod: pod["status"].update(phase="Succeeded"), "status")


class JobController(StandIn):
    """Lets every Job succeed, without pods: for an API server beside which no Job controller runs."""

    NAME: ClassVar[str] = "job-controller"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = {"Job": kind("batch/v1", "Job", namespaced=True, plural="jobs")}

    async def story(self, manifest: Json) -> None:
        """Play a Job."""
        started = self.now()
        running = {"startTime": started, "active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}}
        await self.write(manifest, lambda job: job.update(status=running), "status")
        await self.sleep(_RUNS)
        now = self.now()
        ends = [
            {"type": type_, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
            for type_ in ("SuccessCriteriaMet", "Complete")
        ]
        done = {**running, "active": 0, "ready": 0, "succeeded": 1, "completionTime": now, "conditions": ends}
        await self.write(manifest, lambda job: job.update(status=done), "status")


@asynccontextmanager
async def engines(config: ClientConfig, token: str, *, runs_jobs: bool) -> AsyncIterator[str]:
    """Run the stand-ins; yields the URL of the control plane, which has one job for the agent.

    `runs_jobs`: the API server has a Job controller, so that only a kubelet is missing.
    """
    async with AsyncExitStack() as stack:
        for item in (
            VeleroServer(config, namespace=_VELERO, pace=_PACE),
            WorkflowController(config, namespace=NAMESPACE, pace=_PACE),
            VolSyncController(config, namespace=NAMESPACE, pace=_PACE),
            Kubelet(config, namespace=NAMESPACE) if runs_jobs else JobController(config, namespace=NAMESPACE),
        ):
            await stack.enter_async_context(item)
        plane = AgentServer(NAMESPACE, tokens=(token,))
        plane.submit("intent", pull_job())
        yield await stack.enter_async_context(serving(plane))
