"""A lab that runs the family of workspaces against workspaces in memory."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim, WorkspaceClaimSpec
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers import workspaces
from konverge.reconcilers.workspaces import MemoryWorkspaces, WorkspaceSettings
from konverge.reconcilers.workspaces.secrets import SECRET
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
Test = Callable[[WorkspaceClaim], bool]


class Workspaces:
    """The controller of claims, and its provider."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.memory = MemoryWorkspaces()

    async def start(self, **settings: Any) -> Workspaces:
        await install_crds(self.lab.client, [crd(WorkspaceClaim)])
        chosen = WorkspaceSettings(**{"namespace": self.lab.namespace, **settings})
        await self.lab.start(
            lambda manager: workspaces.install(manager, chosen, provider=self.memory),
            settings=ManagerSettings(strict=True),
        )
        return self

    async def claim(self, name: str = "acme", id: str | None = None) -> WorkspaceClaim:  # noqa: A002  # the field's name
        return await self.lab.create(WorkspaceClaim.new(name, spec=WorkspaceClaimSpec(id=id)))

    async def until(self, name: str, *tests: Test, timeout: float = 60.0) -> WorkspaceClaim:
        """Wait until the claim meets all tests."""

        def all_hold(found: WorkspaceClaim) -> bool:
            return all(test(found) for test in tests)

        all_hold.__qualname__ = " and ".join(test.__qualname__ for test in tests)
        return await self.lab.until(WorkspaceClaim, name, all_hold, timeout=timeout)

    async def secret(self, name: str = "acme") -> Object:
        return await self.lab.get(SECRET, f"ws-{name}-kubeconfig")

    async def kubeconfig(self, name: str = "acme") -> str:
        return base64.b64decode((await self.secret(name)).data["data"]["kubeconfig"]).decode()


def phase(word: str) -> Test:
    def test(found: WorkspaceClaim) -> bool:
        return found.status.phase == word

    test.__qualname__ = f"phase {word}"
    return test


def shows(type_: str, status: str, reason: str) -> Test:
    def test(found: WorkspaceClaim) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and (condition.status, condition.reason) == (status, reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test
