"""Calls that block the event loop: refused while a loop with virtual time runs a callback in this thread, and reported.

In virtual time such a call is worse than slow: no other task runs, and the time that it waits for does not pass. No threshold is involved:
the call itself is refused, however short it is. Work in threads may block.

Guarantees: outside of `refused`, and in every other thread, all functions are the originals or behave as the originals.

Caveats: found are `time.sleep` (also as a name that a module imported), the connections and look-ups of the `socket` module, so those of
urllib and requests, and processes of the `subprocess` module. Reads of files, locks and C extensions are not found.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from konverge_testing.loop import VirtualTimeLoop

__all__ = ["BlockingCall", "refused"]

_EVENTS: Final = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "subprocess.Popen", "os.system"}
)
_REMEDY: Final = (
    "await the asyncio form of it (asyncio.sleep, aiohttp, create_subprocess_exec), or call it in asyncio.to_thread"
)
_sleep: Final = time.sleep  # noqa: TID251  # kept to be put back
_report: list[Callable[[str], None]] = []
_hooked: list[bool] = []
_places: dict[int, list[tuple[dict[str, Any], str]]] = {}
"""The namespaces that hold the function, by the number of imported modules."""


class BlockingCall(RuntimeError):
    """A callback of the loop called a function that blocks the thread."""


@contextmanager
def refused(report: Callable[[str], None]) -> Iterator[None]:
    """Refuse blocking calls on virtual loops, with an error, and report each: code may swallow the error."""
    if not _hooked:
        sys.addaudithook(_audit)  # cannot be removed; it does nothing outside of this block
        _hooked.append(True)
    places = [] if _report else _places_of_sleep()
    for names, name in places:
        names[name] = _refusing_sleep
    _report.append(report)
    try:
        yield
    finally:
        _report.remove(report)
        for names, name in places:
            names[name] = _sleep


@functools.wraps(_sleep)
def _refusing_sleep(seconds: float) -> None:
    if _report and seconds > 0 and _on_virtual_loop():
        _refuse(f"time.sleep({seconds:g})")
    _sleep(seconds)


def _places_of_sleep() -> list[tuple[dict[str, Any], str]]:
    """Return the namespaces of modules that hold the function, and its name there; as found last if no module was imported since."""
    if len(sys.modules) not in _places:
        _places.clear()
        _places[len(sys.modules)] = _find_sleep()
    return _places[len(sys.modules)]


def _find_sleep() -> list[tuple[dict[str, Any], str]]:
    results = [vars(module) for module in tuple(sys.modules.values()) if hasattr(module, "__dict__")]
    own = globals()
    return [
        (names, name)
        for names in results
        if names is not own
        for name, value in tuple(names.items())
        if value is _sleep
    ]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _report or not _on_virtual_loop():
        return
    if event == "socket.connect" and isinstance(arguments[0], socket.socket) and arguments[0].gettimeout() == 0:
        return  # asyncio's own sockets do not block
    if event == "subprocess.Popen" and _called_by(sys._getframe(1), "asyncio."):
        return
    what = arguments[0] if event != "socket.connect" else arguments[1]
    _refuse(f"{event}({what!r})")


def _on_virtual_loop() -> bool:
    return isinstance(asyncio._get_running_loop(), VirtualTimeLoop)


def _refuse(what: str) -> None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals is globals() or _is_of_a_library(frame)):
        frame = frame.f_back
    where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
    words = f"{what}{where} blocks the event loop: {_REMEDY}"
    _report[-1](words)
    raise BlockingCall(words)


def _is_of_a_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(("<", _LIBRARY)) or "site-packages" in file


_LIBRARY: Final = asyncio.__file__.rpartition("asyncio")[0]
"""The folder of the standard library."""


def _called_by(frame: FrameType | None, package: str) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(package):
            return frame.f_globals["__name__"] not in ("asyncio.events", "asyncio.base_events", "asyncio.runners")
        frame = frame.f_back
    return False
