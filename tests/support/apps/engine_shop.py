"""Operations in a lab with simulated Velero, Argo and VolSync."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from apps.operations import OFFERS, Operations

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.argo import KINDS as ARGO
from konverge_testing.argo import ArgoWorld, WorkflowController, argo_crds
from konverge_testing.velero import KINDS as VELERO
from konverge_testing.velero import VeleroServer, VeleroWorld, velero_crds
from konverge_testing.volsync import KINDS as VOLSYNC
from konverge_testing.volsync import VolSyncController, VolSyncWorld, volsync_crds

KINDS = {**VELERO, **ARGO, **VOLSYNC}
ALL = {**OFFERS, "backup": "velero,volsync", "restore": "velero,volsync", "runbook": "workflow"}
SNAPSHOTS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "volumesnapshotclasses.snapshot.storage.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "snapshot.storage.k8s.io",
        "scope": "Cluster",
        "names": {
            "kind": "VolumeSnapshotClass",
            "plural": "volumesnapshotclasses",
            "singular": "volumesnapshotclass",
            "listKind": "VolumeSnapshotClassList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


class EngineShop(Operations):
    """A lab with a target, its engines, and the controller of Operations. Velero is in the lab's namespace, too."""

    def __init__(self, lab: Lab, stack: AsyncExitStack) -> None:
        super().__init__(lab)
        self.velero, self.argo, self.volsync = VeleroWorld(validates_each_minute=True), ArgoWorld(), VolSyncWorld()
        self._stack = stack
        self._server, self._controllers = AsyncExitStack(), AsyncExitStack()

    @property
    def settings(self) -> OperationSettings:
        return OperationSettings(approval_types=frozenset(), velero_namespace=self.lab.namespace)

    async def open(self, *, engines: bool = True, everywhere: bool = False, target: bool = True) -> EngineShop:
        """Start everything; `everywhere`: in all namespaces instead of the lab's namespace only."""
        await install_crds(self.lab.client, [crd(Operation), crd(ApplicationInstance)])
        if engines:
            await self.install()
        await self.lab.start(
            lambda manager: manager.add(controller(self.settings)),
            name="konverge",
            settings=ManagerSettings(strict=True) if everywhere else None,
        )
        if target:
            await self.target(offers=ALL)
        return self

    async def restarted(self, *, wait: bool = True) -> None:
        """Start the controller again, after the lab was stopped."""
        await self.lab.start(lambda manager: manager.add(controller(self.settings)), name="konverge", wait=wait)

    async def install(self) -> None:
        """Install the CRDs of the engines, and run them."""
        lab = self.lab
        await install_crds(lab.client, [*velero_crds(), *argo_crds(), *volsync_crds()])
        await self.serve_velero()
        self._stack.push_async_callback(self.kill_velero)
        for made in (
            WorkflowController(lab.config, world=self.argo, namespace=lab.namespace),
            VolSyncController(lab.config, world=self.volsync, namespace=lab.namespace),
        ):
            await self._controllers.enter_async_context(made)
        self._stack.push_async_callback(self._controllers.aclose)
        await self.location()
        await lab.create(ARGO["WorkflowTemplate"].new("runbook", spec={}))

    async def location(self, name: str = "default") -> None:
        kind = VELERO["BackupStorageLocation"]
        await self.lab.create(kind.new(name, spec={"provider": "aws"}))
        await self.lab.until(kind, name, lambda made: made.get("status", "phase") == "Available")

    async def serve_velero(self) -> None:
        await self._server.enter_async_context(
            VeleroServer(self.lab.config, world=self.velero, namespace=self.lab.namespace)
        )

    async def kill_velero(self) -> None:
        await self._server.aclose()

    async def kill_engines(self) -> None:
        """Stop the controllers of all engines; their objects stay."""
        await self.kill_velero()
        await self._controllers.aclose()

    async def backup(self, name: str = "backup", **parameters: Any) -> Operation:
        return await self.create(name, "Backup", "velero", parameters=parameters)

    async def restore(self, backup: str, name: str = "restore", **parameters: Any) -> Operation:
        return await self.create(name, "Restore", "velero", parameters={"backupName": backup, **parameters})

    async def runbook(self, name: str = "runbook", **parameters: Any) -> Operation:
        return await self.create(name, "Runbook", "workflow", parameters={"workflowTemplate": "runbook", **parameters})

    async def replicate(self, name: str = "copy", type_: str = "Backup", **parameters: Any) -> Operation:
        given = {"pvc": "data", "repository": {"secretName": "repo"}, **parameters}
        return await self.create(name, type_, "volsync", parameters=given)

    async def child(self, kind: str, name: str) -> Object:
        """Return the object of an Operation's engine."""
        found = await self.until(
            name, lambda made: made.status.engine_ref is not None and bool(made.status.engine_ref.uid)
        )
        assert found.status.engine_ref is not None
        return await self.lab.get(KINDS[kind], found.status.engine_ref.name)

    async def child_is(self, kind: str, name: str, test: Callable[[Object], bool]) -> Object:
        made = await self.child(kind, name)
        return await self.lab.until(KINDS[kind], made.name, test, timeout=120)

    async def cancel(self, name: str) -> None:
        await self.lab.patch(Operation, name, {"spec": {"cancel": True}})


def in_phase(*phases: str) -> Callable[[Object], bool]:
    return lambda made: made.get("status", "phase") in phases
