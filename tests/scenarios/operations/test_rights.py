"""Operations while the operator lacks a right: each Operation reports the missing right, and starts when it is granted; others continue."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from apps.engine_shop import KINDS, EngineShop
from apps.operation_safety import UID
from apps.operations import FREE, Operations, phase, shows
from apps.rights import LACKING, NarrowShop, deny, grant

from konverge.clock import from_rfc3339, rfc3339, wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.waiting.turns import LEASE, holders_of, lease_name
from konverge.reconcilers.apps.operations.words import OpAnnotation
from konverge_testing import Lab


@pytest.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield await NarrowShop(lab, stack).open()


@pytest.mark.parametrize(
    ("verb", "resource", "group", "words"),
    [
        ("get", "namespaces", "", "get namespaces;"),
        ("get", "leases", "coordination.k8s.io", "get leases of API group coordination.k8s.io"),
        ("create", "backups", "velero.io", "create backups of API group velero.io"),
    ],
)
async def test_backup_without_a_right_names_the_right_and_starts_once_granted(
    shop: EngineShop, verb: str, resource: str, group: str, words: str
) -> None:
    denied = deny(shop.lab, verb, resource, group)
    await shop.backup()
    found = await shop.until("backup", LACKING)
    assert f"the operator lacks the right to {words}" in found.condition("Blocked").message
    await asyncio.sleep(150)
    before = await shop.lab.get(Operation, "backup")
    assert (before.status.started_at, before.status.engine_ref) == (None, None), "it has given its turn back"
    await asyncio.sleep(7200)
    after = await shop.lab.get(Operation, "backup")
    assert after.metadata.resource_version == before.metadata.resource_version, "it is not written again"
    grant(shop.lab, denied)
    await shop.lab.until(Operation, "backup", phase("Succeeded"), timeout=60)
    assert shows("Blocked", "False")(await shop.lab.get(Operation, "backup"))


async def test_missing_velero_right_blocks_no_other_operation_of_the_target(shop: EngineShop) -> None:
    deny(shop.lab, "get", "namespaces")
    await shop.restore("a-backup-that-does-not-exist")
    await shop.until("restore", LACKING)
    began = asyncio.get_running_loop().time()
    await shop.replicate("copy")
    await shop.until("copy", phase("Succeeded"))
    assert asyncio.get_running_loop().time() - began < 25, "it does not let the older one pass, which cannot start"


async def test_readiness_names_the_right_that_an_operation_lacks(shop: EngineShop) -> None:
    deny(shop.lab, "get", "namespaces")
    await shop.backup()
    await shop.until("backup", LACKING)
    await shop.lab.settled()
    assert "namespaces" in str(shop.lab.manager.report())


async def test_operation_without_create_rights_releases_its_lease_and_creates_one_object_later(
    shop: EngineShop,
) -> None:
    """Once, however often the right is withdrawn: in the end the object exists, created by one request."""
    denied = deny(shop.lab, "create", "backups", "velero.io")
    await shop.backup()
    await shop.until("backup", LACKING)
    await shop.replicate("back", "Restore")
    await shop.lab.until(Operation, "back", phase("Succeeded"), timeout=150)
    await asyncio.sleep(60)
    assert LACKING(await shop.lab.get(Operation, "backup"))
    written = (await shop.lab.get(Operation, "backup")).metadata.resource_version
    await asyncio.sleep(1000)
    after = await shop.lab.get(Operation, "backup")
    assert after.metadata.resource_version == written, "no turn is taken for nothing"
    lease = await shop.lab.get(LEASE, lease_name(shop.lab.namespace))
    assert "backup" not in [one.name for one in holders_of(lease)]
    grant(shop.lab, denied)
    await shop.lab.until(Operation, "backup", phase("Succeeded"), timeout=90)
    made = await shop.lab.client.list(KINDS["Backup"], shop.lab.namespace)
    assert len([one for one in made if one.metadata.label(UID) == after.metadata.uid]) == 1


async def test_old_own_lease_entry_is_written_again_before_the_start(lab: Lab) -> None:
    """Another process may have read the entry as unconfirmed, and may be about to drop it."""
    ops = await Operations(lab).start(FREE.model_copy(update={"approval_types": frozenset({"RunCommand"})}))
    await ops.target()
    made = await ops.create()
    await ops.until("run", shows("Blocked", "True", "AwaitingApproval"))
    entry = {"uid": made.metadata.uid, "name": "run", "target": "shop", "type": "RunCommand", "exclusive": False}
    old = json.dumps([{**entry, "since": rfc3339(wall_clock())}])
    await lab.create(LEASE.new(lease_name(lab.namespace), lab.namespace, annotations={OpAnnotation.HOLDERS: old}))
    await asyncio.sleep(200)
    await lab.stop()
    await ops.run()
    await ops.job_of()
    (holder,) = holders_of(await lab.get(LEASE, lease_name(lab.namespace)))
    assert (wall_clock() - from_rfc3339(holder.since)).total_seconds() < 60
