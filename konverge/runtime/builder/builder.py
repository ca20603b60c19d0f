"""The builder: a controller as one sentence.

    Controller.of(Backup).owns(CRON_JOB).watches(SECRET, to=backups_using, metadata_only=True).reconciled_by(BackupReconciler())

Guarantees: every verb returns a new frozen value and starts nothing; a mistake that is visible in the sentence is an error at once.
The docstring of a verb names its equivalent in controller-runtime, if any.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
    runtime_checkable,
)

from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, Object
from konverge.outcome import Outcome
from konverge.rbac import Rule
from konverge.runtime.builder.families import family_of
from konverge.runtime.builder.predicates import Predicate
from konverge.runtime.builder.sources import Source
from konverge.selectors import LabelSelector

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.informers import Cached
    from konverge.runtime.cache.readers import Caches
    from konverge.runtime.reconcile.context import Context

__all__ = [
    "Controller",
    "Finalizes",
    "Gate",
    "Group",
    "Grouping",
    "Indexed",
    "Mapper",
    "Numbers",
    "Reconciles",
    "Watched",
]

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Resource)
R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)

Mapper: TypeAlias = "Callable[[Any, Caches], Iterable[Key]]"
Gate: TypeAlias = "Callable[[Client], Awaitable[str]]"
"""Called before a controller starts; returns the obstacle with its remedy, or "" without an obstacle."""
FailureReport: TypeAlias = "Callable[[Any, Context[Any], str], None]"
"""Reports a failed reconcile of the object in `ctx.status`, with this message."""

_NAME = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
_METRIC = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
_FINALIZER = re.compile(r"^[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]+$")


class Reconciles(Protocol[R_contra]):
    """A reconciler: `reconcile(object, ctx)` returns an Outcome.

    A plain function instead of a coroutine function runs in a thread; it waits for effects with `ctx.wait(...)`.
    """

    def reconcile(self, object_: R_contra, ctx: Context[R_contra], /) -> Awaitable[Outcome] | Outcome:
        """Bring the cluster to the state that the object describes, by the observed state and not by the event."""


@runtime_checkable
class Finalizes(Protocol[R_contra]):
    """A reconciler with a finalizer."""

    def finalize(self, object_: R_contra, ctx: Context[R_contra], /) -> Awaitable[Outcome] | Outcome:
        """Clean up; called under deletion until it returns Done, then the finalizer is removed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One more kind that a controller reads: owned (`mapper` None) or mapped."""

    kind: Kind[Any]
    mapper: Mapper | None = None
    metadata_only: bool = False
    optional: bool = False
    predicate: Predicate | None = None
    labels: str = ""
    fields: str = ""
    namespaces: tuple[str, ...] = ()
    """The namespaces of the watch, for an owned kind the namespaces of the children; empty: every namespace that the manager watches."""
    own_writes: bool = True
    """For owned kinds: whether an event that shows only our own apply enqueues the owner."""
    unlisted: bool = False
    """Whether the controller also runs without the right to list an optional kind."""
    known_by: Callable[[Metadata], str] | None = None
    """For owned kinds: returns the name of an object's owner whatever its controller reference, "" without an owner of ours."""


