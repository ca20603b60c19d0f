"""The context of a pass: everything that a reconciler may do to the world goes through it.

Because every effect goes through here, the runtime can order, skip, fence, count and record it; a pass that was cut off by its
timeout can do nothing more, even where its code runs on in a thread.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import structlog

from konverge.client import Client
from konverge.errors import NotFound, NotOurs, ReconcileTimeout, UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, Object
from konverge.outcome import Outcome, RequeueAfter
from konverge.runtime.applier import Applier
from konverge.runtime.caches import Caches, Live, Reader
from konverge.runtime.effects import Effect, Effects
from konverge.runtime.owners import Claims, check_scope, controller_reference, refuse_foreign
from konverge.runtime.plan import HOLD, TAKE, Applied, Child, FieldsHeld, OnConflict, Plan
from konverge.runtime.status import StatusEditor

if TYPE_CHECKING:
    from konverge.informers import Cached

__all__ = ["Context", "HasStatus", "Kit"]

R = TypeVar("R", bound=Resource)
R_co = TypeVar("R_co", bound=Resource, covariant=True)
St = TypeVar("St")
St_co = TypeVar("St_co", covariant=True)
T = TypeVar("T")


class HasStatus(Resource, Protocol[St_co]):
    """An object with a status; what `ctx.status.draft` is typed by."""

    @property
    def status(self) -> St_co:
        """The status."""


class Announce(Protocol):
    """Writes Kubernetes Events about the object in hand."""

    def __call__(self, reason: str, message: str, *, type_: str, action: str) -> None:
        """Record one event; never raises, never waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What a context works with; the controller makes one for itself and one context for each pass."""

    controller: str
    kind: Kind[Any]
    client: Client
    caches: Caches
    applier: Applier
    manager: str
    owned: frozenset[Kind[Any]]
    claims: Claims
    wall_clock: Callable[[], datetime]
    serves: Callable[[Kind[Any]], bool]


@dataclass(slots=True)
class Trace:
    """What a pass did, for /debug and the log."""

    writes: list[str] = field(default_factory=list)
    skipped: int = 0
    look_again: float = math.inf


class Context(Generic[R_co]):
    """One pass of one object. Valid until the pass ends.

    >>> async def reconcile(backup, ctx):                        # doctest: +SKIP
    ...     job = await ctx.own(cron_job(backup))
    ...     ctx.status.mark("Ready", True, "Scheduled", f"copies are made by {job.name}")
    """

    def __init__(
        self,
        kit: Kit,
        *,
        object_: R_co,
        key: Key,
        reasons: tuple[str, ...],
        status: StatusEditor[Any],
        announce: Announce,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._kit = kit
        self._object = object_
        self._status = status
        self._announce = announce
        self._effects = Effects()
        self._loop = asyncio.get_running_loop()
        self._ended = ""
        self._applied: set[Key] = set()
        self._waits: set[Future[Any]] = set()
        self.key = key
        self.reasons = reasons
        self.log = log
        self.trace = Trace()

    # --- what is known -------------------------------------------------------------------------------------------------------

    @property
    def object(self) -> R_co:
        """The object in hand: a private copy."""
        return self._object

    @property
    def status(self: Context[HasStatus[St]]) -> StatusEditor[St]:
        """The status of the object in hand, written once when the pass ends."""
        return self._status

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return self._kit.wall_clock()

    def cache(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the cache of a kind that this controller declared; raises CacheNotWatched for others."""
        return self._kit.caches(what)

    def live(self, what: Kind[R] | type[R]) -> Live[R]:
        """Return reads of a kind that go to the API server each time."""
        return Live(kind_of(what), self._kit.client)

    def serves(self, what: Kind[Any] | type[Any]) -> bool:
        """Tell whether the cluster serves a declared kind and its cache is complete: the question before using an optional one."""
        return self._kit.serves(kind_of(what))

    # --- effects -------------------------------------------------------------------------------------------------------------

    def own(self, object_: R, *, on_conflict: OnConflict = TAKE, adopt: bool = False) -> Effect[R]:
        """Make an owned child be as given: server-side apply with this object as its controller. Returns it as it is stored.

        Nothing is sent where nothing would change. A child under deletion is left alone and returned as it is: its end wakes the
        controller. Raises NotOurs for an existing object without our controller reference (unless `adopt`) and for one that
        another controller of this manager writes, OwnershipError for an owner that the garbage collector would not honour,
        FieldsHeld where fields are others' and `on_conflict` is HOLD.
        """

        async def start() -> R:
            _, stored, _ = await self._own(object_, on_conflict, adopt=adopt)
            return _decode_like(object_, stored)

        return self._effects.make(f"ctx.own({_what(object_)})", start)

    def children(self, children: Iterable[Child | Resource]) -> Effect[Applied]:
        """Make these the whole set of owned children: apply them in order, then delete owned children outside the set.

        Only kinds that the controller declared with `.owns` are deleted, only objects whose controller reference names this object
        and that no other controller of this manager applied, and nothing at all while a child is held (what it still refers to
        must stay).
        """
        wanted = tuple(child if isinstance(child, Child) else Child(child) for child in children)
        return self._effects.make(f"ctx.children({len(wanted)} children)", lambda: self._children(wanted))

    def apply(self, object_: R, *, force: bool = False) -> Effect[R]:
        """Server-side apply without owner reference, under the manager's name.

        Raises FieldsHeld where fields are others', unless `force`.
        """

        async def start() -> R:
            key, intent, _ = await self._identify(object_)
            cached = self._cached(key)
            stored = await self._send(key, intent, cached, TAKE if force else HOLD)
            return _decode_like(object_, stored)

        return self._effects.make(f"ctx.apply({_what(object_)})", start)

    def patch(self, what: Kind[R] | type[R], name: str, namespace: str = "", *, patch: Mapping[str, Any]) -> Effect[R]:
        """Merge-patch an object: for requests to other controllers (annotations, un-suspending). It is no part of any intent."""

        async def start() -> R:
            kind = kind_of(what)
            self._alive()
            self.trace.writes.append(f"patch {Key('', kind, namespace, name)}")
            return await self._kit.client.patch(kind, name, namespace, patch=patch, style="merge", actor=self._actor)

        return self._effects.make(f"ctx.patch({name})", start)

    def delete(
        self,
        what: Kind[Any] | type[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> Effect[bool]:
        """Delete an object; `uid` and `resource_version` are preconditions (Conflict where they do not hold).

        Returns False where it was gone already. The end of an object with finalizers is an event, not this answer.
        """

        async def start() -> bool:
            kind = kind_of(what)
            self._alive()
            self.trace.writes.append(f"delete {Key('', kind, namespace, name)}")
            return await self._kit.client.delete(
                kind,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                actor=self._actor,
            )

        return self._effects.make(f"ctx.delete({name})", start)

    def event(self, reason: str, message: str, *, type_: str = "Normal", action: str = "Reconcile") -> None:
        """Record a Kubernetes Event about the object in hand. Transitions of conditions are announced without this."""
        self._announce(reason, message, type_=type_, action=action)

    def carry_out(self, plan: Plan[Any]) -> Effect[Outcome]:
        """Do what a plan says, and return its outcome; see `konverge.runtime.plan` for the order.

        Raises FieldsHeld where a child is held, after everything else of the plan was done; where the outcome is RequeueAfter, the
        next look comes then all the same.
        """
        return self._effects.make("ctx.carry_out(plan)", lambda: self._carry_out(plan))

    def wait(self, effect: Awaitable[T]) -> T:
        """Wait for an effect from a blocking reconciler, which runs in a thread. An error on the event loop."""
        if _on_loop(self._loop):
            raise UsageError("ctx.wait is for blocking reconcilers in threads; in a coroutine write await")

        async def awaited() -> T:
            return await effect

        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        self._waits.add(future)
        if self._ended:  # it was closed while the future was on its way into the set
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            self._alive()
            raise
        finally:
            self._waits.discard(future)

    # --- how -----------------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End the pass: raises ForgottenAwait for effects that nobody awaited. For the runtime."""
        self._effects.check(self._kit.controller)

    def close(self, why: str) -> None:
        """Let nothing more out: effects that start from now on raise ReconcileTimeout, a thread that waits is woken. For the runtime."""
        self._ended = self._ended or why
        for future in tuple(self._waits):
            future.cancel()

    @property
    def _actor(self) -> Hashable:
        return (self._kit.controller, self.key)

    def _alive(self) -> None:
        if self._ended:
            raise ReconcileTimeout(f"the pass of {self.key} has ended ({self._ended}); nothing more is sent for it")

    def _cached(self, key: Key) -> Cached | None:
        informer = self._kit.caches.informer(key.kind)
        if informer is None or informer.selection.metadata_only:
            return None
        return informer.store.get(key.namespace, key.name)

    async def _identify(self, object_: Resource) -> tuple[Key, dict[str, Any], bool]:
        """Return key, intent and scope of an object that is to be applied."""
        kind = kind_of(object_)
        intent = object_.to_dict()
        info = await self._kit.client.resource(kind)
        metadata = intent.setdefault("metadata", {})
        if not metadata.get("name"):
            raise UsageError(f"a {kind.kind} without a name cannot be applied; give it a name derived from its owner's")
        if info.namespaced:
            metadata.setdefault("namespace", self.key.namespace)
            if not metadata["namespace"]:
                raise UsageError(f"{kind.kind} {metadata['name']} is namespaced and has no namespace; give it one")
        else:
            metadata.pop("namespace", None)
        intent.pop("status", None)
        return Key("", kind, metadata.get("namespace", ""), metadata["name"]), intent, info.namespaced

    async def _own(self, object_: Resource, on_conflict: OnConflict, *, adopt: bool) -> tuple[Key, Object, bool]:
        key, intent, namespaced = await self._identify(object_)
        kit, owner = self._kit, self._object.metadata
        if key.kind not in kit.owned:
            raise UsageError(
                f"controller {kit.controller!r} owns {key} without having declared it: add .owns({key.kind.kind.upper()}) to it"
            )
        check_scope(kit.kind, owner, key, child_namespaced=namespaced)
        cached = self._cached(key)
        existing = cached.metadata if cached is not None else await self._existing(key)
        if existing is not None:
            refuse_foreign(owner, kit.kind, key, existing, adopt=adopt)
            self._refuse_second_writer(key)
            if existing.deleting:
                plain = Kind(key.kind.api_version, key.kind.kind, Object)
                dying = Object(cached.data()) if cached else await kit.client.get(plain, key.name, key.namespace)
                return key, dying, False
            intent["metadata"]["uid"] = existing.uid
        references = [entry for entry in intent["metadata"].get("ownerReferences", ()) if entry.get("uid") != owner.uid]
        intent["metadata"]["ownerReferences"] = [controller_reference(kit.kind, owner), *references]
        before = len(self.trace.writes)
        kit.claims.take(key, kit.controller, self.key)
        stored = await self._send(key, intent, cached, on_conflict)
        return key, stored, len(self.trace.writes) > before

    async def _existing(self, key: Key) -> Metadata | None:
        """Ask the server before the first apply of a child: the cache may lag, and an apply would merge into a stranger's object."""
        try:
            return await self._kit.client.get_metadata(key.kind, key.name, key.namespace)
        except NotFound:
            return None

    def _refuse_second_writer(self, key: Key) -> None:
        other = self._kit.claims.other(key, self._kit.controller)
        if other:
            raise NotOurs(
                f"{key} is written by controller {other!r}; controller {self._kit.controller!r} does not write it too. "
                "Let one of them own it, or give the children different names"
            )

    async def _send(self, key: Key, intent: dict[str, Any], cached: Cached | None, on_conflict: OnConflict) -> Object:
        if key in self._applied:
            raise UsageError(
                f"{key} was applied twice in one pass; an apply carries the whole intent, the second would undo the first"
            )
        self._alive()
        try:
            stored, sent = await self._kit.applier.apply(
                key,
                intent,
                cached=cached,
                manager=self._kit.manager,
                on_conflict=on_conflict,
                actor=self._actor,
            )
        except FieldsHeld as held:
            self.trace.look_again = min(self.trace.look_again, held.look_again)
            raise
        self._applied.add(key)
        if sent:
            self.trace.writes.append(f"apply {key}")
        else:
            self.trace.skipped += 1
        return stored

    async def _children(self, wanted: tuple[Child, ...]) -> Applied:
        applied, held = Applied(), []
        keys: set[Key] = set()
        for child in wanted:
            try:
                key, stored, sent = await self._own(child.object, child.on_conflict, adopt=child.adopt)
            except FieldsHeld as conflict:
                held.append(conflict.held)
                continue
            keys.add(key)
            applied.add(key, stored)
            applied.changed = applied.changed or sent
        applied.held = tuple(held)
        if not held:
            applied.changed = await self._prune(keys) or applied.changed
        return applied

    async def _prune(self, keep: set[Key]) -> bool:
        """Delete owned children outside the set; by what the cache shows, which the barrier keeps up with our own writes."""
        owner, pruned = self._object.metadata, False
        for kind in sorted(self._kit.owned, key=lambda kind: (kind.api_version, kind.kind)):
            informer = self._kit.caches.informer(kind)
            if informer is None or not informer.synced:
                continue
            for cached in informer.store.by_index("owner", owner.uid):
                metadata = cached.metadata
                child = Key("", kind, metadata.namespace, metadata.name)
                if child in keep or metadata.deleting or self._is_anothers(child, cached):
                    continue
                await self.delete(kind, metadata.name, metadata.namespace, uid=metadata.uid)
                pruned = True
        return pruned

    def _is_anothers(self, child: Key, cached: Cached) -> bool:
        """Tell apart the children of two controllers of one kind: by who applied this one now, or as which field manager before."""
        managers = {owner.manager for owner in cached.owned or () if not owner.subresource}
        applied_by_others = bool(managers) and self._kit.manager not in managers
        return applied_by_others or bool(self._kit.claims.other(child, self._kit.controller))

    async def _carry_out(self, plan: Plan[Any]) -> Outcome:
        applied = await self._children(_as_children(plan.children)) if plan.children is not None else Applied()
        for delete in plan.deletes:
            await self.delete(
                delete.kind, delete.name, delete.namespace, uid=delete.uid, resource_version=delete.resource_version
            )
        for type_ in plan.retract:
            self._status.retract(type_)
        for mark in plan.marks:
            self._status.mark(mark.type, mark.status, mark.reason, mark.message)
        if plan.draft is not None:
            self._status.update(plan.draft)
        if applied.held:
            if isinstance(plan.outcome, RequeueAfter):
                self.trace.look_again = min(self.trace.look_again, plan.outcome.delay)
            raise FieldsHeld(applied.held[0])
        return plan.outcome


def _as_children(children: tuple[Child | Resource, ...]) -> tuple[Child, ...]:
    return tuple(child if isinstance(child, Child) else Child(child) for child in children)


def _decode_like(object_: R, stored: Object) -> R:
    kind: Kind[R] = kind_of(object_)
    return kind.decode(stored.data)


def _what(object_: Resource) -> str:
    return f"{kind_of(object_).kind} {object_.metadata.path}"


def _on_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
