"""Which namespaces a pool serves, and which instances a Nextcloud may name: another namespace is another tenant."""

import asyncio
from typing import Any, Final

import pytest
from pools.lab import NAMESPACE, Clouds

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.settings import PoolSettings

SMALL: Final = {"poolSelector": {"matchLabels": {"tier": "small"}}}


async def tenants(here: Clouds, **labels: dict[str, str]) -> None:
    for name, of_namespace in labels.items():
        data = {"metadata": {"name": name, "labels": of_namespace}}
        await here.lab.client.create(NAMESPACE.decode(data))


async def claim(here: Clouds, namespace: str, **spec: Any) -> Nextcloud:
    data = {"metadata": {"name": "main", "namespace": namespace}, "spec": spec}
    return await here.lab.client.create(Nextcloud.decode(data))


async def answer(here: Clouds, namespace: str) -> tuple[str, str, str]:
    """Return status, reason and message of InstanceAssigned."""
    stored = await here.lab.client.get(Nextcloud, "main", namespace)
    assigned = stored.condition("InstanceAssigned")
    return assigned.status, assigned.reason, assigned.message


SELECTOR: Final = {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}
IN: Final = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "c"]}]}
NOT_IN: Final = {
    "matchExpressions": [
        {"key": "team", "operator": "Exists"},
        {"key": "team", "operator": "NotIn", "values": ["b"]},
    ]
}


@pytest.mark.parametrize(
    ("allowed", "served"),
    [
        (None, []),
        ({"from": "Names", "names": ["blue"]}, ["blue"]),
        ({"from": "Names", "names": ["blue", "green"]}, ["blue", "green"]),
        ({"from": "All"}, ["blue", "green"]),
        (SELECTOR, ["blue"]),
        ({"from": "Selector", "selector": IN}, ["blue"]),
        ({"from": "Selector", "selector": NOT_IN}, ["blue"]),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "c"}}}, []),
    ],
    ids=["nothing", "one name", "two names", "all", "labels", "in", "not in", "labels of none"],
)
@pytest.mark.parametrize("own", [False, True], ids=["shared namespace", "namespace of its own"])
async def test_pool_serves_only_allowed_namespaces(clouds: Clouds, allowed: Any, served: list[str], own: bool) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=("instances",)))
    await tenants(here, blue={"team": "a"}, green={"team": "b"}, instances={})
    where = {"instanceNamespace": "instances"} if own else {}
    await here.pool(replicas=2, allowedNamespaces=allowed, **where)
    await here.filled()
    for namespace in ("green", "blue"):
        await claim(here, namespace, **SMALL)
    await asyncio.sleep(10)
    answers = {namespace: await answer(here, namespace) for namespace in ("blue", "green")}
    assert [namespace for namespace in answers if answers[namespace][0] == "True"] == served
    for namespace, (_, reason, message) in answers.items():
        if namespace not in served:
            assert reason == "PoolNotAllowed"
            assert "allowedNamespaces" in message
            assert ({"blue", "green"} - {namespace}).pop() not in message
    taken = {one.get("spec", "claimRef", "namespace") for one in await here.instances()} - {None}
    assert taken == set(served)


@pytest.mark.parametrize("change", ["the pool", "the labels of the namespace"])
async def test_waiting_nextcloud_is_served_as_soon_as_its_namespace_is_allowed(clouds: Clouds, change: str) -> None:
    here = await clouds.start()
    await tenants(here, blue={})
    await here.pool(replicas=1, allowedNamespaces=SELECTOR)
    await here.filled()
    await claim(here, "blue", **SMALL)
    await asyncio.sleep(10)
    assert (await answer(here, "blue"))[1] == "PoolNotAllowed"
    if change == "the pool":
        named = {"from": "Names", "names": ["blue"], "selector": None}
        await here.patch(NextcloudPool, "small", {"spec": {"allowedNamespaces": named}}, "")
    else:
        await here.patch(NAMESPACE, "blue", {"metadata": {"labels": {"team": "a"}}}, "")
    await asyncio.sleep(2)
    assert (await answer(here, "blue"))[1] == "Assigned"


async def test_older_nextcloud_that_is_not_allowed_does_not_hold_up_others(clouds: Clouds) -> None:
    here = await clouds.start()
    await tenants(here, blue={}, green={})
    await here.pool(replicas=1, allowedNamespaces={"from": "Names", "names": ["blue"]})
    await claim(here, "green", **SMALL)
    await asyncio.sleep(5)
    await claim(here, "blue", **SMALL)
    await here.filled()
    await asyncio.sleep(5)
    assert (await answer(here, "blue"))[1] == "Assigned"