Group: TypeAlias = tuple[str, ...]
"""Values of the labels of a gauge, in their order."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """A gauge with the number of objects in each group; the groups of `always` exist from the start of the controller."""

    metric: str
    help: str
    labels: tuple[str, ...]
    by: Callable[[Object], Iterable[Group]]
    always: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Indexed:
    """One index over the cache of a declared kind; as an index function it equals every other index of the same declaration."""

    kind: Kind[Any]
    name: str
    values: Callable[[Any], Iterable[str]]

    def __call__(self, cached: Cached) -> Iterable[str]:
        """Return the values of a cached object."""
        return self.values(cached.metadata if cached.metadata_only else cached.decode(self.kind))


_TWICE_DELETING: Final = (
    ".reconciles_deleting is for a controller without a finalizer: finalize gets objects under deletion"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of one controller."""

    concurrency: int = 1
    """Reconciles at once; one key never runs twice at a time. 1, as in controller-runtime: many controllers run in parallel."""
    timeout: float = 120.0
    """Seconds that a reconcile may take; then it is cancelled and retried. On by default: a hung reconcile blocks its key for ever."""
    barrier: float = 10.0
    """Seconds to wait for the cache to show the controller's own writes; then the reconcile runs nevertheless, which a metric counts."""
    min_interval: float = 0.0
    """The least number of seconds between the starts of two reconciles of one key."""
    debounce: float = 0.0
    """Seconds of quiet to wait for after an event, so that a burst becomes one reconcile."""
    resync: float = 36000.0
    """Seconds between two resyncs, which enqueue every object, give or take 10 %; 10 h, as controller-runtime. 0: never."""
    base_delay: float = 0.005
    """Seconds before the first retry; doubles with each failure."""
    max_delay: float = 1000.0
    """Seconds between retries at most."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid number."""
        if self.concurrency < 1 or self.timeout <= 0 or self.base_delay <= 0:
            raise UsageError("concurrency is at least 1, and timeout and base_delay are above 0")
        if self.max_delay < self.base_delay:
            raise UsageError(f"max_delay={self.max_delay:g} is below base_delay={self.base_delay:g}")
        for name in ("barrier", "min_interval", "debounce", "resync"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name}={getattr(self, name):g}: it is 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller(Generic[R]):
    """The description of a controller; `Manager.add` runs it.

    >>> from konverge.kinds import kind
    >>> Controller.of(kind("batch/v1", "CronJob")).named("nightly").name
    'nightly'
    """

    kind: Kind[R]
    name: str
    model: type[Any] | None = None
    reconciler: Reconciles[R] | None = None
    owned: tuple[Watched, ...] = ()
    watched: tuple[Watched, ...] = ()
    indexed: tuple[Indexed, ...] = ()
    sources: tuple[tuple[str, Source], ...] = ()
    """Sources of keys beside the watches, by name."""
    finalizer_name: str = ""
    may_hold: Callable[[Metadata, Caches], bool] | None = None
    """Whether the finalizer may be added to an object now; None: always."""
    also_deleting: bool = False
    """Whether `reconcile` gets objects under deletion too."""
    invalid: tuple[str, str] | None = None
    failure_report: FailureReport | None = None
    conditions: tuple[str, ...] | None = None
    counted: tuple[str, ...] = ()
    """The condition types whose objects are counted by status."""
    groupings: tuple[Grouping, ...] = ()
    """Gauges with the numbers of objects by other labels."""
    predicate: Predicate | None = None
    labels: str = ""
    fields: str = ""
    rules: tuple[Rule, ...] = ()
    live: tuple[Kind[Any], ...] | None = None
    """The kinds that are read live; None: any kind."""
    status_suffix: str = ""
    status_shared: bool = False
    statuses: tuple[tuple[Kind[Any], str], ...] = ()
    gate: Gate | None = None
    elected: bool = True
    """Whether the controller works only on the leader."""
    family: Callable[[Metadata], str] | None = None
    """Returns the sharding key of an object; None: replicas do not share objects."""
    outside: str = ""
    """The server outside Kubernetes that the reconciler calls; "" for none."""
    stand_in: Reconciles[R] | None = None
    """Reconciles in a plan, in place of a reconciler that calls something outside Kubernetes."""
    numbers: Numbers = field(default_factory=Numbers)

    @staticmethod
    def of(what: Kind[W] | type[W]) -> Controller[W]:
        """Name the primary kind: every change of such an object enqueues its key (controller-runtime: `For`).

        The event of the controller's own status write does not. The name is the kind's, in lower case, until `named`.
        """
        kind = kind_of(what)
        declaration = getattr(what, "__konverge_declaration__", None)
        conditions = None if declaration is None else tuple(declaration.conditions)
        return Controller(
            kind=kind, name=kind.kind.lower(), conditions=conditions, model=what if inspect.isclass(what) else None
        )

    def owns(
        self,
        what: Kind[Any] | type[Any],
        *,
        optional: bool = False,
        when: Predicate | None = None,
        known_by: Callable[[Metadata], str] | None = None,
        own_writes: bool = True,
        written_in: Iterable[str] = (),
        labels: str = "",
        fields: str = "",
    ) -> Controller[R]:
        """Watch children of this kind: a change of a child enqueues its controlling owner (`Owns`).

        Only declared kinds can be created with `ctx.own`. With `optional` the controller also runs while the cluster does not serve
        the kind (see `ctx.serves(kind)`). With `when` a change enqueues keys only if `when` returns True. `known_by` returns the name
        of an object's owner whatever its controller reference ("" for none): a child may have lost the reference, or have another
        owner's reference. With `own_writes=False` an event that shows only an apply of this controller's own `ctx.own` enqueues
        nothing. Any other change in the same event still enqueues the owner. With `written_in` the rights to get and write children
        are given in these namespaces only; the API server refuses children elsewhere. The same kind may be watched too, for objects
        that are not children: `.owns(SECRET).watches(SECRET, to=users_of)`. The two share one cache.

        With `labels` or `fields`, selectors that the API server evaluates, only the selected children are cached, and a kind is not
        watched as well. A child whose labels do not match is refused. A field selector belongs to a field that no write of the
        controller changes.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .owns")
        kind = kind_of(what)
        if any(other.kind == kind for other in self.owned):
            raise UsageError(f"controller {self.name!r} declares .owns({kind.group_kind}) twice; one .owns is enough")
        watch = Watched(
            kind,
            optional=optional,
            predicate=when,
            namespaces=tuple(sorted(set(written_in))),
            known_by=known_by,
            own_writes=own_writes,
            labels=labels,
            fields=fields,
        )
        self._check_one_selection((*self.owned, watch), self.watched)
        return replace(self, owned=(*self.owned, watch))

    def _check_one_selection(self, owned: Iterable[Watched], watched: Iterable[Watched]) -> None:
        """Raise UsageError for a kind that is owned and watched if one of the two has a selection that the other cache cannot serve."""
        kinds = {watch.kind: watch for watch in owned}
        for watch in watched:
            owner = kinds.get(watch.kind)
            if owner is not None and (owner.labels or owner.fields or watch.fields):
                raise UsageError(
                    f"controller {self.name!r} owns and watches {watch.kind.group_kind}, and both read one cache: leave out the "
                    "selectors of .owns and the fields of .watches, and filter by when=, or watch the kind in another controller"
                )

    @overload
    def watches(
        self,
        what: Kind[W] | type[W],
        *,
        to: Callable[[Metadata, Caches], Iterable[Key]],
        metadata_only: Literal[True],
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
    ) -> Controller[R]: ...

    @overload
    def watches(
        self,
        what: Kind[W] | type[W],
        *,
        to: Callable[[W, Caches], Iterable[Key]],
        metadata_only: Literal[False] = False,
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
    ) -> Controller[R]: ...

    def watches(
        self,
        what: Kind[Any] | type[Any],
        *,
        to: Mapper,
        metadata_only: bool = False,
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
    ) -> Controller[R]:
        """Watch another kind: `to` returns the keys that a change of such an object concerns (`Watches` with a map function).

        `to` is called with the object before and after a change, so that it sees both the old and the new reference. With
        `metadata_only` only metadata is cached and `to` gets a `Metadata`; use it for Secrets and ConfigMaps. With `namespaces` the
        kind is watched only in these, and the rights on it are limited to them. With `unlisted` the controller of an optional kind
        also runs while it has no right to list it: `ctx.serves(kind)` is False then, and `ctx.cache(kind).problem` is the reason.

        `labels` and `fields` are selectors that the API server evaluates: other objects are neither sent nor cached. A custom resource has
        the field selectors `metadata.name`, `metadata.namespace`, and its `selectableFields`.

        A kind may be watched several times, with other selectors, namespaces or map functions: `ctx.cache(kind)` then reads the objects of
        all of them. If the kind is owned too, `ctx.cache(kind)` reads the cache of the children, which has every object.

        Raises UsageError for `unlisted` without `optional`, for `namespaces` with an invalid name, for a repeated declaration, and for
        two declarations of a kind that differ in `metadata_only`.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .watches")
        kind = kind_of(what)
        where = () if isinstance(namespaces, str) else tuple(sorted(set(namespaces)))
        if namespaces and (not all(where) or not where or kind.namespaced is False):
            raise UsageError(
                f"controller {self.name!r}: .watches({kind.kind}, namespaces={namespaces!r}): give names of namespaces"
            )
        if unlisted and not optional:
            raise UsageError(
                f"controller {self.name!r}: .watches({kind.kind}, unlisted=True): add optional=True, since a controller that needs "
                "the kind waits until it may list it"
            )
        watch = Watched(kind, to, metadata_only, optional, when, labels, fields, where, unlisted=unlisted)
        self._check_beside_others(watch)
        self._check_one_selection(self.owned, (watch,))
        return replace(self, watched=(*self.watched, watch))

    def _check_beside_others(self, watch: Watched) -> None:
        what = f"controller {self.name!r}: .watches({watch.kind.group_kind})"
        for other in (other for other in self.watched if other.kind == watch.kind):
            if replace(other, optional=watch.optional, unlisted=watch.unlisted) == watch:
                raise UsageError(f"{what} is declared twice alike; one .watches is enough")
            if other.metadata_only != watch.metadata_only:
                raise UsageError(
                    f"{what} is declared with and without metadata_only=True, and ctx.cache reads one cache: declare both alike"
                )

    def indexes(self, what: Kind[Any] | type[Any], name: str, *, by: Callable[[Any], Iterable[str]]) -> Controller[R]:
        """File the cached objects of a declared kind under the values that `by` returns for each (`IndexField`).

        `ctx.cache(what).by_index(name, value)` returns them without a scan. `by` is called once per event, with an object of `what`,
        or with a `Metadata` if only metadata is cached. A thin view (`kind(...)`) also serves objects that do not fit the model; an
        index by the model leaves them out. Controllers share caches, so the name is unique among the indexes of that kind in a
        manager.
        """
        indexed = kind_of(what)
        if indexed != self.kind and not any(other.kind == indexed for other in (*self.owned, *self.watched)):
            raise UsageError(
                f"controller {self.name!r} indexes {indexed.group_kind}, which it does not watch: declare it with .owns or .watches first"
            )
        return replace(self, indexed=(*self.indexed, Indexed(indexed, name, by)))

    def named(self, name: str) -> Controller[R]:
        """Name the controller: metrics, logs and debug use the name, and it is unique in a manager."""
        if not _NAME.match(name):
            raise UsageError(f"controller name {name!r}: use lower case letters, digits and dashes")
        return replace(self, name=name)

    def finalizer(self, name: str, *, when: Callable[[Metadata, Caches], bool] | None = None) -> Controller[R]:
        """Hold every object by this finalizer until `finalize` returned Done; it is added before the first `reconcile`.

        While `when(metadata, caches)` returns False the finalizer is not added, and `reconcile` gets the object without it: it must
        then create nothing that `finalize` would have to delete. Use it for paused objects: a move by other software removes their
        finalizers. The change that ends the pause has to enqueue the object. An existing finalizer stays, and `finalize` is called.
        """
        if not _FINALIZER.match(name):
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

    def invalid_as(self, type_: str, reason: str) -> Controller[R]:
        """Report an object that no longer decodes: condition `type_` becomes True, Ready False, both with `reason`."""
        return replace(self, invalid=(type_, reason))

    def reports_failure(self, *, by: Callable[[R, Context[R], str], None]) -> Controller[R]:
        """Report a failed reconcile by this function: for a status without a condition `Ready`.

        `by(object, ctx, message)` sets fields and conditions of `ctx.status`, or calls `ctx.status.skip_write()`; it can send nothing. It
        is called in place of setting `Ready` to False: if a reconcile raised an error that a retry may not fix, if the stored object
        does not decode, and if the status was refused. The message quotes no value and is the same in every retry. The reconciler
        itself clears the report, since it sets the same fields when it succeeds. An exception of the function is logged.
        """
        return replace(self, failure_report=by)

    def counts_conditions(self, *types: str) -> Controller[R]:
        """Show in the metric `konverge_status_conditions` how many objects have each status of these conditions.

        Without arguments all conditions that the model declares are counted; for a kind without a model, name them. Each event of such
        an object then costs two more reads of its status.
        """
        chosen = types or self.conditions or ()
        undeclared = [type_ for type_ in chosen if self.conditions is not None and type_ not in self.conditions]
        if not chosen or undeclared:
            raise UsageError(
                f"controller {self.name!r}: .counts_conditions({', '.join(map(repr, types))}): name condition types that "
                f"{self.kind.group_kind} declares ({', '.join(self.conditions or ()) or 'none are declared'})"
            )
        return replace(self, counted=tuple(chosen))

    def counts_objects(
        self,
        metric: str,
        help_text: str,
        *,
        labels: Iterable[str],
        by: Callable[[Object], Iterable[Group]],
        always: Iterable[Group] = (),
    ) -> Controller[R]:
        """Show in a gauge of this name the number of objects in each group, for instance by phase.

        `by` returns the groups of a stored object, which need not fit the model: values of the labels in their order. Return words of
        a fixed set: each group is a series, so names of objects would give as many series as there are objects. The groups of `always`
        have a series from the start. Each event of such an object costs two more reads of it.
        """
        names = tuple(labels)
        bad = [name for name in (metric, *names) if not _METRIC.match(name) or name.startswith("__")]
        if bad:
            raise UsageError(
                f"controller {self.name!r}: .counts_objects({metric!r}): {bad[0]!r} is no name of a metric or label; write letters, "
                "digits and _, and begin with a letter"
            )
        grouping = Grouping(metric, help_text, names, by, tuple(always))
        return replace(self, groupings=(*self.groupings, grouping))

    def when(self, predicate: Predicate) -> Controller[R]:
        """Let only these changes of the primary kind enqueue the object. Creation, deletion and resync always do."""
        return replace(self, predicate=predicate)

    def selecting(self, labels: str = "", *, fields: str = "") -> Controller[R]:
        """Watch only primary objects that match this label selector and this field selector; others do not exist for this controller.

        The API server evaluates both. An object that stops to match is a deleted object for this controller: its finalizer stays.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .selecting")
        return replace(self, labels=labels, fields=fields)

    def listens_to(self, source: Source, *, name: str = "") -> Controller[R]:
        """Reconcile the keys that a source yields: a message bus, a clock (`every`, `daily`), other code of the program (`Channel`).

        `source` is an async generator that receives a `Listening`; `konverge.runtime.builder.sources` has guarantees and caveats. `name`
        appears in the reasons of reconciles and in the report, by default the name of the function. Raises UsageError for a repeated name.
        """
        given: object = source
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise UsageError(
                f"controller {self.name!r}: .listens_to({source!r}): give an async generator function, `async def` with a `yield`"
            )
        chosen = name or getattr(source, "__name__", "") or type(source).__name__.strip("_").lower()
        if any(other == chosen for other, _ in self.sources):
            raise UsageError(
                f"controller {self.name!r} has a source {chosen!r} already: give each a name, .listens_to(source, name=...)"
            )
        return replace(self, sources=(*self.sources, (chosen, source)))

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

    def writes_status_as(self, suffix: str, *, shared: bool = False) -> Controller[R]:
        """Write status as the field manager `<manager>.<suffix>`: for two controllers that write one kind's status.

        With `shared` several controllers may declare the same suffix; they must never write at the same time.
        """
        return replace(self, status_suffix=suffix, status_shared=shared)

    def writes_status_of(self, what: Kind[Any] | type[Any], suffix: str) -> Controller[R]:
        """Also write the status of objects of another kind, with `ctx.write_status`, as the field manager `<manager>.<suffix>`.

        The kind's own controller declares the same suffix, `.writes_status_as(suffix, shared=True)`; the two must never write one
        object's status at the same time. The kind is declared with `.owns` or `.watches` too.
        """
        return replace(self, statuses=(*self.statuses, (kind_of(what), suffix)))

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
