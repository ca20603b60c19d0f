"""The family in a manager: its connections end with it, and a missing S3 client is named."""

import asyncio
import sys
from importlib.machinery import ModuleSpec
from random import Random
from types import ModuleType

import pytest
from pools.memory_s3 import MemoryS3
from structlog.testing import capture_logs

from konverge.client import Client
from konverge.crds import all_manifests
from konverge.reconcilers.pools import PoolSettings, install
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.runtime import Manager
from konverge_testing import ApiServer, install_crds


async def test_connections_to_s3_servers_close_when_the_manager_ends() -> None:
    s3 = MemoryS3()
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        install(manager, s3=s3)
        async with manager:
            await asyncio.sleep(5)
            assert not s3.closed
    assert s3.closed


@pytest.mark.parametrize(
    ("provider", "missing", "warns"),
    [("s3", True, True), ("s3", False, False), ("objectbucketclaim", True, False)],
)
async def test_missing_s3_client_is_named_at_start_if_buckets_need_it(
    monkeypatch: pytest.MonkeyPatch, provider: str, missing: bool, warns: bool
) -> None:
    client = ModuleType("aiobotocore")  # the extra may be absent where this test runs
    client.__spec__ = ModuleSpec("aiobotocore", None)
    monkeypatch.setitem(sys.modules, "aiobotocore", None if missing else client)
    given = {"bucket_provider": provider, "service_account": "installer"}
    settings = PoolSettings(instances=MaterialSettings.model_validate(given))
    async with ApiServer(random=Random(1)) as server:
        async with Client(server.config(), name="test", random=Random(3)) as writer:
            await install_crds(writer, all_manifests())
        manager = Manager("m", server.config(), random=Random(2))
        with capture_logs() as logs:
            install(manager, settings)
            assert logs == []
            async with manager:
                await asyncio.sleep(5)
    named = [line["log_level"] for line in logs if "pip install 'konverge[pools]'" in line["event"]]
    assert named == ["warning"] * warns
