"""The stand-in for VolSync writes the same as the recorded VolSync.

Compared for each object of a recording: the condition, its message if it is an Error, lastManualSync, whether a run is under way, the
mover's result, the image, and token and pause of the spec, in their order and without repetitions. Not compared: times, logs, and a
momentary Error, which is random.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine_stage import EngineStage, Event, Json, recorded, ways

from konverge_testing import Lab
from konverge_testing.volsync import KINDS, VolSyncController, VolSyncWorld, volsync_crds

SOURCE, DESTINATION = "ReplicationSource", "ReplicationDestination"
RESTIC = {"repository": "repo", "copyMethod": "Direct"}
Script = Callable[["VolSync"], Awaitable[None]]


def fact(type_: str, made: Json) -> Any:
    if type_ == "DELETED":
        return "gone"
    status, spec = made.get("status") or {}, made["spec"]
    condition: Json = next(iter(status.get("conditions") or ()), {})
    reason = condition.get("reason", "")
    return (
        f"{condition.get('status', '')}/{reason}",
        condition["message"] if reason == "Error" else "",
        "runs" if status.get("lastSyncStartTime") else "",
        status.get("lastManualSync", ""),
        (status.get("latestMoverStatus") or {}).get("result", ""),
        (status.get("latestImage") or {}).get("kind", ""),
        (spec.get("trigger") or {}).get("manual", ""),
        bool(spec.get("paused")),
    )


def steady(events: list[Event]) -> list[Event]:
    """Leave out a momentary Error."""
    return [event for event in events if "Operation cannot be fulfilled" not in str(event.object.get("status"))]


class VolSync:
    """A stage with the controller; verbs of the recordings' steps."""

    def __init__(self, stage: EngineStage, world: VolSyncWorld) -> None:
        self.stage, self.world = stage, world

    async def make(self, kind: str = SOURCE, name: str = "data", token: str | None = "t1", **spec: Any) -> None:
        volume = {"sourcePVC": "data"} if kind == SOURCE else {}
        trigger = {"trigger": {"manual": token}} if token else {}
        movers = {} if {"restic", "rclone", "none"} & {*spec} else {"restic": RESTIC}
        spec.pop("none", None)
        await self.stage.make(kind, name, {**volume, **trigger, **movers, **spec})

    async def done(self, token: str = "t1", kind: str = SOURCE, name: str = "data") -> None:
        await self.stage.until_is(
            kind,
            name,
            lambda made: (
                made.get("status", "lastManualSync") == token
                and (condition := made.find_condition("Synchronizing")) is not None
                and condition.reason == "WaitingForManual"
            ),
        )

    async def begun(self) -> None:
        await self.stage.until_is(SOURCE, "data", lambda made: bool(made.get("status", "lastSyncStartTime")))
        await self.stage.rest(1)

    async def spec(self, **spec: Any) -> None:
        await self.stage.edit(SOURCE, "data", {"spec": spec})

    async def token(self, token: str) -> None:
        await self.spec(trigger={"manual": token})


async def source_completes(v: VolSync) -> None:
    await v.make()
    for token in ("t1", "t2", "t1"):
        await v.token(token)
        await v.done(token)


async def source_token_changed_mid_run(v: VolSync) -> None:
    await v.make()
    await v.begun()
    await v.token("t2")
    await v.done("t2")
    await v.stage.rest(30)


async def source_mover_fails(v: VolSync) -> None:
    v.world.failing["data"] = "Fatal: unable to open the remote"
    await v.make(rclone={"rcloneConfig": "r", "copyMethod": "Direct"})
    await v.stage.rest(20)
    v.world.failing.clear()
    await v.done()
    v.world.seconds = 60
    await v.token("t2")
    await v.begun()


async def source_restic_job_fails_once(v: VolSync) -> None:
    await v.make()
    await v.done()


async def source_pvc_missing(v: VolSync) -> None:
    v.world.missing_volumes.add("data")
    await v.make()
    await v.stage.rest(12)
    v.world.missing_volumes.clear()
    await v.done()


async def source_secret_missing(v: VolSync) -> None:
    v.world.missing_secrets.add("repo")
    await v.make()
    await v.stage.rest(8)
    v.world.missing_secrets.clear()
    await v.done()


