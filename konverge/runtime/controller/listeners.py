"""The sources of one controller at work: `konverge.runtime.builder.sources` describes their contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from konverge.client import Client
from konverge.errors import NotLeading, UsageError, stack_of
from konverge.informers.backoff import ExponentialBackoff
from konverge.keys import Key
from konverge.kinds import Kind, Resource
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.sources import Source
from konverge.runtime.cache.readers import Caches, Reader
from konverge.runtime.observability.readiness import Obstacle
from konverge.words import LogKey, Why

__all__ = ["Listeners"]

R = TypeVar("R", bound=Resource)

_STEADY = 10.0
"""Seconds without an error after which a source that yields nothing counts as working."""
_BACKOFF = ExponentialBackoff(start=1.0, cap=60.0, jitter=0.0)


class Listeners:
    """Runs the sources of a controller; also the `Listening` that they receive."""

    def __init__(
        self,
        spec: Controller[Any],
        client: Client,
        caches: Caches,
        *,
        enqueue: Callable[[Key, str], None],
        changed: Callable[[], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._spec = spec
        self._caches = caches
        self._enqueue = enqueue
        self._changed = changed
        self._log = log
        self._errors: dict[str, str] = {}
        self.client = client

    def key(self, name: str, namespace: str = "") -> Key:
        """Return the key of an object of the controller's kind."""
        return Key("", self._spec.kind, namespace, name)

    def all_keys(self) -> list[Key]:
        """Return the keys of all cached objects of the controller's kind."""
        return self._caches(self._spec.kind).keys()

    def cache(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the cache of a kind that the controller declared."""
        return self._caches(what)

    @property
    def problems(self) -> tuple[Obstacle, ...]:
        """An obstacle for each source that failed and waits for its next attempt."""
        return tuple(Obstacle(f"source {name}", "SourceFailed", text) for name, text in self._errors.items())

    def runs(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """Return a coroutine for each source, by its name; each ends with its cancellation or its source."""
        return [(name, self._run(name, source)) for name, source in self._spec.sources]

    async def _run(self, name: str, source: Source) -> None:
        loop, backoff = asyncio.get_running_loop(), _BACKOFF
        try:
            while True:
                steady = loop.call_later(_STEADY, self._recovered, name)
                try:
                    await self._listen(name, source)
                    return
                except NotLeading:
                    return
                except Exception as error:  # noqa: BLE001  # containment: the controller and its other sources continue
                    backoff, pause = backoff.next(loop.time(), 0)
                    self._errors[name] = f"it raised {type(error).__name__}: {error}; it is called again in {pause:g} s"
                    self._changed()
                    self._log.error(
                        "a source failed", **{LogKey.NAME: name, LogKey.STACK: stack_of(error), LogKey.DELAY: pause}
                    )
                finally:
                    steady.cancel()
                await asyncio.sleep(pause)
        finally:
            self._recovered(name)

    def _recovered(self, name: str) -> None:
        """Forget the error of a source that works."""
        if self._errors.pop(name, None) is not None:
            self._changed()

    async def _listen(self, name: str, source: Source) -> None:
        reason, keys = f"{Why.SOURCE} {name}", source(self)
        try:
            async for key in keys:
                self._recovered(name)
                if not isinstance(key, Key):
                    raise UsageError(f"it yielded {key!r:.100}: yield listening.key(name, namespace)")
                self._enqueue(key, reason)
                await asyncio.sleep(0)  # a source that never waits must not hold the loop
        finally:
            if isinstance(keys, AsyncGenerator):  # another iterator closes what it holds by itself
                await keys.aclose()
