"""The stand-in for Velero writes the same as the recorded Velero.

Compared for each object of a recording: phase, place in the queue, errors, warnings, finalizer and deletion, in their order and without
repetitions. Not compared: times, texts, progress, and how writes of different objects interleave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from engine_stage import EngineStage, Json, recorded, ways

from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Delay, Match, Rule
from konverge_testing.velero import KINDS, VeleroServer, VeleroWorld, velero_crds


def _count(found: Any) -> int:
    return found if isinstance(found, int) else len(found)


def fact(type_: str, made: Json) -> Any:
    status, metadata = made.get("status") or {}, made["metadata"]
    if type_ == "DELETED":
        return "gone"
    return (
        status.get("phase", ""),
        *(f"{name}={_count(status[name])}" for name in ("queuePosition", "errors", "warnings") if status.get(name)),
        *(["finalizer"] if metadata.get("finalizers") else []),
        *(["deleted"] if metadata.get("deletionTimestamp") else []),
    )


RACED = {"server-killed-backup"}
"""Recordings in which two Backups enter and leave the queue in one moment, so that one was not numbered again."""


def unplaced(type_: str, made: Json) -> Any:
    found = fact(type_, made)
    return found if found == "gone" else tuple(entry for entry in found if "queuePosition" not in entry)


class Velero:
    """A stage with a location and the server; verbs of the recordings' steps."""

    def __init__(self, stage: EngineStage) -> None:
        self.stage, self.world = stage, VeleroWorld()
        self._server = AsyncExitStack()

    async def start(self, location: bool = True) -> None:
        if location:
            await self.stage.make("BackupStorageLocation", "default", {"provider": "aws"})
        await self.serve()
        if location:
            await self.stage.until("BackupStorageLocation", "default", "Available")

    async def serve(self) -> None:
        await self._server.enter_async_context(
            VeleroServer(self.stage.lab.config, world=self.world, namespace=self.stage.lab.namespace)
        )

    async def kill(self) -> None:
        await self._server.aclose()

    async def backup(self, name: str, namespace: str = "shop", **spec: Any) -> Object:
        return await self.stage.make("Backup", name, {"includedNamespaces": [namespace], **spec})

    async def restore(self, name: str, backup: str = "", **spec: Any) -> Object:
        return await self.stage.make("Restore", name, {**({"backupName": backup} if backup else {}), **spec})

    async def backed_up(self, name: str, namespace: str = "shop", **spec: Any) -> Object:
        await self.backup(name, namespace, **spec)
        return await self.stage.until("Backup", name)

    async def restored(self, name: str, backup: str = "", **spec: Any) -> Object:
        await self.restore(name, backup, **spec)
        return await self.stage.until("Restore", name)


Script = Callable[[Velero], Awaitable[None]]


async def backup_completes(v: Velero) -> None:
    await v.backed_up("shop-1")


async def backup_with_ttl(v: Velero) -> None:
    await v.backed_up("ttl-72h", ttl="72h")
    await v.backed_up("ttl-720h", ttl="720h0m0s")


async def backup_unknown_field(v: Velero) -> None:
    await v.backed_up("unknown-field", csiSnapshotClassName="x")


async def backup_namespace_missing(v: Velero) -> None:
    v.world.missing_namespaces.add("nowhere")
    await v.backed_up("nowhere", "nowhere")


async def backup_failed_validation(v: Velero) -> None:
    await v.backed_up("bad-location", storageLocation="nosuch")
    await v.backed_up("two-selectors", labelSelector={"a": "b"}, orLabelSelectors=[{"a": "b"}])
    await v.backed_up("bad-resources", includedResources=["secrets"], excludedResources=["secrets"])


async def backup_name_in_bucket(v: Velero) -> None:
    await v.backed_up("twice")
    await v.stage.delete("Backup", "twice")
    await v.backed_up("twice")


