"""Lines of a program's own code, in tracebacks and in suspended tasks: without konverge, the standard library and installed packages."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from types import FrameType
from typing import Any, cast

import konverge

__all__ = ["line_of_error", "line_of_task"]


@functools.cache
def _others() -> tuple[str, ...]:
    """Return the folders of other code. Only a failure needs them: `sysconfig` takes long to import."""
    import sysconfig

    installed = (f"{sysconfig.get_path(which)}/" for which in ("stdlib", "purelib"))
    konverges = (f"{Path(file).resolve().parent}/" for file in (konverge.__file__, __file__))
    return (*konverges, *installed)


def line_of_error(error: BaseException) -> str:
    """Return the innermost line of the program's own code that raised an exception, or ""."""
    result, trace = "", error.__traceback__
    while trace is not None:
        result = _line(trace.tb_frame, trace.tb_lineno) or result
        trace = trace.tb_next
    return result


def line_of_task(task: asyncio.Task[Any]) -> str:
    """Return the innermost line of the program's own code where a task is suspended, or ""."""
    result, waiting = "", cast("Any", task.get_coro())
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is not None:
            result = _line(frame, frame.f_lineno) or result
        waiting = getattr(waiting, "cr_await", None)
    return result


def _line(frame: FrameType, number: int) -> str:
    name = frame.f_code.co_filename
    return "" if name.startswith(_others()) else f"{Path(name).name}:{number}"
