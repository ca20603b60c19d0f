"""Logs of a process: one JSON object per line, or lines for people, on standard error.

Guarantees: structlog's loggers and the standard library's (aiohttp, asyncio) share one format. Time is `konverge.clock`'s. Nothing that
looks like a credential is written: values of keys that name one, bearer tokens, private keys and passwords in URLs are replaced. A log
line never raises.

Caveats: a secret that looks like ordinary text is not recognised. The library itself never logs content.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog

from konverge.clock import rfc3339_micro, wall_clock

__all__ = ["HIDDEN", "configure", "hide_secrets"]

HIDDEN: Final = "***"

_KEYS = re.compile(
    r"(^|[_-])(token|password|passwd|passphrase|authorization|cookie|credentials?)$"
    r"|(private|client|secret|access|api)[_-]?key([_-]?data)?$|client_secret$|^(data|stringData)$",
    re.IGNORECASE,
)
_VALUES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), HIDDEN),
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^/\s:@]*:[^/\s@]+@"), rf"\1{HIDDEN}@"),
)
_SUSPECT = re.compile(r"(?i)bearer|basic |eyJ|PRIVATE KEY|://")
_DEPTH: Final = 8

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]


def _cleaned(value: Any, depth: int = _DEPTH) -> Any:
    if isinstance(value, str):
        if _SUSPECT.search(value):
            for pattern, instead in _VALUES:
                value = pattern.sub(instead, value)
        return value
    if depth == 0:
        return "..."
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(key, str) and member and _KEYS.search(key) else _cleaned(member, depth - 1)
            for key, member in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(member, depth - 1) for member in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return value


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace values that are, or look like, credentials; a structlog processor, to be placed after exceptions are formatted.

    >>> hide_secrets(None, "info", {"event": "sent", "headers": {"Authorization": "Bearer abc.def.ghi"}})
    {'event': 'sent', 'headers': {'Authorization': '***'}}
    """
    for key, value in event.items():
        event[key] = HIDDEN if value and _KEYS.search(key) else _cleaned(value)
    return event


def _timestamp(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["timestamp"] = rfc3339_micro(wall_clock())
    return event


def _in_order(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the common fields first, with the name of the logger."""
    first = {"timestamp": event.pop("timestamp", ""), "level": event.pop("level", "")}
    name = event.pop("logger", "") or getattr(logger, "name", "")
    return {**first, **({"logger": name} if name else {}), "event": event.pop("event", ""), **event}


def _json(event: Any, **_: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except Exception:  # noqa: BLE001  # a value that cannot be encoded must not end the program
        return msgspec.json.encode({str(key): repr(value) for key, value in event.items()}).decode()


def _is_console(form: Format, stream: TextIO) -> bool:
    return form == "console" or (form == "auto" and stream.isatty())


def configure(
    *,
    level: Level = "info",
    form: Format = "auto",
    stream: TextIO | None = None,
    processors: Sequence[structlog.typing.Processor] = (),
) -> None:
    """Set up structlog and the standard library's logging for this process; may be called again.

    `processors` add fields to each line.
    """
    out = sys.stderr if stream is None else stream
    number = logging.getLevelNamesMapping()[level.upper()]
    console = _is_console(form, out)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        *processors,
        structlog.stdlib.add_log_level,
        _timestamp,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        hide_secrets,
        _in_order,
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=out.isatty())
        if console
        else structlog.processors.JSONRenderer(serializer=_json)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_Factory(out),
        cache_logger_on_first_use=False,
    )
    _adopt_standard(shared, renderer, out, number)


class _Named(structlog.WriteLogger):
    """The last logger of the chain: writes lines, and has a name."""

    def __init__(self, stream: TextIO, name: str) -> None:
        super().__init__(stream)
        self.name = name


class _Factory:
    """Creates the last loggers of the chain."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, *names: Any) -> _Named:
        return _Named(self._stream, str(names[0]) if names else "")


def _adopt_standard(
    shared: list[structlog.typing.Processor], renderer: structlog.typing.Processor, stream: TextIO, level: int
) -> None:
    """Render records of the standard library's loggers in the same way; other libraries log from level warning on."""
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [
        present for present in root.handlers if isinstance(present.formatter, structlog.stdlib.ProcessorFormatter)
    ]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