async def backup_deleted_and_synced_back(v: Velero) -> None:
    await v.backed_up("synced")
    await v.stage.delete("Backup", "synced")
    await v.stage.until("Backup", "synced", "Completed")


async def backup_partially_failed_item(v: Velero) -> None:
    v.world.failing["shop"] = 1
    await v.backed_up("item-fails")


async def backup_partially_failed_hook(v: Velero) -> None:
    v.world.failing.update(hook=2, other=1)
    await v.backed_up("hook-fails", "hook")
    await v.backed_up("hook-fails-continue", "other")


async def backup_plugin_operation(v: Velero) -> None:
    v.world.operations["shop"] = 6
    await v.backed_up("async-ok")


async def backup_plugin_operation_fails(v: Velero) -> None:
    v.world.operations["shop"] = 5
    v.world.failing_operations.add("shop")
    await v.backed_up("async-fails")


async def backup_plugin_operation_times_out(v: Velero) -> None:
    v.world.operations["shop"] = 4
    v.world.failing_operations.add("shop")
    await v.backed_up("async-timeout")


async def backup_plugin_operation_and_failed_item(v: Velero) -> None:
    v.world.operations["shop"] = 6
    v.world.failing["shop"] = 1
    await v.backed_up("async-partial")


async def backup_queue(v: Velero) -> None:
    v.world.seconds["shop"] = 6
    await v.backup("queue-a")
    await v.stage.until("Backup", "queue-a", "InProgress")
    for name in "bcd":
        await v.backup(f"queue-{name}")
        await v.stage.until("Backup", f"queue-{name}", "Queued")
    await v.stage.delete("Backup", "queue-b")
    await v.stage.until("Backup", "queue-d")


async def backup_deleted_while_in_progress(v: Velero) -> None:
    v.world.seconds["slow"] = 6
    await v.backup("del-mid", "slow")
    await v.stage.until("Backup", "del-mid", "InProgress")
    await v.stage.delete("Backup", "del-mid")
    await v.backed_up("after-del")
    await v.stage.rest(70)
    assert "del-mid" in v.world.names
    assert "del-mid" not in v.world.bucket


async def backup_expires(v: Velero) -> None:
    await v.backed_up("short", ttl="15s")
    await v.stage.until_gone("Backup", "short")


async def backup_ttl_30d(v: Velero) -> None:
    await v.backed_up("shop-1")
    await v.backup("ttl-30d", ttl="30d")
    await v.backup("good-1")
    await v.stage.rest(90)
    assert (await v.stage.lab.get(KINDS["Backup"], "good-1")).get("status", "phase") is None
    await v.restored("while-ttl-30d", "shop-1")
    await v.stage.delete("Backup", "ttl-30d")
    await v.stage.until("Backup", "good-1")


async def backup_ttl_30d_at_server_start(v: Velero) -> None:
    await v.kill()
    await v.backup("ttl-30d-b", ttl="30d")
    await v.backup("good-2")
    await v.serve()
    await v.stage.rest(30)
    await v.stage.delete("Backup", "ttl-30d-b")
    await v.stage.until("Backup", "good-2")


async def backup_location_down_before(v: Velero) -> None:
    await v.backed_up("shop-1")
    v.world.unreachable.add("default")
    await v.stage.until("BackupStorageLocation", "default", "Unavailable")
    await v.backed_up("down-before")
    await v.restored("down-before", "shop-1")
    await v.stage.make("DeleteBackupRequest", "down-delete", {"backupName": "shop-1"})
    processed = await v.stage.until("DeleteBackupRequest", "down-delete", "Processed")
    assert processed.get("status", "errors")
    await v.stage.lab.get(KINDS["Backup"], "shop-1")


async def backup_location_down_unnoticed(v: Velero) -> None:
    await v.backed_up("shop-1")
    v.world.unnoticed = True
    v.world.unreachable.add("default")
    await v.backed_up("down-unnoticed")
    await v.restored("down-unnoticed", "shop-1")


