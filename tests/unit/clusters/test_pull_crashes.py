"""Row X8: the agent dies before and after every write and every request, and nothing is lost and nothing done twice."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from pull_kit import BACKUP, World, ensure, manifest

from konverge.errors import NotFound
from konverge.reconcilers.clusters import room
from konverge.reconcilers.clusters.journal import Journal
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.reconcilers.clusters.secrets import _decoded

OLD = manifest("old", labels={"app.vworkspace.io/managed-by": "control-plane"})
EXPECTED = {
    "ensure": Outcome.SUCCEEDED,
    "again": Outcome.NOOP,
    "backup": Outcome.SUCCEEDED,
    "delete": Outcome.SUCCEEDED,
    "rotate": Outcome.SUCCEEDED,
    "late": Outcome.NOOP,
    "bad": Outcome.FAILED,
}


def submit(world: World) -> None:
    submit = world.plane.submit
    submit("intent", ensure(), key="ApplicationInstance/web/shop@1", job_id="ensure")
    submit("apply", manifest(), key="ApplicationInstance/web/shop@1", job_id="again")
    submit("intent", {"intent": "request-operation", "namespace": "web", "spec": BACKUP}, job_id="backup")
    submit("intent", {"intent": "delete-application-instance", "namespace": "web", "name": "old"}, job_id="delete")
    submit("intent", {"intent": "rotate-operator-credentials"}, job_id="rotate")
    submit("intent", ensure("late"), lifetime=0, job_id="late")
    submit("apply", {"kind": "Secret"}, job_id="bad")


async def play(fatal: int = 0, cut: int = 0) -> tuple[World, Counter[str], bool]:
    """Play the jobs with a crash or a cut connection at this moment; returns the generations of the instances, the number of Operations,
    and whether that moment was reached.
    """
    async with World() as world:
        made: Counter[str] = Counter()

        async def recreate() -> None:
            await world.client.create(APPLICATION_INSTANCE.decode({**OLD}))

        await recreate()
        world.steps.fatal, world.steps.cut = fatal, cut
        submit(world)
        await world.start()
        died = asyncio.create_task(world.steps.died.wait())
        done = asyncio.create_task(
            world.plane.until(lambda: all(job.result for job in world.plane.state.jobs.values()))
        )
        await asyncio.wait({died, done}, return_when=asyncio.FIRST_COMPLETED)
        crashed = world.steps.died.is_set()
        if crashed:
            await world.kill()
            try:
                await world.instance("old")
            except NotFound:
                await recreate()  # another object of the name, after the first was deleted: it has to stay
                made["expected old"] = 1
            world.steps = type(world.steps)()
            await world.start()
        died.cancel()
        await done
        # The journal is written once more after the last result.
        await asyncio.sleep(5)
        await world.kill()
        for entry in world.server.store.list(("apps.vworkspace.io", "applicationinstances")):
            made[str(entry.object()["metadata"]["name"])] = int(entry.object()["metadata"]["generation"])
        made["operations"] = len(await world.operations())
        journal = Journal.decode(_decoded(await world.secret("vworkspace-agent-journal")))
        assert journal.entries == ()
        return world, made, crashed or 0 < cut <= world.steps.count


def outcomes(world: World) -> dict[str, Any]:
    return {name: None if job.result is None else job.result.outcome for name, job in world.plane.state.jobs.items()}


async def test_without_a_crash_every_job_is_acknowledged_and_reported_once() -> None:
    world, made, _ = await play()
    assert outcomes(world) == EXPECTED
    assert all(job.repeated == 0 for job in world.plane.state.jobs.values())
    # A job that the agent rejects, or has executed before, has a result at once.
    at_once = {"again", "late", "bad"}
    assert {name: job.acks for name, job in world.plane.state.jobs.items()} == {
        n: int(n not in at_once) for n in EXPECTED
    }
    assert made == {"shop": 1, "operations": 1}
    assert world.plane.state.registrations == 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fatal", "cut"])
@pytest.mark.parametrize("full", [False, True], ids=["with places", "without a place for a job that waits"])
async def test_x8_crash_or_lost_connection_loses_no_job_and_repeats_none(
    fault: str, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if full:
        monkeypatch.setattr(room, "JOURNAL_BYTES", 0)
        monkeypatch.setattr(room, "TRIED_BYTES", 256 * 1024)
    moment = 1
    while True:
        world, made, struck = await play(**{fault: moment})
        if not struck:
            break
        assert outcomes(world) == EXPECTED, moment
        old = made.pop("expected old", 0)
        assert made == {"shop": 1, "operations": 1, **({"old": 1} if old else {})}, moment
        moment += 1
    assert moment > (40 if full else 50)  # the story has that many moments
