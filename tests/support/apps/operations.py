"""A lab that runs Operations: Ready targets, Jobs whose end the test decides, and invariants that hold at every moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from konverge.clock import rfc3339, wall_clock
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.engines.job import JobEngine
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime import Manager
from konverge_testing import Lab, install_crds

JOB = kind("batch/v1", "Job", namespaced=True, plural="jobs")
FREE = OperationSettings(approval_types=frozenset())
COMMAND: dict[str, Any] = {"image": "busybox", "command": ["true"]}
OFFERS = {
    "backup": "job,velero",
    "restore": "job,velero",
    "upgrade": "helm,job",
    "migration": "job,helmHookJob,workflow",
    "runcommand": "job,helmHookJob",
    "runbook": "job,workflow",
}


class Operations:
    """A lab that runs the controller of Operations."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    async def start(
        self, settings: OperationSettings = FREE, *, rows: tuple[EngineRow, ...] = ROWS, cluster_id: str = ""
    ) -> Operations:
        await install_crds(self.lab.client, [crd(Operation), crd(ApplicationInstance)])
        return await self.run(settings, rows=rows, cluster_id=cluster_id)

    async def run(
        self,
        settings: OperationSettings = FREE,
        *,
        rows: tuple[EngineRow, ...] = ROWS,
        cluster_id: str = "",
        wait: bool = True,
        crds: bool = True,
    ) -> Operations:
        """Start the controller; without `crds` if an earlier start has installed them."""

        def build(manager: Manager) -> None:
            counts = OperationMetrics.within(manager.metrics)
            manager.add(controller(settings, cluster_id=cluster_id, rows=rows, metrics=counts))

        await self.lab.start(build, name="konverge", wait=wait, crds=crds)
        return self

    async def create_account(self, name: str = FREE.runner_service_account) -> None:
        """Create the account as which the pods of commands run."""
        await self.lab.client.apply(SERVICE_ACCOUNT, SERVICE_ACCOUNT.new(name, self.lab.namespace).to_dict())

    async def target(
        self,
        name: str = "shop",
        *,
        ready: bool | None = True,
        reason: str = "Placeholder",
        offers: dict[str, str] | None = None,
    ) -> None:
        """Create an ApplicationInstance in the state that the family would leave, and the account of pods; without the condition if `ready`
        is None.
        """
        await self.create_account()
        verbs = OFFERS if offers is None else offers
        made = await self.lab.create(
            ApplicationInstance.decode(
                {
                    "metadata": {
                        "name": name,
                        "annotations": {f"ops.vworkspace.io/{verb}": engine for verb, engine in verbs.items()},
                    },
                    "spec": {"mode": "placeholder", "appRef": {"catalogId": "shop"}},
                }
            )
        )
        if ready is not None:
            await self.ready(name, made.generation, ready=ready, reason=reason)

    async def ready(
        self, name: str = "shop", generation: int = 1, *, ready: bool = True, reason: str = "Placeholder"
    ) -> None:
        """Set the condition Ready of a target."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": rfc3339(wall_clock()),
            "observedGeneration": generation,
        }
        await self.lab.patch(
            ApplicationInstance,
            name,
            {"status": {"observedGeneration": generation, "conditions": [condition]}},
            subresource="status",
        )

    async def create(
        self,
        name: str = "run",
        type_: str = "RunCommand",
        engine: str = "job",
        *,
        target: str = "shop",
        parameters: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Operation:
        ref = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": target}
        given = COMMAND if parameters is None else parameters
        return await self.lab.create(
            Operation.decode(
                {
                    "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
                    "spec": {"targetRef": ref, "type": type_, "engine": engine, "parameters": given, **spec},
                }
            )
        )

    async def until(self, name: str, *tests: Callable[[Operation], bool]) -> Operation:
        """Wait until the Operation meets all tests."""

        def all_hold(found: Operation) -> bool:
            return all(test(found) for test in tests)

        all_hold.__qualname__ = " and ".join(test.__qualname__ for test in tests)
        return await self.lab.until(Operation, name, all_hold, timeout=60)  # a missing right is rechecked within 30 s

    async def get(self, name: str = "run") -> Operation:
        return await self.lab.get(Operation, name)

    async def job_of(self, name: str = "run") -> Object:
        """Return the Job of an Operation, as soon as its UID is recorded."""
        found = await self.until(name, has_object)
        assert found.status.engine_ref is not None
        return await self.lab.get(JOB, found.status.engine_ref.name)

    async def write_job(self, job: Object, status: dict[str, Any]) -> None:
        """Write the status of a Job as its controller would."""
        await self.lab.patch(JOB, job.name, {"status": status}, subresource="status")

    async def run_job(self, name: str = "run") -> Object:
        job = await self.job_of(name)
        await self.write_job(job, {"startTime": rfc3339(wall_clock()), "active": 1, "ready": 1, "terminating": 0})
        return job

    async def complete(self, name: str = "run") -> Operation:
        """Let the Job of an Operation succeed."""
        job = await self.job_of(name)
        await self.write_job(job, completed())
        return await self.until(name, phase("Succeeded"))

    async def fail(self, name: str = "run") -> Operation:
        job = await self.job_of(name)
        await self.write_job(job, failed())
        return await self.until(name, phase("Failed"))


def _condition(type_: str, reason: str, message: str) -> dict[str, Any]:
    now = rfc3339(wall_clock())
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }


def completed() -> dict[str, Any]:
    now = wall_clock()
    done = "Reached expected number of succeeded pods"
    return {
        "startTime": rfc3339(now - timedelta(seconds=5)),
        "completionTime": rfc3339(now),
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
        "conditions": [
            _condition("SuccessCriteriaMet", "CompletionsReached", done),
            _condition("Complete", "CompletionsReached", done),
        ],
    }


def failed() -> dict[str, Any]:
    text = "Job has reached the specified backoff limit"
    return {
        "startTime": rfc3339(wall_clock() - timedelta(seconds=5)),
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "failed": 1,
        "uncountedTerminatedPods": {},
        "conditions": [
            _condition("FailureTarget", "BackoffLimitExceeded", text),
            _condition("Failed", "BackoffLimitExceeded", text),
        ],
    }


def suspended(*, terminating: int = 0) -> dict[str, Any]:
    return {
        "startTime": None,
        "active": 0,
        "ready": 0,
        "terminating": terminating,
        "conditions": [_condition("Suspended", "JobSuspended", "Job suspended")],
    }


def phase(wanted: str) -> Callable[[Operation], bool]:
    def test(found: Operation) -> bool:
        return found.status.phase == wanted

    test.__qualname__ = f"phase={wanted}"
    return test


def shows(type_: str, status: str, reason: str = "") -> Callable[[Operation], bool]:
    def test(found: Operation) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.status == status and reason in ("", condition.reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test


def has_object(found: Operation) -> bool:
    """The engine's object was created, and the status reports it."""
    return found.status.engine_ref is not None and found.status.engine_ref.uid is not None


JOBS_FOR_ALL = tuple(
    EngineRow(type_, JobEngine()) for type_ in ("Backup", "Restore", "Upgrade", "Migration", "RunCommand", "Runbook")
)
"""Every type of Operation by the engine of Jobs: the order on a target does not depend on the engine."""
