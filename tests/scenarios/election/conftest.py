"""Replicas here run on virtual time: hours of an election take milliseconds."""

import asyncio
from collections.abc import Callable

import pytest

from konverge_testing.loop import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}
