"""`Allowances`: what a scenario declares about its runs, each with a reason: differences, objects that stay gone, plans, the clock's end.

A run under a plan must end as the undisturbed run did, unless the scenario declares a difference. A clock-driven operator may differ for a
good reason: a process that was down for hours missed what was due. The report prints the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import Kind, kind_of

__all__ = ["Allowances", "Mask", "Part"]

Part: TypeAlias = str | Callable[[dict[str, Any]], None]
"""A dotted path (`status.lastRun`), or a function that edits a copy of an object in place."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Parts of objects of a kind (None: of all kinds) that may differ; without parts: the objects, their names and their number."""

    kind: Kind[Any] | None
    parts: tuple[Part, ...]
    why: str

    def means(self, data: dict[str, Any]) -> bool:
        """Return whether an object is of its kind, in any version."""
        if self.kind is None:
            return True
        group = data["apiVersion"].rpartition("/")[0]
        return bool(data["kind"] == self.kind.kind and group == self.kind.api_version.rpartition("/")[0])


class Allowances:
    """The declarations of one scenario; `Lab` has these methods."""

    def __init__(self) -> None:
        self.allowed: list[Mask] = []
        """Differences that do not fail a run."""
        self.gone: list[tuple[Kind[Any], str, str]] = []
        """Kind, name ("" for all) and reason of objects that may be missing at the end."""
        self.skipped: list[tuple[str, str]] = []
        """Pattern of the names of plans that do not apply, and the reason."""
        self.resync_writers: list[tuple[Kind[Any] | None, str]] = []
        """Kinds (None: all) whose reconcile may write when only a resync triggered it, and the reason."""
        self.silent: list[tuple[Kind[Any] | None, str]] = []
        """Kinds (None: all) whose reconcile may return Done after a failed write, and the reason."""
        self.survivors: list[tuple[Kind[Any], str]] = []
        """Kinds whose objects may outlive their owners, and the reason."""
        self.shown_secrets: list[tuple[str, str, str]] = []
        """Name and key ("" for all) of Secrets whose values may be shown, and the reason."""
        self.clock_end: float | None = None
        """The virtual second that ends each run, or None if a run ends on convergence."""

    def may_differ(self, what: Kind[Any] | type[Any] | None, *parts: Part, why: str) -> None:
        """Declare that parts of objects of a kind (None: of every kind) may end differently from the undisturbed run.

        A part is a dotted path, or a function that changes a copy of the object. Without parts the objects themselves may differ: their
        number, names and content, and how often they were created and deleted. `why` is for the reader of the report.
        """
        _needs_reason(why)
        if what is None and not parts:
            raise UsageError("lab.may_differ(None) allows every difference: name a kind, or the parts that may differ")
        self.allowed.append(Mask(None if what is None else kind_of(what), parts, why))

    def may_stay_gone(self, what: Kind[Any] | type[Any], name: str = "", *, why: str) -> None:
        """Declare that an object of the undisturbed run's end ("": any name) may be missing at the end of another run."""
        _needs_reason(why)
        self.gone.append((kind_of(what), name, why))

    def skip_plans(self, pattern: str, *, why: str) -> None:
        """Leave out plans whose names match a pattern (`*the namespace is deleted*`), since they do not apply to this scenario.

        A pattern that matches no plan is a failure.
        """
        _needs_reason(why)
        self.skipped.append((pattern, why))

    def may_write_on_resync(self, what: Kind[Any] | type[Any] | None, *, why: str) -> None:
        """Declare that the reconcile of a kind (None: of any) may write when only the resync triggered it.

        For an operator that compares an outside system with its objects at each resync, because that system sends no events.
        """
        _needs_reason(why)
        self.resync_writers.append((None if what is None else kind_of(what), why))

    def may_stay_silent(self, what: Kind[Any] | type[Any] | None, *, why: str) -> None:
        """Declare that the reconcile of a kind (None: of any) may return Done after a failed write without a change of a condition.

        For an operator with optional writes, such as a record for people.
        """
        _needs_reason(why)
        self.silent.append((None if what is None else kind_of(what), why))

    def may_show_secret(self, name: str, key: str = "", *, why: str) -> None:
        """Declare that a value of a Secret (any of its keys: "") may be in Events, statuses and log lines, since it is public."""
        _needs_reason(why)
        self.shown_secrets.append((name, key, why))

    def may_outlive_owner(self, what: Kind[Any] | type[Any], *, why: str) -> None:
        """Declare that objects of a kind may stay when their owner is deleted: a volume that keeps the data of its former owner."""
        _needs_reason(why)
        self.survivors.append((kind_of(what), why))

    def may_outlive_owners(self, data: dict[str, Any]) -> bool:
        """Return whether an object may stay when its owner is deleted."""
        return any(Mask(what, (), why).means(data) for what, why in self.survivors)

    def allows_showing(self, name: str, key: str) -> bool:
        """Return whether a value of a Secret may be shown."""
        return any(name == shown and part in ("", key) for shown, part, _ in self.shown_secrets)

    def allows_resync_writes(self, key: Key) -> bool:
        """Return whether the reconcile of an object may write when only a resync triggered it."""
        return _covers(self.resync_writers, key)

    def allows_silence(self, key: Key) -> bool:
        """Return whether the reconcile of an object may return Done after a failed write."""
        return _covers(self.silent, key)

    def clock_ends(self, *, after: float) -> None:
        """End every run a minute after this virtual second instead of when it has converged: for an operator that always has work.

        The end states are compared at that moment. A run whose scenario or faults last longer ends a minute after these.
        """
        self.clock_end = after


def _covers(kinds: list[tuple[Kind[Any] | None, str]], key: Key) -> bool:
    return any(what is None or what.group_kind == key.kind.group_kind for what, _ in kinds)


def _needs_reason(why: str) -> None:
    if not why.strip():
        raise UsageError("why= is empty: say why the runs may differ, for the reader of the report")
