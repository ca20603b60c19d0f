"""A lab that runs the apps family with simulated Flux controllers, and predicates on the conditions of an instance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.apps import Settings, install
from konverge.reconcilers.apps.kinds import HELM_RELEASE, SECRET
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab, install_crds
from konverge_testing.flux import HelmController, World, flux_crds

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
REFUSED = {"1.2.0": 'Service "shop-bad" is invalid: spec.ports[0].port: Invalid value: 99999999'}
QUICK = Settings(source_grace=timedelta(seconds=1), operations=OperationSettings(enabled=False))
"""Without Operations, whose engines bring kinds to watch and to look for."""
WITH_OPERATIONS = QUICK.model_copy(update={"operations": OperationSettings()})
OCI_CHART = {"sourceType": "oci", "url": "oci://registry.example.com/charts"}


class Apps:
    """A lab that runs the family and Flux."""

    def __init__(self, lab: Lab, stack: AsyncExitStack) -> None:
        self.lab = lab
        self.world = World(refused=dict(REFUSED))
        self._stack = stack

    async def start(self, settings: Settings = QUICK, *, flux: bool = True, crds: bool = True) -> Apps:
        if crds:
            await install_crds(self.lab.client, flux_crds())
        await self.lab.start(lambda manager: install(manager, settings), name="konverge")
        if flux:
            await self.start_flux()
        return self

    async def start_flux(self) -> HelmController:
        return await self._stack.enter_async_context(
            HelmController(self.lab.config, namespace=self.lab.namespace, world=self.world)
        )

    def spec(self, **parts: Any) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "appRef": {"catalogId": "shop"},
            "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
            "release": {"name": "shop", "namespace": self.lab.namespace},
            "values": {"source": "inline", "inline": {"replicas": 1}},
        }
        for part, value in parts.items():
            spec[part] = {**spec[part], **value} if part in ("chart", "release") and value else value
        return {part: value for part, value in spec.items() if value is not None}

    async def create(self, name: str = "shop", **parts: Any) -> ApplicationInstance:
        return await self.lab.create(
            ApplicationInstance.decode({"metadata": {"name": name}, "spec": self.spec(**parts)})
        )

    async def change(self, **spec: Any) -> ApplicationInstance:
        return await self.lab.patch(ApplicationInstance, "shop", {"spec": spec})

    async def until(self, *tests: Callable[[ApplicationInstance], bool], name: str = "shop") -> ApplicationInstance:
        """Wait until the conditions of the current generation meet all tests."""

        def all_hold(found: ApplicationInstance) -> bool:
            return found.status.observed_generation == found.generation and all(test(found) for test in tests)

        return await self.lab.until(ApplicationInstance, name, all_hold)

    async def secret(self, text: str, key: str = "values.yaml") -> None:
        data = {key: base64.b64encode(text.encode()).decode()}
        await self.lab.client.apply(
            SECRET,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "vals", "namespace": self.lab.namespace},
                "data": data,
            },
            force=True,
        )

    async def release(self, name: str = "shop") -> Object:
        return await self.lab.get(HELM_RELEASE, name)

    async def edit_release(self, spec: dict[str, Any]) -> Object:
        """`kubectl edit helmrelease shop`, by another client."""
        return await self.lab.patch(HELM_RELEASE, "shop", {"spec": spec})

    def reconciles(self) -> list[tuple[str, ...]]:
        """The writes of each reconcile, oldest first."""
        return [record.writes for record in self.lab.manager.runner("applicationinstance").history.recent()]


def says(type_: str, status: str, reason: str = "") -> Callable[[ApplicationInstance], bool]:
    def test(found: ApplicationInstance) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.status == status and reason in ("", condition.reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test


def handled(token: str) -> Callable[[Object], bool]:
    """Flux has handled this reconcile request."""
    return lambda release: release.get("status", "lastHandledReconcileAt") == token


def rolled_out_since(digest: str) -> Callable[[Object], bool]:
    """Flux has rolled out values other than these, and handled the reconcile request for them."""

    def test(release: Object) -> bool:
        asked = release.metadata.annotation("reconcile.fluxcd.io/requestedAt")
        return release.get("status", "history", 0, "configDigest") != digest and handled(asked)(release)

    return test


READY = says("Ready", "True", "HelmReleaseReady")
SECRET_VALUES = {"source": "secretRef", "secretRef": {"name": "vals", "key": "values.yaml"}}
