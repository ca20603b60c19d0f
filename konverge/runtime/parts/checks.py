"""Checks that an operator adds to the probes of its process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TypeAlias

from konverge.errors import UsageError
from konverge.runtime.observability.readiness import ControllerReport, Obstacle, Report, State
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart

__all__ = ["HealthCheck", "OwnChecks"]

HealthCheck: TypeAlias = Callable[[], str]
"""Returns the problem and its remedy; "" if all is well."""


class OwnChecks(ManagerPart):
    """The operator's own checks, by name. A check that raises fails with its error."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ready: dict[str, HealthCheck] = {}
        self._live: dict[str, HealthCheck] = {}

    def add(self, name: str, check: HealthCheck, *, live: bool) -> None:
        """Add a check of readiness or of liveness, before the start."""
        self._core.declare("add its checks before")
        checks = self._live if live else self._ready
        if inspect.iscoroutinefunction(check) or not callable(check):
            raise UsageError(
                f"check {name!r}: give a plain function; background work waits, and the check reads the result"
            )
        if not name or "/" in name or name in checks:
            raise UsageError(
                f"check {name!r}: give each check a name of its own, without a slash, since /readyz/check/<name> runs it"
            )
        checks[name] = check

    def __bool__(self) -> bool:
        """Whether there is a check of readiness."""
        return bool(self._ready)

    def report(self) -> Report:
        """Return the checks of readiness, run now."""
        return Report((), checks=_reports(self._ready))

    def live(self) -> Report:
        """Return the checks of liveness, run now."""
        return Report((), checks=_reports(self._live))


def _reports(checks: Mapping[str, HealthCheck]) -> tuple[ControllerReport, ...]:
    return tuple(_report(name, check) for name, check in checks.items())


def _report(name: str, check: HealthCheck) -> ControllerReport:
    try:
        problem: object = check()
    except Exception as error:  # noqa: BLE001  # containment: a probe must respond whatever its checks do
        problem = f"the check raised {type(error).__name__}: {error}"
    if not isinstance(problem, str):
        problem = f"the check returned a {type(problem).__name__}: return the problem as a text, or an empty text"
    obstacles = (Obstacle("check", "Failed", problem),) if problem else ()
    return ControllerReport(f"check/{name}", State.RUNNING, obstacles)
