"""The finalizer step: a finalizer is added before the first reconcile, and removed once `finalize` is done.

Rules (tested on a real server): a JSON patch adds the finalizer and tests the state that the cache showed; an object under deletion never
gets a finalizer. A JSON patch that tests the list removes it. A deleted object, or another uid, counts as removed.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/. An object under deletion takes no new finalizer:
https://github.com/kubernetes/kubernetes/issues/32339, https://github.com/kubernetes-sigs/cluster-api/issues/8946
"""

from __future__ import annotations

import enum
from typing import Any

from konverge.errors import Conflict, Forbidden, Invalid, NotFound, RetryAfter
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import Metadata
from konverge.runtime.builder.builder import Controller
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.trace import ReconcileTrace

__all__ = ["FinalizerStep", "Finalizers", "adding", "next_step", "removing"]


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


class Finalizers:
    """The finalizer of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._spec = spec
        self._services = services

    async def begin(self, key: Key, cached: Cached, trace: ReconcileTrace) -> tuple[FinalizerStep, Exception | None]:
        """Return the step of an object, and the error if its finalizer could not be added."""
        spec = self._spec
        step = next_step(cached.metadata, spec.finalizer_name, also_deleting=spec.also_deleting)
        if step is not FinalizerStep.ADD:
            return step, None
        if spec.may_hold is not None and not spec.may_hold(cached.metadata, self._services.caches):
            return FinalizerStep.RECONCILE, None  # the reconciler reports why
        trace.write(f"add finalizer to {key}")
        try:
            await self._patch(key, adding(cached.metadata, spec.finalizer_name), trace)
        except (Invalid, Forbidden) as error:
            return step, None if "being deleted" in error.message else error
        except Exception as error:  # noqa: BLE001  # counted and retried as the outcome of the reconcile
            return step, error
        return step, None

    async def end(self, key: Key, cached: Cached, trace: ReconcileTrace) -> Exception | None:
        """Remove the finalizer; return the error if it could not be removed."""
        trace.writes.append(f"remove finalizer from {key}")
        try:
            await self._patch(key, removing(cached.metadata, self._spec.finalizer_name), trace)
        except Exception as error:  # noqa: BLE001  # counted and retried as the outcome of the reconcile
            return error
        return None

    async def _patch(self, key: Key, patch: list[dict[str, Any]], trace: ReconcileTrace) -> None:
        try:
            await self._services.client.patch(
                key.kind, key.name, key.namespace, patch=patch, style="json", writer=trace.writer
            )
        except NotFound:
            return
        except Invalid as error:
            if error.causes:
                raise  # the stored object no longer fits its schema, or is under deletion
            # A failed test of the patch is a conflict with another status code; the event of the change follows.
            race = Conflict(error.message, status=error.status)
            raise RetryAfter(1, f"{key} changed while its finalizers were patched: {error.message}") from race
