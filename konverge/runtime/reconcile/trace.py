"""One reconcile's record of itself: its log, its writes and effects, and whether it may still send.

A forgotten `await ctx.own(...)` would be a silent no-op. So each write of a context is an `Effect`, an awaitable that is registered
with its reconcile. The end of the reconcile raises ForgottenAwait if an effect was never awaited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Generator, Hashable
from typing import Any, Generic, TypeVar

import msgspec

from konverge.errors import ForgottenAwait, ReconcileTimeout
from konverge.keys import Key
from konverge.words import LogKey

__all__ = ["Effect", "ReconcileLog", "ReconcileTrace"]


T_co = TypeVar("T_co", covariant=True)


class Effect(Generic[T_co]):
    """One effect; `await` it once. It starts when it is awaited, not before."""

    __slots__ = ("_start", "_what", "awaited")

    def __init__(self, what: str | Callable[[], str], start: Callable[[], Coroutine[Any, Any, T_co]]) -> None:
        self._what = what
        self.awaited = False
        self._start = start

    @property
    def what(self) -> str:
        """The call in words, used only in the message of ForgottenAwait."""
        return self._what if isinstance(self._what, str) else self._what()

    def __await__(self) -> Generator[Any, Any, T_co]:
        self.awaited = True
        return self._start().__await__()

    def __repr__(self) -> str:
        return f"<{self.what}, {'awaited' if self.awaited else 'not awaited'}>"


T = TypeVar("T")


class ReconcileTrace(msgspec.Struct):
    """The writes of one reconcile, for /debug and the log. After `close` every further write raises ReconcileTimeout."""

    key: Key
    writer: Hashable
    """The name under which the write ledger keeps the writes of this key."""
    epoch: int = 0
    """The epoch since which this replica owns the object; 0 without sharding."""
    writes: list[str] = msgspec.field(default_factory=list)
    skipped: int = 0
    look_again: float = math.inf
    """Seconds until a held child is tried again."""
    ended: str = ""
    """Why nothing more may be sent, "" while the reconcile runs."""
    contained: Exception | None = None
    """An exception of user code that did not end the reconcile."""
    effects: list[Effect[Any]] = msgspec.field(default_factory=list)

    def effect(self, what: str | Callable[[], str], start: Callable[[], Coroutine[Any, Any, T]]) -> Effect[T]:
        """Create and register an effect; `what` may be a function, since the text is rarely used."""
        effect = Effect(what, start)
        self.effects.append(effect)
        return effect

    def check_awaited(self, controller: str) -> None:
        """Raise ForgottenAwait, which names each effect that was never awaited."""
        forgotten = [effect.what for effect in self.effects if not effect.awaited]
        if forgotten:
            raise ForgottenAwait(
                f"controller {controller!r} made and never awaited: {', '.join(forgotten)}; nothing was sent for it, write await before it"
            )

    def is_about(self, key: Key) -> bool:
        """Return whether a key is the reconciled object's key, in any version of its kind."""
        mine = self.key
        return (key.name, key.namespace) == (mine.name, mine.namespace) and key.kind.group_kind == mine.kind.group_kind

    def check_open(self) -> None:
        """Raise ReconcileTimeout if the reconcile has ended."""
        if self.ended:
            raise ReconcileTimeout(f"the reconcile of {self.key} has ended ({self.ended}); nothing more is sent for it")

    def write(self, what: str) -> None:
        """Record a write before it is sent; raises ReconcileTimeout if the reconcile has ended."""
        self.check_open()
        self.writes.append(what)

    def close(self, why: str) -> None:
        """Refuse every further write; the first reason counts."""
        self.ended = self.ended or why


class ReconcileLog:
    """The log of one reconcile. Binding its fields costs as much as some reconciles do, so it waits for the first line."""

    __slots__ = ("_base", "_bound", "_key", "_reasons", "_reconcile_id")

    def __init__(self, base: Any, key: Key, reconcile_id: str, reasons: tuple[str, ...]) -> None:
        self._base = base
        self._bound: Any = None
        self._key = key
        self._reconcile_id = reconcile_id
        self._reasons = reasons

    @property
    def bound(self) -> Any:
        """The logger, with the key, id and reasons of the reconcile."""
        if self._bound is None:
            fields = {
                LogKey.KEY: self._key.path,
                LogKey.RECONCILE_ID: self._reconcile_id,
                LogKey.REASONS: list(self._reasons),
            }
            self._bound = self._base.bind(**fields)
        return self._bound
