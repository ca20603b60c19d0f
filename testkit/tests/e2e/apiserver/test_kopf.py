"""A kopf operator on both servers: its finalizer, its annotations, its status, its retries and its events."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import robot_crd
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import ConfigMap, Event
from lightkube.types import PatchType

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = pytest.mark.timeout(150)

PROGRAM = Path(robot_crd.__file__).with_name("kopf_operator.py")
WATCH_SECONDS = 1
"""How long a watch of the operator lasts."""
COLLECTED_SECONDS = 75
"""How long a child may outlive its owner: the garbage collector of the real control plane looks for new kinds every 30 s."""


@pytest.fixture
def group(place: Place) -> str:
    return robot_crd.group_of(place.namespace)


@pytest.fixture
def kind(group: str) -> Any:
    return create_namespaced_resource(group, "v1", "Robot", "robots")


@pytest.fixture
async def client(place: Place, group: str) -> AsyncIterator[Any]:
    async with AsyncClient(KubeConfig.from_file(place.kubeconfig), namespace=place.namespace) as client:
        definition: Any = CustomResourceDefinition.from_dict(robot_crd.definition(group))
        await client.create(definition)
        await client.wait(CustomResourceDefinition, f"robots.{group}", for_conditions=["Established"])
        yield client
        await client.delete(CustomResourceDefinition, f"robots.{group}")


@asynccontextmanager
async def operator(place: Place, group: str) -> AsyncIterator[None]:
    """Run the operator like a user, until the block has ended."""
    log = place.home / "kopf.log"
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kopf", "run", str(PROGRAM), "--standalone"),
            f"--namespace={place.namespace}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**place.environment, "ROBOTS": group, "NAMESPACE": place.namespace, "WATCH": str(WATCH_SECONDS)},
        )
    try:
        yield
        assert process.returncode is None
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        print(log.read_text())


async def until(holds: Callable[[], Awaitable[Any]], seconds: float = 90) -> Any:
    """Repeat a request until it has a result; returns the result."""
    async with asyncio.timeout(seconds):
        while not (found := await holds()):
            await asyncio.sleep(0.05)
    return found


async def gone(client: Any, kind: Any, name: str) -> bool:
    try:
        await client.get(kind, name)
    except ApiError as error:
        return error.status.code == 404
    return False


async def test_an_operator_follows_an_object_from_its_creation_to_its_end(
    place: Place, client: Any, group: str, kind: Any
) -> None:
    async def status(key: str) -> Any:
        return ((await client.get(kind, "r1")).status or {}).get(key)

    async def told() -> Any:
        events = client.list(Event, fields={"involvedObject.name": "r1", "reportingComponent": "kopf"})
        found = {(one.reason, one.type, one.message) async for one in events}
        return found if len(found) == 2 else None

    async with operator(place, group):
        await client.create(kind(metadata=ObjectMeta(name="r1"), spec={"task": "weld"}))
        assert await until(lambda: status("phase")) == "Up"
        made = await client.get(kind, "r1")
        assert made.status["create"] == {"retries": 1}
        assert made.metadata.finalizers == [f"{group}/kopf"]
        assert "kopf.zalando.org/last-handled-configuration" in made.metadata.annotations
        child = await client.get(ConfigMap, "r1-plan")
        [owner] = child.metadata.ownerReferences
        assert (owner.kind, owner.uid, child.data) == ("Robot", made.metadata.uid, {"task": "weld"})

        await client.patch(kind, "r1", {"spec": {"task": "paint"}}, patch_type=PatchType.MERGE)
        assert await until(lambda: status("changed")) == "weld to paint"
        assert (await client.get(ConfigMap, "r1-plan")).data == {"task": "paint"}

        await client.delete(kind, "r1")
        await until(lambda: gone(client, kind, "r1"))
        assert not await gone(client, ConfigMap, "r1-farewell")
        await until(lambda: gone(client, ConfigMap, "r1-plan"), COLLECTED_SECONDS)
        assert await until(told) == {("Planned", "Normal", "r1 will weld"), ("Replanned", "Warning", "once more")}


async def test_an_operator_that_was_away_takes_up_what_happened(
    place: Place, client: Any, group: str, kind: Any
) -> None:
    async def phase() -> Any:
        return ((await client.get(kind, "r1")).status or {}).get("phase")

    await client.create(kind(metadata=ObjectMeta(name="r1"), spec={"task": "weld"}))
    async with operator(place, group):
        assert await until(phase) == "Up"
    await client.delete(kind, "r1")
    assert (await client.get(kind, "r1")).metadata.deletionTimestamp, "the finalizer holds it"
    async with operator(place, group):
        await until(lambda: gone(client, kind, "r1"))
        assert not await gone(client, ConfigMap, "r1-farewell")


async def test_kopf_receives_events_of_a_builtin_kind_after_its_watch_expires(
    place: Place, client: Any, group: str
) -> None:
    async def answered(name: str) -> Any:
        found = await client.get(ConfigMap, name)
        return (found.metadata.annotations or {}).get("answer")

    async with operator(place, group):
        begun = asyncio.get_running_loop().time()
        for number in count():
            name = f"c{number}"
            await client.create(ConfigMap(metadata=ObjectMeta(name=name, annotations={"ask": name})))
            assert await until(partial(answered, name)) == name.upper()
            if asyncio.get_running_loop().time() > begun + 3 * WATCH_SECONDS:
                break
