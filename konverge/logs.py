"""Loggers of the library, whose lines go to the logs of the program that embeds it.

Guarantees: a program that configured structlog gets every line through its own configuration. In any other program the lines go to the
standard library's loggers, by their names (`konverge.controller`, `konverge.client`, ...): nothing below the level that the program set
(WARNING by default), and nothing on standard output. The library configures neither; `kv.run` and the daemon do.

A logger decides between the two at each line, because it is created before the program configures anything. Bound values are passed on with
the first line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger

__all__ = ["get_logger"]

_LEVELS = logging.getLevelNamesMapping()
_Every: type[Any] = structlog.make_filtering_bound_logger(logging.NOTSET)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a logger of the library.

    >>> log = get_logger("konverge.controller").bind(controller="backup")
    >>> callable(log.debug)  # log.debug("reconciled", key="web/nightly")
    True
    """
    return cast("FilteringBoundLogger", _Logger(name, {}))


class _Logger:
    """A logger that chooses the destination of its lines at each use."""

    __slots__ = ("_configured", "_found", "_name", "_values")

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self._name = name
        self._values = values
        self._configured: bool | None = None
        self._found: Any = None

    def bind(self, **values: Any) -> _Logger:
        """Return a logger that adds these values to each of its lines."""
        return _Logger(self._name, {**self._values, **values})

    def is_enabled_for(self, level: int) -> bool:
        """Whether a line of this level would be written; True for a logger class of the program without such a method."""
        bound = self._logger().bind()
        method = getattr(type(bound), "is_enabled_for", None) or getattr(type(bound), "isEnabledFor", None)
        return method is None or bool(method(bound, level))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger(), name)

    def _logger(self) -> Any:
        configured = structlog.is_configured()
        if configured is not self._configured:
            self._found = structlog.get_logger(self._name) if configured else _standard(self._name)
            if self._values:
                self._found = self._found.bind(**self._values)
            self._configured = configured
        return self._found


class _Standard(_Every):  # type: ignore[misc]  # structlog makes this class by a function
    """A structlog logger over a logger of the standard library, which decides the enabled levels."""

    def is_enabled_for(self, level: int) -> bool:
        return bool(self._logger.isEnabledFor(level))

    def get_effective_level(self) -> int:
        return int(self._logger.getEffectiveLevel())


def _standard(name: str) -> Any:
    logger = logging.getLogger(name)
    return structlog.wrap_logger(logger, processors=[_as_record], wrapper_class=_Standard).bind()


def _as_record(logger: logging.Logger, method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Return the arguments for a logger of the standard library: one text, and the exception if there is one."""
    if not logger.isEnabledFor(_LEVELS[method.upper()]):
        raise structlog.DropEvent
    aside = {name: event.pop(name) for name in ("exc_info", "stack_info") if name in event}
    first, stack = str(event.pop("event", "")), event.pop("stack", "")
    text = " ".join((first, *(f"{name}={value!r}" for name, value in event.items())))
    return (f"{text}\n{stack}" if stack else text,), aside
