"""The stand-in for Velero writes the same as the recorded Velero.

Compared for each object of a recording: phase, place in the queue, errors, warnings, finalizer and deletion, in their order and without
repetitions. Not compared: times, texts, progress, and how writes of different objects interleave.
"""

import asyncio
from typing import Any

import pytest
from engine_stage import (
    Actor,
    EngineStage,
    Story,
    act,
    delete,
    facts_of,
    kill,
    recorded,
    rest,
    serve,
    until,
    until_gone,
    world,
)
from recordings import Json

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


class Velero(Actor):
    """A stage with a location and the server."""

    def __init__(self, stage: EngineStage) -> None:
        super().__init__(stage)
        self.world = VeleroWorld()

    def controller(self) -> VeleroServer:
        return VeleroServer(self.stage.lab.config, world=self.world, namespace=self.stage.lab.namespace)

    async def start(self) -> None:
        await self.stage.make("BackupStorageLocation", "default", {"provider": "aws"})
        await self.serve()
        await self.stage.until("BackupStorageLocation", "default", "Available")

    async def backup(self, /, name: str, namespace: str = "shop", **spec: Any) -> Object:
        return await self.stage.make("Backup", name, {"includedNamespaces": [namespace], **spec})

    async def restore(self, /, name: str, backup: str = "", **spec: Any) -> Object:
        return await self.stage.make("Restore", name, {**({"backupName": backup} if backup else {}), **spec})

    async def backed_up(self, /, name: str, namespace: str = "shop", **spec: Any) -> Object:
        await self.backup(name, namespace, **spec)
        return await self.stage.until("Backup", name)

    async def restored(self, /, name: str, backup: str = "", **spec: Any) -> Object:
        await self.restore(name, backup, **spec)
        return await self.stage.until("Restore", name)

    async def requested(self, name: str, backup: str) -> None:
        await self.stage.make("DeleteBackupRequest", name, {"backupName": backup})

    async def located(self, /, name: str, **spec: Any) -> None:
        await self.stage.make("BackupStorageLocation", name, {"provider": "aws", **spec})

    async def holds(self, kind_: str, name: str, field: str, filled: bool) -> None:
        """Check that the object exists, and whether a field of its status is filled."""
        assert bool((await self.stage.lab.get(KINDS[kind_], name)).get("status", field)) is filled

    async def stored(self, name: str) -> None:
        """Check that the bucket has the files of an unfinished Backup, and no Backup."""
        assert name in self.world.names
        assert name not in self.world.bucket


backup, backed_up = act(Velero.backup), act(Velero.backed_up)
restore, restored = act(Velero.restore), act(Velero.restored)
requested, located = act(Velero.requested), act(Velero.located)
holds, stored = act(Velero.holds), act(Velero.stored)


