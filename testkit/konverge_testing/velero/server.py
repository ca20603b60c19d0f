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

    def story(self, made: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of an object."""
        stories = {
            "Backup": self._backup,
            "Restore": self._restore,
            "BackupStorageLocation": self._location,
            "DeleteBackupRequest": self._deletion,
        }
        return stories[made["kind"]](made)

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return the queue and the sync of the bucket."""
        return [self._queue(), self._sync()]

    async def _say(self, made: Json, **status: Any) -> Json | None:
        """Write fields of the status; a field that is None is removed."""

        def edit(newest: Json) -> None:
            merged = {**(newest.get("status") or {}), **status}
            newest["status"] = {name: value for name, value in merged.items() if value is not None}

        return await self.write(made, edit)

    # --- Backups -------------------------------------------------------------------------------------------------------------

    def _list_fails(self) -> bool:
        """Return whether the server cannot decode its list of Backups: one ttl that Go does not read blocks all Backups."""
        return any(
            "ttl" in made["spec"] and not readable_duration(made["spec"]["ttl"]) for made in self.cached("Backup")
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

    async def _backup(self, made: Json) -> None:
        uid, phase = made["metadata"]["uid"], str((made.get("status") or {}).get("phase") or "")
        if phase in _ENDED:
            await self._expire(made)
            return
        if phase == "InProgress":
            reason = 'found a backup with status "InProgress" during the server starting, mark it as "Failed"'
            await self._say(made, phase="Failed", failureReason=reason, completionTimestamp=self.now())
            return
        if phase.startswith(("WaitingFor", "Finalizing")):
            await self._finish_backup(made)
            return
        while self._list_fails():
            if not await self.until(lambda: not self._list_fails()):
                return
            await self.sleep(10)
        if self.present(made) is None:
            return
        if await self._queued(made, uid, known=phase == "Queued"):
            await self._run_backup(made)

    async def _queued(self, made: Json, uid: str, *, known: bool) -> bool:
        """Wait until the queue starts a Backup; False if the Backup was deleted while it waited."""
        self._waiting.append(uid)
        place = self._places[uid] = len(self._waiting)
        if not known:
            await self._say(made, phase="Queued", queuePosition=place)
        self._turn()

        def moved(from_: int) -> bool:
            return self._running == uid or self._places.get(uid) != from_ or self.present(made) is None

        while self._running != uid:
            await self.until(partial(moved, place))
            if self.present(made) is None and await self.read(made) is None:
                self._forget(uid)
                return False
            if self._running != uid and self._places.get(uid, place) != place:
                place = self._places[uid]
                await self._say(made, queuePosition=place)
        await self.sleep(0.1)
        return await self._say(made, phase="ReadyToStart", queuePosition=None) is not None

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

    async def _run_backup(self, made: Json) -> None:
        await self.sleep(0.2)
        spec = {**_DEFAULTS, **made["spec"]}
        expiration = self.now(ttl_seconds(spec["ttl"]))
        errors = backup_errors(spec, self.cached("BackupStorageLocation"))
        if errors:
            await self._say(made, phase="FailedValidation", validationErrors=errors, expiration=expiration)
            self._leave()
            return
        location, name = spec["storageLocation"], made["metadata"]["name"]

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

        await self.write(made, begin)
        failure = self._store_failure(location, "error checking if backup already exists in object storage")
        if name in self.world.names:
            failure = "backup execution failed: backup already exists in object storage"
        if failure:
            await self.sleep(1)
            await self._say(made, phase="Failed", failureReason=failure, completionTimestamp=self.now())
            self._leave()
            return
        await self._store_items(made, spec, location)

    def _store_failure(self, location: str, what: str) -> str:
        if location not in self.world.unreachable:
            return ""
        return (
            f"backup execution failed: {what}: rpc error: code = Unknown desc = operation error S3: exceeded maximum number of attempts, "
            f"3, https response error StatusCode: 0, RequestID: {self._random.getrandbits(32):x}, HostID: , connection refused"
        )

    async def _store_items(self, made: Json, spec: Json, location: str) -> None:
        namespace = (spec.get("includedNamespaces") or [""])[0]
        world, total = self.world, self.world.items
        missing = namespace in world.missing_namespaces
        await self.sleep(1)
        await self._say(made, progress={} if missing else {"totalItems": total})
        await self.sleep(world.seconds.get(namespace, 2.0))
        if not missing:
            await self._say(made, progress={"itemsBackedUp": total, "totalItems": total})
        failure = self._store_failure(location, "error putting object")
        if failure:
            await self._say(made, phase="Failed", failureReason=failure)
            self._leave()
            return
        world.names.add(made["metadata"]["name"])
        errors = 1 if missing else world.failing.get(namespace, 0)
        tail = "PartiallyFailed" if errors else ""
        if namespace in world.operations:
            status = {"phase": f"WaitingForPluginOperations{tail}", "backupItemOperationsAttempted": 1}
        else:
            status = {"phase": f"Finalizing{tail}"}
        gone = await self._say(made, errors=errors or None, **status) is None
        self._running = ""
        self._turn(missed=gone)
        if not gone:
            await self._finish_backup(made)

    async def _finish_backup(self, made: Json) -> None:
        """Play a Backup from WaitingForPluginOperations on; that survives a restart of the server."""
        found = await self.read(made)
        if found is None:
            return
        status, namespace = found["status"], (found["spec"].get("includedNamespaces") or [""])[0]
        errors = int(status.get("errors", 0))
        if status["phase"].startswith("WaitingFor"):
            await self.sleep(self.world.operations.get(namespace, 0))
            failed = namespace in self.world.failing_operations
            errors += 1 if failed else 0
            counted = "backupItemOperationsFailed" if failed else "backupItemOperationsCompleted"
            tail = "PartiallyFailed" if errors else ""
            await self._say(made, phase=f"Finalizing{tail}", errors=errors or None, **{counted: 1})
        await self.sleep(0.4)
        stored = await self._say(
            made, phase="PartiallyFailed" if errors else "Completed", completionTimestamp=self.now()
        )
        if stored is not None:
            self.world.bucket[made["metadata"]["name"]] = stored
            await self._expire(stored)

    # --- the bucket ----------------------------------------------------------------------------------------------------------

    async def _expire(self, made: Json) -> None:
        """Request the deletion of a Backup at its expiration, as Velero's garbage collection does."""
        if (made.get("status") or {}).get("phase") not in ("Completed", "PartiallyFailed"):
            return
        await self.sleep(ttl_seconds(made["spec"].get("ttl", _DEFAULTS["ttl"])))
        if await self.read(made) is not None:
            await self.create(self._request(made))

    def _request(self, made: Json) -> Json:
        metadata = made["metadata"]
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
            there = {made["metadata"]["name"] for made in self.cached("Backup")}
            for name, stored in list(self.world.bucket.items()):
                if name not in there and stored["spec"]["storageLocation"] not in self.world.unreachable:
                    again = copy.deepcopy(stored)
                    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
                    again["metadata"] = {key: value for key, value in stored["metadata"].items() if key in kept}
                    await self.create(again)

    async def _deletion(self, made: Json) -> None:
        """Play a DeleteBackupRequest. Phase Processed does not imply success: `errors` has the failures."""
        if (made.get("status") or {}).get("phase") == "Processed":
            return
        await self.sleep(0.1)
        named = made["spec"]["backupName"]
        backup = next((found for found in self.cached("Backup") if found["metadata"]["name"] == named), None)
        phase = str(((backup or {}).get("status") or {}).get("phase") or "")
        error = ""
        if backup is None:
            error = "backup not found"
        elif phase not in _ENDED:
            error = "backup is still in progress"
        elif backup["spec"].get("storageLocation", "default") in self.world.unreachable:
            error = "cannot delete backup because backup storage location is currently in Unavailable state"
        if error or backup is None:
            await self._say(made, phase="Processed", errors=[f"backup deletion failed: {error}"])
            return
        await self._say(made, phase="InProgress")
        await self._say(backup, phase="Deleting")
        await self.sleep(1)
        self.world.bucket.pop(named, None)
        self.world.names.discard(named)
        for restore in self.cached("Restore"):
            if restore["spec"].get("backupName") == named:
                await self.delete(restore)
        await self.delete(backup)
        await self._say(made, phase="Processed")
        await self.sleep(0.4)
        await self.delete(made)

    # --- locations -----------------------------------------------------------------------------------------------------------

    async def _location(self, made: Json) -> None:
        name = made["metadata"]["name"]
        await self.sleep(0.1)
        said: str | None = None
        while True:
            down = name in self.world.unreachable
            phase = "Unavailable" if down else "Available"
            news = phase != said or self.world.validates_each_minute
            if news and not (self.world.unnoticed and said):
                message = f'BackupStorageLocation "{name}" is unavailable: connection refused' if down else None
                if await self._say(made, phase=phase, message=message, lastValidationTime=self.now()) is None:
                    return
                said = phase
            if await self.until(lambda: self.present(made) is None, _VALIDATION) or not self.pace:
                return

    # --- Restores ------------------------------------------------------------------------------------------------------------

    async def _restore(self, made: Json) -> None:
        phase = str((made.get("status") or {}).get("phase") or "")
        if phase == "InProgress":
            reason = 'found a restore with status "InProgress" during the server starting, mark it as "Failed"'
            await self._say(made, phase="Failed", failureReason=reason, completionTimestamp=self.now())
        elif phase not in _ENDED:
            async with self._restoring:
                going = await self._run_restore(made)
            if going:
                await self._finish_restore(made)
        await self.until(lambda: self._leaves(made))
        await self._finalize(made)

    def _leaves(self, made: Json) -> bool:
        """Return whether an object is deleted, or about to be."""
        found = self.present(made)
        return found is None or "deletionTimestamp" in found["metadata"]

    async def _finalize(self, made: Json) -> None:
        def without(newest: Json) -> None:
            kept = [entry for entry in newest["metadata"].get("finalizers", ()) if entry != FINALIZER]
            newest["metadata"]["finalizers"] = kept

        await self.write(made, without)

    async def _run_restore(self, made: Json) -> bool:
        """Play the part of a Restore that excludes other Restores; False if the Restore has ended."""

        def with_finalizer(newest: Json) -> None:
            newest["metadata"]["finalizers"] = [*newest["metadata"].get("finalizers", ()), FINALIZER]

        if await self.write(made, with_finalizer) is None:
            return False
        errors = restore_errors(made["spec"], self.cached("Backup"), self.cached("BackupStorageLocation"))
        if errors:
            await self._say(made, phase="FailedValidation", validationErrors=errors)
            return False
        # Keep a copy from here on, since the object may be deleted during the restore.
        backup = next(
            found for found in self.cached("Backup") if found["metadata"]["name"] == made["spec"]["backupName"]
        )
        await self._say(made, phase="InProgress", startTimestamp=self.now())
        await self.sleep(1)
        location = backup["spec"].get("storageLocation", "default")
        failure = self._store_failure(location, "error downloading backup")
        if made["spec"]["backupName"] not in self.world.bucket:
            failure = "restore execution failed: error downloading backup: error getting object: NoSuchKey"
        if failure:
            await self._say(
                made,
                phase="Failed",
                failureReason=failure.replace("backup execution", "restore execution"),
                completionTimestamp=self.now(),
            )
            return False
        namespace, world = (backup["spec"].get("includedNamespaces") or [""])[0], self.world
        await self.sleep(world.seconds.get(namespace, 2.0))
        await self._say(made, progress={"itemsRestored": world.items, "totalItems": world.items})
        failed = world.failing_restores.get(namespace, 0)
        tail = "PartiallyFailed" if failed else ""
        warnings = 2 if namespace in world.existing else 1
        if made["spec"].get("existingResourcePolicy") == "update":
            warnings = 0
        status: Json = {"warnings": warnings or None, "errors": failed or None}
        if namespace in world.operations:
            status |= {"phase": f"WaitingForPluginOperations{tail}", "restoreItemOperationsAttempted": 1}
        else:
            status |= {"phase": f"Finalizing{tail}"}
        return await self._say(made, **status) is not None

    async def _finish_restore(self, made: Json) -> None:
        found = await self.read(made)
        if found is None:
            return
        namespaces = found["spec"].get("includedNamespaces")
        backup = self.world.bucket.get(found["spec"].get("backupName", ""), {"spec": {}})
        namespace = (namespaces or backup["spec"].get("includedNamespaces") or [""])[0]
        tail = "PartiallyFailed" if found["status"].get("errors") else ""
        if found["status"]["phase"].startswith("WaitingFor"):
            await self.sleep(self.world.operations.get(namespace, 0))
            await self._say(made, phase=f"Finalizing{tail}", restoreItemOperationsCompleted=1)
        await self.sleep(0.2)
        await self._say(made, phase=tail or "Completed", completionTimestamp=self.now())