async def test_namespace_that_is_not_allowed_any_more_keeps_its_instance(clouds: Clouds) -> None:
    here = await clouds.start()
    await tenants(here, blue={})
    await here.pool(replicas=1, allowedNamespaces={"from": "All"})
    await here.filled()
    await claim(here, "blue", **SMALL)
    await asyncio.sleep(5)
    await here.patch(NextcloudPool, "small", {"spec": {"allowedNamespaces": None}}, "")
    await here.patch(Nextcloud, "main", {"spec": {"replicas": 3}}, "blue")
    await asyncio.sleep(120)
    assert (await answer(here, "blue"))[1] == "Assigned"
    assert [one.spec.get("replicas") for one in await here.instances() if one.spec.get("claimRef")] == [3]


async def test_waiting_nextcloud_learns_nothing_about_others(clouds: Clouds) -> None:
    here = await clouds.start()
    await tenants(here, blue={}, green={})
    await here.pool(replicas=0)
    await claim(here, "blue", **SMALL)
    await asyncio.sleep(5)
    alone = await answer(here, "blue")
    await here.lab.client.delete(Nextcloud, "main", "blue")
    await asyncio.sleep(5)
    await claim(here, "green", **SMALL)
    await asyncio.sleep(5)
    await claim(here, "blue", **SMALL)
    await asyncio.sleep(5)
    assert await answer(here, "blue") == alone


OWNER: Final = "owner"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("missing", "InstanceNotFound"),
        ("closed", "InstanceNotFound"),
        ("taken and closed", "InstanceNotFound"),
        ("open to another", "InstanceNotFound"),
        ("a member of a closed pool", "InstanceNotFound"),
        ("open", "Bound"),
        ("taken and open", "InstanceTaken"),
    ],
)
async def test_instance_of_another_namespace_is_bound_only_if_it_allows_it(
    clouds: Clouds, state: str, reason: str
) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=(OWNER,)))
    await tenants(here, owner={}, blue={}, third={})
    rules: dict[str, Any] = {
        "open": {"from": "Names", "names": ["blue"]},
        "taken and open": {"from": "All"},
        "open to another": {"from": "Names", "names": ["third"]},
    }
    name = "mine"
    if state == "a member of a closed pool":
        await here.pool(replicas=1, instanceNamespace=OWNER, allowedNamespaces=None)
        await here.filled()
        [member] = await here.instances()
        name = member.name
    elif state != "missing":
        spec = {"allowedNamespaces": rules[state]} if state in rules else {}
        data = {"metadata": {"name": name, "namespace": OWNER}, "spec": spec}
        await here.lab.client.create(NextcloudInstance.decode(data))
    if "taken" in state:
        await claim(here, OWNER, instanceRef={"name": name, "namespace": OWNER})
        await asyncio.sleep(5)
        assert (await answer(here, OWNER))[1] == "Bound"
    await here.lab.settled()
    before = await stored_instances(here)
    reference = {"instanceRef": {"name": name, "namespace": OWNER}}
    await claim(here, "blue", **reference, replicas=3)
    await asyncio.sleep(60)
    status, said, message = await answer(here, "blue")
    assert said == reason
    if status == "False":
        assert await stored_instances(here) == before
        assert "third" not in message
        assert message.replace("its owner", "").count(OWNER) == 1, "only the path that the Nextcloud itself names"
    if reason == "InstanceNotFound":
        assert message.replace(name, "mine") == (
            "there is no NextcloudInstance owner/mine that Nextclouds of the namespace blue may take; create it, "
            "or have its owner add the namespace to its spec.allowedNamespaces"
        )
    await here.lab.client.delete(Nextcloud, "main", "blue")
    await asyncio.sleep(60)
    if status == "False":
        assert await stored_instances(here) == before


async def stored_instances(here: Clouds) -> list[tuple[str, str]]:
    found = await here.lab.client.list(INSTANCE)
    return [(one.name, one.metadata.resource_version) for one in found.items]


async def test_instance_of_the_own_namespace_is_bound_without_further_words(clouds: Clouds) -> None:
    here = await clouds.start()
    await tenants(here, blue={})
    await here.lab.client.create(NextcloudInstance.decode({"metadata": {"name": "mine", "namespace": "blue"}}))
    await claim(here, "blue", instanceRef={"name": "mine", "namespace": "blue"})
    await asyncio.sleep(5)
    assert (await answer(here, "blue"))[1] == "Bound"


@pytest.mark.parametrize(
    ("namespaces", "reason"), [(("*",), "Created"), (("blue",), "Created"), ((), "CreationNotAllowed")]
)
@pytest.mark.parametrize("profile", [False, True], ids=["bare", "profile"])
async def test_settings_say_who_may_have_an_instance_without_a_pool(
    clouds: Clouds, namespaces: tuple[str, ...], reason: str, profile: bool
) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces_without_pool=namespaces))
    await tenants(here, blue={})
    await here.profile(replicas=1)
    await claim(here, "blue", **({"profile": "base"} if profile else {}))
    await asyncio.sleep(5)
    assert (await answer(here, "blue"))[1] == reason
    assert len(await here.instances()) == (reason == "Created")
