"""`HelmController`: runs the decisions of `release` and `sources` against an API server, one work queue for all kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from datetime import datetime
from functools import cache, partial
from importlib import resources
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import yaml

from konverge.client import Client, ClientConfig
from konverge.clock import wall_clock
from konverge.errors import AlreadyExists, Conflict, KonvergeError, NotFound
from konverge.informers import Change, Informer, InformerSet, Selection
from konverge.keys import Key
from konverge.kinds import Kind, kind
from konverge.logs import get_logger
from konverge.objects import Object, reached
from konverge.workqueue import ItemExponential, WorkQueue
from konverge_testing.flux.release import reconcile_release
from konverge_testing.flux.sources import FIRST_RETRY, reconcile_source
from konverge_testing.flux.state import (
    FINALIZER,
    Delete,
    Effect,
    Finalizer,
    Object_,
    Put,
    Retry,
    Status,
    World,
)
from konverge_testing.flux.wakes import woken_by

__all__ = ["HelmController", "World", "flux_crds"]

NAME: Final = "helm-controller"
_RETRY: Final = "retry"
_LONGEST: Final = 60.0
"""The most seconds between two attempts; Flux's own limit is 15 minutes."""

_SOURCE = "source.toolkit.fluxcd.io/v1"
KINDS: Final[dict[str, Kind[Object]]] = {
    "HelmRelease": kind("helm.toolkit.fluxcd.io/v2", "HelmRelease", namespaced=True, plural="helmreleases"),
    "HelmRepository": kind(_SOURCE, "HelmRepository", namespaced=True, plural="helmrepositories"),
    "OCIRepository": kind(_SOURCE, "OCIRepository", namespaced=True, plural="ocirepositories"),
    "HelmChart": kind(_SOURCE, "HelmChart", namespaced=True, plural="helmcharts"),
    "Secret": kind("v1", "Secret", namespaced=True, plural="secrets"),
    "ConfigMap": kind("v1", "ConfigMap", namespaced=True, plural="configmaps"),
}
_OURS: Final = frozenset({"HelmRelease", "HelmRepository", "OCIRepository", "HelmChart"})


def flux_crds() -> list[dict[str, Any]]:
    """Return minimal CustomResourceDefinitions of Flux's kinds, with upstream's enums, patterns and rules.

    >>> sorted(crd["spec"]["names"]["kind"] for crd in flux_crds())
    ['HelmChart', 'HelmRelease', 'HelmRepository', 'OCIRepository']
    """
    results: list[dict[str, Any]] = msgspec.json.decode(_definitions())
    return results


@cache
def _definitions() -> bytes:
    """Read the files once, since YAML takes long; as JSON, so that each caller gets a copy."""
    folder = resources.files("konverge_testing.flux") / "crds"
    return msgspec.json.encode(
        [yaml.safe_load(file.read_text()) for file in folder.iterdir() if file.name.endswith(".yaml")]
    )


