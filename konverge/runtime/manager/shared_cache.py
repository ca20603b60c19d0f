"""The cache of a kind for code outside of reconcilers."""

from __future__ import annotations

from typing import TypeVar

from konverge.errors import CacheNotWatched, UsageError
from konverge.kinds import Kind, Resource
from konverge.runtime.cache.readers import Reader
from konverge.runtime.parts.core import Core

__all__ = ["shared_cache"]

R = TypeVar("R", bound=Resource)


def shared_cache(core: Core, kind: Kind[R], controller: str) -> Reader[R]:
    """Return the reader of a kind (`Manager.cache`)."""
    if core.services is None:
        raise UsageError(f"manager {core.name!r} has no caches before it is started, nor after its end")
    readers = {
        name: runner.caches(kind)
        for name, runner in core.runners.items()
        if controller in ("", name) and kind in runner.caches.informers
    }
    if not readers:
        subject = f"controller {controller!r}" if controller else f"no controller of manager {core.name!r}"
        verb = "does not watch" if controller else "watches"
        raise CacheNotWatched(
            f"{subject} {verb} {kind.group_kind}: reconcile it, or add .watches(...) or .owns(...) to a controller, or read it with "
            "manager.client"
        )
    if len({runner.caches.informers[kind] for name, runner in core.runners.items() if name in readers}) > 1:
        names = ", ".join(sorted(readers))
        raise UsageError(
            f"controllers {names} watch different selections of {kind.group_kind}: name one, manager.cache(..., controller=...)"
        )
    return next(iter(readers.values()))
