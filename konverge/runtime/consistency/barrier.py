"""The staleness barrier: no pass acts on a cache that does not yet show the controller's own writes.

The rule of KEP-5647 (controllers of Kubernetes 1.36), for every kind: after a write, note object and version; before the next pass of
the key, compare with what the informer shows; behind means wait, with a limit, then go on and count it. Where versions cannot be
compared, or nobody caches the object (another namespace, other labels), the barrier is open. `look` is pure.

Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling. A stale read in the
field: https://github.com/kubernetes-sigs/controller-runtime/issues/1464
"""

from __future__ import annotations

import enum

from konverge.client import Write, WriteState
from konverge.informers import Informer

__all__ = ["FIRST_WAIT", "LONGEST_WAIT", "View", "look", "pause"]

FIRST_WAIT = 0.005
LONGEST_WAIT = 0.25


class View(enum.Enum):
    """How a cache stands to one write."""

    SHOWN = "the cache shows it"
    BEHIND = "the cache is behind it"
    UNCERTAIN = "nobody knows whether it was done: ask the server"
    UNWATCHED = "nobody caches it, or it cannot be compared"


def look(write: Write, informer: Informer | None) -> View:
    """Tell how the cache of a kind stands to a write of ours."""
    if informer is None or not informer.synced:
        return View.UNWATCHED
    selection, store = informer.selection, informer.store
    if write.namespace and selection.namespace not in (None, write.namespace):
        return View.UNWATCHED
    match write.state:
        case WriteState.IN_FLIGHT:
            return View.BEHIND
        case WriteState.UNKNOWN:
            return View.UNCERTAIN
        case WriteState.DELETED:
            return View.BEHIND if store.has_uid(write.namespace, write.name, write.uid) else View.SHOWN
        case WriteState.DONE:
            shows = store.shows(write.namespace, write.name, write.version)
            if shows is False and selection.labels and store.get(write.namespace, write.name) is None:
                return View.UNCERTAIN  # it may be outside of the selection, and then never come
            return View.UNWATCHED if shows is None else View.SHOWN if shows else View.BEHIND


def pause(waited: float) -> float:
    """Return the seconds until the next look after having waited so long: doubling, from 5 ms to a quarter of a second."""
    return min(max(waited, FIRST_WAIT), LONGEST_WAIT)
