"""`VeleroServer`: the stories of Backups, Restores, locations and DeleteBackupRequests, in the recorded order of writes."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from konverge.client import ClientConfig
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.standin import Json, StandIn
from konverge_testing.velero.validation import backup_errors, restore_errors, ttl_seconds
from konverge_testing.velero.world import VeleroWorld, readable_duration

__all__ = ["KINDS", "VeleroServer"]

_V1: Final = "velero.io/v1"
KINDS: Final[Mapping[str, Kind[Object]]] = {
    "Backup": kind(_V1, "Backup", namespaced=True, plural="backups"),
    "Restore": kind(_V1, "Restore", namespaced=True, plural="restores"),
    "BackupStorageLocation": kind(_V1, "BackupStorageLocation", namespaced=True, plural="backupstoragelocations"),
    "DeleteBackupRequest": kind(_V1, "DeleteBackupRequest", namespaced=True, plural="deletebackuprequests"),
}
FINALIZER: Final = "restores.velero.io/external-resources-finalizer"
_DEFAULTS: Final = {"ttl": "720h0m0s", "storageLocation": "default", "itemOperationTimeout": "4h0m0s"}
_ENDED: Final = frozenset({"Completed", "PartiallyFailed", "Failed", "FailedValidation"})
_MINUTE: Final = 60.0
_VALIDATION: Final = 60.0
"""Seconds between two validations of a location, as is Velero's default."""


