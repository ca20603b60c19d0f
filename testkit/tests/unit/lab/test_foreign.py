"""Foreign writes of plans, like the writes of other programs."""

from typing import Any, Final, cast

import pytest

from konverge.client import Client
from konverge.kinds import Kind, kind
from konverge_testing import Lab
from konverge_testing.lab.foreign import ForeignWriter
from konverge_testing.lab.plans import Foreign

FINALIZED: Final = {"metadata": {"finalizers": ["example.com/kept"]}}
CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True)


async def owners_after_a_recreation(lab: Lab) -> dict[str, str]:
    before = await lab.get(CONFIG_MAP, "a")
    writer = ForeignWriter(lab.client, lab.server.registry)
    await writer.act(Foreign(after=1, do="recreate", resource="configmaps", namespace=lab.namespace, name="a"))
    after = await lab.get(CONFIG_MAP, "a")
    assert after.metadata.uid != before.metadata.uid
    assert after.get("data") == before.get("data")
    return {one["manager"]: one["operation"] for one in after.to_dict()["metadata"]["managedFields"]}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (("apply",), {"operator": "Apply"}),
        (("create",), {"lab-user": "Update"}),
        (("create", "apply"), {"lab-user": "Update"}),
    ],
    ids=["applied", "created", "created and applied in part"],
)
async def test_recreated_object_belongs_to_an_applier_only_if_it_applied_everything(
    lab: Lab, made: tuple[str, ...], wanted: dict[str, Any]
) -> None:
    if "create" in made:
        await lab.client.create(CONFIG_MAP.new("a", lab.namespace, data={"k": "v"}))
    if "apply" in made:
        data = {"k": "v"} if made == ("apply",) else {"more": "w"}
        await lab.client.apply(CONFIG_MAP, CONFIG_MAP.new("a", lab.namespace, data=data).to_dict(), manager="operator")
    assert await owners_after_a_recreation(lab) == wanted


class OwnerBetweenRequests:
    """A client whose first patch makes the owner of the object add its finalizer again, as a reconcile may do at any moment."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._left = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def patch(self, what: Kind[Any], name: str, namespace: str, **options: Any) -> None:
        await self._client.patch(what, name, namespace, **options)
        if self._left:
            self._left -= 1
            await self._client.patch(what, name, namespace, patch=FINALIZED, style="merge")


async def test_recreation_ends_although_the_owner_adds_its_finalizer_again(lab: Lab) -> None:
    before = await lab.create(CONFIG_MAP.new("a", lab.namespace, data={"k": "v"}))
    await lab.client.patch(CONFIG_MAP, "a", lab.namespace, patch=FINALIZED, style="merge")
    writer = ForeignWriter(cast("Client", OwnerBetweenRequests(lab.client)), lab.server.registry)
    await writer.act(Foreign(after=1, do="recreate", resource="configmaps", namespace=lab.namespace, name="a"))
    after = await lab.get(CONFIG_MAP, "a")
    assert after.metadata.uid != before.metadata.uid
    assert not after.metadata.finalizers
