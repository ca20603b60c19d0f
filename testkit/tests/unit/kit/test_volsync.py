"""The stand-in for VolSync writes the same as the recorded VolSync.

Compared for each object of a recording: the condition, its message if it is an Error, lastManualSync, whether a run is under way, the
mover's result, the image, and token and pause of the spec, in their order and without repetitions. Not compared: times, logs, and a
momentary Error, which is random.
"""

from typing import Any

import pytest
from engine_stage import (
    Act,
    Actor,
    EngineStage,
    Story,
    act,
    delete,
    facts_of,
    recorded,
    rest,
    ways,
    world,
)
from recordings import Json, Line

from konverge_testing import Lab
from konverge_testing.volsync import KINDS, VolSyncController, VolSyncWorld, volsync_crds

SOURCE, DESTINATION = "ReplicationSource", "ReplicationDestination"
RESTIC = {"repository": "repo", "copyMethod": "Direct"}


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


def steady(events: list[Line]) -> list[Line]:
    """Leave out a momentary Error."""
    return [event for event in events if "Operation cannot be fulfilled" not in str(event.object.get("status"))]


class VolSync(Actor):
    """A stage with the controller."""

    def __init__(self, stage: EngineStage) -> None:
        super().__init__(stage)
        self.world = VolSyncWorld()

    def controller(self) -> VolSyncController:
        return VolSyncController(self.stage.lab.config, world=self.world, namespace=self.stage.lab.namespace)

    async def replicate(self, /, kind: str = SOURCE, name: str = "data", token: str | None = "t1", **spec: Any) -> None:
        volume = {"sourcePVC": "data"} if kind == SOURCE else {}
        trigger = {"trigger": {"manual": token}} if token else {}
        movers = {} if {"restic", "rclone", "none"} & {*spec} else {"restic": RESTIC}
        spec.pop("none", None)
        await self.stage.make(kind, name, {**volume, **trigger, **movers, **spec})

    async def done(self, token: str = "t1", kind: str = SOURCE, name: str = "data") -> None:
        await self.stage.until_is(
            kind,
            name,
            lambda found: (
                found.get("status", "lastManualSync") == token
                and (condition := found.find_condition("Synchronizing")) is not None
                and condition.reason == "WaitingForManual"
            ),
        )

    async def begun(self) -> None:
        await self.stage.until_is(SOURCE, "data", lambda found: bool(found.get("status", "lastSyncStartTime")))
        await self.stage.rest(1)

    async def edited(self, /, **spec: Any) -> None:
        await self.stage.edit(SOURCE, "data", {"spec": spec})

    async def triggered(self, token: str) -> None:
        await self.edited(trigger={"manual": token})


replicate, done, begun = act(VolSync.replicate), act(VolSync.done), act(VolSync.begun)
edited, triggered = act(VolSync.edited), act(VolSync.triggered)


def source(*acts: Act[VolSync]) -> Story[VolSync]:
    return Story(f"{SOURCE}/data", *acts)


STORIES: dict[str, Story[VolSync]] = {
    "source-completes": source(
        replicate(), *(step for token in ("t1", "t2", "t1") for step in (triggered(token), done(token)))
    ),
    "source-token-changed-mid-run": source(replicate(), begun(), triggered("t2"), done("t2"), rest(30)),
    "source-mover-fails": source(
        world(failing={"data": "Fatal: unable to open the remote"}),
        *(replicate(rclone={"rcloneConfig": "r", "copyMethod": "Direct"}), rest(20), world(failing={}), done()),
        *(world(seconds=60), triggered("t2"), begun()),
    ),
    "source-restic-job-fails-once": source(replicate(), done()),
    "source-pvc-missing": source(
        world(missing_volumes={"data"}), replicate(), rest(12), world(missing_volumes=set()), done()
    ),
    "source-secret-missing": source(
        world(missing_secrets={"repo"}), replicate(), rest(8), world(missing_secrets=set()), done()
    ),
    "source-no-copymethod": source(replicate(restic={"repository": "repo"}), rest(30)),
    "source-created-paused": source(replicate(paused=True), rest(10), edited(paused=None), done()),
    "source-paused": source(
        *(
            replicate(),
            begun(),
            edited(paused=True),
            rest(7),
            triggered("t2"),
            rest(4),
            edited(paused=None),
            done("t2"),
        ),
    ),
    "source-no-trigger": source(replicate(token=None), rest(9), delete(SOURCE, "data"), rest(9)),
    "source-manual-and-schedule": source(
        replicate(trigger={"manual": "t1", "schedule": "* * * * *"}), done(), rest(65)
    ),
    "source-deleted-mid-run": source(replicate(), begun(), delete(SOURCE, "data"), rest(10)),
    "source-copymethod-snapshot": source(
        *(world(waiting_snapshots={"data"}), replicate(restic={"repository": "repo", "copyMethod": "Snapshot"})),
        *(rest(13), world(waiting_snapshots=set()), done()),
    ),
    "destination-completes": Story(
        f"{DESTINATION}/data {DESTINATION}/snap",
        *(replicate(DESTINATION, "data", restic={**RESTIC, "destinationPVC": "data"}), done("t1", DESTINATION, "data")),
        replicate(DESTINATION, "snap", restic={"repository": "repo", "copyMethod": "Snapshot"}),
        done("t1", DESTINATION, "snap"),
    ),
}
"""The recordings, and what was done from outside."""


async def played(lab: Lab, story: Story[VolSync]) -> list[Line]:
    async with EngineStage(lab, KINDS, volsync_crds()) as stage:
        await story.play(VolSync(stage))
    return stage.events


@pytest.mark.parametrize("recording", STORIES)
async def test_the_stand_in_writes_what_volsync_was_recorded_writing(lab: Lab, recording: str) -> None:
    story = STORIES[recording]
    events, real = steady(await played(lab, story)), steady(recorded("volsync", recording))
    assert facts_of(events, story.objects, fact) == facts_of(real, story.objects, fact)


async def test_copy_run_shows_a_short_error_unless_the_world_is_calm(lab: Lab) -> None:
    flickers = await played(lab, source(replicate(), done()))
    assert len(steady(flickers)) < len(flickers)


async def test_none_and_two_movers_give_the_same_error(lab: Lab) -> None:
    two = replicate(name="two", restic=RESTIC, rclone={"copyMethod": "Direct"})
    events = await played(lab, source(replicate(name="none", none=True), two, rest(5)))
    ends = [ways(events, f"{SOURCE}/{name}", fact)[0][-1] for name in ("none", "two")]
    assert ends[0] == ends[1]
    assert ends[0][0] == "False/Error"
