"""`WorkflowController`: the story of a Workflow, in the recorded order of writes."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, ClassVar, Final

from konverge.client import ClientConfig
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.argo.world import ArgoWorld, Step
from konverge_testing.standin import Json, StandIn

__all__ = ["KINDS", "WorkflowController"]

_V1: Final = "argoproj.io/v1alpha1"
KINDS: Final[Mapping[str, Kind[Object]]] = {
    "Workflow": kind(_V1, "Workflow", namespaced=True, plural="workflows"),
    "WorkflowTemplate": kind(_V1, "WorkflowTemplate", namespaced=True, plural="workflowtemplates"),
    "ClusterWorkflowTemplate": kind(
        _V1, "ClusterWorkflowTemplate", namespaced=False, plural="clusterworkflowtemplates"
    ),
}
_LABEL: Final = "workflows.argoproj.io/"
_ENDED: Final = frozenset({"Succeeded", "Failed", "Error"})
_LOOK: Final = 8.0
"""About the seconds until the controller acts on a change of a running Workflow."""
_STEP: Final = 3.0


class WorkflowController(StandIn):
    """Plays the workflow-controller. A Workflow that is already running at its start repeats its steps from the first."""

    NAME: ClassVar[str] = "workflow-controller"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = KINDS

    def __init__(
        self,
        config: ClientConfig,
        *,
        world: ArgoWorld | None = None,
        namespace: str | None = None,
        pace: float = 1.0,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, pace=pace, random=random)
        self.world = ArgoWorld() if world is None else world
        self._running: dict[str, str] = {}
        """The locks of running Workflows by UID."""

    def story(self, manifest: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of a Workflow that this controller serves."""
        labels = manifest["metadata"].get("labels") or {}
        served = labels.get(f"{_LABEL}controller-instanceid", "") == self.world.instance_id
        return self._workflow(manifest) if manifest["kind"] == "Workflow" and served else None

    # --- writes --------------------------------------------------------------------------------------------------------------

    async def _say(self, manifest: Json, phase: str, message: str = "", **status: Any) -> Json | None:
        """Write phase, message and other fields, with the labels and conditions that follow from the phase."""
        ended = phase in _ENDED

        def edit(newest: Json) -> None:
            labels = {**(newest["metadata"].get("labels") or {}), f"{_LABEL}phase": phase}
            if ended:
                labels[f"{_LABEL}completed"] = "true"
            newest["metadata"]["labels"] = labels
            merged = {"startedAt": self.now(), **(newest.get("status") or {}), "phase": phase, **status}
            merged.pop("message", None)
            if message:
                merged["message"] = message
            if ended:
                merged["finishedAt"] = self.now()
                merged["conditions"] = [{"type": "Completed", "status": "True"}]
            newest["status"] = merged

        return await self.write(manifest, edit)

    def _spec(self, manifest: Json) -> Json:
        result = self.present(manifest)
        spec: Json = (result or manifest)["spec"]
        return spec

    def _shut(self, manifest: Json) -> str:
        """Return the strategy of the shutdown in force, "" if there is none: a suspended Workflow ignores a shutdown."""
        spec = self._spec(manifest)
        return "" if spec.get("suspend") else str(spec.get("shutdown") or "")

    async def _pause(self, manifest: Json, seconds: float | None) -> str:
        """Wait for so many seconds, or until a shutdown; returns its strategy."""
        await self.until(lambda: bool(self._shut(manifest)) or self.present(manifest) is None, seconds)
        return self._shut(manifest)

    async def _stopped(self, manifest: Json, strategy: str, **status: Any) -> None:
        await self._say(manifest, "Failed", f"Stopped with strategy '{strategy}'", **status)

    # --- the story -----------------------------------------------------------------------------------------------------------

    async def _workflow(self, manifest: Json) -> None:
        if (manifest.get("status") or {}).get("phase") in _ENDED:
            await self._expire(manifest)
            return
        await self.sleep(0.3)
        reference = manifest["spec"].get("workflowTemplateRef") or {}
        template = str(reference.get("name", ""))
        scope = "ClusterWorkflowTemplate" if reference.get("clusterScope") else "WorkflowTemplate"
        if not template:
            await self._say(manifest, "Failed", "invalid spec: spec.entrypoint is required")
        elif not any(item["metadata"]["name"] == template for item in self.cached(scope)):
            await self._say(manifest, "Error", f'{scope.lower()}s.argoproj.io "{template}" not found')
        elif template in self.world.invalid:
            await self._say(manifest, "Failed", f"invalid spec: {self.world.invalid[template]}")
        else:
            await self._admitted(manifest, template)
        await self._expire(manifest)

    async def _admitted(self, manifest: Json, template: str) -> None:
        """Wait for the lock and for the limit of parallelism, then run."""
        uid, message = manifest["metadata"]["uid"], ""
        lock = self.world.mutexes.get(template, "")
        while True:
            reason = self._held_back(manifest, lock)
            if not reason:
                break
            if reason != message:
                message = reason
                await self._say(manifest, "Pending", reason)
            await self.until(
                lambda: (
                    bool(self._shut(manifest)) or self.present(manifest) is None or not self._held_back(manifest, lock)
                )
            )
            if self.present(manifest) is None:
                return
            if self._shut(manifest):
                await self.sleep(_LOOK)
                await self._stopped(manifest, self._shut(manifest))
                return
        self._running[uid] = lock
        try:
            await self._run(manifest, template)
        finally:
            self._running.pop(uid, None)
            self.wake()

    def _held_back(self, manifest: Json, lock: str) -> str:
        if lock and lock in self._running.values():
            return f"Waiting for {manifest['metadata']['namespace']}/Mutex/{lock} lock. Lock status: 0/1"
        if self.world.parallelism is not None and len(self._running) >= self.world.parallelism:
            return "Workflow processing has been postponed because too many workflows are already running"
        return ""

    async def _run(self, manifest: Json, template: str) -> None:
        await self._resumed(manifest, progress="0/0")
        steps = self.world.steps.get(template) or (Step("check"),)
        nodes = _Nodes(manifest["metadata"]["name"])
        deadline = manifest["spec"].get("activeDeadlineSeconds")
        for place, step in enumerate(steps):
            if place:
                await self._resumed(manifest, progress=nodes.progress)
            if self.present(manifest) is None:
                return
            if step.refused:
                text = f"error in entry template execution: {step.refused}"
                await self._say(manifest, "Error", text, nodes=nodes.end("Error", step.refused), progress="0/1")
                return
            failure = await self._step(manifest, template, step, nodes, deadline)
            if failure:
                if failure != "over":
                    await self._say(
                        manifest, "Failed", f"child '{nodes.last}' failed", nodes=nodes.data, progress=nodes.progress
                    )
                return
        outputs = [
            {"name": name, "value": value} for name, value in sorted(self.world.outputs.get(template, {}).items())
        ]
        more: Json = {"outputs": {"parameters": outputs}} if outputs else {}
        await self._say(manifest, "Succeeded", nodes=nodes.data, progress=nodes.progress, **more)

    async def _resumed(self, manifest: Json, progress: str) -> None:
        """Wait while `spec.suspend` is set."""
        if self._spec(manifest).get("suspend"):
            await self._say(manifest, "Running", progress=progress)
            await self.until(lambda: not self._spec(manifest).get("suspend") or self.present(manifest) is None)
            await self.sleep(5)
            if self._shut(manifest):
                await self._say(manifest, "Running")

    async def _step(self, manifest: Json, template: str, step: Step, nodes: _Nodes, deadline: int | None) -> str:
        """Run one step; returns "" if it succeeded, "over" if it ended the Workflow, else the reason of its failure."""
        for attempt in range(step.failures + 1):
            nodes.begin(step, "Suspend" if step.suspend else "Pod")
            strategy = self._shut(manifest)
            if not strategy:
                more: Json = {"storedTemplates": _stored(template, step)} if step.suspend else {}
                await self._say(manifest, "Running", nodes=nodes.data, progress=nodes.progress, **more)
                if step.suspend:
                    return await self._suspended(manifest, step, nodes)
                seconds = _STEP if step.seconds is None else step.seconds
                late = deadline is not None and deadline < seconds
                strategy = await self._pause(manifest, deadline if late and deadline is not None else seconds)
                if late and not strategy:
                    nodes.end("Failed", "Step exceeded its deadline")
                    return "deadline"
            if strategy:
                return await self._killed(manifest, template, step, nodes, strategy)
            if attempt < step.failures:
                nodes.end("Failed", "main: Error (exit code 1)")
        if step.exit_code:
            nodes.end("Failed", f"main: Error (exit code {step.exit_code})")
            return "failed"
        nodes.end("Succeeded")
        return ""

    async def _suspended(self, manifest: Json, step: Step, nodes: _Nodes) -> str:
        """Wait at a Suspend node until `argo resume` sets it to Succeeded, or until its duration has passed."""

        def resumed() -> bool:
            result = self.present(manifest)
            stored = ((result or {}).get("status") or {}).get("nodes") or {}
            return result is None or bool((stored.get(nodes.last) or {}).get("phase") == "Succeeded")

        await self.until(lambda: resumed() or bool(self._shut(manifest)), step.seconds)
        strategy = self._shut(manifest)
        if strategy and not resumed():
            await self.sleep(_LOOK - 1)
            nodes.end("Failed", f"Stopped with strategy '{strategy}'")
            await self._stopped(manifest, strategy, nodes=nodes.data, progress=nodes.progress)
            return "over"
        nodes.end("Succeeded")
        return ""

    async def _killed(self, manifest: Json, template: str, step: Step, nodes: _Nodes, strategy: str) -> str:
        """End a step on a shutdown. If the signal is lost, the node's phase is Failed, and then Succeeded once the pod has ended well."""
        await self.sleep(_LOOK)
        nodes.end("Failed", f"workflow shutdown with strategy:  {strategy}")
        await self._say(manifest, "Running", nodes=nodes.data, progress=nodes.progress)
        if self.world.kill_lost:
            await self.sleep(step.seconds or _STEP)
            nodes.end("Succeeded", f"workflow shutdown with strategy:  {strategy}")
        else:
            await self.sleep(_LOOK + 2)
            nodes.end("Failed", "main: Error (exit code 143)")
        if strategy == "Stop" and template in self.world.exit_handlers:
            await self._say(manifest, "Running", nodes=nodes.data, progress=nodes.progress)
            await self.sleep(_LOOK)
        if self.world.kill_lost:
            await self._say(manifest, "Succeeded", nodes=nodes.data, progress=nodes.progress)
        else:
            await self._stopped(manifest, strategy, nodes=nodes.data, progress=nodes.progress)
        return "over"

    async def _expire(self, manifest: Json) -> None:
        """Delete a Workflow after its end, according to `ttlStrategy`."""
        after = (manifest["spec"].get("ttlStrategy") or {}).get("secondsAfterCompletion")
        if after is not None and self.present(manifest) is not None:
            await self.sleep(after + 1)
            await self.delete(manifest)


