"""The families that our own daemon hosts: the settings of each, and how each is installed.

Guarantees: uses only the library's public API: a family is `install(manager, settings)`.
"""

from __future__ import annotations

from collections.abc import Callable

from konverge.daemon.settings import Settings
from konverge.errors import UsageError
from konverge.reconcilers import apps, clusters, machines, pools, quota, workspaces
from konverge.reconcilers.apps import Settings as AppsSettings
from konverge.reconcilers.clusters import Settings as ClusterSettings
from konverge.reconcilers.machines import MachineSettings
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.workspaces import WorkspaceSettings
from konverge.runtime import Manager

__all__ = ["DaemonSettings", "families", "install_families", "left_out"]

_CLUSTER_WIDE = ("clusters", "machines", "pools", "quota", "workspaces")

_BY_NAME = ("machines",)
"""Families that run only if `controllers` names them or one of theirs: without Cluster API no controller of machines becomes ready."""


class DaemonSettings(Settings):
    """The settings of our own daemon: those of every operator, and those of its families."""

    apps: AppsSettings = AppsSettings()
    """The family of ApplicationInstance."""
    clusters: ClusterSettings = ClusterSettings()
    """The family of Cluster: pull mode."""
    machines: MachineSettings = MachineSettings()
    """The family of NstanceMachinePool and NstanceMachine, which runs only if `controllers` names it."""
    pools: PoolSettings = PoolSettings()
    """The family of Nextcloud pools."""
    quota: QuotaSettings = QuotaSettings()
    """The family of ResourcePool and ResourcePoolClaim."""
    workspaces: WorkspaceSettings = WorkspaceSettings()
    """The family of WorkspaceClaim."""


def families(settings: DaemonSettings) -> dict[str, Callable[[Manager], None]]:
    """Return the install function of each of our families."""
    return {
        "apps": lambda manager: apps.install(manager, settings.apps),
        "clusters": lambda manager: clusters.install(manager, settings.clusters),
        "machines": lambda manager: machines.install(manager, settings.machines),
        "pools": lambda manager: pools.install(manager, settings.pools),
        "quota": lambda manager: quota.install(manager, settings.quota),
        "workspaces": lambda manager: workspaces.install(manager, settings.workspaces),
    }


def left_out(settings: Settings) -> tuple[str, ...]:
    """Return the families that cannot run in one namespace, if these settings name one."""
    return _CLUSTER_WIDE if isinstance(settings, DaemonSettings) and settings.namespace else ()


def install_families(manager: Manager, settings: DaemonSettings) -> dict[str, tuple[str, ...]]:
    """Install all families; returns the names of the controllers and the background work of each, and the paths of its webhooks.

    A family that needs more than Kubernetes is left out unless it was chosen by name. With one namespace a family of cluster-wide objects
    is left out; if it was chosen by name, that is a UsageError.
    """
    without = left_out(settings)
    for family in without:
        if family in settings.controllers:
            raise UsageError(
                f"the family {family!r} reconciles cluster-wide objects: run it without --namespace "
                f"({settings.namespace!r} was given), or leave it out of --controllers"
            )
    found: dict[str, tuple[str, ...]] = {}
    for family, install in families(settings).items():
        if family in without or (family in _BY_NAME and not _named(family, settings)):
            continue
        before = _parts(manager)
        install(manager)
        found[family] = tuple(part for part in _parts(manager) if part not in before)
    return found


def _named(family: str, settings: DaemonSettings) -> bool:
    alone = Manager("konverge")
    families(settings)[family](alone)
    return not {family, *_parts(alone)}.isdisjoint(settings.controllers)


def _parts(manager: Manager) -> tuple[str, ...]:
    controllers = (controller.name for controller in manager.controllers)
    return (*controllers, *(webhook.path for webhook in manager.webhooks), *manager.background)
