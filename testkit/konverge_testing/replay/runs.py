"""One replay: the operator's manager over a recorded cluster, with one reconcile of one key."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from konverge.clock import from_rfc3339
from konverge.errors import UsageError, stack_of
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.outcome import RequeueAfter
from konverge.planning.planner import planning_settings
from konverge.recording import CacheRead, RecordedReconcile, Recording
from konverge.recording.caches import RecordedCaches
from konverge.runtime import Controller, Manager, ManagerSettings
from konverge.runtime.hooks.object_gate import Admission, GatedController
from konverge.runtime.hooks.tap import Pipeline, ReconcileEnd
from konverge_testing.loop import CLOCK_ERROR, EPOCH
from konverge_testing.replay.cluster import RecordedCluster, Sent

if TYPE_CHECKING:
    from konverge.client import ClientConfig
    from konverge.informers import Cached, Change, Informer, Selection
    from konverge.objects import Metadata
    from konverge.recording import Exchange
    from konverge.runtime.cache.narrowed import Narrowed
    from konverge.runtime.cache.readers import Caches, Reorder

__all__ = ["Replayed", "replay"]

E = TypeVar("E", bound=ReconcileEnd)
_READY: Final = 60.0
"""Virtual seconds until the controller must be ready."""
_LIMIT: Final = 3600.0
"""Virtual seconds of a reconcile; its own timeout is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The end of a replayed reconcile, its requests in order, and the recorded requests that it did not repeat."""

    outcome: str
    delay: float | None
    error: str
    traceback: str
    sent: tuple[Sent, ...]
    left: tuple[Exchange, ...]
    unknown_reads: tuple[str, ...]
    """Cache reads that the record lacks: their results may be incomplete."""


class _Tap:
    """Notes the reconcile of the key, and the cache reads that the record lacks."""

    def __init__(self, reconcile: RecordedReconcile) -> None:
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.unknown: dict[str, None] = {}
        self.cluster: RecordedCluster | None = None
        self._inside: ContextVar[bool] = ContextVar("konverge_replayed_reconcile", default=False)
        self._known = {_read_name(read) for read in reconcile.reads}
        self._epoch = reconcile.epoch
        self._moment = from_rfc3339(reconcile.began)

    def inside(self) -> bool:
        return self._inside.get()

    @contextmanager
    def open(self, config: ClientConfig) -> Iterator[ClientConfig]:
        yield config

    def caches(
        self, controller: str, informers: Mapping[Kind[Any], Informer | Narrowed], *, reorder: Reorder | None
    ) -> Caches:
        return RecordedCaches(controller, informers, reorder=reorder, note=self._note)

    def _note(self, kind: Kind[Any], operation: str, argument: str, _objects: Iterable[Cached]) -> None:
        read = CacheRead(kind.api_version, kind.kind, operation, argument, ())
        if self.inside() and operation != "write" and _read_name(read) not in self._known:
            self.unknown[_read_name(read)] = None

    def around(
        self, _controller: str, _owned: AbstractSet[Kind[Any]], _caches: Caches, run: Pipeline[E]
    ) -> Pipeline[E]:
        async def replayed(key: Key, cached: Cached, reasons: tuple[str, ...], log: Any, _epoch: int = 0) -> E:
            now = asyncio.get_running_loop().time()
            CLOCK_ERROR.set((self._moment - EPOCH).total_seconds() - now)
            assert self.cluster is not None
            self.cluster.began = now
            self._inside.set(True)
            try:
                result = await run(key, cached, reasons, log, self._epoch)
            except asyncio.CancelledError as error:
                self.ended.set_result(error)
                raise
            finally:
                self._inside.set(False)
            self.ended.set_result(result.ended)
            return result

        return replayed


def _read_name(read: CacheRead) -> str:
    return f"{read.operation} {read.kind} {read.argument}".strip()


class _Gate:
    """Admits one key, once."""

    def __init__(self, path: tuple[str, str]) -> None:
        self._path = path
        self.opened = False

    def select(self, selection: Selection) -> Selection:
        return selection

    def concerns(self, _metadata: Metadata) -> bool:
        return True

    def counts(self, _metadata: Metadata) -> bool:
        return True

    def observe(self, _key: Key, _change: Change) -> bool:
        return False

    async def admit(self, key: Key, _metadata: Metadata) -> Admission:
        if not self.opened or (key.namespace, key.name) != self._path:
            return Admission(waits=True)
        self.opened = False
        return Admission(epoch=1)

    def leave(self, key: Key, metadata: Metadata) -> None:
        pass

    async def run(self) -> None:
        pass


async def replay(
    recording: Recording,
    reconcile: RecordedReconcile,
    build: Callable[[Manager], Awaitable[None] | None],
    *,
    stop: bool = False,
) -> Replayed:
    """Run a recorded reconcile again, in the time of the present loop, which is to be virtual.

    With `stop` the debugger of `breakpoint()` stops before the reconciler is called.
    Errors: UsageError for a reconcile without its reads, and for a controller that `build` does not add, that is not ready, or that acts
    outside Kubernetes without a stand-in.
    """
    if reconcile.dropped:
        raise UsageError(
            f"reconcile {reconcile.number} was recorded without its reads, which took {reconcile.dropped} bytes: record with a greater size"
        )
    tap = _Tap(reconcile)
    tap.cluster = cluster = RecordedCluster(recording, reconcile, tap.inside)
    gate = _Gate((reconcile.key.namespace, reconcile.key.name))
    settings = planning_settings(ManagerSettings(namespace=recording.header.namespace))
    manager = Manager(recording.header.operator, cluster.config(), settings=settings)
    manager.tap, manager.gates = tap, _gate_of(gate)
    built = build(manager)
    if built is not None:
        await built
    manager.tap = tap  # the build may record
    spec = await _only(manager, reconcile.controller, stop=stop)
    async with manager:
        if not await manager.ready(timeout=_READY):
            raise UsageError(f"the controller is not ready on the recorded cluster:\n{manager.report()}")
        runner = manager.runner(spec.name)
        await asyncio.sleep(1)  # the initial events
        gate.opened = True
        for reason in reconcile.reasons or ("replay",):
            runner.enqueue(Key("", spec.kind, reconcile.key.namespace, reconcile.key.name), reason)
        async with asyncio.timeout(_LIMIT):
            ended = await tap.ended
    failed = isinstance(ended, BaseException)
    return Replayed(
        outcome="Cancelled" if isinstance(ended, asyncio.CancelledError) else type(ended).__name__,
        delay=ended.delay if isinstance(ended, RequeueAfter) else getattr(ended, "delay", None),
        error=str(ended) if failed else "",
        traceback=stack_of(ended) if failed else "",
        sent=tuple(cluster.sent),
        left=tuple(cluster.left),
        unknown_reads=tuple(tap.unknown),
    )


def _gate_of(gate: _Gate) -> Callable[[GatedController], _Gate]:
    return lambda _host: gate


async def _only(manager: Manager, name: str, *, stop: bool) -> Controller[Any]:
    """Leave out everything but one controller, and return it as it is replayed."""
    for other in (*(webhook.path for webhook in manager.webhooks), *manager.background):
        await manager.remove(other)
    chosen = next((spec for spec in manager.controllers if spec.name == name), None)
    if chosen is None:
        names = ", ".join(spec.name for spec in manager.controllers) or "none"
        raise UsageError(f"the recorded controller {name!r} is not among the controllers of this build: {names}")
    for spec in manager.controllers:
        await manager.remove(spec.name)
    if chosen.outside and chosen.stand_in is None:
        raise UsageError(
            f"controller {name!r} calls {chosen.outside}, which no recording has: declare a stand-in, .calls(..., in_plan=...)"
        )
    chosen = chosen.with_(min_interval=0, debounce=0, resync=0)
    chosen = chosen if chosen.stand_in is None else chosen.reconciled_by(chosen.stand_in)
    if stop:
        chosen = chosen.reconciled_by(_stopping(chosen.reconciler))
    manager.add(chosen)
    return chosen


def _stopping(reconciler: Any) -> Any:
    """Return a reconciler that calls `breakpoint()` right before this reconciler: a step leads into it."""
    verbs = {verb: getattr(reconciler, verb) for verb in ("reconcile", "finalize") if hasattr(reconciler, verb)}
    return SimpleNamespace(**{verb: _stopping_verb(method) for verb, method in verbs.items()})


def _stopping_verb(method: Callable[..., Any]) -> Callable[..., Any]:
    async def awaited(object_: Any, ctx: Any) -> Any:
        breakpoint()  # noqa: T100  # what --stop is for
        return await method(object_, ctx)

    def called(object_: Any, ctx: Any) -> Any:
        breakpoint()  # noqa: T100  # as above
        return method(object_, ctx)

    return awaited if inspect.iscoroutinefunction(method) else called
