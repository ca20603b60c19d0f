"""Operations that lack a right of the operator: each says which, and starts when it is granted; others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from apps.engine_shop import EngineShop
from apps.operations import phase, shows

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.testing import Lab
from konverge.testing.apiserver.faults.rules import Match, Refuse, Rule

USER = 'User "system:serviceaccount:konverge:konverge"'
LACKING = shows("Blocked", "True", "RbacProfileMissing")


class NarrowShop(EngineShop):
    """Policies of namespaces are off, so that Velero alone reads namespaces."""

    @property
    def settings(self) -> OperationSettings:
        return super().settings.model_copy(update={"namespace_policy": False})


@pytest.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield await NarrowShop(lab, stack).open()


def deny(shop: EngineShop, verb: str, resource: str, group: str = "") -> Rule:
    """Take a right from the operator until the rule is removed."""
    text = f'{resource} "x" is forbidden: {USER} cannot {verb} resource "{resource}" in API group "{group}" at the cluster scope'
    where = f"{resource}.{group}" if group else resource
    rule = Rule(Match(verbs=(verb,), resources=(where,)), Refuse(status=403, reason="Forbidden", message=text))
    shop.lab.server.faults.add(rule)
    return rule


@pytest.mark.parametrize(
    ("verb", "resource", "group", "words"),
    [
        ("get", "namespaces", "", "get namespaces;"),
        ("get", "leases", "coordination.k8s.io", "get leases of API group coordination.k8s.io"),
        ("create", "backups", "velero.io", "create backups of API group velero.io"),
    ],
)
async def test_a_backup_without_a_right_names_it_and_starts_when_it_is_granted(
    shop: EngineShop, verb: str, resource: str, group: str, words: str
) -> None:
    denied = deny(shop, verb, resource, group)
    await shop.backup()
    found = await shop.until("backup", LACKING)
    assert f"the operator lacks the right to {words}" in found.condition("Blocked").message
    before = (await shop.lab.get(Operation, "backup")).metadata.resource_version
    await asyncio.sleep(400)  # below the ten minutes after which a Backup that was claimed may have been made and lost
    assert (await shop.lab.get(Operation, "backup")).metadata.resource_version == before, "it is not written again"
    shop.lab.server.faults.remove(denied)
    await shop.lab.until(Operation, "backup", phase("Succeeded"), timeout=60)
    assert shows("Blocked", "False")(await shop.lab.get(Operation, "backup"))


async def test_a_missing_right_of_velero_holds_back_no_other_operation_of_the_target(shop: EngineShop) -> None:
    deny(shop, "get", "namespaces")
    await shop.restore("a-backup-that-does-not-exist")
    await shop.until("restore", LACKING)
    began = asyncio.get_running_loop().time()
    await shop.replicate("copy")
    await shop.until("copy", phase("Succeeded"))
    assert asyncio.get_running_loop().time() - began < 25, "it does not let the older one pass, which cannot start"


async def test_readiness_names_the_right_that_an_operation_lacks(shop: EngineShop) -> None:
    deny(shop, "get", "namespaces")
    await shop.backup()
    await shop.until("backup", LACKING)
    await shop.lab.settled()
    assert "namespaces" in str(shop.lab.manager.report())