class HelmController:
    """Plays Flux on an API server until its `async with` ends. Constructing it starts nothing.

    `namespace` None serves all namespaces; `pause` is seconds between two of its writes, for people who watch.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        world: World | None = None,
        namespace: str | None = None,
        pause: float = 0.0,
        random: Random | None = None,
    ) -> None:
        self.world = World() if world is None else world
        self._config = config
        self._namespace = namespace
        self._pause = pause
        self._random = Random() if random is None else random  # noqa: S311  # jitter, no secret
        self._queue: WorkQueue[Key] = WorkQueue(limiter=ItemExponential(base=FIRST_RETRY, cap=_LONGEST))
        self._informers: dict[str, Informer] = {}
        self._written: dict[Key, Object_] = {}
        self._gone: dict[Key, str] = {}
        self._due: set[Key] = set()
        self._stack = AsyncExitStack()
        self._log = get_logger("konverge_testing.flux")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._client = await stack.enter_async_context(Client(self._config, name=NAME, random=self._random))
            informers = await stack.enter_async_context(InformerSet(self._client, random=self._random))
            for name, what in KINDS.items():
                self._informers[name] = informers.acquire(Selection(what, self._namespace))
            for name, informer in self._informers.items():
                await informer.add_handler(NAME, partial(self._on_change, name)).synced()
            worker = asyncio.create_task(self._work(), name="konverge flux stand-in")
            stack.push_async_callback(_on_done, worker)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def look_again(self) -> None:
        """Reconcile everything once, as at the end of every interval."""
        for name in _OURS:
            for namespace, item in self._informers[name].store.keys():  # noqa: SIM118  # a method of the store, no dict
                self._queue.add(Key("", KINDS[name], namespace, item), reason="look again")

    # --- the View of the pure part -------------------------------------------------------------------------------------------

    def find(self, kind: str, namespace: str, name: str) -> Object_ | None:
        """Return the newest version of an object: our last write, or the cached copy."""
        cached = self._informers[kind].store.get(namespace, name)
        written = self._written.get(Key("", KINDS[kind], namespace, name))
        if written is not None and (
            cached is None or reached(cached.version, written["metadata"]["resourceVersion"]) is False
        ):
            return Object(written).to_dict()
        return None if cached is None else cached.data()

    def now(self) -> datetime:
        """Return the present moment."""
        return wall_clock()

    # --- triggers ------------------------------------------------------------------------------------------------------------

    def _on_change(self, name: str, change: Change) -> None:
        if change.new is None:
            key = Key("", KINDS[name], change.namespace, change.name)
            self._written.pop(key, None)
            if change.old is not None:
                self._gone[key] = change.old.metadata.uid
        before = None if change.old is None else change.old.data()
        after = None if change.new is None else change.new.data()
        for kind_, namespace, woken in woken_by(name, before, after, self._all):
            self._queue.add(Key("", KINDS[kind_], namespace, woken), reason=f"{name} {change.name}")

    def _all(self, kind: str, namespace: str) -> Iterable[Object_]:
        return [cached.data() for cached in self._informers[kind].store.list(namespace)]

    # --- work ----------------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        async for item in self._queue:
            try:
                if (
                    item.reasons != (_RETRY,) or item.key in self._due
                ):  # else another run has already done the work of this retry
                    await self._reconcile_key(item.key)
            except KonvergeError as error:
                self._log.warning("the stand-in for Flux could not write", key=str(item.key), error=str(error))
                self._due.add(item.key)
                self._queue.add_after(item.key, 0.5, reason=_RETRY)
            finally:
                self._queue.done(item.key)

    async def _reconcile_key(self, key: Key) -> None:
        result = self.find(key.kind.kind, key.namespace, key.name)
        self._due.discard(key)
        if result is None:
            self._queue.forget(key)
            return
        reconcile = reconcile_release if key.kind.kind == "HelmRelease" else reconcile_source
        for effect in reconcile(result, self.world, self):
            if isinstance(effect, Retry):
                self._due.add(key)
                if effect.seconds is None:
                    self._queue.add_rate_limited(key, reason=_RETRY)
                else:
                    self._queue.add_after(key, effect.seconds, reason=_RETRY)
                return
            if not await self._execute(key, effect):
                return
            await asyncio.sleep(self._pause)
        self._queue.forget(key)

    async def _execute(self, key: Key, effect: Effect) -> bool:
        """Write once; False if the reconciled object no longer exists."""
        match effect:
            case Status(status=status):
                return await self._rewrite(key, lambda newest: {**newest, "status": status}, "status")
            case Finalizer(present=present):
                return await self._rewrite(key, partial(_with_finalizer, present=present), "")
            case Put(object=wanted):
                await self._put(wanted)
            case Delete(kind=name, namespace=namespace, name=other):
                await self._client.delete(KINDS[name], other, namespace)
        return True

    async def _rewrite(self, key: Key, change: Callable[[Object_], Object_], subresource: str) -> bool:
        """Replace the newest version of an object by a changed object; False if it was deleted, or another object has its name.

        The cached object mostly suffices: after a concurrent write the server returns a conflict, and the object is read again.
        """
        newest = self.find(key.kind.kind, key.namespace, key.name)
        uid = "" if newest is None else newest["metadata"]["uid"]
        while True:
            try:
                if newest is None:
                    newest = (await self._client.get(key.kind, key.name, key.namespace)).data
                    if uid not in ("", newest["metadata"]["uid"]):  # nothing was fetched for the new object
                        self._written.pop(key, None)
                        return False
                stored = await self._client.replace(key.kind.decode(change(newest)), subresource=subresource)
            except Conflict:
                newest = None
                continue
            except NotFound:
                self._written.pop(key, None)
                return False
            self._note(key, stored)
            return True

    def _note(self, key: Key, stored: Object) -> None:
        """Remember a write until the cache shows it. The DELETED event may arrive before the response to the object's last write."""
        metadata = stored.metadata
        ended = metadata.deletion_timestamp is not None and not metadata.finalizers
        if ended or self._gone.get(key) == metadata.uid:
            self._written.pop(key, None)
        else:
            self._written[key] = stored.data

    async def _put(self, wanted: Object_) -> None:
        what, metadata = KINDS[wanted["kind"]], wanted["metadata"]
        try:
            stored = await self._client.create(Object(wanted))
        except AlreadyExists:
            patch = {"spec": wanted["spec"]}
            stored = await self._client.patch(what, metadata["name"], metadata["namespace"], patch=patch, style="merge")
        self._note(Key("", what, metadata["namespace"], metadata["name"]), stored)


def _with_finalizer(newest: Object_, *, present: bool) -> Object_:
    others = [entry for entry in newest["metadata"].get("finalizers", ()) if entry != FINALIZER]
    return {**newest, "metadata": {**newest["metadata"], "finalizers": [*others, *([FINALIZER] if present else [])]}}


async def _on_done(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
