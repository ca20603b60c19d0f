"""The event loops that the daemon runs on, for tests that run on each of them: `pytest.mark.both_loops` for coroutines, or `LOOPS`."""

import asyncio
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final

Factory = Callable[[], asyncio.AbstractEventLoop]


def _loops() -> Iterator[tuple[str, Factory]]:
    yield "asyncio", asyncio.new_event_loop
    if find_spec("uvloop") is not None:  # the extra may be absent
        import uvloop

        yield "uvloop", uvloop.new_event_loop


LOOPS: Final[dict[str, Factory]] = dict(_loops())
"""The factories by name; uvloop is among them if it is installed."""
