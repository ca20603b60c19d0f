"""The kinds of Velero that the engine creates and reads."""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind

__all__ = ["BACKUP", "BACKUP_STORAGE_LOCATION", "RESTORE", "VOLUME_SNAPSHOT_CLASS"]

BACKUP: Final = kind("velero.io/v1", "Backup", namespaced=True, plural="backups")
RESTORE: Final = kind("velero.io/v1", "Restore", namespaced=True, plural="restores")
BACKUP_STORAGE_LOCATION: Final = kind(
    "velero.io/v1", "BackupStorageLocation", namespaced=True, plural="backupstoragelocations"
)
VOLUME_SNAPSHOT_CLASS: Final = kind(
    "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", namespaced=False, plural="volumesnapshotclasses"
)
