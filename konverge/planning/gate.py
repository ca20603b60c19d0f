"""Which keys a plan reconciles, and what each reconcile did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from konverge.informers import Change, Selection
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.planning.overlay import Cause
from konverge.planning.report import PlanFailure
from konverge.rbac import plural_of
from konverge.runtime import Controller
from konverge.runtime.hooks.object_gate import Admission
from konverge.runtime.observability.failures import Failure
from konverge.runtime.observability.record import ReconcileRecord
from konverge.words import Why

__all__ = ["PlanGate", "PlanObserver", "Selector"]

_BY_TIME: Final = (Why.REQUEUE_AFTER, Why.RETRY, Why.HELD)
"""Reasons of time: no delay ends in a plan."""
_LIMIT: Final = 10
"""Reconciles of one key; a finalizer, children and a status need three. A key with more reconciles never settles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """The objects that a plan begins with; an empty field selects everything.

    >>> from konverge.kinds import kind
    >>> Selector(kind="cj", name="a").takes(Key("", kind("batch/v1", "CronJob"), "web", "a"), ("cj",))
    True
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""

    def takes(self, key: Key, short_names: tuple[str, ...] = ()) -> bool:
        """Return whether the plan begins with a key."""
        return (
            (not self.kind or self.kind.lower() in _names(key.kind, short_names))
            and self.namespace in ("", key.namespace)
            and self.name in ("", key.name)
        )


def _names(kind: Kind[Any], short_names: tuple[str, ...]) -> set[str]:
    return {kind.kind.lower(), kind.group_kind.lower(), plural_of(kind), *short_names}


class PlanGate:
    """The gate of one controller. It is closed until every cache is complete, and until then notes the keys of the initial lists.

    An open gate admits each key that is enqueued: by the plan, or by a planned change, since nothing else changes in a plan. It admits no
    key only because time has passed.
    """

    def __init__(self, spec: Controller[Any], reasons: Callable[[Key], tuple[str, ...]]) -> None:
        self.spec = spec
        self.is_open = False
        self.initial: dict[Key, None] = {}
        self.not_tried: dict[Key, None] = {}
        self.restless: dict[Key, None] = {}
        self._reasons = reasons
        self._runs: Counter[Key] = Counter()

    @property
    def reconciled(self) -> int:
        """The number of keys that were reconciled."""
        return len(self._runs)

    def select(self, selection: Selection) -> Selection:
        """Return the selection as it is."""
        return selection

    def concerns(self, _metadata: Metadata) -> bool:
        """Return True: a plan may reconcile every object."""
        return True

    def counts(self, _metadata: Metadata) -> bool:
        """Return True: this process has every object."""
        return True

    def observe(self, _key: Key, _change: Change) -> bool:
        """Return False: predicates decide."""
        return False

    async def admit(self, key: Key, _metadata: Metadata) -> Admission:
        """Return whether the key is reconciled now."""
        if not self.is_open:
            self.initial[key] = None
        elif self.spec.outside and self.spec.stand_in is None:
            self.not_tried[key] = None
        elif self._only_time_passed(key):
            pass
        elif self._runs[key] >= _LIMIT:
            self.restless[key] = None
        else:
            self._runs[key] += 1
            return Admission(epoch=1)
        return Admission(waits=True)

    def _only_time_passed(self, key: Key) -> bool:
        reasons = self._reasons(key)
        return bool(reasons) and all(reason.startswith(_BY_TIME) for reason in reasons)

    def leave(self, key: Key, metadata: Metadata) -> None:
        """Do nothing."""

    async def run(self) -> None:
        """Do nothing."""


class PlanObserver:
    """A `FailureObserver`: the reconcile of each task, and the errors."""

    def __init__(self) -> None:
        self._cause: ContextVar[Cause | None] = ContextVar("konverge_plan_cause", default=None)
        self._errors: dict[tuple[str, str], str] = {}

    def cause(self) -> Cause | None:
        """Return the reconcile of the present task."""
        return self._cause.get()

    @property
    def failed_reconciles(self) -> tuple[PlanFailure, ...]:
        """The keys whose last reconcile raised, with its error."""
        return tuple(
            PlanFailure(controller=controller, key=key, error=error)
            for (controller, key), error in self._errors.items()
        )

    def reconciling(self, controller: str, key: Key, reasons: tuple[str, ...]) -> None:
        """Note the reconcile of this task."""
        self._cause.set(Cause(controller, str(key), tuple(reason for reason in reasons if reason != Why.INITIAL)))

    def reconciled(self, controller: str, record: ReconcileRecord) -> None:
        """Note the error of a reconcile, or the end of its error."""
        if record.error:
            self._errors[controller, str(record.key)] = record.error
        else:
            self._errors.pop((controller, str(record.key)), None)

    def failed(self, failure: Failure) -> None:
        """Note an exception of user code."""
        self._errors[failure.where, str(failure.key)] = str(failure.error) or type(failure.error).__name__

    def check_reconcile(self) -> None:
        """Let the reconcile succeed."""
