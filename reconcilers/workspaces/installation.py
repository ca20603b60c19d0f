"""The controller of WorkspaceClaims in a manager: its watches and RBAC rules.

Only the metadata of Secrets is watched, and only in the namespace of the settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from konverge.client import ClientConfig
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import ConfigError, UsageError
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Metadata
from konverge.reconcilers.workspaces.kcp import KcpWorkspaces, root_of
from konverge.reconcilers.workspaces.memory import MemoryWorkspaces
from konverge.reconcilers.workspaces.provider import WorkspaceProvider
from konverge.reconcilers.workspaces.reconciler import WorkspaceClaimReconciler
from konverge.reconcilers.workspaces.secrets import SECRET
from konverge.reconcilers.workspaces.settings import WorkspaceSettings
from konverge.reconcilers.workspaces.words import CONTROLLER, FINALIZER, WorkspaceLabel
from konverge.runtime import Controller, Rule

if TYPE_CHECKING:
    from konverge.runtime import Caches, Manager

__all__ = ["controller", "install"]


def _claim_of(secret: Metadata, _caches: Caches) -> Iterable[Key]:
    owner = secret.controller
    return () if owner is None else (Key("", kind_of(WorkspaceClaim), "", owner.name),)


def controller(settings: WorkspaceSettings, provider: WorkspaceProvider) -> Controller[WorkspaceClaim]:
    """Return the description of the controller. Its objects are shared: a claim only decides for its own workspace."""
    described = (
        Controller.of(WorkspaceClaim)
        .named(CONTROLLER)
        .finalizer(FINALIZER)
        .counts_conditions()
        .sharded()
        .needs(Rule("", ("secrets",), ("create", "delete", "get", "patch"), namespace=settings.namespace))
        .calls("the provider of workspaces")
    )
    if settings.namespace:
        described = described.watches(
            SECRET,
            to=_claim_of,
            metadata_only=True,
            labels=WorkspaceLabel.WORKSPACE,
            namespaces=(settings.namespace,),
        )
    return described.reconciled_by(WorkspaceClaimReconciler(settings, provider))


async def _no_kubeconfig(_name: str, _url: str) -> ClientConfig:
    raise ConfigError("there is no kubeconfig of a kcp: set workspaces.kubeconfig")


def _provider_of(settings: WorkspaceSettings, manager: Manager) -> WorkspaceProvider:
    if settings.provider == "memory":
        return MemoryWorkspaces()
    find = root_of(settings.kubeconfig, settings.hosts) if settings.kubeconfig else _no_kubeconfig
    kcp = KcpWorkspaces(find, hosts=settings.hosts, fence=manager.fence_of(CONTROLLER))
    manager.closes(kcp.close)
    return kcp


def install(
    manager: Manager, settings: WorkspaceSettings | None = None, *, provider: WorkspaceProvider | None = None
) -> None:
    """Add the controller of WorkspaceClaims to a manager. `provider` replaces the provider of the settings.

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['workspaceclaim']
    """
    if manager.settings.namespace:
        raise UsageError(
            f"a WorkspaceClaim is cluster-scoped, and this manager sees {manager.settings.namespace!r} alone; "
            "give it a manager without a namespace"
        )
    chosen = WorkspaceSettings() if settings is None else settings
    manager.add(controller(chosen, provider or _provider_of(chosen, manager)))