async def backup_location_down_during(v: Velero) -> None:
    await v.backup("down-during")
    await v.stage.until("Backup", "down-during", "InProgress")
    await v.stage.rest(1.5)
    v.world.unreachable.add("default")
    made = await v.stage.until("Backup", "down-during")
    assert made.get("status", "completionTimestamp") is None


async def backupstoragelocation(v: Velero) -> None:
    v.world.unreachable.add("no-bucket")
    await v.stage.make("BackupStorageLocation", "no-bucket", {"provider": "aws"})
    await v.stage.until("BackupStorageLocation", "no-bucket", "Unavailable")
    await v.backed_up("into-no-bucket", storageLocation="no-bucket")
    await v.stage.make("BackupStorageLocation", "ro", {"provider": "aws", "accessMode": "ReadOnly"})
    await v.backed_up("into-ro", storageLocation="ro")
    await v.stage.make("BackupStorageLocation", "fresh", {"provider": "aws"})
    await v.backed_up("into-fresh", storageLocation="fresh")


async def restore_completes(v: Velero) -> None:
    await v.backed_up("shop-1")
    await v.restored("restore-1", "shop-1")


async def restore_plugin_operation(v: Velero) -> None:
    await v.backed_up("rst-async")
    v.world.operations["shop"] = 6
    await v.restored("restore-async", "rst-async")
    await v.restored("restore-async-again", "rst-async")


async def restore_of_partially_failed(v: Velero) -> None:
    v.world.failing["shop"] = 1
    await v.backed_up("partial")
    await v.restored("restore-partial", "partial")


async def restore_existing(v: Velero) -> None:
    v.world.existing.add("shop")
    await v.backed_up("shop-1")
    await v.restored("restore-skip", "shop-1")
    await v.restored("restore-update", "shop-1", existingResourcePolicy="update")


async def restore_partially_failed(v: Velero) -> None:
    v.world.failing_restores["shop"] = 1
    await v.backed_up("rst-fails")
    await v.restored("restore-item-fails", "rst-fails")


async def restore_backup_missing(v: Velero) -> None:
    await v.backed_up("invalid", storageLocation="nosuch")
    await v.restored("restore-ghost", "ghost")
    await v.restored("restore-none")
    await v.restored("restore-bad-policy", "invalid", existingResourcePolicy="replace")
    await v.restored("restore-of-invalid", "invalid")


async def restore_of_running_backup(v: Velero) -> None:
    v.world.seconds["shop"] = 6
    await v.backup("still-running")
    await v.stage.until("Backup", "still-running", "InProgress")
    await v.restored("too-early", "still-running")
    await v.stage.until("Backup", "still-running")


async def restore_deleted_while_in_progress(v: Velero) -> None:
    await v.backed_up("rst-slow")
    v.world.seconds["shop"] = 20
    await v.restore("restore-slow", "rst-slow")
    await v.stage.until("Restore", "restore-slow", "InProgress")
    await v.stage.delete("Restore", "restore-slow")
    v.world.seconds["shop"] = 20
    await v.restored("restore-after", "rst-slow")
    await v.stage.until_gone("Restore", "restore-slow")


async def deletebackuprequest(v: Velero) -> None:
    await v.backed_up("doomed")
    await v.restored("from-doomed", "doomed")
    await v.stage.make("DeleteBackupRequest", "doomed-delete", {"backupName": "doomed"})
    await v.stage.until_gone("DeleteBackupRequest", "doomed-delete")
    await v.stage.make("DeleteBackupRequest", "ghost-delete", {"backupName": "ghost"})
    await v.stage.until("DeleteBackupRequest", "ghost-delete", "Processed")


async def deletebackuprequest_in_progress(v: Velero) -> None:
    v.world.seconds["shop"] = 6
    await v.backup("busy")
    await v.stage.until("Backup", "busy", "InProgress")
    await v.stage.make("DeleteBackupRequest", "busy-delete", {"backupName": "busy"})
    await v.stage.until("Backup", "busy", "Completed")
    await v.stage.make("DeleteBackupRequest", "busy-delete-2", {"backupName": "busy"})
    await v.stage.until_gone("Backup", "busy")
    await v.stage.until_gone("DeleteBackupRequest", "busy-delete-2")


