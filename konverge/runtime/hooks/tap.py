"""The hook of a recording: it sees the requests, the cache reads and the end of each reconcile.

Guarantees: a manager without a tap pays nothing: the tap replaces the transport, the caches and the call of the pipeline at the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from konverge.informers import Cached, Informer
from konverge.keys import Key
from konverge.kinds import Kind

if TYPE_CHECKING:
    from konverge.client import ClientConfig
    from konverge.outcome import Outcome
    from konverge.runtime.cache.narrowed import Narrowed
    from konverge.runtime.cache.readers import Caches, Reorder

__all__ = ["ReconcileEnd", "Pipeline", "Tap"]


class ReconcileEnd(Protocol):
    """The end of a reconcile."""

    @property
    def ended(self) -> Outcome | Exception:
        """The outcome, or the error."""

    @property
    def trace(self) -> Any:
        """The writes of the reconcile (`konverge.runtime.reconcile.trace`)."""


E = TypeVar("E", bound=ReconcileEnd)
Pipeline: TypeAlias = Callable[[Key, Cached, tuple[str, ...], Any, int], Awaitable[E]]
"""Reconciles a cached object, for these reasons, with this log and epoch."""


class Tap(Protocol):
    """Sees the reconciles of one manager."""

    def open(self, config: ClientConfig) -> AbstractContextManager[ClientConfig]:
        """Begin, and return the configuration whose requests are seen; the end of the block ends the recording."""

    def caches(
        self, controller: str, informers: Mapping[Kind[Any], Informer | Narrowed], *, reorder: Reorder | None
    ) -> Caches:
        """Return the caches of a controller, whose reads are seen."""

    def around(self, controller: str, owned: AbstractSet[Kind[Any]], caches: Caches, run: Pipeline[E]) -> Pipeline[E]:
        """Return the pipeline of a controller, whose reconciles are seen."""
