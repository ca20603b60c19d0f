"""`VolSyncController`: the story of a ReplicationSource or ReplicationDestination, in the recorded order of writes."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, ClassVar, Final

from konverge.client import ClientConfig
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.standin import Json, StandIn
from konverge_testing.volsync.world import VolSyncWorld

__all__ = ["KINDS", "VolSyncController"]

_V1: Final = "volsync.backube/v1alpha1"
KINDS: Final[Mapping[str, Kind[Object]]] = {
    "ReplicationSource": kind(_V1, "ReplicationSource", namespaced=True, plural="replicationsources"),
    "ReplicationDestination": kind(_V1, "ReplicationDestination", namespaced=True, plural="replicationdestinations"),
}
MOVERS: Final = ("rclone", "restic", "rsync", "rsyncTLS", "syncthing")
_METHODS: Final = ("Direct", "None", "Clone", "Snapshot")
_RETRY: Final = 4.0
"""Seconds between two checks for a missing object."""
_LOOK: Final = 0.5
_LOG: Final = "snapshot 5e6f7a8b saved\nRestic completed in 2s"


class VolSyncController(StandIn):
    """Plays VolSync."""

    NAME: ClassVar[str] = "volsync"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = KINDS

    def __init__(
        self,
        config: ClientConfig,
        *,
        world: VolSyncWorld | None = None,
        namespace: str | None = None,
        pace: float = 1.0,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, pace=pace, random=random)
        self.world = VolSyncWorld() if world is None else world

    def story(self, manifest: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of a replication."""
        return self._replication(manifest)

    # --- writes --------------------------------------------------------------------------------------------------------------

    async def _say(
        self, manifest: Json, reason: str, message: str, *, synchronizing: bool = False, **status: Any
    ) -> None:
        """Write the condition Synchronizing and other fields; a field that is None is removed."""

        def edit(newest: Json) -> None:
            old = newest.get("status") or {}
            before: Json = next(iter(old.get("conditions") or ()), {})
            state = "True" if synchronizing else "False"
            since = before.get("lastTransitionTime") if before.get("status") == state else None
            condition = {
                "type": "Synchronizing",
                "status": state,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since or self.now(),
            }
            merged = {**old, **status, "conditions": [condition]}
            newest["status"] = {name: value for name, value in merged.items() if value is not None}

        await self.write(manifest, edit, "status")

    async def _in_progress(self, manifest: Json, **status: Any) -> None:
        await self._say(manifest, "SyncInProgress", "Synchronization in-progress", synchronizing=True, **status)

    async def _error(self, manifest: Json, message: str) -> None:
        await self._say(manifest, "Error", message)

    def _spec(self, manifest: Json) -> Json:
        spec: Json = (self.present(manifest) or manifest)["spec"]
        return spec

    def _token(self, manifest: Json) -> str | None:
        token: str | None = (self._spec(manifest).get("trigger") or {}).get("manual")
        return token

    # --- the story -----------------------------------------------------------------------------------------------------------

    async def _replication(self, manifest: Json) -> None:
        movers = [name for name in MOVERS if name in manifest["spec"]]
        if len(movers) != 1:
            await self.sleep(0.1)
            await self._error(
                manifest,
                "a replication method must be specified - enabled movers: [rclone restic rsync rsync-tls syncthing]",
            )
            return
        begun = (manifest.get("status") or {}).get("lastSyncStartTime")
        done = (manifest.get("status") or {}).get("lastManualSync")
        while self.present(manifest) is not None:
            if not begun and done is not None and self._token(manifest) == done:
                await self._another_token(manifest, done)
                continue
            await self.sleep(0.02)
            if not begun:
                await self._in_progress(manifest, lastSyncStartTime=self.now(), latestMoverStatus=self._left(manifest))
            begun = None
            if not await self._run(manifest, manifest["spec"][movers[0]]):
                return
            done = self._token(manifest)

    async def _another_token(self, manifest: Json, done: str) -> None:
        await self.until(lambda: self.present(manifest) is None or self._token(manifest) != done)

    def _left(self, manifest: Json) -> Json:
        """Return the mover's status of the run before, which stays in the status."""
        left: Json = ((self.present(manifest) or {}).get("status") or {}).get("latestMoverStatus") or {}
        return left

    async def _run(self, manifest: Json, mover: Json) -> bool:
        """Play one run; False if it can never end, or the object is deleted."""
        spec, name = manifest["spec"], manifest["metadata"]["name"]
        into = manifest["kind"] == "ReplicationDestination"
        volume = str(spec.get("sourcePVC") or mover.get("destinationPVC") or name)
        method = mover.get("copyMethod")
        if method not in _METHODS:
            await self._error(
                manifest, f"unsupported copyMethod: {method or ''} -- must be Direct, None, Clone, or Snapshot"
            )
            return False
        if self.world.flickers:
            await self.sleep(0.3)
            await self._error(
                manifest,
                f'Operation cannot be fulfilled on jobs.batch "volsync-src-{name}": the object has been modified',
            )
            await self.sleep(0.03)
            await self._in_progress(manifest)
        await self._found(manifest, f'PersistentVolumeClaim "{volume}" not found', volume, self.world.missing_volumes)
        secret = str(mover.get("repository") or mover.get("rcloneConfig") or "")
        await self._found(manifest, f'Secret "{secret}" not found', secret, self.world.missing_secrets)
        if method == "Snapshot" and not into:
            await self._snapshot(manifest, volume)
        while True:
            await self.until(lambda: not self._spec(manifest).get("paused"))
            ran = await self._moved(manifest)
            if self.present(manifest) is None:
                return False
            if not ran:
                continue
            if volume not in self.world.failing:
                break
            await self._in_progress(
                manifest, latestMoverStatus={"result": "Failed", "logs": self.world.failing[volume]}
            )
        await self._done(manifest, volume, into=into, method=str(method))
        return True

    async def _moved(self, manifest: Json) -> bool:
        """Let a mover run; False if it was paused before its end, or the object is deleted."""
        stopped = await self.until(
            lambda: bool(self._spec(manifest).get("paused")) or self.present(manifest) is None, self.world.seconds
        )
        return not stopped

    async def _found(self, manifest: Json, message: str, name: str, missing: set[str]) -> None:
        """Report a missing object, and check for it again later."""
        if name not in missing:
            return
        await self._error(manifest, message)
        while name in missing and self.present(manifest) is not None:
            await self.sleep(_RETRY)
        await self._in_progress(manifest)

    async def _snapshot(self, manifest: Json, volume: str) -> None:
        """Wait for a snapshot; the status does not report this wait."""
        while volume in self.world.waiting_snapshots and self.present(manifest) is not None:
            await self.sleep(_LOOK)

    async def _done(self, manifest: Json, volume: str, *, into: bool, method: str) -> None:
        result = {"result": "Successful", **({} if into else {"logs": _LOG})}
        image: Json | None = None
        if into:
            image = {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": volume}
            if method == "Snapshot":
                name = f"volsync-{manifest['metadata']['name']}-dest"
                image = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}
                await self._in_progress(manifest, latestMoverStatus=result)
                await self._snapshot(manifest, volume)
                await self.sleep(_LOOK)
        token = self._token(manifest)
        await self._say(
            manifest,
            "CleaningUp",
            "Cleaning up",
            lastManualSync=token,
            lastSyncTime=self.now(),
            lastSyncDuration=f"{self.world.seconds:g}s",
            lastSyncStartTime=None,
            latestMoverStatus=result,
            latestImage=image,
        )
        await self.sleep(_LOOK)
        if token is not None:
            await self._say(manifest, "WaitingForManual", "Waiting for manual trigger")
