"""kr8s on both servers: it reads discovery, writes with merge and JSON patches, and waits by watching."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import kr8s
import pytest
from kr8s.asyncio.objects import ConfigMap, CustomResourceDefinition, Deployment, object_from_spec
from robot_crd import definition, group_of, robot

if TYPE_CHECKING:
    from tests.e2e.apiserver.conftest import Place

pytestmark = [
    pytest.mark.timeout(60),
    # kr8s warns about every server that is newer than kr8s' tested versions.
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),
]

DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
        },
    },
}


@pytest.fixture
async def api(place: Place) -> AsyncIterator[Any]:
    api: Any = await kr8s.asyncio.api(kubeconfig=str(place.kubeconfig), namespace=place.namespace)
    yield api
    await api._session.aclose()


async def config(api: Any, name: str, **more: Any) -> ConfigMap:
    made = ConfigMap({"metadata": {"name": name, **more}, "data": {"color": "red"}}, api=api, namespace=api.namespace)
    await made.create()
    return made


async def test_an_object_is_created_read_patched_and_deleted(api: Any) -> None:
    made = await config(api, "shop")
    assert await made.exists()
    uid = made.metadata.uid
    await made.patch({"data": {"size": "2"}})
    await made.patch([{"op": "replace", "path": "/data/color", "value": "blue"}], type="json")
    await made.label(tier="front", app="shop")
    await made.annotate(note="hello")
    await made.remove_label("app")
    found = await ConfigMap.get("shop", api=api, namespace=api.namespace)
    assert found.data.to_dict() == {"color": "blue", "size": "2"}
    assert (found.metadata.uid, found.labels.to_dict(), found.annotations.note) == (uid, {"tier": "front"}, "hello")
    with pytest.raises(kr8s.ServerError, match='configmaps "shop" already exists'):
        await config(api, "shop")
    await found.delete()
    await found.wait("delete", timeout=10)
    assert not await made.exists()
    with pytest.raises(kr8s.NotFoundError):
        await made.refresh()


async def test_lists_are_selected_by_labels_and_fields(api: Any) -> None:
    for name in "abc":
        await config(api, name, labels={"first": "no" if name == "c" else "yes"})
    assert [found.name async for found in api.get("configmaps", label_selector={"first": "yes"})] == ["a", "b"]
    assert [found.name async for found in api.get("cm", field_selector={"metadata.name": "c"})] == ["c"]
    assert {"a", "b", "c"} <= {found.name async for found in api.get("configmaps", namespace=kr8s.ALL)}
    assert (await api.version())["major"] == "1"
    kinds = {(kind["kind"], kind["version"]) for kind in await api.api_resources()}
    assert {("ConfigMap", "v1"), ("Deployment", "apps/v1"), ("Lease", "coordination.k8s.io/v1")} <= kinds


async def test_a_watch_tells_every_change_in_order(api: Any) -> None:
    await config(api, "before")
    seen: list[tuple[str, str]] = []
    ready = asyncio.Event()

    async def follow() -> None:
        async for event, found in api.watch("configmaps", label_selector={"watched": "yes"}):
            seen.append((event, found.name))
            ready.set()
            if event == "DELETED":
                return

    await config(api, "first", labels={"watched": "yes"})
    following = asyncio.create_task(follow())
    await ready.wait()
    made = await config(api, "second", labels={"watched": "yes"})
    await made.patch({"data": {"color": "green"}})
    await made.delete()
    await following
    assert seen == [("ADDED", "first"), ("ADDED", "second"), ("MODIFIED", "second"), ("DELETED", "second")]


async def test_wait_ends_when_a_condition_holds(api: Any) -> None:
    made = Deployment(DEPLOYMENT, api=api, namespace=api.namespace)
    await made.create()
    waiting = asyncio.create_task(made.wait("condition=Tested", timeout=20))
    other = await Deployment.get("web", api=api, namespace=api.namespace)
    condition = {"type": "Tested", "status": "True", "reason": "Test", "message": ""}
    at = other.raw.status.to_dict().get("conditions", []) if "status" in other.raw else []
    await other.patch({"status": {"conditions": [*at, condition]}}, subresource="status")
    await waiting


async def test_a_deployment_is_scaled_and_its_generation_grows(api: Any) -> None:
    made = Deployment(DEPLOYMENT, api=api, namespace=api.namespace)
    await made.create()
    await made.scale(3)
    assert (made.replicas, made.metadata.generation) == (3, 2)


async def kinds_of(api: Any, version: str) -> set[str]:
    """Return the kinds that kr8s finds in a group and version.

    While a group is added or removed, a real server lists it for a moment without serving it, and kr8s fails: retry.
    """
    while True:
        try:
            found = await api.async_api_resources_uncached()
        except (TypeError, kr8s.ServerError):
            await asyncio.sleep(0.1)
        else:
            return {kind["kind"] for kind in found if kind["version"] == version}


@pytest.fixture
async def defined(api: Any, place: Place) -> AsyncIterator[str]:
    """The served group of a custom kind, which is deleted after the test so that no short name has two meanings.

    kr8s' own waits read discovery, and fail while the group is added or removed.
    """
    group = group_of(place.namespace)
    made = CustomResourceDefinition(definition(group), api=api)
    await made.create()
    try:
        while "Robot" not in await kinds_of(api, f"{group}/v1"):
            await asyncio.sleep(0.1)
        yield group
    finally:
        await made.delete()
        while await kinds_of(api, f"{group}/v1"):
            await asyncio.sleep(0.1)


async def test_a_custom_kind_is_found_by_discovery(api: Any, place: Place, defined: str) -> None:
    made = await object_from_spec(robot(defined, "r1", task="weld"), api=api, allow_unknown_type=True)
    made.namespace = place.namespace
    await made.create()
    assert made.spec.to_dict() == {"task": "weld", "speed": 3, "arms": 2}
    await made.patch({"status": {"phase": "Up"}}, subresource="status")
    await made.wait("jsonpath='{.status.phase}'=Up", timeout=10)
    [found] = [found async for found in api.get(f"robots.{defined}")]
    assert (found.name, found.metadata.generation) == ("r1", 1)
    with pytest.raises(kr8s.ServerError, match="should be less than or equal to 10"):
        await made.patch({"spec": {"speed": 11}})
