"""The parts of the objects that a replica watches, in the mode `hash` with `ranges`: its own, and those that it still has to give back.

    the ring changes                       watch the new parts beside those of objects that are held here
    the last object outside is given back  watch the own parts alone

Guarantees: an object that this replica owns or reconciles stays in its cache until its stamp is cleared. An object that it should own comes
into the cache by the list that each change begins.

Caveats: a replica does not see what happens to the objects of others. A stamp that is removed by hand is missed by the replica that gains
the object before its owner has written it again, as with a coordinator.
"""

from __future__ import annotations

import asyncio
import contextlib

from konverge.informers import UidWindow
from konverge.runtime.sharding.ownership import Ownership
from konverge.runtime.sharding.ring import Ring

__all__ = ["follow_window"]

_LOOK = 1.0
"""Seconds between two looks whether all was given back."""


async def follow_window(ring: Ring, ownership: Ownership, window: UidWindow) -> None:
    """Keep the window at what this replica has to see, until it is cancelled."""
    while True:
        seen, own = ring.generation, ring.buckets()
        if not ring.draining:  # what is held goes with the release of the Lease
            window.open(own | ownership.buckets())
        while ring.generation == seen:
            settled = ring.draining or window.buckets == own
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if settled else _LOOK):
                    await ring.changed.wait()
            if not settled and ring.generation == seen and ownership.buckets() <= own:
                window.open(own)
