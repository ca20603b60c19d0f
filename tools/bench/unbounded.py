"""The loop of a benchmark in virtual time, which uses more CPU time than any test may."""

from __future__ import annotations

import asyncio

from konverge.testing.loop import VirtualTimeLoop

__all__ = ["take_off_bounds"]


def take_off_bounds() -> None:
    """Take off the bounds on CPU and real time that a lab sets for tests."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.no_limit()
