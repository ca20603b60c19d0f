"""Foreign writes of plans, as other programs would make them."""

from __future__ import annotations

from typing import Any

import pytest

from konverge.kinds import kind
from konverge_testing import Lab
from konverge_testing.lab.foreign import ForeignWriter
from konverge_testing.lab.plans import Foreign

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
async def test_an_object_that_is_made_again_belongs_to_its_applier_only_if_that_made_it_whole(
    lab: Lab, made: tuple[str, ...], wanted: dict[str, Any]
) -> None:
    if "create" in made:
        await lab.client.create(CONFIG_MAP.new("a", lab.namespace, data={"k": "v"}))
    if "apply" in made:
        data = {"k": "v"} if made == ("apply",) else {"more": "w"}
        await lab.client.apply(CONFIG_MAP, CONFIG_MAP.new("a", lab.namespace, data=data).to_dict(), manager="operator")
    assert await owners_after_a_recreation(lab) == wanted
