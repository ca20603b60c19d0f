"""Readiness in words: for each controller, whether it works, and if not, the remedy."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from konverge.informers import Informer, RestartCause
from konverge.kinds import Kind

__all__ = ["SYNCING", "ControllerReport", "Obstacle", "Report", "State", "why_not"]

SYNCING: Final = "Syncing"
"""The cause of an obstacle that ends by itself: the first list of a cache is not complete yet."""


class State(enum.Enum):
    """The stage of a controller's life."""

    STARTING = "starting"
    SYNCING = "waiting for its caches"
    WAITING = "ready to lead"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class Obstacle(msgspec.Struct, frozen=True):
    """A reason that keeps a controller from working: the kind, the cause in a word, the remedy, the missing RBAC rule."""

    kind: str
    cause: str
    message: str
    rule: dict[str, Any] | None = None

    def __str__(self) -> str:
        text = f"{self.kind}: {self.message}"
        if self.rule is None:
            return text
        import yaml  # here, because few programs ever lack a right

        return f"{text}\n{yaml.safe_dump([self.rule], sort_keys=False)}"


class ControllerReport(msgspec.Struct, frozen=True):
    """Whether one controller works."""

    name: str
    state: State
    problems: tuple[Obstacle, ...] = ()
    last_error: str = ""
    note: str = ""
    """A status line of a ready controller."""

    @property
    def ready(self) -> bool:
        """Whether the controller runs without an obstacle."""
        return self.state in (State.RUNNING, State.WAITING) and not self.problems

    @property
    def why(self) -> str:
        """The obstacles and the remedies; "" if the controller is ready."""
        if self.ready:
            return ""
        return "\n".join(str(problem) for problem in self.problems) or self.state.value

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "name": self.name,
            "state": self.state.value,
            "ready": self.ready,
            "problems": [
                {"kind": p.kind, "cause": p.cause, "message": p.message, "rule": p.rule} for p in self.problems
            ],
            "lastError": self.last_error,
        }


class Report(msgspec.Struct, frozen=True):
    """Whether the controllers of a manager work, and its webhooks.

    >>> bool(Report(()))
    True
    """

    controllers: tuple[ControllerReport, ...]
    webhooks: ControllerReport | None = None
    """The report of the webhooks; None if the manager serves none."""
    election: ControllerReport | None = None
    """Whether the election works; its `note` names the leader; None if this process always leads."""
    background: tuple[ControllerReport, ...] = ()
    """Notes of background work; they never affect readiness."""
    checks: tuple[ControllerReport, ...] = ()
    """The operator's own checks."""

    def __bool__(self) -> bool:
        return all(part.ready for part in self.parts)

    @property
    def parts(self) -> tuple[ControllerReport, ...]:
        """The reports of all parts: controllers, webhooks, election, background work, checks."""
        return (
            *self.controllers,
            *(part for part in (self.webhooks, self.election) if part is not None),
            *self.background,
            *self.checks,
        )

    @property
    def ready(self) -> bool:
        """Whether all of them are ready."""
        return bool(self)

    @classmethod
    def joined(cls, reports: Iterable[Report]) -> Report:
        """Return one report of several parts of a manager; at most one part has webhooks, and at most one an election."""
        parts = tuple(reports)
        return cls(
            tuple(controller for part in parts for controller in part.controllers),
            next((part.webhooks for part in parts if part.webhooks is not None), None),
            next((part.election for part in parts if part.election is not None), None),
            tuple(note for part in parts for note in part.background),
            tuple(check for part in parts for check in part.checks),
        )

    def of(self, name: str) -> ControllerReport:
        """Return the report of one controller; raises LookupError."""
        for controller in self.controllers:
            if controller.name == name:
                return controller
        raise LookupError(f"no controller {name!r}; there are: {', '.join(c.name for c in self.controllers) or 'none'}")

    def __str__(self) -> str:
        return "\n".join(f"{c.name}: {(c.note or 'ready') if c.ready else c.why}" for c in self.parts)


def why_not(kind: Kind[Any], informer: Informer, *, optional: bool, synced: bool) -> Obstacle | None:
    """Return the obstacle that keeps one cache from being complete, or None; an optional kind may be absent."""
    problem = informer.problem
    if problem is None:
        return None if synced or optional else Obstacle(kind.group_kind, SYNCING, "the first list is not complete yet")
    if problem.cause == RestartCause.NOT_SERVED:
        if optional:
            return None
        return Obstacle(
            kind.group_kind,
            problem.cause,
            f"the cluster serves no {kind.kind} in {kind.api_version}; install its CRD (for ours: konverge crds --apply). "
            "This controller starts by itself when it appears",
        )
    return Obstacle(kind.group_kind, problem.cause, problem.message, problem.rule)