async def server_killed_backup(v: Velero) -> None:
    v.world.seconds["slow"] = 20
    await v.backup("killed", "slow")
    await v.stage.until("Backup", "killed", "InProgress")
    await v.backup("killed-queued")
    await v.stage.until("Backup", "killed-queued", "Queued")
    await v.kill()
    await v.backup("killed-third")
    await v.stage.rest(8)
    await v.serve()
    await v.stage.until("Backup", "killed-third")


async def server_killed_plugin_operation(v: Velero) -> None:
    v.world.operations["shop"] = 20
    await v.backup("killed-async")
    await v.stage.until("Backup", "killed-async", "WaitingForPluginOperations")
    await v.kill()
    await v.serve()
    await v.stage.until("Backup", "killed-async")


async def server_killed_restore(v: Velero) -> None:
    await v.backed_up("rst-slow-20")
    v.world.seconds["shop"] = 20
    await v.restore("restore-killed", "rst-slow-20")
    await v.stage.until("Restore", "restore-killed", "InProgress")
    await v.kill()
    await v.serve()
    await v.stage.until("Restore", "restore-killed")


async def server_down(v: Velero) -> None:
    await v.backed_up("shop-1")
    await v.restored("restore-1", "shop-1")
    await v.kill()
    await v.backup("waits")
    await v.restore("waits", "shop-1")
    await v.stage.delete("Restore", "waits")
    await v.stage.delete("Restore", "restore-1")
    await v.stage.rest(5)
    await v.stage.lab.get(KINDS["Restore"], "restore-1")
    await v.serve()
    await v.stage.until("Backup", "waits")
    await v.stage.until_gone("Restore", "restore-1")


SCRIPTS: dict[str, tuple[Script, tuple[str, ...]]] = {
    script.__name__.replace("_", "-"): (script, objects)
    for script, objects in (
        (backup_completes, ("Backup/shop-1",)),
        (backup_with_ttl, ("Backup/ttl-72h", "Backup/ttl-720h")),
        (backup_unknown_field, ("Backup/unknown-field",)),
        (backup_namespace_missing, ("Backup/nowhere",)),
        (backup_failed_validation, ("Backup/bad-location", "Backup/two-selectors", "Backup/bad-resources")),
        (backup_name_in_bucket, ("Backup/twice",)),
        (backup_deleted_and_synced_back, ("Backup/synced",)),
        (backup_partially_failed_item, ("Backup/item-fails",)),
        (backup_partially_failed_hook, ("Backup/hook-fails", "Backup/hook-fails-continue")),
        (backup_plugin_operation, ("Backup/async-ok",)),
        (backup_plugin_operation_fails, ("Backup/async-fails",)),
        (backup_plugin_operation_times_out, ("Backup/async-timeout",)),
        (backup_plugin_operation_and_failed_item, ("Backup/async-partial",)),
        (backup_queue, ("Backup/queue-a", "Backup/queue-b", "Backup/queue-c", "Backup/queue-d")),
        (backup_deleted_while_in_progress, ("Backup/del-mid", "Backup/after-del")),
        (backup_expires, ("Backup/short",)),
        (backup_ttl_30d, ("Backup/ttl-30d", "Backup/good-1", "Restore/while-ttl-30d")),
        (backup_ttl_30d_at_server_start, ("Backup/ttl-30d-b", "Backup/good-2")),
        (
            backup_location_down_before,
            ("Backup/down-before", "Restore/down-before", "DeleteBackupRequest/down-delete"),
        ),
        (backup_location_down_unnoticed, ("Backup/down-unnoticed", "Restore/down-unnoticed")),
        (backup_location_down_during, ("Backup/down-during",)),
        (backupstoragelocation, ("Backup/into-no-bucket", "Backup/into-ro", "Backup/into-fresh")),
        (restore_completes, ("Restore/restore-1",)),
        (restore_plugin_operation, ("Restore/restore-async", "Restore/restore-async-again")),
        (restore_of_partially_failed, ("Restore/restore-partial",)),
        (restore_existing, ("Restore/restore-skip", "Restore/restore-update")),
        (restore_partially_failed, ("Backup/rst-fails", "Restore/restore-item-fails")),
        (
            restore_backup_missing,
            tuple(f"Restore/restore-{name}" for name in ("ghost", "none", "bad-policy", "of-invalid")),
        ),
        (restore_of_running_backup, ("Backup/still-running", "Restore/too-early")),
        (restore_deleted_while_in_progress, ("Backup/rst-slow", "Restore/restore-slow", "Restore/restore-after")),
        (
            deletebackuprequest,
            (
                "Backup/doomed",
                "Restore/from-doomed",
                "DeleteBackupRequest/doomed-delete",
                "DeleteBackupRequest/ghost-delete",
            ),
        ),
        (deletebackuprequest_in_progress, ("Backup/busy", "DeleteBackupRequest/busy-delete-2")),
        (server_killed_backup, ("Backup/killed", "Backup/killed-queued", "Backup/killed-third")),
        (server_killed_plugin_operation, ("Backup/killed-async",)),
        (server_killed_restore, ("Backup/rst-slow-20", "Restore/restore-killed")),
        (server_down, ("Backup/waits", "Restore/waits")),
    )
}
"""A recording, what was done from outside, and the objects that are compared."""


