"""A seventh engine: the file and the row that tests/unit/apps/test_a_seventh_engine.py adds to a copy of the package, and its trial there.

Run as a program in a process that imports this copy of konverge: one Operation of this engine, from its creation to its end; prints the
result as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    DeleteChild,
    EngineRequest,
    EngineState,
    ObjectKey,
    ObjectRef,
    Observation,
    Refused,
    Rendered,
    child_name,
    child_place,
    object_lost,
)
from konverge.reconcilers.apps.operations.words import RunningReason, SucceededReason

NOTE: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")


class NoteEngine:
    """Performs a RunCommand by a ConfigMap that a person marks as done."""

    name: Final = "note"
    makes: Final = (NOTE,)
    reads: Final[tuple[Kind[Object], ...]] = ()
    gets: Final[tuple[Kind[Object], ...]] = ()

    def kind(self, request: EngineRequest) -> Kind[Object]:
        return NOTE

    def place(self, request: EngineRequest) -> ObjectKey:
        return child_place(request)

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        return ()

    def render(self, request: EngineRequest) -> Rendered | Refused:
        if set(request.parameters) != {"text"}:
            return Refused("parameters.text: write what is to be done, and nothing else")
        made = NOTE.new(child_name(request), request.operation.namespace, data=dict(request.parameters))
        return Rendered(made, {"noteName": made.name})

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        done = (child.get("data") or {}).get("done")
        if done:
            return Observation(EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, outputs={"done": str(done)})
        return Observation(EngineState.RUNNING, RunningReason.ENGINE_STARTED)

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        return object_lost(f"ConfigMap {child_name(request)}", asked_to_cancel=asked_to_cancel)

    def cancel(self, request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:
        return DeleteChild()


async def trial() -> dict[str, Any]:
    """Perform one Operation, with the settings and rows that the copy has by default."""
    from apps.operations import Operations, has_object, phase

    from konverge.reconcilers.apps.operations.install import controller
    from konverge.reconcilers.apps.operations.settings import OperationSettings
    from konverge.runtime.builder.rules import rules_of
    from konverge_testing.lab.environments import memory_lab

    async with memory_lab() as lab:
        ops = await Operations(lab).start(OperationSettings())
        await ops.target(offers={"runcommand": "note"})
        await ops.create("run", "RunCommand", "note", parameters={"text": "sweep"})
        made = await ops.until("run", has_object)
        assert made.status.engine_ref is not None
        await lab.patch(NOTE, made.status.engine_ref.name, {"data": {"done": "swept"}})
        done = await ops.until("run", phase("Succeeded"))
        rules = [rule for rule in rules_of(controller()) if "configmaps" in rule.resources]
    verbs = sorted({verb for rule in rules for verb in rule.verbs})
    return {"phase": done.status.phase, "outputs": done.status.outputs, "verbs": verbs}


if __name__ == "__main__":
    from konverge_testing.loop import VirtualTimeLoop

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        sys.stdout.write(json.dumps(runner.run(trial())))