class VeleroServer(StandIn):
    """Plays the Velero server of one namespace."""

    NAME: ClassVar[str] = "velero-server"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = KINDS

    def __init__(
        self,
        config: ClientConfig,
        *,
        world: VeleroWorld | None = None,
        namespace: str = "velero",
        pace: float = 1.0,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, pace=pace, random=random)
        self.world = VeleroWorld() if world is None else world
        self._waiting: list[str] = []
        self._places: dict[str, int] = {}
        self._running: str = ""
        self._look = asyncio.Event()
        self._restoring = asyncio.Lock()

    def story(self, manifest: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of an object."""
        stories = {
            "Backup": self._backup,
            "Restore": self._restore,
            "BackupStorageLocation": self._location,
            "DeleteBackupRequest": self._deletion,
        }
        return stories[manifest["kind"]](manifest)

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return the queue and the sync of the bucket."""
        return [self._queue(), self._sync()]

    async def _say(self, manifest: Json, **status: Any) -> Json | None:
        """Write fields of the status; a field that is None is removed."""

        def edit(newest: Json) -> None:
            merged = {**(newest.get("status") or {}), **status}
            newest["status"] = {name: value for name, value in merged.items() if value is not None}

        return await self.write(manifest, edit)

    # --- Backups -------------------------------------------------------------------------------------------------------------

    def _list_fails(self) -> bool:
        """Return whether the server cannot decode its list of Backups: one ttl that Go does not read blocks all Backups."""
        return any(
            "ttl" in item["spec"] and not readable_duration(item["spec"]["ttl"]) for item in self.cached("Backup")
        )

    async def _queue(self) -> None:
        """Start the next Backup when one arrives or ends, else once a minute."""
        while True:
            try:
                async with asyncio.timeout(_MINUTE * self.pace or None):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            if not self._running and self._waiting and not self._list_fails():
                self._running = self._waiting.pop(0)
                self._places = {uid: place for place, uid in enumerate(self._waiting, start=1)}
                self.wake()

    def _turn(self, *, missed: bool = False) -> None:
        if not (self.world.slow_queue or missed):
            self._look.set()

    async def _backup(self, manifest: Json) -> None:
        uid, phase = manifest["metadata"]["uid"], str((manifest.get("status") or {}).get("phase") or "")
        if phase in _ENDED:
            await self._expire(manifest)
            return
        if phase == "InProgress":
            reason = 'found a backup with status "InProgress" during the server starting, mark it as "Failed"'
            await self._say(manifest, phase="Failed", failureReason=reason, completionTimestamp=self.now())
            return
        if phase.startswith(("WaitingFor", "Finalizing")):
            await self._finish_backup(manifest)
            return
        while self._list_fails():
            if not await self.until(lambda: not self._list_fails()):
                return
            await self.sleep(10)
        if self.present(manifest) is None:
            return
        if await self._queued(manifest, uid, known=phase == "Queued"):
            await self._run_backup(manifest)

    async def _queued(self, manifest: Json, uid: str, *, known: bool) -> bool:
        """Wait until the queue starts a Backup; False if the Backup was deleted while it waited."""
        self._waiting.append(uid)
        place = self._places[uid] = len(self._waiting)
        if not known:
            await self._say(manifest, phase="Queued", queuePosition=place)
        self._turn()

        def moved(from_: int) -> bool:
            return self._running == uid or self._places.get(uid) != from_ or self.present(manifest) is None

        while self._running != uid:
            await self.until(partial(moved, place))
            if self.present(manifest) is None and await self.read(manifest) is None:
                self._forget(uid)
                return False
            if self._running != uid and self._places.get(uid, place) != place:
                place = self._places[uid]
                await self._say(manifest, queuePosition=place)
        await self.sleep(0.1)
        return await self._say(manifest, phase="ReadyToStart", queuePosition=None) is not None

    def _forget(self, uid: str) -> None:
        """Remove a deleted Backup from the queue; the places of the others change only with the next start."""
        if uid in self._waiting:
            self._waiting.remove(uid)
        if self._running == uid:
            self._leave()

    def _leave(self) -> None:
        """Start the next Backup."""
        self._running = ""
        self._turn()

    async def _run_backup(self, manifest: Json) -> None:
        await self.sleep(0.2)
        spec = {**_DEFAULTS, **manifest["spec"]}
        expiration = self.now(ttl_seconds(spec["ttl"]))
        errors = backup_errors(spec, self.cached("BackupStorageLocation"))
        if errors:
            await self._say(manifest, phase="FailedValidation", validationErrors=errors, expiration=expiration)
            self._leave()
            return
        location, name = spec["storageLocation"], manifest["metadata"]["name"]

        def begin(newest: Json) -> None:
            newest["spec"] = {**_DEFAULTS, **newest["spec"]}
            metadata = newest["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), "velero.io/storage-location": location}
            newest["status"] = {
                **(newest.get("status") or {}),
                "phase": "InProgress",
                "startTimestamp": self.now(),
                "expiration": expiration,
            }

        await self.write(manifest, begin)
        failure = self._store_failure(location, "error checking if backup already exists in object storage")
        if name in self.world.names:
            failure = "backup execution failed: backup already exists in object storage"
        if failure:
            await self.sleep(1)
            await self._say(manifest, phase="Failed", failureReason=failure, completionTimestamp=self.now())
            self._leave()
            return
        await self._store_items(manifest, spec, location)

    def _store_failure(self, location: str, what: str) -> str:
        if location not in self.world.unreachable:
            return ""
        return (
            f"backup execution failed: {what}: rpc error: code = Unknown desc = operation error S3: exceeded maximum number of attempts, "
            f"3, https response error StatusCode: 0, RequestID: {self._random.getrandbits(32):x}, HostID: , connection refused"
        )

    async def _store_items(self, manifest: Json, spec: Json, location: str) -> None:
        namespace = (spec.get("includedNamespaces") or [""])[0]
        world, total = self.world, self.world.items
        missing = namespace in world.missing_namespaces
        await self.sleep(1)
        await self._say(manifest, progress={} if missing else {"totalItems": total})
        await self.sleep(world.seconds.get(namespace, 2.0))
        if not missing:
            await self._say(manifest, progress={"itemsBackedUp": total, "totalItems": total})
        failure = self._store_failure(location, "error putting object")
        if failure:
            await self._say(manifest, phase="Failed", failureReason=failure)
            self._leave()
            return
        world.names.add(manifest["metadata"]["name"])
        errors = 1 if missing else world.failing.get(namespace, 0)
        tail = "PartiallyFailed" if errors else ""
        if namespace in world.operations:
            status = {"phase": f"WaitingForPluginOperations{tail}", "backupItemOperationsAttempted": 1}
        else:
            status = {"phase": f"Finalizing{tail}"}
        gone = await self._say(manifest, errors=errors or None, **status) is None
        self._running = ""
        self._turn(missed=gone)
        if not gone:
            await self._finish_backup(manifest)

    async def _finish_backup(self, manifest: Json) -> None:
        """Play a Backup from WaitingForPluginOperations on; that survives a restart of the server."""
        result = await self.read(manifest)
        if result is None:
            return
        status, namespace = result["status"], (result["spec"].get("includedNamespaces") or [""])[0]
        errors = int(status.get("errors", 0))
        if status["phase"].startswith("WaitingFor"):
            await self.sleep(self.world.operations.get(namespace, 0))
            failed = namespace in self.world.failing_operations
            errors += 1 if failed else 0
            counted = "backupItemOperationsFailed" if failed else "backupItemOperationsCompleted"
            tail = "PartiallyFailed" if errors else ""
            await self._say(manifest, phase=f"Finalizing{tail}", errors=errors or None, **{counted: 1})
        await self.sleep(0.4)
        stored = await self._say(
            manifest, phase="PartiallyFailed" if errors else "Completed", completionTimestamp=self.now()
        )
        if stored is not None:
            self.world.bucket[manifest["metadata"]["name"]] = stored
            await self._expire(stored)

    # --- the bucket ----------------------------------------------------------------------------------------------------------

    async def _expire(self, manifest: Json) -> None:
        """Request the deletion of a Backup at its expiration, as Velero's garbage collection does."""
        if (manifest.get("status") or {}).get("phase") not in ("Completed", "PartiallyFailed"):
            return
        await self.sleep(ttl_seconds(manifest["spec"].get("ttl", _DEFAULTS["ttl"])))
        if await self.read(manifest) is not None:
            await self.create(self._request(manifest))

    def _request(self, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        name = f"{metadata['name']}-{self._random.getrandbits(20):05x}"
        return {
            "apiVersion": _V1,
            "kind": "DeleteBackupRequest",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "spec": {"backupName": metadata["name"]},
        }

    async def _sync(self) -> None:
        """Create again, once a minute, what the bucket holds and the API does not: labels, annotations and owners are kept."""
        while self.pace:
            await self.sleep(_MINUTE)
            present = {item["metadata"]["name"] for item in self.cached("Backup")}
            for name, stored in list(self.world.bucket.items()):
                if name not in present and stored["spec"]["storageLocation"] not in self.world.unreachable:
                    again = copy.deepcopy(stored)
                    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
                    again["metadata"] = {key: value for key, value in stored["metadata"].items() if key in kept}
                    await self.create(again)

    async def _deletion(self, manifest: Json) -> None:
        """Play a DeleteBackupRequest. Phase Processed does not imply success: `errors` has the failures."""
        if (manifest.get("status") or {}).get("phase") == "Processed":
            return
        await self.sleep(0.1)
        named = manifest["spec"]["backupName"]
        backup = next((item for item in self.cached("Backup") if item["metadata"]["name"] == named), None)
        phase = str(((backup or {}).get("status") or {}).get("phase") or "")
        error = ""
        if backup is None:
            error = "backup not found"
        elif phase not in _ENDED:
            error = "backup is still in progress"
        elif backup["spec"].get("storageLocation", "default") in self.world.unreachable:
            error = "cannot delete backup because backup storage location is currently in Unavailable state"
        if error or backup is None:
            await self._say(manifest, phase="Processed", errors=[f"backup deletion failed: {error}"])
            return
        await self._say(manifest, phase="InProgress")
        await self._say(backup, phase="Deleting")
        await self.sleep(1)
        self.world.bucket.pop(named, None)
        self.world.names.discard(named)
        for restore in self.cached("Restore"):
            if restore["spec"].get("backupName") == named:
                await self.delete(restore)
        await self.delete(backup)
        await self._say(manifest, phase="Processed")
        await self.sleep(0.4)
        await self.delete(manifest)

    # --- locations -----------------------------------------------------------------------------------------------------------

    async def _location(self, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        await self.sleep(0.1)
        text: str | None = None
        while True:
            down = name in self.world.unreachable
            phase = "Unavailable" if down else "Available"
            news = phase != text or self.world.validates_each_minute
            if news and not (self.world.unnoticed and text):
                message = f'BackupStorageLocation "{name}" is unavailable: connection refused' if down else None
                if await self._say(manifest, phase=phase, message=message, lastValidationTime=self.now()) is None:
                    return
                text = phase
            if await self.until(lambda: self.present(manifest) is None, _VALIDATION) or not self.pace:
                return

    # --- Restores ------------------------------------------------------------------------------------------------------------

    async def _restore(self, manifest: Json) -> None:
        phase = str((manifest.get("status") or {}).get("phase") or "")
        if phase == "InProgress":
            reason = 'found a restore with status "InProgress" during the server starting, mark it as "Failed"'
            await self._say(manifest, phase="Failed", failureReason=reason, completionTimestamp=self.now())
        elif phase not in _ENDED:
            async with self._restoring:
                going = await self._run_restore(manifest)
            if going:
                await self._finish_restore(manifest)
        await self.until(lambda: self._leaves(manifest))
        await self._finalize(manifest)

    def _leaves(self, manifest: Json) -> bool:
        """Return whether an object is deleted, or about to be."""
        result = self.present(manifest)
        return result is None or "deletionTimestamp" in result["metadata"]

    async def _finalize(self, manifest: Json) -> None:
        def without(newest: Json) -> None:
            kept = [entry for entry in newest["metadata"].get("finalizers", ()) if entry != FINALIZER]
            newest["metadata"]["finalizers"] = kept

        await self.write(manifest, without)

    async def _run_restore(self, manifest: Json) -> bool:
        """Play the part of a Restore that excludes other Restores; False if the Restore has ended."""

        def with_finalizer(newest: Json) -> None:
            newest["metadata"]["finalizers"] = [*newest["metadata"].get("finalizers", ()), FINALIZER]

        if await self.write(manifest, with_finalizer) is None:
            return False
        errors = restore_errors(manifest["spec"], self.cached("Backup"), self.cached("BackupStorageLocation"))
        if errors:
            await self._say(manifest, phase="FailedValidation", validationErrors=errors)
            return False
        # Keep a copy from here on, since the object may be deleted during the restore.
        backup = next(
            item for item in self.cached("Backup") if item["metadata"]["name"] == manifest["spec"]["backupName"]
        )
        await self._say(manifest, phase="InProgress", startTimestamp=self.now())
        await self.sleep(1)
        location = backup["spec"].get("storageLocation", "default")
        failure = self._store_failure(location, "error downloading backup")
        if manifest["spec"]["backupName"] not in self.world.bucket:
            failure = "restore execution failed: error downloading backup: error getting object: NoSuchKey"
        if failure:
            await self._say(
                manifest,
                phase="Failed",
                failureReason=failure.replace("backup execution", "restore execution"),
                completionTimestamp=self.now(),
            )
            return False
        namespace, world = (backup["spec"].get("includedNamespaces") or [""])[0], self.world
        await self.sleep(world.seconds.get(namespace, 2.0))
        await self._say(manifest, progress={"itemsRestored": world.items, "totalItems": world.items})
        failed = world.failing_restores.get(namespace, 0)
        tail = "PartiallyFailed" if failed else ""
        warnings = 2 if namespace in world.existing else 1
        if manifest["spec"].get("existingResourcePolicy") == "update":
            warnings = 0
        status: Json = {"warnings": warnings or None, "errors": failed or None}
        if namespace in world.operations:
            status |= {"phase": f"WaitingForPluginOperations{tail}", "restoreItemOperationsAttempted": 1}
        else:
            status |= {"phase": f"Finalizing{tail}"}
        return await self._say(manifest, **status) is not None

    async def _finish_restore(self, manifest: Json) -> None:
        result = await self.read(manifest)
        if result is None:
            return
        namespaces = result["spec"].get("includedNamespaces")
        backup = self.world.bucket.get(result["spec"].get("backupName", ""), {"spec": {}})
        namespace = (namespaces or backup["spec"].get("includedNamespaces") or [""])[0]
        tail = "PartiallyFailed" if result["status"].get("errors") else ""
        if result["status"]["phase"].startswith("WaitingFor"):
            await self.sleep(self.world.operations.get(namespace, 0))
            await self._say(manifest, phase=f"Finalizing{tail}", restoreItemOperationsCompleted=1)
        await self.sleep(0.2)
        await self._say(manifest, phase=tail or "Completed", completionTimestamp=self.now())
