"""A stand-in for the Velero server on an API server: no data are stored, no volume is touched.

    async with VeleroServer(config, world=VeleroWorld(failing={"web": 1})):
        ...                                 # Backups complete, or fail, as Velero would report it

Guarantees: the phases that it writes, and their order, equal recordings of the real server (tests/recordings/velero; the comparison is a
test): the queue, validation, locations, partial failures, asynchronous operations, restarts, the copy of a deleted Backup that is restored
from the bucket, expiration, and DeleteBackupRequests.

Caveats: a Restore changes nothing in the cluster. `VeleroWorld` decides outcomes and may be changed while the server runs.
"""

from __future__ import annotations

from konverge_testing.standin import Json, definitions
from konverge_testing.velero.server import KINDS, VeleroServer
from konverge_testing.velero.world import VeleroWorld

__all__ = ["KINDS", "VeleroServer", "VeleroWorld", "velero_crds"]


def velero_crds() -> list[Json]:
    """Return minimal CustomResourceDefinitions of Velero's kinds: without a status subresource, with upstream's enums.

    >>> [crd["spec"]["names"]["kind"] for crd in velero_crds()]
    ['Backup', 'BackupStorageLocation', 'DeleteBackupRequest', 'Restore']
    """
    return definitions("konverge_testing.velero")
