"""`konverge demo --replicas=N`: replicas share WorkspaceClaims; one is killed, another is stopped, and their claims go to the others.

Guarantees: the replicas run in this process with exactly the rights that `konverge rbac` prints; the killed replica sends and receives
nothing from then on. Workspaces are in memory, and refuse the calls of a former owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import click

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.daemon import engine, logs
from konverge.daemon.crds import apply_all
from konverge.daemon.families import DaemonSettings, installed_settings
from konverge.daemon.programs import NAME
from konverge.daemon.rbac import manifests, rules_for
from konverge.kinds import kind
from konverge.reconcilers import workspaces
from konverge.reconcilers.workspaces import MemoryWorkspaces, WorkspaceSettings
from konverge.runtime import Manager, ManagerSettings
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.runtime.sharding.stamp import annotation_of
from konverge_testing.demo.stages import Stage
from konverge_testing.demo.table import Row, Table, workspace_row
from konverge_testing.lab.process import Wire, killable

__all__ = ["demo_of_replicas", "replica_of"]

HOME: Final = "konverge"
"""The namespace of the Leases, and of the Secrets."""
CLAIMS: Final = 18
_WORKSPACES: Final = WorkspaceSettings(namespace=HOME, provider="memory")
_SHARDING: Final = ShardingSettings(
    mode="hash", namespace=HOME, lease_seconds=4.0, renew_seconds=3.0, retry_seconds=1.0, join_seconds=1.0
)
"""Shorter than the defaults, in about their proportions: a death costs 8 s and not 30."""
_CLAIM: Final = kind("cloudapi.team-orca.dev/v1alpha1", "WorkspaceClaim", namespaced=False, plural="workspaceclaims")
_STAMP: Final = annotation_of(NAME)
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Replica:
    name: str
    manager: Manager
    wire: Wire


def replica_of(stamp: str) -> str:
    """Return the replica that a stamp names.

    >>> replica_of("konverge-replica-2-5d7f00aa12/9")
    'replica-2'
    """
    return stamp.rpartition("/")[0].removeprefix(f"{NAME}-").rpartition("-")[0]


async def demo_of_replicas(stage: Stage, admin: Client, count: int, timeout: float, *, stay: bool) -> bool:
    """Run the demo of so many replicas; returns whether all claims reached their owners in time."""
    with (stage.directory / "konverge.log").open("w", encoding="utf-8", buffering=1) as file:
        engine.set_up(DaemonSettings())
        logs.configure(form="console", stream=file)
        try:
            return await _play(stage, admin, count, timeout, stay=stay)
        finally:
            logs.configure()


async def _play(stage: Stage, admin: Client, count: int, timeout: float, *, stay: bool) -> bool:
    await _prepare(admin)
    memory = MemoryWorkspaces()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        replicas = [await _start(stage, stack, f"replica-{number}", memory) for number in range(count)]
        click.echo(f"==> {count} replicas share {CLAIMS} WorkspaceClaims\n")
        for number in range(CLAIMS):
            await admin.create(WorkspaceClaim.new(f"claim-{number:02}"))
        names = [replica.name for replica in replicas]
        with Table() as table:
            if not await _shared(admin, table, names, timeout):
                return _give_up(stage, names)
            for act, left in (("killed", names[1:]), ("stopped", names[2:])):
                if not left:
                    break
                item, began = replicas[count - len(left) - 1], loop.time()
                click.echo(f"==> {item.name} is {act}")
                if act == "killed":
                    item.wire.cut()
                else:
                    await item.manager.stop()
                if not await _shared(admin, table, left, timeout):
                    return _give_up(stage, left)
                click.echo(f"    after {loop.time() - began:.1f} s its claims belong to {' and '.join(left)}")
            once = sorted(memory.created) == sorted(set(memory.created))
            click.echo(
                f"\nEach workspace was made once: {len(memory.created)}. Calls of a former owner: {len(memory.late)}."
            )
            click.echo(f"\n  export KUBECONFIG={stage.kubeconfig}")
            if stage.kubectl:
                click.echo(f"  {stage.kubectl} get wsc; {stage.kubectl} -n {HOME} get lease,secret")
            click.echo(f"  log        {stage.directory / 'konverge.log'}\n")
            if stay:
                click.echo("Ctrl-C ends it and removes everything.\n")
                while True:
                    table.show(await _rows(admin))
                    await asyncio.sleep(_LOOK_SECONDS)
            return once


def _settings() -> DaemonSettings:
    group: dict[str, Any] = {"workspaces": _WORKSPACES}
    return installed_settings()(controllers=("workspaces",), sharding=_SHARDING, **group)


async def _prepare(admin: Client) -> None:
    click.echo("==> applying the CustomResourceDefinition of WorkspaceClaims, and RBAC")
    await apply_all(admin, [crd(WorkspaceClaim)])
    rules = await rules_for(None, _settings(), NAME)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    for document in (home, *manifests(NAME, rules, "", f"{HOME}/{NAME}")):
        namespaced = bool(document["metadata"].get("namespace"))
        await admin.apply(kind(document["apiVersion"], document["kind"], namespaced=namespaced), document)


async def _start(stage: Stage, stack: AsyncExitStack, name: str, memory: MemoryWorkspaces) -> _Replica:
    account = await stage.act_as(f"system:serviceaccount:{HOME}:{NAME}", ("system:serviceaccounts",))
    wire = Wire(lambda: 0)
    settings = ManagerSettings(instance=name, sharding=_SHARDING)
    manager = Manager(NAME, killable(account, wire), settings=settings)
    workspaces.install(manager, _WORKSPACES, provider=memory)

    async def stop() -> None:
        wire.alive = True  # a killed replica ends with the demo
        await manager.stop()

    stack.push_async_callback(stop)
    await manager.start()
    return _Replica(name, manager, wire)


async def _rows(admin: Client) -> list[Row]:
    results = await admin.list(_CLAIM)
    return [workspace_row(item, replica_of(item.metadata.annotation(_STAMP))) for item in results]


async def _shared(admin: Client, table: Table, names: Sequence[str], timeout: float) -> bool:
    """Show the table until all claims are ready and belong to these replicas; False after the timeout."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                rows = await _rows(admin)
                table.show(rows)
                if all(row.ready == "Ready" and row.mode in names for row in rows):
                    return True
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        return False


def _give_up(stage: Stage, names: Sequence[str]) -> bool:
    click.echo(f"\nnot all claims came to {', '.join(names)} in time. The log ends:", err=True)
    lines = (stage.directory / "konverge.log").read_text(encoding="utf-8").splitlines()
    click.echo("\n".join(lines[-30:]), err=True)
    return False
