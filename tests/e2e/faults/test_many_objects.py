"""Five thousand objects, ten pages of a list: each is cached and reconciled once. `make bench ONLY=informers` has 20,000."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import structlog
from patience import PATIENCE
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.client import Client, ClientConfig, ClientSettings
from konverge.runtime import ManagerSettings
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(300)]

NUMBER = 5_000
AT_ONCE = 64
PADDING = "x" * 500


@pytest.fixture(scope="module")
def crowded() -> Iterator[ControlPlane]:
    with ControlPlane(ControlPlaneConfig()) as plane:
        yield plane


@pytest.fixture
def _quiet_log() -> Iterator[None]:
    """Log no line for each reconcile."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.reset_defaults()


@pytest_asyncio.fixture
async def crowd(crowded: ControlPlane, _quiet_log: None) -> AsyncIterator[Lab]:
    """A lab in a namespace of five thousand ConfigMaps."""
    config = await ClientConfig.from_kubeconfig(crowded.kubeconfig)
    await crowded.create_namespace("crowd")
    settings = ClientSettings(max_in_flight=AT_ONCE)
    async with (
        Client(config, name="crowd", settings=settings) as client,
        Lab(client, config, "crowd", patience=PATIENCE) as lab,
    ):
        numbers = iter(range(NUMBER))

        async def fill() -> None:
            for number in numbers:
                await client.create(CONFIG_MAP.new(f"m{number}", "crowd", data={"padding": PADDING}))

        await asyncio.gather(*(fill() for _ in range(AT_ONCE)))
        yield lab


async def test_five_thousand_objects_are_cached_and_each_is_reconciled_once(crowd: Lab) -> None:
    reconciles: Counter[str] = Counter()

    async def reconcile(found: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        reconciles[found.name] += 1
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(CONFIG_MAP).with_(concurrency=4).reconciled_by(By(reconcile)))

    settings = ManagerSettings(namespace=crowd.namespace)
    manager = await crowd.start(build, settings=settings, wait=False)
    assert (await manager.ready(timeout=120)).ready
    await crowd.settled(quiet=0.5, timeout=180)
    assert len(reconciles) == NUMBER
    assert set(reconciles.values()) == {1}
    await crowd.patch(CONFIG_MAP, "m4999", {"data": {"last": "one"}})
    async with asyncio.timeout(90):
        while reconciles["m4999"] < 2:
            await asyncio.sleep(0.01)
    [informer] = manager.debug()["informers"]()
    # The initial state was received as one stream, in a single watch that was never restarted.
    assert (informer["objects"], informer["lists"], informer["watches"]) == (NUMBER, 0, 1)
    assert (informer["fallbacks"], informer["restarts"]) == ({}, {})
    payload = len(PADDING) * NUMBER
    assert payload < informer["bytes"] < 1.6 * payload
