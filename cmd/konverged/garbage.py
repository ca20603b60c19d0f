"""Garbage collection while a process starts: off during imports, and never a full one over what lives as long as the process.

A full collection traverses every object, modules and classes included: it would block the event loop for 40 ms when the caches are synced.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

__all__ = ["freeze", "paused"]

_YOUNG: Final = 10_000
"""New objects between two collections. At the interpreter's 700 collections take 3 to 4 percent of a storm's CPU."""


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Collect no garbage in this block, which creates modules and classes: collections of them are a tenth of the CPU of a start."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def freeze() -> None:
    """Exempt all present objects from garbage collection: modules, classes and caches live as long as the process.

    Scanning them repeatedly is a sixth of the cost of reconciles. Only the youngest generation is collected before, 10,000 objects at
    most for any number of kinds and objects; older garbage is some 30 objects at the end of a start, and it stays.

    From then on garbage is collected once for 10,000 new objects, unless the process has chosen a number that is higher, or 0 for never.
    """
    gc.collect(0)
    gc.freeze()
    young, *older = gc.get_threshold()
    if 0 < young < _YOUNG:
        gc.set_threshold(_YOUNG, *older)