def _stored(template: str, step: Step) -> Json:
    suspend = {"duration": f"{step.seconds:g}s"} if step.seconds is not None else {}
    return {f"namespaced/{template}/{step.name}": {"name": step.name, "suspend": suspend}}


class _Nodes:
    """The nodes of one Workflow."""

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._nodes: dict[str, Json] = {}
        self.last = ""

    @property
    def data(self) -> Json:
        """A copy of the nodes."""
        return {name: dict(node) for name, node in self._nodes.items()}

    @property
    def progress(self) -> str:
        """How many nodes have succeeded, of the nodes that began."""
        done = sum(node["phase"] == "Succeeded" for node in self._nodes.values())
        return f"{done}/{len(self._nodes)}"

    def begin(self, step: Step, type_: str) -> None:
        """Add the node of a step, or of one more attempt."""
        number = int(hashlib.sha256(f"{len(self._nodes)}{step.name}".encode()).hexdigest()[:8], 16)
        self.last = f"{self._workflow}-{number}"
        phase = "Running" if step.suspend else "Pending"
        self._nodes[self.last] = {
            "id": self.last,
            "name": f"{self._workflow}[{len(self._nodes)}].{step.name}",
            "displayName": step.name,
            "templateName": step.name,
            "type": type_,
            "phase": phase,
        }

    def end(self, phase: str, message: str = "") -> Json:
        """End the last node."""
        if self.last:
            self._nodes[self.last] |= {"phase": phase, **({"message": message} if message else {})}
        return self.data
