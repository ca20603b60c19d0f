"""A stand-in for VolSync on an API server: no Job, no volume and no snapshot is created.

    async with VolSyncController(config, world=VolSyncWorld(failing={"data": "unable to open repository"})):
        ...                                 # runs of the volume `data` fail again and again, as VolSync would report it

Guarantees: the conditions and fields that it writes, and their order, equal recordings of the real controller (tests/recordings/volsync;
the comparison is a test): runs by token, movers that are recreated for ever, missing volumes and Secrets, pauses, runs without a trigger,
snapshots, and the Error that flickers in healthy runs.

Caveats: Jobs and VolumeSnapshots exist only in the status.
"""

from __future__ import annotations

from konverge_testing.standin import Json, definitions
from konverge_testing.volsync.controller import KINDS, VolSyncController
from konverge_testing.volsync.world import VolSyncWorld

__all__ = ["KINDS", "VolSyncController", "VolSyncWorld", "volsync_crds"]


def volsync_crds() -> list[Json]:
    """Return minimal CustomResourceDefinitions of VolSync's kinds, with a status subresource.

    >>> [crd["spec"]["names"]["kind"] for crd in volsync_crds()]
    ['ReplicationDestination', 'ReplicationSource']
    """
    return definitions("konverge_testing.volsync")
