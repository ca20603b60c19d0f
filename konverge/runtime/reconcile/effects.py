"""Effects: the writes of one reconcile as awaitables that the runtime keeps track of.

A forgotten `await ctx.own(...)` would be a silent no-op. An `Effect` is registered with its reconcile, which raises ForgottenAwait at its
end if one was never awaited. It starts when it is awaited, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from konverge.errors import ForgottenAwait

__all__ = ["Effect", "Effects"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Effect(Generic[T_co]):
    """One effect; `await` it once."""

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


class Effects:
    """The effects of one reconcile."""

    def __init__(self) -> None:
        self._effects: list[Effect[Any]] = []

    def make(self, what: str | Callable[[], str], start: Callable[[], Coroutine[Any, Any, T]]) -> Effect[T]:
        """Make an effect and register it; `what` may be a function, since the words are rarely used."""
        effect = Effect(what, start)
        self._effects.append(effect)
        return effect

    def check(self, controller: str) -> None:
        """Raise ForgottenAwait that names each effect that was made and never awaited."""
        forgotten = [effect.what for effect in self._effects if not effect.awaited]
        if forgotten:
            raise ForgottenAwait(
                f"controller {controller!r} made and never awaited: {', '.join(forgotten)}; nothing was sent for it, write await before it"
            )
