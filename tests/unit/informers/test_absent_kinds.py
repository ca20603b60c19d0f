"""The cost of kinds that the API server does not serve: requests and news."""

import asyncio
from random import Random
from typing import Any

from konverge.client import Client
from konverge.informers import InformerSet, Selection
from konverge.kinds import kind
from konverge_testing import ApiServer

KINDS = [kind("velero.io/v1", name) for name in ("Backup", "Restore", "Schedule")]


async def test_informers_of_one_absent_group_share_the_responses_of_discovery() -> None:
    paths: list[str] = []
    async with ApiServer() as server, Client(server.config(), name="one") as client:
        server.on_call.append(lambda call, *_: paths.append(call.path))
        async with InformerSet(client, random=Random(1)) as informers:
            for one in KINDS:
                informers.acquire(Selection(one))
            await asyncio.sleep(4)
            assert paths == ["/apis/velero.io/v1"]
            await asyncio.sleep(60)
            assert 3 <= len(paths) <= 10


async def test_a_poll_of_an_absent_kind_calls_no_listener(make_set: Any, api: Any, not_served: Exception) -> None:
    async with make_set() as informers:
        api.info = not_served
        informer = informers.acquire(Selection(KINDS[0]))
        informer.add_handler("h", lambda _: None)
        await asyncio.sleep(10)
        called: list[None] = []
        informer.listeners.append(lambda: called.append(None))
        asked = len(api.discoveries)
        await asyncio.sleep(600)
        assert len(api.discoveries) > asked
        assert not called
