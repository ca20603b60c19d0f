"""The event loop of the process: asyncio's own, or uvloop's if it is installed (the extra `konverge[speed]`).

A process that elects a writer or shares objects stays on asyncio's loop. Its fence checks each send of a write at the socket
(`konverge/client/sessions.py`), and uvloop hands the bytes of a connection to the kernel without the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from konverge.daemon.settings import Settings
from konverge.errors import ConfigError

__all__ = ["Loop", "chosen_loop"]


class Loop(NamedTuple):
    """The name of a loop, and what creates it; None: asyncio's default."""

    name: str
    factory: Callable[[], asyncio.AbstractEventLoop] | None


_ASYNCIO = Loop("asyncio", None)


def chosen_loop(settings: Settings) -> Loop:
    """Return the loop that the settings choose; raises ConfigError if uvloop is chosen and cannot be used."""
    fenced = settings.election.enabled or settings.sharding.mode != "off"
    if settings.event_loop == "asyncio" or (settings.event_loop == "auto" and fenced):
        return _ASYNCIO
    if fenced:
        raise ConfigError(
            "event_loop=uvloop, and this process elects or shares objects: uvloop sends past the check of each write of a leader. "
            "Choose event_loop=auto"
        )
    try:
        import uvloop
    except ImportError as error:
        if settings.event_loop == "auto":
            return _ASYNCIO
        raise ConfigError("event_loop=uvloop, and uvloop is not installed: pip install 'konverge[speed]'") from error
    return Loop("uvloop", uvloop.new_event_loop)
