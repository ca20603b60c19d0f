"""The builder: a controller as one sentence.

    Controller.of(Backup).owns(CRON_JOB).watches(SECRET, to=backups_using, metadata_only=True).reconciled_by(BackupReconciler())

Guarantees: every verb returns a new frozen value and starts nothing; a mistake that is visible in the sentence is an error at once.
The docstring of a verb names its equivalent in controller-runtime, if any.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, MetadataObject
from konverge.rbac import Rule
from konverge.runtime.builder.families import family_of
from konverge.runtime.builder.pause import Pausable, PauseRule
from konverge.runtime.builder.queueing import QueueVerbs
from konverge.runtime.builder.reconciler import Finalizes, Gate, Reconciles
from konverge.runtime.builder.reporting import ReportVerbs
from konverge.runtime.builder.watched import dropped_fields
from konverge.runtime.builder.watching import WatchVerbs
from konverge.words import Annotation, ConditionType

if TYPE_CHECKING:
    from konverge.runtime.cache.readers import Caches

__all__ = ["Controller"]

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Resource)

_NAME: Final = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
_DOMAIN_NAME: Final = re.compile(r"^[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]+$")
_TWICE_DELETING: Final = (
    ".reconciles_deleting is for a controller without a finalizer: finalize gets objects under deletion"
)


class Controller(WatchVerbs[R], ReportVerbs[R], QueueVerbs[R], frozen=True, kw_only=True):
    """The description of a controller; `Manager.add` runs it.

    >>> from konverge.kinds import kind
    >>> Controller.of(kind("batch/v1", "CronJob")).named("nightly").name
    'nightly'
    """

    @staticmethod
    def of(what: Kind[W] | type[W], *, drop: Iterable[str] = ()) -> Controller[W]:
        """Name the primary kind: every change of such an object enqueues its key (controller-runtime: `For`).

        The event of the controller's own status write does not. The name is the kind's, in lower case, until `named`.

        `drop` names fields that the cache leaves out, for instance `drop=["status.images"]`; see `watches`. A status that sets a dropped
        field is refused. Raises UsageError for a path that cannot be dropped, and for a path that the kind's model has.
        """
        kind = kind_of(what)
        declaration = getattr(what, "__konverge_declaration__", None)
        name = kind.kind.lower()
        return Controller(
            kind=kind,
            name=name,
            conditions=None if declaration is None else tuple(declaration.conditions),
            model=what if inspect.isclass(what) else None,
            dropped=dropped_fields(name, "Controller.of", kind, drop),
        )

    @staticmethod
    def of_metadata(what: Kind[Any] | type[Any]) -> Controller[MetadataObject]:
        """Name the primary kind; the API server sends only its metadata (controller-runtime: `For` with `OnlyMetadata`).

        `reconcile` gets a `MetadataObject`, and a predicate metadata. Finalizers and children work as with whole objects. The status is
        unknown: `ctx.status` raises MetadataOnly, a failed reconcile sets no condition, and `konverge rbac` gives no right to write it.
        """
        kind = kind_of(what)
        model = what if inspect.isclass(what) else None
        return Controller(kind=kind, name=kind.kind.lower(), model=model, metadata_only=True)

    def named(self, name: str) -> Controller[R]:
        """Name the controller: metrics, logs and debug use the name, and it is unique in a manager."""
        if not _NAME.match(name):
            raise UsageError(f"controller name {name!r}: use lower case letters, digits and dashes")
        return replace(self, name=name)

    def finalizer(self, name: str, *, when: Callable[[Metadata, Caches], bool] | None = None) -> Controller[R]:
        """Hold every object by this finalizer until `finalize` returned Done; it is added before the first `reconcile`.

        While `when(metadata, caches)` returns False the finalizer is not added, and `reconcile` gets the object without it: it must
        then create nothing that `finalize` would have to delete. The change that ends this has to enqueue the object. An
        existing finalizer stays, and `finalize` is called. Paused objects get no finalizer anyway (`pausable`).
        """
        if not _DOMAIN_NAME.match(name):
            raise UsageError(f"finalizer {name!r}: write domain/name, for instance example.com/backup")
        if self.also_deleting:
            raise UsageError(f"controller {self.name!r}: {_TWICE_DELETING}")
        return replace(self, finalizer_name=name, may_hold=when)._ending_by_both()

    def reconciles_deleting(self) -> Controller[R]:
        """Give `reconcile` objects under deletion too, for as long as finalizers of other controllers hold them.

        It is for a controller without a finalizer. No child can be created for such an object.
        """
        if self.finalizer_name:
            raise UsageError(f"controller {self.name!r}: {_TWICE_DELETING}")
        return replace(self, also_deleting=True)

    def pausable(
        self,
        by: str | PauseRule = Annotation.PAUSED,
        *,
        namespaces: bool = True,
        deletion: bool = False,
        observing: bool = False,
    ) -> Controller[R]:
        """Let people pause objects, by an annotation of the object or by a label of its namespace, both with the name `by`.

        Any value but `false` pauses: `kubectl annotate backup nightly konverge.dev/paused=true`. `reconcile` is not called for a paused
        object, and it gets no finalizer. The condition `Paused` shows the pause and its cause, and is False otherwise. `Ready` and the
        observed generation stay as they are, so a change of the spec during the pause does not look handled. The end of the pause enqueues
        the object.

        `finalize` is called for a deleted object that is paused, unless the value is `including-deletion`, or the controller declares
        `deletion`: then the deletion waits for the end of the pause.

        With `namespaces=False` only the annotation pauses, and neither a watch of namespaces nor the right to it is needed. If `by` is a
        function, it decides in place of annotation and label: `by(metadata, caches)` returns why an object is paused, "" if it is not. The
        change that ends such a pause has to enqueue the object. With `observing` the reconciler is called for paused objects too, to
        report in the status, and must change nothing else: `ctx.paused` is the cause of the pause.

        A kind without a model gets no condition, since its status belongs to its own controller. Raises UsageError for an invalid name, for
        a second declaration, and for a kind that does not declare the condition `Paused`, unless `observing`.

        >>> from konverge.kinds import kind
        >>> Controller.of(kind("example.com/v1", "Backup")).pausable("example.com/paused").pausable_by.name
        'example.com/paused'
        """
        if self.pausable_by is not None:
            raise UsageError(f"controller {self.name!r} is pausable already: one .pausable is enough")
        if isinstance(by, str) and not _DOMAIN_NAME.match(by):
            raise UsageError(f".pausable({by!r}): write domain/name, for instance example.com/paused")
        if self.conditions is not None and ConditionType.PAUSED not in self.conditions and not observing:
            raise UsageError(
                f"controller {self.name!r}: .pausable(): {self.kind.group_kind} declares no condition {ConditionType.PAUSED}: add it to "
                "conditions=(...) of @kv.resource, so that people see the pause"
            )
        if self.dropped is not None and isinstance(by, str) and self.dropped.covers(("metadata", "annotations", by)):
            raise UsageError(f"controller {self.name!r}: .pausable({by!r}) needs the annotation, which drop names")
        if isinstance(by, str):
            chosen = Pausable(name=by, namespaces=namespaces, deletion=deletion, observing=observing)
        else:
            chosen = Pausable(rule=by, deletion=deletion, observing=observing)
        return replace(self, pausable_by=chosen)

    def needs(self, *rules: Rule) -> Controller[R]:
        """Declare rights beyond the rights of the other verbs, for live reads and patches; `konverge rbac` prints them all."""
        return replace(self, rules=(*self.rules, *rules))

    def reads_live(self, *what: Kind[Any] | type[Any]) -> Controller[R]:
        """Name all kinds that `ctx.live` reads: `konverge rbac` then gives `get` on these kinds, and on no other kind that is only
        watched.

        To list a kind live that is not watched, declare the right with `.needs` as well.

        Without this verb any declared kind may be read live, so the rules give `get` on each. With it, `ctx.live` of a kind without the
        right raises UsageError that names the missing right. `.reads_live()` declares that nothing is read live.
        """
        return replace(self, live=(*(self.live or ()), *(kind_of(kind) for kind in what)))

    def starts_when(self, gate: Gate) -> Controller[R]:
        """Start only once `gate` names no obstacle; it is called at the start, and again while it names an obstacle."""
        return replace(self, gate=gate)

    def on_every_replica(self) -> Controller[R]:
        """Work on every replica, leading or not (controller-runtime: `NeedLeaderElection` false).

        For a controller that only reads, or whose replicas never write the same objects: its writes are not fenced.
        """
        return replace(self, elected=False)

    def sharded(self, by: Callable[[Metadata], str] = family_of) -> Controller[R]:
        """Let replicas share the objects of this controller, if its manager runs with sharding; else the elected leader has all objects.

        `by` returns a key from an object's metadata: objects of one key are reconciled by one replica. By default it is the uid of the
        controller that owns the object, else its own uid, so a child with its own controller stays with its parent. That is one level
        up, since an object does not name its grandparent: for three levels write the uid of the root on each object as a label, and
        let `by` return it.

        Guarantees: at most one replica reconciles an object at a time, and `ctx.epoch` is greater with each new owner.

        Caveats: for a controller whose reconciles share nothing but the API server. Do not shard a controller that decides by its
        memory of other objects. Shard a controller that takes from a common stock only by the key of that stock. In the mode
        `coordinator` the cache of the primary kind holds only this replica's objects, unless the controller watches or indexes its own
        kind.
        """
        return replace(self, family=by)

    def calls(self, what: str, *, in_plan: Reconciles[R] | None = None) -> Controller[R]:
        """Declare that the reconciler has effects outside Kubernetes: `.calls("the S3 server")`.

        `konverge plan` does not call this reconciler, since no dry run holds back such an effect. It lists the objects as not tried, with
        `what` as the reason. With `in_plan` it calls that reconciler in its place, for instance the same class with a client that only
        records its calls. The declaration changes nothing while the operator runs.

        Errors: UsageError for an empty `what`, and for an `in_plan` without a method `reconcile`.
        """
        if not what.strip():
            raise UsageError(f"controller {self.name!r}: .calls({what!r}): name what the reconciler calls, for people")
        if in_plan is not None:
            self.reconciled_by(in_plan)
        return replace(self, outside=what, stand_in=in_plan)

    def with_(
        self,
        *,
        concurrency: int | None = None,
        timeout: float | None = None,
        barrier: float | None = None,
        min_interval: float | None = None,
        debounce: float | None = None,
        resync: float | None = None,
        base_delay: float | None = None,
        max_delay: float | None = None,
    ) -> Controller[R]:
        """Set numbers by name: `.with_(concurrency=4, timeout=30)`. See `Numbers` for their meaning; other numbers keep their values."""
        if self.limiter is not None and (base_delay is not None or max_delay is not None):
            raise UsageError(f"controller {self.name!r}: .retries() replaces base_delay and max_delay: leave them out")
        given = {
            "concurrency": concurrency,
            "timeout": timeout,
            "barrier": barrier,
            "min_interval": min_interval,
            "debounce": debounce,
            "resync": resync,
            "base_delay": base_delay,
            "max_delay": max_delay,
        }
        changed: dict[str, Any] = {name: number for name, number in given.items() if number is not None}
        return replace(self, numbers=replace(self.numbers, **changed))

    def reconciled_by(self, reconciler: Reconciles[R]) -> Controller[R]:
        """Name the reconciler; the end of the sentence."""
        if not callable(getattr(reconciler, "reconcile", None)) or inspect.isclass(reconciler):
            raise UsageError(f"{reconciler!r} is no reconciler: give an object with a method reconcile(object, ctx)")
        if not self.finalizer_name and isinstance(reconciler, Finalizes):
            raise UsageError(
                f"controller {self.name!r} would never call finalize of its reconciler, since nothing holds its objects: "
                'declare a finalizer, .finalizer("example.com/backup"), before .reconciled_by(...), or remove the method'
            )
        return replace(self, reconciler=reconciler)._ending_by_both()

    def _ending_by_both(self) -> Controller[R]:
        """Return this sentence; raises UsageError if it declares a finalizer and its reconciler has no `finalize`."""
        if self.finalizer_name and self.reconciler is not None and not isinstance(self.reconciler, Finalizes):
            raise UsageError(
                f"controller {self.name!r} declares the finalizer {self.finalizer_name}, but its reconciler has no finalize(object, ctx)"
            )
        return self
