"""Replicas here run on virtual time: hours of an election take milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from shards import COORDINATOR, HASH

from konverge.runtime.sharding.settings import ShardingSettings
from konverge.testing.loop import VirtualTimeLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


@pytest.fixture(params=[HASH, COORDINATOR], ids=lambda settings: settings.mode)
def mode(request: pytest.FixtureRequest) -> ShardingSettings:
    """The modes whose replicas hand objects over."""
    found: ShardingSettings = request.param
    return found
