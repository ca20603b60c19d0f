"""Spans of the work on keys; imported only if the manager traces.

    work <controller>           from the key's readiness until the worker is free again; a trace of its own
      wait <controller>         until a worker took the key
      GET, PATCH ...            requests of the barrier and of the gate
      reconcile <controller>    the pipeline, if barrier, gate and fence admitted the key
        GET, PATCH ...          requests of the reconcile

A reconcile has a link to each own write whose event enqueued its key: an event shows the uid and the version that the write stored. The
link is looked up when the reconcile begins, since the event often precedes the response to its write.

Guarantees: the memory of events is bounded. No attribute contains the text of an exception that is not the library's.

Caveats: a write of another process has no link, and events that the informer merged have the last write's link only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from opentelemetry.trace import Link, Span
from opentelemetry.util.types import AttributeValue

from konverge.client.tracing import Tracing, Version, nanoseconds, record_error
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.runtime.apply.applier import LruDict
from konverge.runtime.builder.builder import Controller
from konverge.runtime.controller.aftermath import requeue_decision
from konverge.runtime.controller.pipeline import Result
from konverge.words import SpanKey, Why
from konverge.workqueue import Item

__all__ = ["KeyTracing"]

_KEYS: Final = 10_000
_EVENTS: Final = 16
"""The events of one key that are kept, as the queue keeps reasons."""


class KeyTracing:
    """The spans of one controller's keys."""

    def __init__(self, tracing: Tracing, spec: Controller[Any]) -> None:
        self._tracing = tracing
        self._name = spec.name
        self._kind: dict[str, AttributeValue] = {
            SpanKey.CONTROLLER: spec.name,
            SpanKey.API_VERSION: spec.kind.api_version,
            SpanKey.KIND: spec.kind.kind,
        }
        self._events: LruDict[Key, tuple[Version, ...]] = LruDict(_KEYS)

    def woken(self, key: Key, change: Change) -> None:
        """Note the event that enqueued a key."""
        if change.initial:
            return
        cached = change.new or change.old
        assert cached is not None
        shown = (cached.metadata.uid, "" if change.new is None else cached.metadata.resource_version)
        self._events.put(key, (*(self._events.get(key) or ())[1 - _EVENTS :], shown))

    def forget(self, key: Key) -> None:
        """Drop the events of a deleted object."""
        self._events.drop(key)

    async def work(self, item: Item[Key], work: Callable[[Item[Key]], Awaitable[None]]) -> None:
        """Work on a key in a trace of its own, which begins when the key became ready."""
        now = asyncio.get_running_loop().time()
        ready = nanoseconds() - round(item.waited * 1e9)
        attributes = {
            **self._about(item.key),
            SpanKey.PRIORITY: item.priority,
            SpanKey.FAILURES: item.failures,
            SpanKey.DELAY: round(max(0.0, now - item.waited - item.added_at), 6),
        }
        with self._tracing.span(f"work {self._name}", attributes, start=ready, root=True):
            with self._tracing.span(f"wait {self._name}", self._about(item.key), start=ready):
                pass
            await work(item)

    async def reconcile(
        self, running: Awaitable[Result], key: Key, cached: Cached, reasons: tuple[str, ...], reconcile_id: str
    ) -> Result:
        """Return the result of a reconcile, and record its end on a span."""
        attributes = {
            **self._about(key),
            SpanKey.UID: cached.metadata.uid,
            SpanKey.VERSION: cached.metadata.resource_version,
            SpanKey.REASONS: tuple(_without_error(reason) for reason in reasons),
            SpanKey.RECONCILE_ID: reconcile_id,
        }
        with self._tracing.span(f"reconcile {self._name}", attributes, links=self._links(key)) as span:
            result = await running
            _record(span, result)
        return result

    def _about(self, key: Key) -> dict[str, AttributeValue]:
        namespace = {SpanKey.NAMESPACE: key.namespace} if key.namespace else {}
        return {**self._kind, **namespace, SpanKey.NAME: key.name}

    def _links(self, key: Key) -> tuple[Link, ...]:
        """Return links to the writes whose events enqueued the key."""
        shown = self._events.get(key) or ()
        self._events.drop(key)
        writes = {version: self._tracing.write_of(version) for version in shown}
        return tuple(
            Link(write, {SpanKey.UID: uid, SpanKey.VERSION: version})
            for (uid, version), write in writes.items()
            if write is not None
        )


def _without_error(reason: str) -> str:
    """Return a reason; a retry's reason contains the text of an error, which may be the user's."""
    return Why.RETRY if reason.startswith(Why.RETRY) else reason


def _record(span: Span, result: Result) -> None:
    span.set_attribute(SpanKey.OUTCOME, type(result.ended).__name__)
    span.set_attribute(SpanKey.WRITES, len(result.trace.writes))
    span.set_attribute(SpanKey.SKIPPED, result.trace.skipped)
    error = requeue_decision(result.ended).error
    if error is not None:
        record_error(span, error)
