"""The functions and objects that a program hands to a controller: its reconciler, its gate, its report of failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from konverge.kinds import Resource
from konverge.outcome import Outcome

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime.reconcile.context import Context

__all__ = ["FailureReport", "Finalizes", "Gate", "Reconciles"]

R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)

Gate: TypeAlias = "Callable[[Client], Awaitable[str]]"
"""Called before a controller starts; returns the obstacle with its remedy, or "" without an obstacle."""
FailureReport: TypeAlias = "Callable[[Any, Context[Any], str], None]"
"""Reports a failed reconcile of the object in `ctx.status`, with this message."""


class Reconciles(Protocol[R_contra]):
    """A reconciler: `reconcile(object, ctx)` returns an Outcome.

    A plain function instead of a coroutine function runs in a thread; it waits for effects with `ctx.wait(...)`.
    """

    def reconcile(self, object_: R_contra, ctx: Context[R_contra], /) -> Awaitable[Outcome] | Outcome:
        """Bring the cluster to the state that the object describes, by the observed state and not by the event."""


@runtime_checkable
class Finalizes(Protocol[R_contra]):
    """A reconciler with a finalizer."""

    def finalize(self, object_: R_contra, ctx: Context[R_contra], /) -> Awaitable[Outcome] | Outcome:
        """Clean up; called under deletion until it returns Done, then the finalizer is removed."""
