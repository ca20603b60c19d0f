"""Tests here run on virtual time, apart from the tests over sockets (`test_http*`), which use real time and never wait for it."""

import asyncio
from collections.abc import Callable

import pytest
from toy_server import Toy

from konverge_testing.loop import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"real": asyncio.SelectorEventLoop} if "http" in item.path.name else {"virtual": VirtualTimeLoop}


@pytest.fixture
def toy() -> Toy:
    return Toy()
