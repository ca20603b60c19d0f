"""The stand-in for Argo writes the same as the recorded workflow-controller.

Compared for each Workflow of a recording: phase, message, shutdown, suspension and the phase of Suspend nodes, in their order and without
repetitions. Not compared: times, other nodes, progress, and texts of the API server.
"""

import re
from typing import Any

import pytest
from engine_stage import (
    Actor,
    EngineStage,
    Story,
    act,
    delete,
    facts_of,
    kill,
    make,
    recorded,
    rest,
    serve,
    until,
    until_gone,
    until_is,
    world,
)
from recordings import Json

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


class Argo(Actor):
    """A stage with a template `runbook` and the controller."""

    def __init__(self, stage: EngineStage) -> None:
        super().__init__(stage)
        self.world = ArgoWorld()

    def controller(self) -> WorkflowController:
        return WorkflowController(self.stage.lab.config, world=self.world, namespace=self.stage.lab.namespace)

    async def start(self) -> None:
        await self.stage.make("WorkflowTemplate", "runbook", {})
        await self.serve()

    async def submit(self, /, *steps: Step, name: str = "op-1", template: str = "runbook", **spec: Any) -> None:
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

    async def edited(self, /, name: str = "op-1", **spec: Any) -> None:
        await self.stage.edit("Workflow", name, {"spec": spec})

    async def approved(self) -> None:
        """Complete the Suspend node that the Workflow waits at."""

        def suspended(nodes: Json | None) -> list[str]:
            return [name for name, node in (nodes or {}).items() if node["type"] == "Suspend"]

        waiting = await self.stage.until_is(
            "Workflow", "op-1", lambda found: bool(suspended(found.get("status", "nodes")))
        )
        node = suspended(waiting.get("status", "nodes"))[0]
        await self.stage.edit("Workflow", "op-1", {"status": {"nodes": {node: {"phase": "Succeeded"}}}})


submit, ends, runs = act(Argo.submit), act(Argo.ends), act(Argo.runs)
edited, approved = act(Argo.edited), act(Argo.approved)

CHECK, UPGRADE, LONG = Step("check"), Step("upgrade"), Step("check", seconds=60)
VERSION = {"runbook": {"version": "1.2.3"}}


def shut(strategy: str, *, lost: bool = False, handler: bool = True) -> Story[Argo]:
    handlers = {"runbook"} if handler else set[str]()
    begin = world(kill_lost=lost, exit_handlers=handlers)
    return Story("Workflow/op-1", begin, submit(LONG), runs(), edited(shutdown=strategy), ends())


