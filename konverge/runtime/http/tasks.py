"""Every task of the event loop and the source lines that it waits at, for `/debug/tasks`. Local variables are never shown."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["tasks_of"]

_FRAMES = 6


def _place(frame: Any) -> str:
    code = frame.f_code
    return f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name} ({code.co_filename}:{frame.f_lineno})"


def tasks_of(loop: asyncio.AbstractEventLoop) -> list[dict[str, Any]]:
    """Return the tasks of a loop by name, each with the innermost frames of its stack, outermost first.

    Call it on the loop itself.
    """
    entries = []
    for task in asyncio.all_tasks(loop):
        coroutine = task.get_coro()
        entry: dict[str, Any] = {
            "name": task.get_name(),
            "coroutine": getattr(coroutine, "__qualname__", type(coroutine).__name__),
            "stack": [_place(frame) for frame in _awaits(coroutine)[-_FRAMES:]],
        }
        if task.cancelling():
            entry["cancelling"] = True
        entries.append(entry)
    return sorted(entries, key=lambda entry: str(entry["name"]))


def _awaits(coroutine: Any) -> list[Any]:
    """Return a coroutine and the chain of its awaits. `Task.get_stack` shows only the first."""
    frames: list[Any] = []
    awaited = coroutine
    while awaited is not None and len(frames) < 100:
        frame = next(
            (getattr(awaited, name, None) for name in ("cr_frame", "gi_frame", "ag_frame") if hasattr(awaited, name)),
            None,
        )
        if frame is None:
            break
        frames.append(frame)
        awaited = next(
            (getattr(awaited, name) for name in ("cr_await", "gi_yieldfrom", "ag_await") if hasattr(awaited, name)),
            None,
        )
    return frames
