"""lightkube on both servers: typed models, chunks of lists, server-side apply, and waits that are watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType
from robot_crd import definition, group_of

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Any]:
    found = KubeConfig.from_file(place.kubeconfig)
    async with AsyncClient(found, namespace=place.namespace, field_manager="lightkube") as client:
        yield client


def config(name: str, **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels or None), data={"color": "red"})


def deployment(name: str) -> Deployment:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": name}),
        spec=PodSpec(containers=[Container(name=name, image="example.com/web:1")]),
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(matchLabels={"app": name}), template=template)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


async def test_an_object_is_created_replaced_patched_and_deleted(client: Any) -> None:
    made = await client.create(config("shop"))
    assert made.metadata is not None
    assert made.metadata.uid
    made.data = {"color": "blue"}
    replaced = await client.replace(made)
    assert (replaced.data, replaced.metadata.uid) == ({"color": "blue"}, made.metadata.uid)
    with pytest.raises(ApiError, match="the object has been modified") as conflict:
        await client.replace(made)
    assert (conflict.value.status.code, conflict.value.status.reason) == (409, "Conflict")
    await client.patch(ConfigMap, "shop", {"data": {"a": "1"}}, patch_type=PatchType.MERGE)
    await client.patch(ConfigMap, "shop", {"data": {"color": None}}, patch_type=PatchType.STRATEGIC)
    patch = [{"op": "add", "path": "/data/b", "value": "2"}]
    patched = await client.patch(ConfigMap, "shop", patch, patch_type=PatchType.JSON)
    assert patched.data == {"a": "1", "b": "2"}
    labelled = await client.set(ConfigMap, "shop", labels={"tier": "front"})
    assert labelled.metadata.labels == {"tier": "front"}
    await client.delete(ConfigMap, "shop", cascade=CascadeType.BACKGROUND)
    with pytest.raises(ApiError, match='configmaps "shop" not found') as missing:
        await client.get(ConfigMap, "shop")
    assert (missing.value.status.code, missing.value.status.reason) == (404, "NotFound")


async def test_a_list_comes_in_chunks_and_a_collection_goes_at_once(client: Any) -> None:
    for number in range(7):
        await client.create(config(f"c{number}", first="yes" if number < 5 else "no"))
    found = client.list(ConfigMap, labels={"first": "yes"}, chunk_size=2)
    assert [one.metadata.name async for one in found] == ["c0", "c1", "c2", "c3", "c4"]
    assert found.resourceVersion.isdigit()
    assert [one.metadata.name async for one in client.list(ConfigMap, fields={"metadata.name": "c6"})]
    await client.deletecollection(ConfigMap)
    assert [one async for one in client.list(ConfigMap, labels={"first": ["yes", "no"]})] == []


async def test_a_watch_tells_every_change_in_order(client: Any) -> None:
    seen: list[tuple[str, str | None]] = []
    ready = asyncio.Event()

    async def follow() -> None:
        async for event, found in client.watch(ConfigMap, labels={"watched": "yes"}):
            seen.append((event, found.metadata.name))
            ready.set()
            if event == "DELETED":
                return

    await client.create(config("first", watched="yes"))
    following = asyncio.create_task(follow())
    await ready.wait()
    await client.create(config("second", watched="yes"))
    await client.patch(ConfigMap, "second", {"data": {"color": "green"}})
    await client.delete(ConfigMap, "second")
    await following
    assert seen == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "second"), ("DELETED", "second")]


async def test_apply_owns_its_fields_until_it_leaves_them(client: Any) -> None:
    applied = await client.apply(
        ConfigMap(metadata=ObjectMeta(name="shop"), data={"a": "1", "b": "2"}), field_manager="one"
    )
    assert applied.data == {"a": "1", "b": "2"}
    with pytest.raises(ApiError, match=r'conflict with "one": \.data\.a'):
        await client.apply(ConfigMap(metadata=ObjectMeta(name="shop"), data={"a": "3"}), field_manager="two")
    forced = ConfigMap(metadata=ObjectMeta(name="shop"), data={"a": "3"})
    assert (await client.apply(forced, field_manager="two", force=True)).data == {"a": "3", "b": "2"}
    left = await client.apply(ConfigMap(metadata=ObjectMeta(name="shop"), data={}), field_manager="one")
    assert left.data == {"a": "3"}


async def test_subresources_have_their_own_ways_in(client: Any) -> None:
    await client.create(deployment("web"))
    scale = await client.get(Deployment.Scale, "web")
    assert (scale.spec.replicas, scale.status.selector) == (1, "app=web")
    scale.spec = ScaleSpec(replicas=4)
    await client.replace(scale, "web")
    condition = {"type": "Tested", "status": "True", "reason": "Test", "message": ""}
    waiting = asyncio.create_task(client.wait(Deployment, "web", for_conditions=["Tested"]))
    await client.patch(Deployment.Status, "web", {"status": {"conditions": [condition]}})
    found = await waiting
    assert (found.spec.replicas, found.metadata.generation) == (4, 2)


async def test_a_custom_kind_comes_and_goes_with_its_definition(client: Any, place: Place) -> None:
    group = group_of(place.namespace)
    defined = CustomResourceDefinition.from_dict(definition(group))
    await client.create(defined)
    await client.wait(CustomResourceDefinition, f"robots.{group}", for_conditions=["Established"])
    robots = create_namespaced_resource(group, "v1", "Robot", "robots")
    made = await client.create(robots(metadata=ObjectMeta(name="r1"), spec={"task": "weld"}))
    assert made.spec == {"task": "weld", "speed": 3, "arms": 2}
    await client.patch(robots.Status, "r1", {"status": {"phase": "Up"}}, patch_type=PatchType.MERGE)
    scale = await client.get(robots.Scale, "r1")
    assert scale.spec.replicas == 2
    with pytest.raises(ApiError, match="should be less than or equal to 10") as refused:
        await client.patch(robots, "r1", {"spec": {"speed": 11}}, patch_type=PatchType.MERGE)
    details: Any = refused.value.status.details
    assert details.causes[0].field == "spec.speed"
    await client.delete(CustomResourceDefinition, f"robots.{group}")
    with pytest.raises(ApiError, match="not found"):
        while True:
            await client.get(CustomResourceDefinition, f"robots.{group}")
            await asyncio.sleep(0.05)


async def test_a_namespace_of_its_own_is_made_with_a_dry_run_before(client: Any, place: Place) -> None:
    name = f"{place.namespace}-b"
    await client.create(Namespace(metadata=ObjectMeta(name=name)), dry_run=True)
    with pytest.raises(ApiError, match="not found"):
        await client.get(Namespace, name)
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    await client.create(config("shop"), namespace=name)
    assert name in {one.metadata.namespace async for one in client.list(ConfigMap, namespace="*")}
    await client.delete(Namespace, name)