STORIES: dict[str, Story[Velero]] = {
    "backup-completes": Story("Backup/shop-1", backed_up("shop-1")),
    "backup-with-ttl": Story(
        "Backup/ttl-72h Backup/ttl-720h", backed_up("ttl-72h", ttl="72h"), backed_up("ttl-720h", ttl="720h0m0s")
    ),
    "backup-unknown-field": Story("Backup/unknown-field", backed_up("unknown-field", csiSnapshotClassName="x")),
    "backup-namespace-missing": Story(
        "Backup/nowhere", world(missing_namespaces={"nowhere"}), backed_up("nowhere", "nowhere")
    ),
    "backup-failed-validation": Story(
        "Backup/bad-location Backup/two-selectors Backup/bad-resources",
        backed_up("bad-location", storageLocation="nosuch"),
        backed_up("two-selectors", labelSelector={"a": "b"}, orLabelSelectors=[{"a": "b"}]),
        backed_up("bad-resources", includedResources=["secrets"], excludedResources=["secrets"]),
    ),
    "backup-name-in-bucket": Story("Backup/twice", backed_up("twice"), delete("Backup", "twice"), backed_up("twice")),
    "backup-deleted-and-synced-back": Story(
        "Backup/synced", backed_up("synced"), delete("Backup", "synced"), until("Backup", "synced", "Completed")
    ),
    "backup-partially-failed-item": Story("Backup/item-fails", world(failing={"shop": 1}), backed_up("item-fails")),
    "backup-partially-failed-hook": Story(
        "Backup/hook-fails Backup/hook-fails-continue",
        world(failing={"hook": 2, "other": 1}),
        backed_up("hook-fails", "hook"),
        backed_up("hook-fails-continue", "other"),
    ),
    "backup-plugin-operation": Story("Backup/async-ok", world(operations={"shop": 6}), backed_up("async-ok")),
    "backup-plugin-operation-fails": Story(
        "Backup/async-fails", world(operations={"shop": 5}, failing_operations={"shop"}), backed_up("async-fails")
    ),
    "backup-plugin-operation-times-out": Story(
        "Backup/async-timeout", world(operations={"shop": 4}, failing_operations={"shop"}), backed_up("async-timeout")
    ),
    "backup-plugin-operation-and-failed-item": Story(
        "Backup/async-partial", world(operations={"shop": 6}, failing={"shop": 1}), backed_up("async-partial")
    ),
    "backup-queue": Story(
        "Backup/queue-a Backup/queue-b Backup/queue-c Backup/queue-d",
        *(world(seconds={"shop": 6}), backup("queue-a"), until("Backup", "queue-a", "InProgress")),
        *(step for each in "bcd" for step in (backup(f"queue-{each}"), until("Backup", f"queue-{each}", "Queued"))),
        *(delete("Backup", "queue-b"), until("Backup", "queue-d")),
    ),
    "backup-deleted-while-in-progress": Story(
        "Backup/del-mid Backup/after-del",
        *(world(seconds={"slow": 6}), backup("del-mid", "slow"), until("Backup", "del-mid", "InProgress")),
        *(delete("Backup", "del-mid"), backed_up("after-del"), rest(70), stored("del-mid")),
    ),
    "backup-expires": Story("Backup/short", backed_up("short", ttl="15s"), until_gone("Backup", "short")),
    "backup-ttl-30d": Story(
        "Backup/ttl-30d Backup/good-1 Restore/while-ttl-30d",
        *(backed_up("shop-1"), backup("ttl-30d", ttl="30d"), backup("good-1"), rest(90)),
        *(holds("Backup", "good-1", "phase", False), restored("while-ttl-30d", "shop-1")),
        *(delete("Backup", "ttl-30d"), until("Backup", "good-1")),
    ),
    "backup-ttl-30d-at-server-start": Story(
        "Backup/ttl-30d-b Backup/good-2",
        *(kill(), backup("ttl-30d-b", ttl="30d"), backup("good-2"), serve(), rest(30)),
        *(delete("Backup", "ttl-30d-b"), until("Backup", "good-2")),
    ),
    "backup-location-down-before": Story(
        "Backup/down-before Restore/down-before DeleteBackupRequest/down-delete",
        *(backed_up("shop-1"), world(unreachable={"default"})),
        *(until("BackupStorageLocation", "default", "Unavailable"), backed_up("down-before")),
        *(restored("down-before", "shop-1"), requested("down-delete", "shop-1")),
        *(
            until("DeleteBackupRequest", "down-delete", "Processed"),
            holds("DeleteBackupRequest", "down-delete", "errors", True),
        ),
        holds("Backup", "shop-1", "phase", True),
    ),
    "backup-location-down-unnoticed": Story(
        "Backup/down-unnoticed Restore/down-unnoticed",
        *(backed_up("shop-1"), world(unnoticed=True, unreachable={"default"})),
        *(backed_up("down-unnoticed"), restored("down-unnoticed", "shop-1")),
    ),
    "backup-location-down-during": Story(
        "Backup/down-during",
        *(backup("down-during"), until("Backup", "down-during", "InProgress"), rest(1.5)),
        *(world(unreachable={"default"}), until("Backup", "down-during")),
        holds("Backup", "down-during", "completionTimestamp", False),
    ),
    "backupstoragelocation": Story(
        "Backup/into-no-bucket Backup/into-ro Backup/into-fresh",
        *(world(unreachable={"no-bucket"}), located("no-bucket")),
        *(
            until("BackupStorageLocation", "no-bucket", "Unavailable"),
            backed_up("into-no-bucket", storageLocation="no-bucket"),
        ),
        *(located("ro", accessMode="ReadOnly"), backed_up("into-ro", storageLocation="ro")),
        *(located("fresh"), backed_up("into-fresh", storageLocation="fresh")),
    ),
    "restore-completes": Story("Restore/restore-1", backed_up("shop-1"), restored("restore-1", "shop-1")),
    "restore-plugin-operation": Story(
        "Restore/restore-async Restore/restore-async-again",
        *(backed_up("rst-async"), world(operations={"shop": 6})),
        *(restored("restore-async", "rst-async"), restored("restore-async-again", "rst-async")),
    ),
    "restore-of-partially-failed": Story(
        "Restore/restore-partial",
        world(failing={"shop": 1}),
        backed_up("partial"),
        restored("restore-partial", "partial"),
    ),
    "restore-existing": Story(
        "Restore/restore-skip Restore/restore-update",
        *(world(existing={"shop"}), backed_up("shop-1"), restored("restore-skip", "shop-1")),
        restored("restore-update", "shop-1", existingResourcePolicy="update"),
    ),
    "restore-partially-failed": Story(
        "Backup/rst-fails Restore/restore-item-fails",
        *(world(failing_restores={"shop": 1}), backed_up("rst-fails"), restored("restore-item-fails", "rst-fails")),
    ),
    "restore-backup-missing": Story(
        "Restore/restore-ghost Restore/restore-none Restore/restore-bad-policy Restore/restore-of-invalid",
        *(backed_up("invalid", storageLocation="nosuch"), restored("restore-ghost", "ghost"), restored("restore-none")),
        restored("restore-bad-policy", "invalid", existingResourcePolicy="replace"),
        restored("restore-of-invalid", "invalid"),
    ),
    "restore-of-running-backup": Story(
        "Backup/still-running Restore/too-early",
        *(world(seconds={"shop": 6}), backup("still-running"), until("Backup", "still-running", "InProgress")),
        *(restored("too-early", "still-running"), until("Backup", "still-running")),
    ),
    "restore-deleted-while-in-progress": Story(
        "Backup/rst-slow Restore/restore-slow Restore/restore-after",
        *(backed_up("rst-slow"), world(seconds={"shop": 20}), restore("restore-slow", "rst-slow")),
        *(until("Restore", "restore-slow", "InProgress"), delete("Restore", "restore-slow")),
        *(restored("restore-after", "rst-slow"), until_gone("Restore", "restore-slow")),
    ),
    "deletebackuprequest": Story(
        "Backup/doomed Restore/from-doomed DeleteBackupRequest/doomed-delete DeleteBackupRequest/ghost-delete",
        *(backed_up("doomed"), restored("from-doomed", "doomed")),
        *(requested("doomed-delete", "doomed"), until_gone("DeleteBackupRequest", "doomed-delete")),
        *(requested("ghost-delete", "ghost"), until("DeleteBackupRequest", "ghost-delete", "Processed")),
    ),
    "deletebackuprequest-in-progress": Story(
        "Backup/busy DeleteBackupRequest/busy-delete-2",
        *(world(seconds={"shop": 6}), backup("busy"), until("Backup", "busy", "InProgress")),
        *(requested("busy-delete", "busy"), until("Backup", "busy", "Completed"), requested("busy-delete-2", "busy")),
        *(until_gone("Backup", "busy"), until_gone("DeleteBackupRequest", "busy-delete-2")),
    ),
    "server-killed-backup": Story(
        "Backup/killed Backup/killed-queued Backup/killed-third",
        *(world(seconds={"slow": 20}), backup("killed", "slow"), until("Backup", "killed", "InProgress")),
        *(backup("killed-queued"), until("Backup", "killed-queued", "Queued"), kill()),
        *(backup("killed-third"), rest(8), serve(), until("Backup", "killed-third")),
    ),
    "server-killed-plugin-operation": Story(
        "Backup/killed-async",
        *(world(operations={"shop": 20}), backup("killed-async")),
        *(
            until("Backup", "killed-async", "WaitingForPluginOperations"),
            kill(),
            serve(),
            until("Backup", "killed-async"),
        ),
    ),
    "server-killed-restore": Story(
        "Backup/rst-slow-20 Restore/restore-killed",
        *(backed_up("rst-slow-20"), world(seconds={"shop": 20}), restore("restore-killed", "rst-slow-20")),
        *(until("Restore", "restore-killed", "InProgress"), kill(), serve(), until("Restore", "restore-killed")),
    ),
    "server-down": Story(
        "Backup/waits Restore/waits",
        *(backed_up("shop-1"), restored("restore-1", "shop-1"), kill(), backup("waits"), restore("waits", "shop-1")),
        *(
            delete("Restore", "waits"),
            delete("Restore", "restore-1"),
            rest(5),
            holds("Restore", "restore-1", "phase", True),
        ),
        *(serve(), until("Backup", "waits"), until_gone("Restore", "restore-1")),
    ),
}
"""The recordings, and what was done from outside."""


async def test_deleted_backup_is_synced_back_with_labels_owners_and_another_uid(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
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


async def test_backup_of_a_deleted_namespace_is_retried_once_a_minute(lab: Lab) -> None:
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        velero = Velero(stage)
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
        await velero.start()
        await velero.backed_up("shop-1")
        await velero.restore("back", "shop-1")
        await stage.until("Restore", "back", "InProgress")
        await stage.delete("Backup", "shop-1")
        await stage.until("Restore", "back", "Completed")


@pytest.mark.parametrize("recording", STORIES)
async def test_the_stand_in_writes_what_velero_was_recorded_writing(lab: Lab, recording: str) -> None:
    story = STORIES[recording]
    async with EngineStage(lab, KINDS, velero_crds()) as stage:
        await story.play(Velero(stage))
        compared, real = unplaced if recording in RACED else fact, recorded("velero", recording)
        assert facts_of(stage.events, story.objects, compared) == facts_of(real, story.objects, compared)
