"""Operations whose Jobs run on the real Job controller: the test writes the status of their pods, as a kubelet would."""

import asyncio
from typing import Any

from apps.operations import Operations, phase, shows

from konverge.clock import rfc3339, wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing import Lab

POD = kind("v1", "Pod", namespaced=True)


def path_of(lab: Lab, pod: str) -> str:
    return f"/api/v1/namespaces/{lab.namespace}/pods/{pod}"


class Kubelet(Operations):
    """A lab on a real control plane with the controller of Operations. The test decides when the pods of Jobs run and end."""

    async def run_job(self, name: str = "run") -> Object:
        job = await self.job_of(name)
        started = {"name": "command", "started": True, "state": {"running": {"startedAt": rfc3339(wall_clock())}}}
        await self._write(job, {"phase": "Running", "containerStatuses": [self._container(started, ready=True)]})
        await self.until(name, phase("Running"), shows("Running", "True"))
        return job

    async def bind(self, name: str = "run") -> str:
        """Put the pod of an Operation on a node, as the scheduler would: then its deletion waits for the kubelet. Returns its name."""
        pod = await self._pod(await self.job_of(name))
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": self.lab.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"},
        }
        await self.lab.client.raw("POST", f"{path_of(self.lab, pod)}/binding", body=body)
        return pod

    async def killed(self, pod: str) -> None:
        """Wait until a pod is to end, and end it as a kubelet does: the exit code of SIGTERM, then it is removed."""
        await self.lab.until(POD, pod, lambda found: found.metadata.deleting, timeout=60)
        await self._exits(pod, 143)
        await self.lab.client.raw("DELETE", path_of(self.lab, pod), params={"gracePeriodSeconds": "0"})

    async def crash(self, name: str = "run") -> None:
        """Let the pod of an Operation fail."""
        await self._exits(await self._pod(await self.job_of(name)), 1)

    async def complete(self, name: str = "run") -> Operation:
        job = await self.job_of(name)
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": rfc3339(wall_clock())}
        state = {"name": "command", "started": False, "state": {"terminated": ended}}
        await self._write(job, {"phase": "Succeeded", "containerStatuses": [self._container(state, ready=False)]})
        return await self.until(name, phase("Succeeded"))

    async def _exits(self, pod: str, code: int) -> None:
        ended = {"exitCode": code, "reason": "Error", "finishedAt": rfc3339(wall_clock())}
        state = {"name": "command", "started": False, "state": {"terminated": ended}}
        await self._write_pod(pod, {"phase": "Failed", "containerStatuses": [self._container(state, ready=False)]})

    def _container(self, status: dict[str, Any], *, ready: bool) -> dict[str, Any]:
        return {"image": "busybox", "imageID": "", "ready": ready, "restartCount": 0, **status}

    async def _write(self, job: Object, status: dict[str, Any]) -> None:
        await self._write_pod(await self._pod(job), status)

    async def _write_pod(self, pod: str, status: dict[str, Any]) -> None:
        ready = "True" if status["phase"] == "Running" else "False"
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(wall_clock())}]
        await self.lab.patch(POD, pod, {"status": {**status, "conditions": conditions}}, subresource="status")

    async def _pod(self, job: Object) -> str:
        async with asyncio.timeout(self.lab.limit(60)):
            while True:
                pods = await self.lab.client.list(POD, self.lab.namespace)
                mine = [
                    pod.name
                    for pod in pods
                    if pod.metadata.controller and pod.metadata.controller.uid == job.metadata.uid
                ]
                if mine:
                    return mine[0]
                await asyncio.sleep(0.1)
