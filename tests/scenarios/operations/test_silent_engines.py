"""Operations whose engine's controller is stopped while its object runs: Velero, Argo and VolSync."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from apps.engine_shop import EngineShop
from apps.operations import phase, shows

from konverge.crds.ops_v1alpha1 import Operation
from konverge_testing import Lab
from konverge_testing.argo import Step
from konverge_testing.loop import CLOCK_ERROR

QUARTER = 900.0
"""Seconds of `engine_silence`."""
ENDS = {"cancel": ("Cancelled", "UserCancelled"), "timeout": ("Failed", "Timeout"), "delete": ("", "")}
WORK: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "velero": ("Backup", "velero", {}, "a Velero that starts again"),
    "velero-restore": ("Restore", "velero", {}, "a Velero that starts again"),
    "workflow": ("Runbook", "workflow", {"workflowTemplate": "runbook", "exclusive": True}, "deleted"),
    "volsync": ("Backup", "volsync", {"pvc": "data", "repository": {"secretName": "repo"}}, "deleted"),
}
"""Type, engine, parameters, and a part of the message of an end without the controller."""
COPY: dict[str, Any] = {"pvc": "data", "repository": {"secretName": "repo"}}


@pytest.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield EngineShop(lab, stack)


async def begin(shop: EngineShop, work: str, **spec: Any) -> None:
    """Start an Operation `run` whose object runs for hours."""
    await shop.open()
    type_, engine, parameters, _ = WORK[work]
    if type_ == "Restore":
        await shop.backup()
        made = await shop.until("backup", phase("Succeeded"))
        parameters = {"backupName": made.status.outputs["backupName"]}
    shop.velero.seconds[shop.lab.namespace] = 36_000.0
    shop.argo.steps["runbook"] = (Step("slow", seconds=36_000.0),)
    shop.volsync.seconds = 36_000.0
    await shop.create("run", type_, engine, parameters=parameters, **spec)
    await shop.until("run", phase("Running"))
    await shop.lab.settled()


async def put_in_line(shop: EngineShop) -> None:
    """Create a Restore that the Operation `run` excludes."""
    await shop.create("next", "Restore", "volsync", parameters=COPY)
    await shop.until("next", shows("Blocked", "True", "ConflictingOperation"))


async def stop(shop: EngineShop, by: str) -> None:
    if by == "cancel":
        await shop.cancel("run")
    elif by == "delete":
        await shop.lab.delete(Operation, "run")


@pytest.mark.parametrize("by", ENDS)
@pytest.mark.parametrize("work", WORK)
async def test_an_operation_whose_controller_is_gone_ends_and_the_next_one_starts(
    shop: EngineShop, work: str, by: str
) -> None:
    await begin(shop, work, **({"timeoutSeconds": 3600} if by == "timeout" else {}))
    await shop.kill_engines()
    await put_in_line(shop)
    await asyncio.sleep(3000)
    assert not (await shop.lab.get(Operation, "run")).finished, "it waits for its engine until it has to stop"
    await stop(shop, by)
    if by == "delete":
        await shop.lab.until_gone(Operation, "run", timeout=QUARTER + 700)
    else:
        wanted, reason = ENDS[by]
        found = await shop.lab.until(Operation, "run", phase(wanted), timeout=QUARTER + 700)
        end = found.condition(wanted)
        assert end.reason == reason
        assert WORK[work][3] in end.message
    await shop.lab.until(
        Operation,
        "next",
        lambda made: made.status.engine_ref is not None and bool(made.status.engine_ref.uid),
        timeout=60,
    )


@pytest.mark.parametrize("work", WORK)
async def test_an_operation_whose_controller_is_gone_says_that_nothing_moves_its_object(
    shop: EngineShop, work: str
) -> None:
    await begin(shop, work)
    await shop.kill_engines()
    await asyncio.sleep(QUARTER + 120)
    found = await shop.lab.get(Operation, "run")
    running = found.condition("Running")
    assert "has not been written since" in running.message
    assert "no controller has seen it" not in running.message
    assert (running.reason == "EngineSilent") == work.startswith("velero")
    before = found.metadata.resource_version
    shop.lab.crash()
    await asyncio.sleep(2 * QUARTER)
    assert (await shop.lab.get(Operation, "run")).metadata.resource_version == before, "a restart changes nothing"


async def test_object_without_status_is_reported_as_seen_by_no_controller(shop: EngineShop) -> None:
    await shop.open()
    await shop.kill_engines()
    await shop.replicate("copy")
    await shop.runbook("book")
    await shop.backup("nightly")
    await asyncio.sleep(QUARTER + 120)
    for name, what in (("copy", "ReplicationSource"), ("book", "Workflow"), ("nightly", "Backup")):
        found = (await shop.lab.get(Operation, name)).condition("Running")
        assert (found.status, found.reason) == ("False", "EngineSilent")
        assert f"{what} " in found.message
        assert "has no status, so no controller has seen it since 2030-01-01T00:0" in found.message
        assert "has not been written" not in found.message


@pytest.mark.parametrize("work", ["velero", "velero-restore"])
async def test_server_that_validates_its_location_is_awaited_without_a_time_limit(shop: EngineShop, work: str) -> None:
    await begin(shop, work)
    await shop.cancel("run")
    await asyncio.sleep(4 * QUARTER)
    running = (await shop.lab.get(Operation, "run")).condition("Running")
    assert (running.status, running.reason) == ("True", "Stopping")
    assert "not been written" not in running.message


async def test_process_with_a_fast_clock_waits_for_a_live_server(shop: EngineShop) -> None:
    """For a process with a fast clock every write of another process and every validation of a location is hours old."""
    await begin(shop, "velero")
    await shop.cancel("run")
    await shop.lab.stop()
    token = CLOCK_ERROR.set(4 * 3600)
    try:
        await shop.restarted()
    finally:
        CLOCK_ERROR.reset(token)
    await asyncio.sleep(4 * QUARTER)
    assert not (await shop.lab.get(Operation, "run")).finished
    await shop.kill_velero()
    await shop.lab.until(Operation, "run", phase("Cancelled"), timeout=2 * QUARTER + 120)


async def test_a_restarted_process_knows_a_server_that_lives_by_its_validations(shop: EngineShop) -> None:
    await begin(shop, "velero")
    await asyncio.sleep(2 * QUARTER)
    shop.lab.crash()
    await asyncio.sleep(120)
    assert shows("Running", "True", "EngineStarted")(await shop.lab.get(Operation, "run"))


async def test_a_workflow_whose_controller_is_alive_is_shut_down_and_stays(shop: EngineShop) -> None:
    await begin(shop, "workflow")
    await asyncio.sleep(2 * QUARTER)
    await shop.cancel("run")
    found = await shop.until("run", phase("Cancelled"))
    assert "Stopped with strategy" in found.condition("Cancelled").message
    assert (await shop.child("Workflow", "run")).get("status", "phase") == "Failed"


async def test_a_controller_that_comes_back_in_time_reports_the_end_itself(shop: EngineShop) -> None:
    await begin(shop, "velero")
    await shop.kill_velero()
    await asyncio.sleep(QUARTER + 120)
    await shop.serve_velero()
    failed = await shop.until("run", phase("Failed"))
    assert 'mark it as "Failed"' in failed.condition("Failed").message
