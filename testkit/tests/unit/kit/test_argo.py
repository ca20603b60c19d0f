"""The stand-in for Argo writes the same as the recorded workflow-controller.

Compared for each Workflow of a recording: phase, message, shutdown, suspension and the phase of Suspend nodes, in their order and without
repetitions. Not compared: times, other nodes, progress, and texts of the API server.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from engine_stage import EngineStage, Json, recorded, ways

from konverge_testing import Lab
from konverge_testing.argo import KINDS, ArgoWorld, Step, WorkflowController, argo_crds


def fact(type_: str, made: Json) -> Any:
    if type_ == "DELETED":
        return "gone"
    status, spec = made.get("status") or {}, made["spec"]
    message = re.sub(r"'op-1-\d+'", "'op-1-n'", status.get("message") or "")
    message = re.sub(r"Waiting for [^/]+/", "Waiting for team/", message)
    message = re.sub(r'(Pod ".*" is invalid).*', r"\1", message)
    suspended = [node["phase"] for node in (status.get("nodes") or {}).values() if node["type"] == "Suspend"]
    return (
        status.get("phase", ""),
        message,
        spec.get("shutdown", ""),
        bool(spec.get("suspend")),
        suspended,
        "outputs" in status and bool(status["outputs"]),
    )


class Argo:
    """A stage with a template `runbook` and the controller; verbs of the recordings' steps."""

    def __init__(self, stage: EngineStage) -> None:
        self.stage, self.world = stage, ArgoWorld()
        self._controller = AsyncExitStack()

    async def start(self) -> None:
        await self.stage.make("WorkflowTemplate", "runbook", {})
        await self.serve()

    async def serve(self) -> None:
        await self._controller.enter_async_context(
            WorkflowController(self.stage.lab.config, world=self.world, namespace=self.stage.lab.namespace)
        )

    async def stop(self) -> None:
        await self._controller.aclose()

    async def make(self, name: str = "op-1", template: str = "runbook", *steps: Step, **spec: Any) -> None:
        if steps:
            self.world.steps[template] = steps
        reference = {"workflowTemplateRef": {"name": template}} if template else {}
        metadata = {"labels": spec.pop("labels")} if "labels" in spec else {}
        await self.stage.make("Workflow", name, {**reference, **spec}, **metadata)

    async def ends(self, name: str = "op-1") -> None:
        await self.stage.until("Workflow", name)

    async def runs(self, name: str = "op-1") -> None:
        await self.stage.until("Workflow", name, "Running")
        await self.stage.rest(0.1)

    async def spec(self, name: str = "op-1", **spec: Any) -> None:
        await self.stage.edit("Workflow", name, {"spec": spec})


LONG = Step("check", seconds=60)


async def succeeded(a: Argo) -> None:
    a.world.outputs["runbook"] = {"version": "1.2.3", "new-version": "1.2.3"}
    await a.make("op-1", "runbook", Step("check"), Step("upgrade"))
    await a.ends()


async def failed(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("check"), Step("upgrade", exit_code=3))
    await a.ends()


async def retry(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("check", failures=1))
    await a.ends()


async def error_pod_refused(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("op-1", refused='Pod "op-1" is invalid: spec.nodeSelector'))
    await a.ends()


async def template_missing(a: Argo) -> None:
    await a.make("op-1", "nosuch")
    await a.ends()
    await a.stage.make("WorkflowTemplate", "nosuch", {})
    await a.stage.rest(8)


async def invalid(a: Argo) -> None:
    for name, text in (
        ("op-1", "template reference runbook.nosuch not found"),
        ("op-2", "templates.main inputs.parameters.must was not supplied"),
    ):
        a.world.invalid["runbook"] = text
        await a.make(name)
        await a.ends(name)
    await a.make("op-3", "")
    await a.ends("op-3")


async def template_changed_mid_run(a: Argo) -> None:
    a.world.outputs["runbook"] = {"version": "1.2.3"}
    await a.make("op-1", "runbook", Step("check", seconds=10), Step("upgrade"))
    await a.runs()
    await a.stage.delete("WorkflowTemplate", "runbook")
    await a.ends()


async def suspend_node(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("check"), Step("approve", suspend=True), Step("upgrade"))
    waits = await a.stage.until_is(
        "Workflow", "op-1", lambda w: any(n["type"] == "Suspend" for n in (w.get("status", "nodes") or {}).values())
    )
    nodes = waits.get("status", "nodes")
    node = next(name for name, found in nodes.items() if found["type"] == "Suspend")
    await a.stage.edit("Workflow", "op-1", {"status": {"nodes": {node: {"phase": "Succeeded"}}}})
    await a.ends()


async def suspend_node_with_duration(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("check"), Step("approve", seconds=4, suspend=True), Step("upgrade"))
    await a.ends()


async def suspend_spec(a: Argo) -> None:
    a.world.outputs["runbook"] = {"version": "1.2.3"}
    await a.make("op-1", "runbook", Step("check", seconds=8), Step("upgrade"), suspend=True)
    await a.runs()
    await a.spec(suspend=None)
    await a.stage.until_is("Workflow", "op-1", lambda w: bool(w.get("status", "nodes")))
    await a.spec(suspend=True)
    await a.stage.rest(20)
    await a.spec(suspend=None)
    await a.ends()


