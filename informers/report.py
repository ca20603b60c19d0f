"""The problem of an informer, and its log lines.

A problem holds from the first failure. It is logged at once if a right, a kind or the credentials are missing, because only an operator
can mend it, otherwise after the third failure in a row. Each problem is logged once, and so is its end. A kind that was never served is not
logged if all users of the informer can do without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from konverge.client import ResourceInfo, missing_rule
from konverge.clock import wall_clock
from konverge.errors import NotServed
from konverge.informers.problem import Problem, RestartCause
from konverge.informers.settings import Selection
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["Reporter"]

_LOG = get_logger("konverge.informers")
_AT_ONCE: Final = frozenset(
    {
        RestartCause.FORBIDDEN,
        RestartCause.UNAUTHORIZED,
        RestartCause.NOT_SERVED,
        RestartCause.REJECTED,
        RestartCause.BROKEN,
    }
)
_ATTEMPTS_BEFORE_LOG: Final = 3


class Reporter:
    """Keeps the problem of one informer, and logs it."""

    def __init__(self, selection: Selection, *, dispensable: Callable[[], bool] = lambda: False) -> None:
        self._selection = selection
        self._dispensable = dispensable
        self._was_healthy = False
        self._info: ResourceInfo | None = None
        self._failures = 0
        # The cause of the problem that was logged; "" if none was logged since the informer was healthy.
        self._logged = ""
        self.problem: Problem | None = None
        self.listeners: list[Callable[[], None]] = []
        """Called when a problem begins, changes its cause, or ends, and when the store becomes synced or loses its state."""

    def discovered(self, info: ResourceInfo) -> None:
        """Record the resource of the kind, which a missing RBAC rule names."""
        self._info = info

    def unhealthy(self, cause: str, error: Exception) -> None:
        """Record a failure."""
        self._failures += 1
        before = self.problem
        since = before.since if before is not None and before.cause == cause else wall_clock()
        self.problem = Problem(cause, self._message(cause, error), self._rule(cause, error), since)
        if before is None or before.cause != cause:
            self.notify()
        if cause == RestartCause.NOT_SERVED and not self._was_healthy and self._dispensable():
            return
        if self._logged != cause and (cause in _AT_ONCE or self._failures >= _ATTEMPTS_BEFORE_LOG):
            self._logged = cause
            keys: dict[str, Any] = {
                LogKey.SELECTION: str(self._selection),
                LogKey.CAUSE: cause,
                LogKey.ERROR: self.problem.message,
            }
            if self.problem.rule is not None:
                keys[LogKey.RULE] = self.problem.rule
            _LOG.warning("an informer is not up to date", **keys)

    def healthy(self) -> None:
        """Record that the informer is up to date."""
        self._was_healthy = True
        if self._logged:
            _LOG.info("an informer is up to date again", **{LogKey.SELECTION: str(self._selection)})
        self._failures = 0
        self._logged = ""
        before, self.problem = self.problem, None
        if before is not None:
            self.notify()

    def notify(self) -> None:
        """Call the listeners."""
        for listener in tuple(self.listeners):
            listener()

    def _message(self, cause: str, error: Exception) -> str:
        if cause == RestartCause.NOT_SERVED and not isinstance(error, NotServed):
            kind = self._selection.kind
            return str(NotServed(kind.api_version, kind.kind))
        return str(error)

    def _rule(self, cause: str, error: Exception) -> dict[str, Any] | None:
        """Return the rule that this informer needs; the error response names only one of its two verbs."""
        if cause != RestartCause.FORBIDDEN or self._info is None or missing_rule(error) is None:
            return None
        return {"apiGroups": [self._info.group], "resources": [self._info.plural], "verbs": ["list", "watch"]}
