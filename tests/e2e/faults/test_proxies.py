"""The proxies of the test kit: their promises about writes, streams and silence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from konverge.client import Client, ClientConfig, ClientSettings, WatchQuery, WatchStream
from konverge.errors import NotFound, Unreachable
from konverge.kinds import kind
from konverge_testing import ControlPlane, FaultProxy, Lab
from konverge_testing.proxy import Moment
from konverge_testing.wire import SilentWire

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap")
ONCE = ClientSettings(attempts=1, request_timeout=30.0)


@pytest_asyncio.fixture
async def caller(behind_proxy: ClientConfig) -> AsyncIterator[Client]:
    """A client behind the proxy that never retries."""
    async with Client(behind_proxy, name="caller", settings=ONCE) as client:
        yield client


async def stored(lab: Lab, name: str) -> bool:
    try:
        await lab.get(CONFIG_MAP, name)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize(("moment", "happened"), [("before", False), ("after", True)])
async def test_interrupted_write_has_an_unknown_outcome_for_the_caller(
    fragile_lab: Lab, proxy: FaultProxy, caller: Client, moment: Moment, happened: bool
) -> None:
    lab, calls = fragile_lab, list[str]()
    struck = proxy.at_write(2, moment, lambda: calls.append("struck"))
    await caller.create(CONFIG_MAP.new("first", lab.namespace))
    assert not struck.is_set()
    with pytest.raises(Unreachable) as caught:
        await caller.create(CONFIG_MAP.new("second", lab.namespace))
    assert caught.value.maybe_done
    assert struck.is_set()
    assert calls == ["struck"]
    assert await stored(lab, "second") is happened
    await caller.create(CONFIG_MAP.new("third", lab.namespace))
    assert len(proxy.writes) == 3


async def test_reads_and_dry_runs_do_not_count_as_writes(fragile_lab: Lab, proxy: FaultProxy, caller: Client) -> None:
    await caller.list(CONFIG_MAP, fragile_lab.namespace)
    await caller.create(CONFIG_MAP.new("x", fragile_lab.namespace), dry_run=True)
    assert proxy.writes == []
    await caller.create(CONFIG_MAP.new("x", fragile_lab.namespace))
    assert proxy.writes == [f"POST /api/v1/namespaces/{fragile_lab.namespace}/configmaps"]


async def first_event(stream: WatchStream) -> str:
    async for events in stream:
        return events[0].type
    return "the end"


async def test_streams_come_as_they_are_and_are_cut_where_that_is_asked(
    fragile_lab: Lab, proxy: FaultProxy, caller: Client
) -> None:
    lab = fragile_lab
    info = await caller.resource(CONFIG_MAP)
    version = (await lab.client.list(CONFIG_MAP, lab.namespace)).resource_version
    query = WatchQuery(namespace=lab.namespace, resource_version=version, timeout_seconds=60, idle_seconds=30.0)
    async with caller.watch(info, query) as stream:
        await lab.create(CONFIG_MAP.new("seen"))
        assert await first_event(stream) == "ADDED"
        assert proxy.under_way(lambda call: call.watches) == 1
        assert proxy.cut(lambda call: not call.watches) == 0
        assert proxy.cut(lambda call: call.watches) == 1
        with pytest.raises(Unreachable):
            await first_event(stream)


async def test_a_refused_request_never_reaches_the_server(fragile_lab: Lab, proxy: FaultProxy, caller: Client) -> None:
    proxy.refuse(lambda call: call.method == "POST")
    with pytest.raises(Unreachable):
        await caller.create(CONFIG_MAP.new("x", fragile_lab.namespace))
    assert not await stored(fragile_lab, "x")
    await caller.list(CONFIG_MAP, fragile_lab.namespace)
    proxy.disarm()
    await caller.create(CONFIG_MAP.new("x", fragile_lab.namespace))


async def test_delayed_request_reaches_the_server_even_after_its_caller_left(
    fragile_lab: Lab, proxy: FaultProxy, caller: Client
) -> None:
    proxy.delay(lambda call: call.method == "POST", 1.0)
    began = asyncio.get_running_loop().time()
    assert (await caller.create(CONFIG_MAP.new("waited-for", fragile_lab.namespace))).name == "waited-for"
    assert asyncio.get_running_loop().time() - began >= 1.0
    impatient = asyncio.create_task(caller.create(CONFIG_MAP.new("given-up", fragile_lab.namespace)))
    async with asyncio.timeout(90):
        while not proxy.under_way(lambda call: call.method == "POST"):
            await asyncio.sleep(0.01)
    impatient.cancel()
    await asyncio.wait({impatient})
    assert impatient.cancelled()
    await fragile_lab.until(CONFIG_MAP, "given-up", lambda _: True)


async def test_a_server_out_of_reach_is_out_of_reach_through_the_proxy(
    fragile: ControlPlane, fragile_lab: Lab, proxy: FaultProxy, caller: Client
) -> None:
    await caller.list(CONFIG_MAP, fragile_lab.namespace)
    await fragile.stop_apiserver()
    try:
        with pytest.raises(Unreachable):
            await caller.list(CONFIG_MAP, fragile_lab.namespace)
    finally:
        await fragile.start_apiserver()


async def test_a_silent_wire_keeps_its_connections_and_carries_nothing(
    fragile: ControlPlane, fragile_token: str, fragile_lab: Lab
) -> None:
    async with SilentWire(fragile.host, fragile.port) as wire:
        server, ca = f"https://{fragile.host}:{wire.port}", fragile.ca_file.read_bytes()
        config = ClientConfig.direct(server, token=fragile_token, ca=ca)
        settings = ClientSettings(attempts=1, request_timeout=4.0)
        async with Client(config, name="caller", settings=settings) as client:
            await client.list(CONFIG_MAP, fragile_lab.namespace)
            assert wire.accepted == 1
            assert wire.go_silent() == 1
            with pytest.raises(Unreachable, match="4 s"):
                await client.list(CONFIG_MAP, fragile_lab.namespace)
            assert wire.swallowed > 0
            await client.list(CONFIG_MAP, fragile_lab.namespace)
            assert wire.accepted == 2


async def test_leaving_ends_what_is_still_open(fragile: ControlPlane) -> None:
    async with SilentWire(fragile.host, fragile.port) as wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
        while not wire.go_silent():
            await asyncio.sleep(0.01)
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "silent wire"]
