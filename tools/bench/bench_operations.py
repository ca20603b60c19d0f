"""Operations at their size, on the server in memory: 1,000 Operations that exclude each other on 100 targets, a daemon that holds 5,000
finished Operations, and 200 waiting Operations while each of 1,000 Helm releases changes.

Server, controller, client and the Job controller's part are one process on a loop whose time is virtual, so times of Operations are virtual
seconds, and costs are CPU time, the server's included. Each Job takes one second; an Operation cannot end sooner. Writes are counted as
the server receives them from the controller.
"""

import asyncio
import gc
import json
import os
from datetime import timedelta
from typing import Any, Final

from harness import PROCESS, Part, World, in_batches, virtual
from peers.machine import memory
from rows import QUICK, Row, row

from konverge.clock import rfc3339, wall_clock
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.reconcilers.apps.kinds import HELM_RELEASE, SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.argo import argo_crds
from konverge_testing.flux import flux_crds
from konverge_testing.lab import install_crds

TARGETS: Final = 10 if QUICK else 100
OPERATIONS: Final = 50 if QUICK else 1000
FINISHED: Final = 100 if QUICK else 5000
WAITING: Final = 20 if QUICK else 200
RELEASES: Final = 100 if QUICK else 1000
REST: Final = 3600.0
JOB_SECONDS: Final = 1.0
JOB: Final = kind("batch/v1", "Job", namespaced=True, plural="jobs")


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    return virtual(_measured)


