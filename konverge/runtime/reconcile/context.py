"""The context of one reconcile: each of a reconciler's reads and writes is a method of the context.

So the runtime can order, skip, fence, count and record each write. A reconcile that its timeout ended can write nothing more, even if its
code still runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import structlog

from konverge.client.guarded import expected_version, object_changed
from konverge.client.requests import Propagation
from konverge.errors import Conflict, NotFound, UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata
from konverge.outcome import Outcome, RequeueAfter
from konverge.runtime.apply.conflicts import HOLD, TAKE, Applied, Child, FieldsHeld, OnConflict
from konverge.runtime.cache.readers import Live, Reader
from konverge.runtime.events.core import Regarding
from konverge.runtime.reconcile.children import Children
from konverge.runtime.reconcile.own_effect import OwnEffect, decode_like, described
from konverge.runtime.reconcile.plan import Delete, Patch, Plan, PlannedEvent
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status import StatusEditor
from konverge.runtime.reconcile.trace import Effect, ReconcileLog, ReconcileTrace

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["Context", "HasStatus"]

R = TypeVar("R", bound=Resource)
R_co = TypeVar("R_co", bound=Resource, covariant=True)
St = TypeVar("St")
St_co = TypeVar("St_co", covariant=True)
T = TypeVar("T")


class HasStatus(Resource, Protocol[St_co]):
    """An object with a status, which gives `ctx.status.draft` its type."""

    @property
    def status(self) -> St_co:
        """The status."""


class Context(Generic[R_co]):
    """One reconcile of one object. Valid until the reconcile ends.

    >>> async def reconcile(backup, ctx):                        # doctest: +SKIP
    ...     job = await ctx.own(cron_job(backup))
    ...     ctx.status.set_condition("Ready", True, "Scheduled", f"copies are made by {job.name}")
    """

    def __init__(
        self,
        services: ReconcileServices,
        *,
        object_: R_co,
        trace: ReconcileTrace,
        reasons: tuple[str, ...],
        status: StatusEditor[Any],
        metadata: Metadata,
        log: ReconcileLog,
        paused: str = "",
    ) -> None:
        self._services = services
        self._object = object_
        self._status = status
        # The cache's metadata, one reference for all events: the event recorder keeps it.
        self._regarding = Regarding(
            trace.key.kind, trace.key.namespace, trace.key.name, metadata.uid, metadata.resource_version
        )
        self._loop = asyncio.get_running_loop()
        self._waits: set[Future[Any]] = set()
        self.key = trace.key
        self.reasons = reasons
        self.paused = paused
        """Why the object is paused, "" if it is not: only an `observing` reconciler is called for paused objects."""
        self._log = log
        self.trace = trace
        self._reported: set[str] = set()
        self._applies: Children | None = None
        self._client: Client | None = None

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger whose lines name the controller, the key and the reconcile."""
        return self._log.bound  # type: ignore[no-any-return]  # structlog's own, whatever it was configured to be

    # --- what is known -------------------------------------------------------------------------------------------------------

    @property
    def object(self) -> R_co:
        """The object that is reconciled: a private copy."""
        return self._object

    @property
    def status(self: Context[HasStatus[St]]) -> StatusEditor[St]:
        """The status of the object, written once when the reconcile ends."""
        return self._status

    @property
    def epoch(self) -> int:
        """The epoch since which this replica owns the object, 0 if objects are not shared among replicas.

        Each new owner has a greater epoch. Sent along with an effect outside of Kubernetes, it fences off the late requests of a
        former owner.
        """
        return self.trace.epoch

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return self._services.wall_clock()

    def cache(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the cache of a kind that this controller declared; raises CacheNotWatched for others."""
        return self._services.caches(what)

    def live(self, what: Kind[R] | type[R]) -> Live[R]:
        """Return reads of a kind that go to the API server each time.

        If the controller declares its live reads (`.reads_live`) without this kind, this raises UsageError. If `.needs` gives the
        right to list the kind, only the operation without a right raises UsageError.
        """
        kind, services = kind_of(what), self._services
        no_get = services.refused_get(kind, getattr(what, "__name__", None) or kind.kind.upper())
        no_list = services.refused_list(kind)
        if no_get and (no_list or services.watches(kind)):
            raise UsageError(no_get)
        return Live(kind, services.client, no_get, no_list)

    @property
    def client(self) -> Client:
        """The client, for operations without a verb of the context: creating, replacing, JSON patches, raw requests.

        The barrier and `/debug` count its writes to this reconcile, and nothing is sent once the reconcile has ended. Its writes are not
        compared with the cache before they are sent, nor refused because of another owner. A `raw` request is exempt from all of this.
        """
        if self._client is None:
            self._client = self._services.client.written_by(self.trace.writer, self.trace.write)
        return self._client

    def serves(self, what: Kind[Any] | type[Any]) -> bool:
        """Return whether the cluster serves a declared kind and its cache is complete; to be called before an optional kind is used."""
        return self._services.serves(kind_of(what))

    # --- effects -------------------------------------------------------------------------------------------------------------

    def own(self, object_: R, *, on_conflict: OnConflict = TAKE, adopt: bool = False) -> Effect[R]:
        """Server-side apply a child with this object as its controller. Returns the stored child, as a read of its cache would show it
        if `.owns` declares `metadata_only` or `drop`.

        Nothing is sent if nothing would change. A child under deletion is returned unchanged: the event of its deletion enqueues this
        object again.

        Errors: NotOurs for an existing object without our controller reference (unless `adopt`) and for a child of another controller
        of this manager; OwnershipError for an owner that the garbage collector would not honour; FieldsHeld if other managers own
        fields and `on_conflict` is HOLD; Contested if another writer of this manager undoes each apply of the same object.
        """
        effect = OwnEffect(self._children, object_, on_conflict, adopt)
        self.trace.effects.append(effect)
        return effect

    def apply_children(self, children: Iterable[Child | Resource]) -> Effect[Applied]:
        """Apply these children in order, then delete owned children outside the set.

        A child is deleted only if the controller declared its kind with `.owns`, its controller reference names this object, and no
        other controller of this manager applied it. Nothing is deleted while a child is held: objects that it still refers to must
        stay.
        """
        wanted = tuple(child if isinstance(child, Child) else Child(child) for child in children)
        return self.trace.effect(
            f"ctx.apply_children({len(wanted)} children)", lambda: self._children.apply_all(wanted)
        )

    def apply(self, object_: R, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> Effect[R]:
        """Server-side apply an object, or one of its subresources, without owner reference, as the manager's field manager.

        A dry run changes nothing, is not counted as a write, and returns the object as it would be stored. An apply to the reconciled
        object names its uid, so it never recreates a deleted object. Errors: Conflict if the reconciled object was deleted or
        recreated; FieldsHeld if other managers own fields, unless `force`; NotOurs for a child of another controller of this manager
        with the same field manager; Contested if this writer and another writer of this manager undo each other's applies again and
        again; UsageError for the status of this controller's own kind.
        """

        async def start() -> R:
            key, intent, _ = await self._children.identify(object_, subresource)
            if subresource == "status" and key.kind == self._services.kind:
                raise UsageError(
                    f"the status of {key.kind.kind} is written once, at the end of the reconcile, and this apply would undo it: "
                    "set it with ctx.status"
                )
            if dry_run:
                self.trace.check_open()
                stored = await self._services.applier.dry_run(
                    key, intent, manager=self._services.manager, force=force, subresource=subresource
                )
            else:
                stored = await self._children.apply(key, intent, TAKE if force else HOLD, subresource)
            return decode_like(object_, stored)

        return self.trace.effect(lambda: f"ctx.apply({described(object_)})", start)

    @overload
    def patch(
        self,
        what: Kind[R] | type[R],
        name: str,
        namespace: str = "",
        *,
        patch: Mapping[str, Any],
        subresource: str = "",
        dry_run: bool = False,
    ) -> Effect[R]: ...

    @overload
    def patch(
        self,
        what: Kind[R] | type[R],
        *,
        expect: Resource | Metadata,
        patch: Mapping[str, Any],
        subresource: str = "",
        dry_run: bool = False,
    ) -> Effect[R]: ...

    def patch(
        self,
        what: Kind[R] | type[R],
        name: str = "",
        namespace: str = "",
        *,
        patch: Mapping[str, Any],
        expect: Resource | Metadata | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Effect[R]:
        """Merge-patch an object, or one of its subresources: for requests to other controllers (annotations, un-suspending, `scale`).

        Guarantees: `expect` is an object, or its metadata, from a cache or the API server. With it the patch changes exactly this
        version of this object, or nothing (a compare-and-swap by uid and resourceVersion). Of two writers with the same version, only
        the first succeeds. Without `expect`, a patch of the reconciled object names its uid, unless the patch has a uid, so it changes
        no successor of the same name. A dry run changes nothing and returns the object as it would be stored.

        Caveats: no applied intent contains the patch. An object from a cache that lags is refused until the cache shows the change.

        Errors: ObjectChanged with `expect`, if another writer changed, deleted or recreated the object since the read. Without `expect`,
        NotFound if the object does not exist, and Conflict if it has another uid or resourceVersion than the patch names.
        """
        kind = kind_of(what)
        if expect is not None:
            expected = expected_version(expect)
            name, namespace = expected.name, expected.namespace

        async def start() -> R:
            key, body = Key("", kind, namespace, name), patch
            if dry_run:
                self.trace.check_open()
            else:
                self.trace.write(f"patch {subresource} of {key}" if subresource else f"patch {key}")
            if not subresource and self.trace.is_about(key):  # the server ignores the uid of a patch of a status
                body = {**patch, "metadata": {"uid": self._regarding.uid, **(patch.get("metadata") or {})}}
            return await self._services.client.patch(
                kind,
                name,
                namespace,
                patch=body,
                style="merge",
                expect=expect,
                subresource=subresource,
                dry_run=dry_run,
                writer=self.trace.writer,
            )

        return self.trace.effect(f"ctx.patch({name})", start)

    @overload
    def delete(
        self,
        what: Kind[Any] | type[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        propagation: Propagation = ...,
    ) -> Effect[bool]: ...

    @overload
    def delete(
        self, what: Kind[Any] | type[Any], *, expect: Resource | Metadata, propagation: Propagation = ...
    ) -> Effect[bool]: ...

    def delete(
        self,
        what: Kind[Any] | type[Any],
        name: str = "",
        namespace: str = "",
        *,
        uid: str = "",
        expect: Resource | Metadata | None = None,
        propagation: Propagation = "Background",
    ) -> Effect[bool]:
        """Delete an object; returns False if it does not exist. The end of an object with finalizers is an event, not this response.

        Errors: ObjectChanged with `expect` (see `patch`), if another writer changed or recreated the object since the read; Conflict with
        `uid`, if the object has another uid.
        """
        if expect is not None:
            expected = expected_version(expect)
            name, namespace = expected.name, expected.namespace
        return self.trace.effect(
            f"ctx.delete({name})",
            lambda: self._children.delete(
                kind_of(what), name, namespace, uid=uid, expect=expect, propagation=propagation
            ),
        )

    def write_status(
        self, what: Kind[Any] | type[Any], *, expect: Resource | Metadata, status: Mapping[str, Any]
    ) -> Effect[bool]:
        """Apply the whole status of another object, as the field manager declared with `.writes_status_of`.

        `expect` is the object, or its metadata, as it was read (see `patch`). `status` holds everything that both writers of the kind own.
        Nothing is sent if nothing would change, or if the object was deleted or recreated; returns whether anything was sent. A condition
        that the API would refuse is cut and logged.

        Errors: ObjectChanged if the object changed since it was read; ConditionError for a malformed condition if the manager is strict.
        """
        kind, expected = kind_of(what), expected_version(expect)
        name, namespace, uid = expected.name, expected.namespace, expected.uid

        async def start() -> bool:
            self.trace.check_open()
            manager, key = self._services.statuses.get(kind), Key("", kind, namespace, name)
            if manager is None:
                raise UsageError(
                    f"controller {self._services.controller!r} writes the status of {key} without having declared it: "
                    f"add .writes_status_of({kind.kind.upper()}, suffix) to it"
                )
            cached = self._services.caches.cached(key)
            if cached is None or cached.uid != uid:
                return False
            if self._services.partial:
                self._children.refuse_dropped(key, {"status": status})
            metadata = {"name": name, "uid": uid, "resourceVersion": expected.resource_version}
            if namespace:
                metadata["namespace"] = namespace
            written = await self._services.client.settle_nulls(kind, {"status": self._status.fitted(status)})
            intent = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **written}
            try:
                answer = await self._services.applier.apply_status(
                    key, intent, cached=cached, manager=manager, writer=self.trace.writer
                )
            except NotFound:
                return False
            except Conflict as error:
                raise object_changed(error) from error
            if answer is None:
                self.trace.skipped += 1
                return False
            self.trace.writes.append(f"status of {key}")
            return True

        return self.trace.effect(f"ctx.write_status({name})", start)

    def event_about(
        self,
        what: Kind[Any] | type[Any],
        about: Metadata,
        reason: str,
        message: str,
        *,
        type_: str = "Normal",
        action: str = "Reconcile",
    ) -> None:
        """Record a Kubernetes Event about another object."""
        regarding = Regarding(kind_of(what), about.namespace, about.name, about.uid, about.resource_version)
        self._services.events.record(regarding, reason, message, type_=type_, action=action)

    def has_reported(self, reason: str) -> bool:
        """Whether this reconcile recorded an Event with the reason about the reconciled object."""
        return reason in self._reported

    def event(self, reason: str, message: str, *, type_: str = "Normal", action: str = "Reconcile") -> None:
        """Record a Kubernetes Event about the reconciled object.

        The runtime records transitions of conditions by itself, except for those whose reason this reconcile has recorded already.
        """
        self._reported.add(reason)
        self._services.events.record(self._regarding, reason, message, type_=type_, action=action)

    def execute(self, plan: Plan[Any]) -> Effect[Outcome]:
        """Carry out a plan and return its outcome; see `konverge.runtime.reconcile.plan` for the order.

        Errors: FieldsHeld if a child is held, after the rest of the plan was carried out. An outcome of RequeueAfter takes effect in
        this case too.
        """
        return self.trace.effect("ctx.execute(plan)", lambda: self._execute(plan))

    def wait(self, effect: Awaitable[T]) -> T:
        """Wait for an effect from a blocking reconciler, which runs in a thread. UsageError on the event loop."""
        if _on_loop(self._loop):
            raise UsageError("ctx.wait is for blocking reconcilers in threads; in a coroutine write await")

        async def awaited() -> T:
            return await effect

        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        self._waits.add(future)
        if self.trace.ended:  # it was closed while the future was on its way into the set
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            self.trace.check_open()
            raise
        finally:
            self._waits.discard(future)

    # --- how -----------------------------------------------------------------------------------------------------------------

    def close(self, why: str) -> None:
        """Send nothing more: effects that start from now on raise ReconcileTimeout, and a waiting thread is woken. For the runtime."""
        self.trace.close(why)
        for future in tuple(self._waits):
            future.cancel()

    @property
    def _children(self) -> Children:
        """Created by the first apply: many reconciles apply none."""
        if self._applies is None:
            self._applies = Children(self._services, self._object.metadata, self.trace)
        return self._applies

    async def _execute(self, plan: Plan[Any]) -> Outcome:
        applied = (
            await self._children.apply_all(_as_children(plan.children)) if plan.children is not None else Applied()
        )
        for apply in plan.applies:
            await self.apply(apply.object, force=apply.force, subresource=apply.subresource)
        for patch in plan.patches:
            await self._patch(patch)
        for delete in plan.deletes:
            await self._delete(delete)
        for event in plan.events:
            self._record(event)
        for type_ in plan.remove_conditions:
            self._status.remove_condition(type_)
        for mark in plan.set_conditions:
            self._status.set_condition(mark.type, mark.status, mark.reason, mark.message)
        if plan.draft is not None:
            self._status.update(plan.draft)
        if applied.held:
            if isinstance(plan.outcome, RequeueAfter):
                self.trace.look_again = min(self.trace.look_again, plan.outcome.delay)
            raise FieldsHeld(applied.held[0])
        return plan.outcome

    def _patch(self, patch: Patch) -> Effect[Any]:
        if patch.expect is None:
            return self.patch(patch.kind, patch.name, patch.namespace, patch=patch.patch, subresource=patch.subresource)
        return self.patch(patch.kind, expect=patch.expect, patch=patch.patch, subresource=patch.subresource)

    def _delete(self, delete: Delete) -> Effect[bool]:
        if delete.expect is None:
            return self.delete(delete.kind, delete.name, delete.namespace, uid=delete.uid)
        return self.delete(delete.kind, expect=delete.expect)

    def _record(self, event: PlannedEvent) -> None:
        if event.kind is None or event.about is None:
            self.event(event.reason, event.message, type_=event.type_)
        else:
            self.event_about(event.kind, event.about, event.reason, event.message, type_=event.type_)


def _as_children(children: tuple[Child | Resource, ...]) -> tuple[Child, ...]:
    return tuple(child if isinstance(child, Child) else Child(child) for child in children)


def _on_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