STORIES: dict[str, Story[Argo]] = {
    "succeeded": Story(
        "Workflow/op-1",
        world(outputs={"runbook": {"version": "1.2.3", "new-version": "1.2.3"}}),
        *(submit(CHECK, UPGRADE), ends()),
    ),
    "failed": Story("Workflow/op-1", submit(CHECK, Step("upgrade", exit_code=3)), ends()),
    "retry": Story("Workflow/op-1", submit(Step("check", failures=1)), ends()),
    "error-pod-refused": Story(
        "Workflow/op-1", submit(Step("op-1", refused='Pod "op-1" is invalid: spec.nodeSelector')), ends()
    ),
    "template-missing": Story(
        "Workflow/op-1", submit(template="nosuch"), ends(), make("WorkflowTemplate", "nosuch", {}), rest(8)
    ),
    "invalid": Story(
        "Workflow/op-1 Workflow/op-2 Workflow/op-3",
        *(world(invalid={"runbook": "template reference runbook.nosuch not found"}), submit(), ends()),
        world(invalid={"runbook": "templates.main inputs.parameters.must was not supplied"}),
        *(submit(name="op-2"), ends("op-2"), submit(name="op-3", template=""), ends("op-3")),
    ),
    "template-changed-mid-run": Story(
        "Workflow/op-1",
        *(world(outputs=VERSION), submit(Step("check", seconds=10), UPGRADE), runs()),
        *(delete("WorkflowTemplate", "runbook"), ends()),
    ),
    "suspend-node": Story("Workflow/op-1", submit(CHECK, Step("approve", suspend=True), UPGRADE), approved(), ends()),
    "suspend-node-with-duration": Story(
        "Workflow/op-1", submit(CHECK, Step("approve", seconds=4, suspend=True), UPGRADE), ends()
    ),
    "suspend-spec": Story(
        "Workflow/op-1",
        *(
            world(outputs=VERSION),
            submit(Step("check", seconds=8), UPGRADE, suspend=True),
            runs(),
            edited(suspend=None),
        ),
        until_is("Workflow", "op-1", lambda found: bool(found.get("status", "nodes"))),
        *(edited(suspend=True), rest(20), edited(suspend=None), ends()),
    ),
    "shutdown-at-suspend-node": Story(
        "Workflow/op-1", submit(Step("approve", suspend=True)), runs(), edited(shutdown="Stop"), ends()
    ),
    "shutdown-while-suspended": Story(
        "Workflow/op-1",
        *(submit(LONG, suspend=True), runs(), edited(shutdown="Terminate"), rest(12), edited(suspend=None), ends()),
    ),
    "pending-mutex": Story(
        "Workflow/op-1 Workflow/op-2",
        *(world(mutexes={"runbook": "target-a"}), submit(), runs(), submit(name="op-2"), ends("op-2")),
    ),
    "pending-mutex-shutdown": Story(
        "Workflow/op-1 Workflow/op-2",
        *(world(mutexes={"runbook": "target-a"}), submit(LONG), runs(), submit(name="op-2")),
        *(until("Workflow", "op-2", "Pending"), edited("op-2", shutdown="Terminate"), ends("op-2")),
    ),
    "pending-parallelism": Story(
        "Workflow/op-1 Workflow/op-2", world(parallelism=1), submit(), runs(), submit(name="op-2"), ends("op-2")
    ),
    "active-deadline": Story("Workflow/op-1", submit(LONG, activeDeadlineSeconds=5), ends()),
    "ttl": Story(
        "Workflow/op-1", submit(ttlStrategy={"secondsAfterCompletion": 3}), ends(), until_gone("Workflow", "op-1")
    ),
    "deleted": Story("Workflow/op-1", submit(LONG), runs(), delete("Workflow", "op-1"), rest(90)),
    "other-instance-id": Story(
        "Workflow/op-1", submit(labels={"workflows.argoproj.io/controller-instanceid": "other"}), rest(60)
    ),
    "controller-down": Story("Workflow/op-1", kill(), submit(), rest(4), serve(), runs(), kill(), serve(), ends()),
    "task-result-missing": Story("Workflow/op-1", submit(), ends()),
    "shutdown-stop": shut("Stop"),
    "shutdown-terminate": shut("Terminate"),
    "shutdown-pod-pending": shut("Terminate", handler=False),
    "shutdown-stop-kill-not-delivered": shut("Stop", lost=True),
    "shutdown-terminate-kill-not-delivered": shut("Terminate", lost=True),
}
"""The recordings, and what was done from outside."""


@pytest.mark.parametrize("recording", STORIES)
async def test_the_stand_in_writes_what_argo_was_recorded_writing(lab: Lab, recording: str) -> None:
    story = STORIES[recording]
    async with EngineStage(lab, KINDS, argo_crds()) as stage:
        await story.play(Argo(stage))
        real = recorded("argo", recording)
        assert set(story.objects) == {f"Workflow/{event.object['metadata']['name']}" for event in real}
        assert facts_of(stage.events, story.objects, fact) == facts_of(real, story.objects, fact)


async def test_another_apply_of_the_bare_spec_would_erase_a_shutdown(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, argo_crds()) as stage:
        intent = {"workflowTemplateRef": {"name": "runbook"}}
        made = KINDS["Workflow"].new("op-1", lab.namespace, spec=intent)
        await lab.client.apply(KINDS["Workflow"], made.to_dict(), force=True)
        await stage.edit("Workflow", "op-1", {"spec": {"shutdown": "Stop"}})
        await lab.client.apply(KINDS["Workflow"], made.to_dict(), force=True)
        assert (await lab.get(KINDS["Workflow"], "op-1")).get("spec") == intent
