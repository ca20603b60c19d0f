"""Replicas here run on virtual time: hours of an election take milliseconds.

A seed decides the order of requests, the names and the hashes. Each test runs with one seed, and with `--lab=full` (`make lab`) with
`SEEDS` more.
"""

import asyncio
from collections.abc import Callable

import pytest
from shards import COORDINATOR, HASH, Shards

from konverge.runtime.sharding.settings import ShardingSettings
from konverge_testing.loop import VirtualTimeLoop

SEEDS = 100


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.config.getoption("--lab") == "full" and "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(2, SEEDS + 2), indirect=True, ids=lambda seed: f"seed {seed}")


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The seed of the replicas of a test."""
    found: int = getattr(request, "param", 1)
    monkeypatch.setattr(Shards, "seed", found)
    return found


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualTimeLoop}


@pytest.fixture(params=[HASH, COORDINATOR], ids=lambda one: one.mode)
def mode(request: pytest.FixtureRequest) -> ShardingSettings:
    """The modes whose replicas hand objects over."""
    found: ShardingSettings = request.param
    return found