async def test_a_deleted_backup_comes_back_with_its_labels_and_owners_under_another_uid(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
        stage.stack.push_async_callback(velero.kill)
        await velero.start()
        there = await lab.create(kind("v1", "ConfigMap", namespaced=True).new("owner"))
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": there.metadata.uid}
        first = await stage.make(
            "Backup", "kept", {"includedNamespaces": ["shop"]}, labels={"a": "b"}, ownerReferences=[owner]
        )
        await stage.until("Backup", "kept")
        await stage.delete("Backup", "kept")
        again = await stage.until("Backup", "kept", "Completed")
        assert again.metadata.uid != first.metadata.uid
        assert again.metadata.label("a") == "b"
        assert [entry.name for entry in again.metadata.owner_references] == ["owner"]


async def test_a_backup_of_a_deleted_namespace_is_asked_for_again_once_a_minute_and_not_more_often(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
        stage.stack.push_async_callback(velero.kill)
        await velero.start()
        await stage.make("Backup", "kept", {"includedNamespaces": ["shop"]})
        await stage.until("Backup", "kept")
        await lab.client.delete(kind("v1", "Namespace", namespaced=False), lab.namespace)
        creates = lab.server.faults.add(
            Rule(Match(verbs=("create",), resources=("backups.velero.io",)), Delay(seconds=0), count=1_000)
        )
        await asyncio.sleep(600)
        assert 9 <= len(creates.hits) <= 11


async def test_a_restore_that_runs_outlives_its_backup_object(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
        stage.stack.push_async_callback(velero.kill)
        await velero.start()
        await velero.backed_up("shop-1")
        await velero.restore("back", "shop-1")
        await stage.until("Restore", "back", "InProgress")
        await stage.delete("Backup", "shop-1")
        await stage.until("Restore", "back", "Completed")


@pytest.mark.parametrize("recording", SCRIPTS)
async def test_the_stand_in_writes_what_velero_was_recorded_writing(lab: Lab, recording: str) -> None:
    script, objects = SCRIPTS[recording]
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
        stage.stack.push_async_callback(velero.kill)
        await velero.start()
        await script(velero)
        real = recorded("velero", recording)
        compared = unplaced if recording in RACED else fact
        assert {which: stage.ways(which, compared) for which in objects} == {
            which: ways(real, which, compared) for which in objects
        }
