"""Policies of a namespace and a target: allowed types of Operations, and maintenance windows."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from apps.operations import FREE, JOBS_FOR_ALL, Operations, has_object, phase, shows

from konverge.clock import from_rfc3339, wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge_testing import Lab

NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")
WINDOW = "ops.vworkspace.io/maintenance-window"
TYPES = "ops.vworkspace.io/allowed-types"
OUTSIDE = shows("Blocked", "True", "OutsideMaintenanceWindow")


def times(opens_in: timedelta, lasts: timedelta = timedelta(hours=1)) -> str:
    """A daily window that opens this long after now, to the minute."""
    opens = wall_clock() + opens_in
    return f"{opens:%H:%M}-{opens + lasts:%H:%M}"


async def namespace(lab: Lab, **annotations: str) -> None:
    body = {"metadata": {"annotations": annotations}}
    await lab.client.patch(NAMESPACE, lab.namespace, patch=body, style="merge")


async def target(lab: Lab, text: str | None) -> None:
    await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": {WINDOW: text}}})


async def start(lab: Lab, **settings: Any) -> Operations:
    here = await Operations(lab).start(FREE.model_copy(update=settings), rows=JOBS_FOR_ALL)
    await here.target(offers=dict.fromkeys(("backup", "restore", "upgrade", "migration", "runcommand"), "job"))
    return here


def message(found: Operation, type_: str = "Blocked") -> str:
    condition = found.find_condition(type_)
    assert condition is not None
    return condition.message


async def test_upgrade_waits_for_the_window_of_its_target_to_open(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(hours=5)))
    await here.create("up", "Upgrade")
    found = await here.until("up", OUTSIDE)
    opens = from_rfc3339(message(found).rpartition(" ")[2])
    assert timedelta(hours=4, minutes=58) < opens - wall_clock() <= timedelta(hours=5)
    assert "the maintenance window of ApplicationInstance shop, which opens at" in message(found)
    reconciles = len(lab.manager.runner("operation").history.recent())
    found = await lab.until(Operation, "up", has_object, timeout=6 * 3600)
    assert found.status.started_at is not None
    assert timedelta(0) <= from_rfc3339(found.status.started_at) - opens <= timedelta(seconds=1)
    assert len(lab.manager.runner("operation").history.recent()) - reconciles < 10


@pytest.mark.parametrize("type_", ["Backup", "RunCommand"])
async def test_an_operation_that_does_not_disrupt_its_target_starts_at_any_time(lab: Lab, type_: str) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(hours=5)))
    await here.create("run", type_)
    await here.until("run", has_object)


async def test_an_operation_that_runs_when_its_window_ends_goes_on(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(minutes=-5), timedelta(minutes=10)))
    await here.create("up", "Upgrade")
    await here.run_job("up")
    await asyncio.sleep(3600)
    assert (await here.complete("up")).status.phase == "Succeeded"


async def test_a_window_that_is_taken_away_lets_the_operation_start_at_once(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(hours=5)))
    await here.create("up", "Upgrade")
    await here.until("up", OUTSIDE)
    await target(lab, None)
    await here.until("up", has_object)


async def test_the_window_of_a_target_opens_nothing_that_its_namespace_closes(lab: Lab) -> None:
    here = await start(lab)
    await namespace(lab, **{WINDOW: times(timedelta(hours=5))})
    await target(lab, times(timedelta(minutes=-5)))
    await here.create("up", "Upgrade")
    found = await here.until("up", OUTSIDE)
    assert f"the maintenance window of namespace {lab.namespace}" in message(found)
    await namespace(lab, **{WINDOW: times(timedelta(minutes=-5))})
    await lab.until(Operation, "up", has_object, timeout=700)


async def test_the_window_of_a_target_narrows_the_window_of_its_namespace(lab: Lab) -> None:
    here = await start(lab)
    await namespace(lab, **{WINDOW: times(timedelta(minutes=-5))})
    await target(lab, times(timedelta(hours=5)))
    await here.create("up", "Upgrade")
    found = await here.until("up", OUTSIDE)
    assert "the maintenance window of ApplicationInstance shop" in message(found)
    await target(lab, times(timedelta(minutes=-5)))
    await here.until("up", has_object)


async def test_a_changed_window_of_the_namespace_is_read_within_ten_minutes(lab: Lab) -> None:
    here = await start(lab)
    await namespace(lab, **{WINDOW: times(timedelta(hours=5))})
    await here.create("up", "Upgrade")
    await here.until("up", OUTSIDE)
    await namespace(lab, **{WINDOW: times(timedelta(minutes=-5))})
    await lab.until(Operation, "up", has_object, timeout=700)


async def test_unreadable_window_blocks_every_start_and_the_condition_names_the_format(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, "0 22 * * 6")
    await here.create("up", "Upgrade")
    found = await here.until("up", OUTSIDE)
    assert message(found) == (
        "the annotation ops.vworkspace.io/maintenance-window of ApplicationInstance shop has a day that is none of Mon, Tue, Wed, Thu, "
        "Fri, Sat, Sun; write for instance Sat,Sun 22:00-06:00 Europe/Berlin; Wed 02:00-04:00"
    )
    await target(lab, times(timedelta(minutes=-5)))
    await here.until("up", has_object)


async def test_of_two_that_waited_for_one_window_the_older_goes_first(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(hours=1)))
    for number in range(4):
        await here.create(f"up-{number}", "Upgrade")
        await here.until(f"up-{number}", OUTSIDE)
        await asyncio.sleep(1)
    await lab.until(Operation, "up-0", has_object, timeout=2 * 3600)
    for number in range(4):
        await here.complete(f"up-{number}")
    ends = [(await here.get(f"up-{number}")).status.started_at or "" for number in range(4)]
    assert ends == sorted(ends)


async def test_a_type_that_the_namespace_does_not_allow_waits_until_it_does(lab: Lab) -> None:
    here = await start(lab)
    await namespace(lab, **{TYPES: "Backup, RunCommand"})
    await here.create("run")
    await here.until("run", has_object)
    await here.create("up", "Upgrade")
    found = await here.until("up", shows("Blocked", "True", "TypeNotAllowed"))
    assert shows("Accepted", "False", "CapabilityMissing")(found)
    assert message(found) == (
        f"namespace {lab.namespace} does not allow it: its annotation ops.vworkspace.io/allowed-types names only Backup, RunCommand"
    )
    await here.complete("run")
    await namespace(lab, **{TYPES: "Upgrade"})
    await lab.until(Operation, "up", has_object, timeout=60)


async def test_an_empty_list_of_types_allows_none(lab: Lab) -> None:
    here = await start(lab)
    await namespace(lab, **{TYPES: ""})
    await here.create("run")
    assert "names none of Backup, Migration" in message(await here.until("run", shows("Blocked", "True")))


async def test_a_setting_leaves_the_annotations_of_namespaces_unread(lab: Lab) -> None:
    here = await start(lab, namespace_policy=False)
    await namespace(lab, **{TYPES: "", WINDOW: "never"})
    await here.create("up", "Upgrade")
    await here.until("up", has_object)


async def test_an_operation_outside_of_its_window_keeps_no_other_one_waiting(lab: Lab) -> None:
    here = await start(lab)
    await target(lab, times(timedelta(hours=5)))
    await here.create("restore", "Restore")
    await here.until("restore", OUTSIDE)
    await here.create("backup", "Backup")
    await here.until("backup", has_object)
    await here.complete("backup")
    await here.until("restore", OUTSIDE, phase("Pending"))