class OperationsWorld(World):
    """A lab with the controller of Operations, and Jobs that complete after a second."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.succeeded: set[str] = set()
        """Names of Operations whose success was written."""
        self._jobs: set[asyncio.Task[None]] = set()

    def wrote(self, call: Call, about: About, response: Response) -> None:
        """Count a write, note a success, and complete a new Job."""
        super().wrote(call, about, response)
        if about.resource == "operations" and b'"phase":"Succeeded"' in (call.body or b""):
            self.succeeded.add(about.name)
        if about.verb == "create" and about.resource == "jobs" and response.status < 300:
            task = asyncio.ensure_future(self._complete(json.loads(call.body or b"")["metadata"]["name"]))
            self._jobs.add(task)
            task.add_done_callback(self._jobs.discard)

    async def _complete(self, name: str) -> None:
        await asyncio.sleep(JOB_SECONDS)
        await self.lab.patch(JOB, name, {"status": _completed()}, subresource="status")

    async def start(self, **changes: Any) -> None:
        """Start the controller, and wait until it is idle."""
        settings = OperationSettings(approval_types=frozenset(), require_capability=False, **changes)

        def build(manager: Manager) -> None:
            manager.add(controller(settings))

        await self.lab.start(build, name=PROCESS, settings=ManagerSettings(strict=True), crds=False)
        await self.quiet()

    async def targets(self) -> None:
        """Create the applications, and the account as which the pods of commands run."""
        await self.lab.create(SERVICE_ACCOUNT.new(OperationSettings().runner_service_account))
        spec = {"mode": "placeholder", "appRef": {"catalogId": "shop"}}
        await in_batches(
            self.lab.create(ApplicationInstance.decode({"metadata": {"name": f"app-{number:03}"}, "spec": spec}))
            for number in range(TARGETS)
        )

    async def operations(self, first: int, count: int, *, exclusive: bool) -> None:
        await in_batches(self._operation(number, exclusive=exclusive) for number in range(first, first + count))

    async def _operation(self, number: int, *, exclusive: bool) -> None:
        parameters = {"image": "busybox", "command": ["true"], "exclusive": exclusive}
        spec = {"targetRef": _target(number), "type": "RunCommand", "engine": "job", "parameters": parameters}
        await self.lab.create(Operation.decode({"metadata": {"name": f"op-{number:05}"}, "spec": spec}))

    async def until_succeeded(self, count: int) -> None:
        while len(self.succeeded) < count:
            await asyncio.sleep(0.1)

    async def waiting(self) -> None:
        """Create releases that no controller has deployed, and Operations that wait for a release, an approval, or a template."""
        source = {"kind": "OCIRepository", "name": "shop"}
        spec = {"interval": "5m", "chartRef": source}
        names = [f"app-{number:03}" for number in range(RELEASES)]
        await in_batches(self.lab.create(HELM_RELEASE.new(name, self.lab.namespace, spec=spec)) for name in names)
        waits: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
            ("Migration", "helmHookJob", {"hookName": "migrate"}, False),
            ("Upgrade", "helm", {"targetVersion": "1.1.0"}, True),
            ("Runbook", "workflow", {"workflowTemplate": "absent"}, False),
        )
        for number in range(WAITING):
            type_, engine, parameters, required = waits[number % len(waits)]
            body = {"targetRef": _target(number), "type": type_, "engine": engine, "parameters": parameters}
            body["approvals"] = {"required": required}
            await self.lab.create(Operation.decode({"metadata": {"name": f"wait-{number:03}"}, "spec": body}))
        await self.quiet()

    async def poke(self) -> None:
        """Change a label of each release."""
        change = {"metadata": {"labels": {"poke": "1"}}}
        await in_batches(self.lab.patch(HELM_RELEASE, f"app-{number:03}", change) for number in range(RELEASES))
        await self.lab.settled()


def _target(number: int) -> dict[str, Any]:
    name = f"app-{number % TARGETS:03}"
    return {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": name}


async def _measured() -> list[Row]:
    async with OperationsWorld.open() as world:
        await install_crds(world.lab.client, [crd(Operation), crd(ApplicationInstance)])
        await world.start()
        await world.targets()
        rows = await _serialised(world)
        await world.operations(OPERATIONS, FINISHED - OPERATIONS, exclusive=False)
        await world.until_succeeded(FINISHED)
        await world.quiet()
        rows += await _at_rest(world)
    async with OperationsWorld.open() as world:
        crds = [crd(Operation), crd(ApplicationInstance), *flux_crds(), *argo_crds()]
        await install_crds(world.lab.client, crds)
        await world.start(ready_types=frozenset(), settled_types=frozenset())
        await world.targets()
        return [*rows, *await _woken(world)]


async def _woken(world: OperationsWorld) -> list[Row]:
    await world.waiting()
    how = f"{WAITING:,} Operations wait on {TARGETS} targets; a label of each of {RELEASES:,} HelmReleases changes"
    part = Part(world, "waiting", how)
    await world.poke()
    part.stop()
    assert part.seconds < 30, "Operations look again by themselves after 30 s"
    part.add("reconciles for each event", part.reconciles / RELEASES, "reconciles/event", "<= 1")
    part.add("CPU", 1000 * part.cpu / RELEASES, "ms/event", remark="the server's part included")
    return part


async def _serialised(world: OperationsWorld) -> list[Row]:
    await world.quiet()
    how = f"{OPERATIONS:,} exclusive commands on {TARGETS} targets, all at once; a Job takes {JOB_SECONDS:g} s; server in memory in the same process"
    part, each = Part(world, "serialised", how), OPERATIONS / TARGETS
    await world.operations(0, OPERATIONS, exclusive=True)
    await world.until_succeeded(OPERATIONS)
    part.stop()
    took = part.seconds
    await world.quiet()
    part.stop()
    unit, remark = "writes/operation", f"{each:g} after each other take {each * JOB_SECONDS:g} s"
    part.add("virtual time until all are done", took, "s", remark=remark)
    part.add("CPU", 1000 * part.cpu / OPERATIONS, "ms/operation", remark="the server's work counts in full")
    part.add("reconciles", part.reconciles / OPERATIONS, "reconciles/operation")
    part.add_writes("Jobs", "jobs", "Jobs", OPERATIONS)
    part.add_writes("status writes", "operations/status", unit, per=OPERATIONS)
    part.add_writes("Lease writes", "leases", unit, per=OPERATIONS)
    part.add_writes("other writes of Operations", "operations", unit, per=OPERATIONS, remark="the finalizer")
    part.add_writes("Events", "events", unit, per=OPERATIONS)
    part.add_writes("all writes", "", unit, per=OPERATIONS)
    return part


async def _at_rest(world: OperationsWorld) -> list[Row]:
    how = f"{FINISHED:,} finished Operations, their Jobs still there"
    rest = Part(world, "at rest", f"{how}; {REST:g} s")
    await asyncio.sleep(REST)
    rest.stop()
    rest.add_writes("writes", "", "writes", 0)
    rest.add("reconciles", rest.reconciles, "reconciles", 0)
    rest.add("CPU", 1e6 * rest.cpu / REST, "us/s")
    world.lab.halt()
    await asyncio.sleep(60)
    gc.collect()
    before = memory([os.getpid()]).now
    restart = Part(world, "restart", how)
    await world.start()
    restart.stop()
    gc.collect()
    grown = memory([os.getpid()]).now - before
    remark = "list, cache and one reconcile of each, the server's part included"
    restart.add_writes("writes", "", "writes", 0)
    restart.add("CPU", 1000 * restart.cpu / FINISHED, "ms/operation", remark=remark)
    after = f"{how}: resident memory after a restart of the controller, less that before it"
    return [*rest, *restart, row("memory", 1024 * grown / FINISHED, "KiB/operation", after)]


def _completed() -> dict[str, Any]:
    """Return the status of a Job that has completed, as its controller writes it."""
    now = wall_clock()

    def condition(type_: str) -> dict[str, Any]:
        moment = rfc3339(now)
        return {
            "type": type_,
            "status": "True",
            "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
            "lastProbeTime": moment,
            "lastTransitionTime": moment,
        }

    return {
        "startTime": rfc3339(now - timedelta(seconds=JOB_SECONDS)),
        "completionTime": rfc3339(now),
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }
