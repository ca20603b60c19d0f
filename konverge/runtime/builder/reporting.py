"""The verbs that declare what a controller reports: in the status of its objects and in metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Object
from konverge.runtime.builder.spec import ControllerSpec, Group, Grouping

if TYPE_CHECKING:
    from konverge.runtime.reconcile.context import Context

__all__ = ["ReportVerbs"]

R = TypeVar("R", bound=Resource)

_METRIC: Final = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")


class ReportVerbs(ControllerSpec[R], frozen=True):
    """The verbs of a controller's conditions, status and gauges."""

    def invalid_as(self, type_: str, reason: str) -> Self:
        """Report an object that no longer decodes: condition `type_` becomes True, Ready False, both with `reason`."""
        self._check_status_cached(".invalid_as")
        return replace(self, invalid=(type_, reason))

    def reports_failure(self, *, by: Callable[[R, Context[R], str], None]) -> Self:
        """Report a failed reconcile by this function: for a status without a condition `Ready`.

        `by(object, ctx, message)` sets fields and conditions of `ctx.status`, or calls `ctx.status.skip_write()`; it can send nothing. It
        is called in place of setting `Ready` to False: if a reconcile raised an error that a retry may not fix, if the stored object
        does not decode, and if the status was refused. The message quotes no value and is the same in every retry. The reconciler
        itself clears the report, since it sets the same fields when it succeeds. An exception of the function is logged.
        """
        self._check_status_cached(".reports_failure")
        return replace(self, failure_report=by)

    def counts_conditions(self, *types: str) -> Self:
        """Show in the metric `konverge_status_conditions` how many objects have each status of these conditions.

        Without arguments all conditions that the model declares are counted; for a kind without a model, name them. Each event of such
        an object then costs two more reads of its status.
        """
        self._check_status_cached(".counts_conditions")
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
    ) -> Self:
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

    def _check_status_cached(self, verb: str) -> None:
        """Raise UsageError for a verb about a status that is not cached."""
        dropped = self.dropped is not None and self.dropped.covers(("status", "conditions"))
        if self.metadata_only or dropped:
            how = "Controller.of(..., drop=[...])" if dropped else "Controller.of_metadata"
            raise UsageError(
                f"controller {self.name!r}: {verb} is about the status of {self.kind.group_kind}, which {how} keeps "
                "out of the cache: leave out one of the two"
            )

    def writes_status_as(self, suffix: str, *, shared: bool = False) -> Self:
        """Write status as the field manager `<manager>.<suffix>`: for two controllers that write one kind's status.

        With `shared` several controllers may declare the same suffix; they must never write at the same time.
        """
        return replace(self, status_suffix=suffix, status_shared=shared)

    def writes_status_of(self, what: Kind[Any] | type[Any], suffix: str) -> Self:
        """Also write the status of objects of another kind, with `ctx.write_status`, as the field manager `<manager>.<suffix>`.

        The kind's own controller declares the same suffix, `.writes_status_as(suffix, shared=True)`; the two must never write one
        object's status at the same time. The kind is declared with `.owns` or `.watches` too.
        """
        return replace(self, statuses=(*self.statuses, (kind_of(what), suffix)))