def shut(strategy: str, *, lost: bool = False, handler: bool = True) -> Callable[[Argo], Awaitable[None]]:
    async def script(a: Argo) -> None:
        a.world.kill_lost = lost
        if handler:
            a.world.exit_handlers.add("runbook")
        await a.make("op-1", "runbook", LONG)
        await a.runs()
        await a.spec(shutdown=strategy)
        await a.ends()

    return script


async def shutdown_at_suspend_node(a: Argo) -> None:
    await a.make("op-1", "runbook", Step("approve", suspend=True))
    await a.runs()
    await a.spec(shutdown="Stop")
    await a.ends()


async def shutdown_while_suspended(a: Argo) -> None:
    await a.make("op-1", "runbook", LONG, suspend=True)
    await a.runs()
    await a.spec(shutdown="Terminate")
    await a.stage.rest(12)
    await a.spec(suspend=None)
    await a.ends()


async def pending_mutex(a: Argo) -> None:
    a.world.mutexes["runbook"] = "target-a"
    await a.make("op-1")
    await a.runs()
    await a.make("op-2")
    await a.ends("op-2")


async def pending_mutex_shutdown(a: Argo) -> None:
    a.world.mutexes["runbook"] = "target-a"
    await a.make("op-1", "runbook", LONG)
    await a.runs()
    await a.make("op-2")
    await a.stage.until("Workflow", "op-2", "Pending")
    await a.spec("op-2", shutdown="Terminate")
    await a.ends("op-2")


async def pending_parallelism(a: Argo) -> None:
    a.world.parallelism = 1
    await a.make("op-1")
    await a.runs()
    await a.make("op-2")
    await a.ends("op-2")


async def active_deadline(a: Argo) -> None:
    await a.make("op-1", "runbook", LONG, activeDeadlineSeconds=5)
    await a.ends()


async def ttl(a: Argo) -> None:
    await a.make(ttlStrategy={"secondsAfterCompletion": 3})
    await a.ends()
    await a.stage.until_gone("Workflow", "op-1")


async def deleted(a: Argo) -> None:
    await a.make("op-1", "runbook", LONG)
    await a.runs()
    await a.stage.delete("Workflow", "op-1")
    await a.stage.rest(90)


async def other_instance_id(a: Argo) -> None:
    await a.make(labels={"workflows.argoproj.io/controller-instanceid": "other"})
    await a.stage.rest(60)


async def controller_down(a: Argo) -> None:
    await a.stop()
    await a.make()
    await a.stage.rest(4)
    await a.serve()
    await a.runs()
    await a.stop()
    await a.serve()
    await a.ends()


async def task_result_missing(a: Argo) -> None:
    await a.make()
    await a.ends()


SCRIPTS: dict[str, Callable[[Argo], Awaitable[None]]] = {
    **{
        script.__name__.replace("_", "-"): script
        for script in (
            *(succeeded, failed, retry, error_pod_refused, template_missing, invalid, template_changed_mid_run),
            *(suspend_node, suspend_node_with_duration, suspend_spec, shutdown_at_suspend_node),
            *(shutdown_while_suspended, pending_mutex, pending_mutex_shutdown, pending_parallelism, active_deadline),
            *(ttl, deleted, other_instance_id, controller_down, task_result_missing),
        )
    },
    "shutdown-stop": shut("Stop"),
    "shutdown-terminate": shut("Terminate"),
    "shutdown-pod-pending": shut("Terminate", handler=False),
    "shutdown-stop-kill-not-delivered": shut("Stop", lost=True),
    "shutdown-terminate-kill-not-delivered": shut("Terminate", lost=True),
}
"""A recording, and what was done from outside."""


@pytest.mark.parametrize("recording", SCRIPTS)
async def test_the_stand_in_writes_what_argo_was_recorded_writing(lab: Lab, recording: str) -> None:
    async with EngineStage(lab, KINDS, argo_crds()) as stage:
        argo = Argo(stage)
        stage.stack.push_async_callback(argo.stop)
        await argo.start()
        await SCRIPTS[recording](argo)
        real = recorded("argo", recording)
        objects = sorted({f"Workflow/{event.object['metadata']['name']}" for event in real})
        assert {which: stage.ways(which, fact) for which in objects} == {
            which: ways(real, which, fact) for which in objects
        }


async def test_another_apply_of_the_bare_spec_would_erase_a_shutdown(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, argo_crds()) as stage:
        intent = {"workflowTemplateRef": {"name": "runbook"}}
        made = KINDS["Workflow"].new("op-1", lab.namespace, spec=intent)
        await lab.client.apply(KINDS["Workflow"], made.to_dict(), force=True)
        await stage.edit("Workflow", "op-1", {"spec": {"shutdown": "Stop"}})
        await lab.client.apply(KINDS["Workflow"], made.to_dict(), force=True)
        assert (await lab.get(KINDS["Workflow"], "op-1")).get("spec") == intent