async def source_no_copymethod(v: VolSync) -> None:
    await v.make(restic={"repository": "repo"})
    await v.stage.rest(30)


async def source_created_paused(v: VolSync) -> None:
    await v.make(paused=True)
    await v.stage.rest(10)
    await v.spec(paused=None)
    await v.done()


async def source_paused(v: VolSync) -> None:
    await v.make()
    await v.begun()
    await v.spec(paused=True)
    await v.stage.rest(7)
    await v.token("t2")
    await v.stage.rest(4)
    await v.spec(paused=None)
    await v.done("t2")


async def source_no_trigger(v: VolSync) -> None:
    await v.make(token=None)
    await v.stage.rest(9)
    await v.stage.delete(SOURCE, "data")
    await v.stage.rest(9)


async def source_manual_and_schedule(v: VolSync) -> None:
    await v.make(trigger={"manual": "t1", "schedule": "* * * * *"})
    await v.done()
    await v.stage.rest(65)


async def source_deleted_mid_run(v: VolSync) -> None:
    await v.make()
    await v.begun()
    await v.stage.delete(SOURCE, "data")
    await v.stage.rest(10)


async def source_copymethod_snapshot(v: VolSync) -> None:
    v.world.waiting_snapshots.add("data")
    await v.make(restic={"repository": "repo", "copyMethod": "Snapshot"})
    await v.stage.rest(13)
    v.world.waiting_snapshots.clear()
    await v.done()


async def destination_completes(v: VolSync) -> None:
    await v.make(DESTINATION, "data", restic={**RESTIC, "destinationPVC": "data"})
    await v.done("t1", DESTINATION, "data")
    await v.make(DESTINATION, "snap", restic={"repository": "repo", "copyMethod": "Snapshot"})
    await v.done("t1", DESTINATION, "snap")


SCRIPTS: dict[str, tuple[Script, tuple[str, ...]]] = {
    script.__name__.replace("_", "-"): (
        script,
        (f"{SOURCE}/data",) if script is not destination_completes else (f"{DESTINATION}/data", f"{DESTINATION}/snap"),
    )
    for script in (
        *(source_completes, source_token_changed_mid_run, source_mover_fails, source_restic_job_fails_once),
        *(source_pvc_missing, source_secret_missing, source_no_copymethod, source_created_paused, source_paused),
        *(source_no_trigger, source_manual_and_schedule, source_deleted_mid_run, source_copymethod_snapshot),
        destination_completes,
    )
}
"""A recording, what was done from outside, and the objects that are compared."""


async def play(lab: Lab, script: Script, **world: Any) -> EngineStage:
    async with EngineStage(lab, KINDS, volsync_crds()) as stage:
        volsync = VolSync(stage, VolSyncWorld(**world))
        await stage.stack.enter_async_context(
            VolSyncController(lab.config, world=volsync.world, namespace=lab.namespace)
        )
        await script(volsync)
    return stage


@pytest.mark.parametrize("recording", SCRIPTS)
async def test_the_stand_in_writes_what_volsync_was_recorded_writing(lab: Lab, recording: str) -> None:
    script, objects = SCRIPTS[recording]
    stage = await play(lab, script)
    assert {which: ways(steady(stage.events), which, fact) for which in objects} == {
        which: ways(steady(recorded("volsync", recording)), which, fact) for which in objects
    }


async def test_a_run_shows_an_error_for_a_moment_unless_the_world_is_calm(lab: Lab) -> None:
    async def one(v: VolSync) -> None:
        await v.make()
        await v.done()

    flickers = (await play(lab, one)).events
    assert len(steady(flickers)) < len(flickers)


async def test_none_and_two_movers_give_the_same_error(lab: Lab) -> None:
    async def both(v: VolSync) -> None:
        await v.make(name="none", none=True)
        await v.make(name="two", restic=RESTIC, rclone={"copyMethod": "Direct"})
        await v.stage.rest(5)

    stage = await play(lab, both)
    ends = [stage.ways(f"{SOURCE}/{name}", fact)[0][-1] for name in ("none", "two")]
    assert ends[0] == ends[1]
    assert ends[0][0] == "False/Error"
