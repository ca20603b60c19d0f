"""Finalizers: added before anything else happens, removed when `finalize` is done.

Rules (tested on a real server): a finalizer is added by a JSON patch that tests the state it saw, never to an object under deletion, and
removed by a JSON patch that tests the list. An object or a uid that is gone counts as removed. The patches are pure data, made here.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/. An object under deletion takes no new finalizer:
https://github.com/kubernetes/kubernetes/issues/32339, https://github.com/kubernetes-sigs/cluster-api/issues/8946
"""

from __future__ import annotations

import enum
from typing import Any

from konverge.objects import Metadata

__all__ = ["FinalizerStep", "adding", "next_step", "removing"]


class FinalizerStep(enum.Enum):
    """The step that an object needs before `reconcile` may see it."""

    RECONCILE = "reconcile"
    ADD = "add the finalizer, then wait for the event"
    FINALIZE = "finalize"
    IGNORE = "ignore: it is being deleted and not held by us"


def next_step(metadata: Metadata, finalizer: str, *, also_deleting: bool = False) -> FinalizerStep:
    """Decide by deletionTimestamp and finalizers; `finalizer` "" means that the controller declared none.

    With `also_deleting` a controller without a finalizer reconciles objects under deletion too.
    """
    held = bool(finalizer) and finalizer in metadata.finalizers
    if metadata.deleting and not also_deleting:
        return FinalizerStep.FINALIZE if held else FinalizerStep.IGNORE
    return FinalizerStep.RECONCILE if held or not finalizer else FinalizerStep.ADD


def adding(metadata: Metadata, finalizer: str) -> list[dict[str, Any]]:
    """Return the JSON patch that adds a finalizer to exactly this version of the list."""
    guard = {"op": "test", "path": "/metadata/uid", "value": metadata.uid}
    if metadata.finalizers:
        return [
            guard,
            {"op": "test", "path": "/metadata/finalizers", "value": list(metadata.finalizers)},
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ]
    return [
        guard,
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
    ]


def removing(metadata: Metadata, finalizer: str) -> list[dict[str, Any]]:
    """Return the JSON patch that removes a finalizer from exactly this list."""
    position = metadata.finalizers.index(finalizer)
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
        {"op": "test", "path": f"/metadata/finalizers/{position}", "value": finalizer},
        {"op": "remove", "path": f"/metadata/finalizers/{position}"},
    ]
