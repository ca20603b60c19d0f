"""Loggers of the library, whose lines go to the logs of the program that embeds it.

Guarantees: a program that configured structlog gets every line through its own configuration. In any other program the lines go to the
standard library's loggers, by their names (`konverge.controller`, `konverge.client`, ...): nothing below the level that the program set
(WARNING by default), and nothing on standard output. The library configures neither; `kv.run` and the daemon do.

A logger decides between the two at each line, because it is created before the program configures anything. Bound values are passed on with
the first line. This module does not import structlog, because its import is a tenth of the CPU of a small operator's imports, and a fifth
if rich is installed.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["get_logger"]


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
        structlog = sys.modules.get("structlog")
        configured = structlog is not None and structlog.is_configured()
        if configured is not self._configured:
            if structlog is not None and configured:
                self._found = structlog.get_logger(self._name)
                if self._values:
                    self._found = self._found.bind(**self._values)
            else:
                self._found = _Standard(logging.getLogger(self._name), self._values)
            self._configured = configured
        return self._found


_ASIDE: Final = ("exc_info", "stack_info")
"""Values of a line that the standard library's logger formats."""
_FRAMES: Final = 3
"""The frames between a line and the logger of the standard library, so that a record names the file of the line."""


class _Standard:
    """A logger with the methods of structlog's over a logger of the standard library, which decides the enabled levels."""

    __slots__ = ("_logger", "_values")

    def __init__(self, logger: logging.Logger, values: dict[str, Any]) -> None:
        self._logger = logger
        self._values = values

    def bind(self, **values: Any) -> _Standard:
        return _Standard(self._logger, {**self._values, **values})

    def new(self, **values: Any) -> _Standard:
        return _Standard(self._logger, values)

    def unbind(self, *names: str) -> _Standard:
        """Return a logger without these values; raises KeyError if one is not bound."""
        values = dict(self._values)
        for name in names:
            del values[name]
        return _Standard(self._logger, values)

    def try_unbind(self, *names: str) -> _Standard:
        return _Standard(self._logger, {name: value for name, value in self._values.items() if name not in names})

    def is_enabled_for(self, level: int) -> bool:
        return self._logger.isEnabledFor(level)

    def get_effective_level(self) -> int:
        return self._logger.getEffectiveLevel()

    def debug(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.DEBUG, event, args, values)

    def info(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.INFO, event, args, values)

    def warning(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.WARNING, event, args, values)

    def error(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.ERROR, event, args, values)

    def critical(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.CRITICAL, event, args, values)

    def exception(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.ERROR, event, args, {"exc_info": True, **values})

    def log(self, level: int, event: str, *args: Any, **values: Any) -> None:
        self._write(level, event, args, values)

    warn, fatal, msg = warning, critical, info

    async def adebug(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.DEBUG, event, args, values)

    async def ainfo(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.INFO, event, args, values)

    async def awarning(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.WARNING, event, args, values)

    async def aerror(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.ERROR, event, args, values)

    async def acritical(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.CRITICAL, event, args, values)

    async def aexception(self, event: str, *args: Any, **values: Any) -> None:
        self._write(logging.ERROR, event, args, {"exc_info": True, **values})

    awarn, afatal, amsg = awarning, acritical, ainfo

    async def alog(self, level: int, event: str, *args: Any, **values: Any) -> None:
        self._write(level, event, args, values)

    def _write(self, level: int, event: str, args: tuple[Any, ...], values: dict[str, Any]) -> None:
        """Write one text, and the exception if there is one."""
        if not self._logger.isEnabledFor(level):
            return
        values = {**self._values, **values}
        aside = {name: values.pop(name) for name in _ASIDE if name in values}
        stack = values.pop("stack", "")
        text = " ".join(
            (event % args if args else str(event), *(f"{name}={value!r}" for name, value in values.items()))
        )
        self._logger.log(level, f"{text}\n{stack}" if stack else text, stacklevel=_FRAMES, **aside)
