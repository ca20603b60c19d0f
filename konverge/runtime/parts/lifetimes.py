"""Context managers that reconcilers share, and hooks at the start and at the end of a manager."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from konverge.errors import UsageError
from konverge.runtime.parts.part import ManagerPart

__all__ = ["HeldValue", "Lifetimes"]

T = TypeVar("T")


class HeldValue(Generic[T]):
    """The value of a context manager that a manager enters and leaves (`Manager.holds`).

    >>> def client_of(session: HeldValue[T]) -> T:
    ...     return session.value                                 # inside of a reconcile
    """

    def __init__(self, name: str, enter: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._name = name
        self._enter = enter
        self._values: list[T] = []

    @property
    def value(self) -> T:
        """The value that the context manager returned; raises UsageError unless the manager runs."""
        if not self._values:
            raise UsageError(
                f"{self._name} exists only while its manager runs: read it in a reconcile, a hook or background work"
            )
        return self._values[0]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Enter the context manager, and leave it at the end. For the manager."""
        async with self._enter() as value:
            self._values.append(value)
            try:
                yield
            finally:
                self._values.clear()


class Lifetimes(ManagerPart):
    """Enters the held context managers, then calls the start hooks; at the end the stop hooks, then it leaves the context managers."""

    def __init__(self) -> None:
        self.held: list[HeldValue[object]] = []
        self.starts: list[Callable[[], Awaitable[None]]] = []
        self.stops: list[Callable[[], Awaitable[None]]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Enter in the order of declaration and leave in the reverse order; each stop hook runs, even if another raises."""
        async with AsyncExitStack() as stack:
            for held in self.held:
                await stack.enter_async_context(held.opened())
            for start in self.starts:
                await start()
            for stop in self.stops:
                stack.push_async_callback(stop)
            yield
