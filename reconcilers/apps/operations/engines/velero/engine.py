"""The engine `velero`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from konverge.clock import from_rfc3339
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    DeleteChild,
    EngineBlocked,
    EngineRequest,
    ObjectKey,
    ObjectRef,
    Observation,
    Refused,
    Rendered,
    WaitForEnd,
    object_lost,
)
from konverge.reconcilers.apps.operations.engines.silence import silence
from konverge.reconcilers.apps.operations.engines.velero.kinds import (
    BACKUP,
    BACKUP_STORAGE_LOCATION,
    RESTORE,
    VOLUME_SNAPSHOT_CLASS,
)
from konverge.reconcilers.apps.operations.engines.velero.observe import NOT_BEGUN, observe
from konverge.reconcilers.apps.operations.engines.velero.render import (
    backup_needs,
    render_backup,
    render_restore,
    restore_needs,
    velero_place,
)

__all__ = ["VeleroEngine"]

_RESTORE: Final = "Restore"


class VeleroEngine:
    """Backups and Restores of a namespace.

    Guarantees
    - A Restore is refused if no Operation of its own namespace created the Backup, and if the Backup's namespace, of the same name, was
      deleted since: the UID identifies the namespace.
    - A Backup is never deleted once it has begun: its data would stay in the object store and hold the name.
    """

    name: Final = "velero"
    makes: Final = (BACKUP, RESTORE)
    reads: Final = (BACKUP, BACKUP_STORAGE_LOCATION, VOLUME_SNAPSHOT_CLASS)
    gets: Final = (NAMESPACE,)

    def kind(self, request: EngineRequest) -> Kind[Object]:
        """Return Restore for a Restore, else Backup."""
        return RESTORE if request.type == _RESTORE else BACKUP

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return the place of the Backup or Restore, in the namespace of the Velero server."""
        return velero_place(request)

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the namespace, the location, and a Restore's Backup."""
        return restore_needs(request) if request.type == _RESTORE else backup_needs(request)

    def render(self, request: EngineRequest) -> Rendered | Refused | EngineBlocked:
        """Return the Backup or Restore."""
        return render_restore(request) if request.type == _RESTORE else render_backup(request)

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        """Translate the phase."""
        name = str(child.get("metadata", {}).get("name", ""))
        outputs = {"backupName": name}
        if request.type == _RESTORE:
            outputs = {"restoreName": name, "backupName": str(child.get("spec", {}).get("backupName", ""))}
        seen = observe(
            child,
            outputs=outputs,
            tolerate=request.parameters.get("toleratePartialFailure") is True,
            asked_to_cancel=asked_to_cancel,
            started=started,
            now=now,
        )
        what = f"{self.kind(request).kind} {name}"
        return silence(request, what, now, *_validations(request)).judge(
            seen,
            child,
            self.cancel(request, child) if asked_to_cancel else None,
            advice="a Velero that starts again goes on with it, or marks it Failed",
        )

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose Backup or Restore is missing."""
        place = velero_place(request)
        what = f"{self.kind(request).kind} {place.namespace}/{place.name}"
        return object_lost(what, asked_to_cancel=asked_to_cancel)

    def cancel(self, request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:  # noqa: ARG002  # the interface
        """Delete it if it has not begun; Velero has no other way to stop it (velero-io/velero#2098)."""
        if str((child.get("status") or {}).get("phase") or "") in NOT_BEGUN:
            return DeleteChild()
        return WaitForEnd("Velero cannot stop it once it has begun; its end is reported")


def _validations(request: EngineRequest) -> Iterator[datetime]:
    """Yield the last validation of the location by the server: once a minute by default, also while a Backup shows no progress."""
    for ref, location in request.related.objects.items():
        last = {} if location is None or ref.kind != BACKUP_STORAGE_LOCATION else location.get("status") or {}
        with suppress(ValueError):
            yield from_rfc3339(str(last.get("lastValidationTime")))
