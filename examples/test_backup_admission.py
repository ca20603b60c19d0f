"""Tests of webhooks: each handler without a server, and all of them on writes to an API server.

A coroutine test that does not use `lab` is pytest-asyncio's: it has a mark, unless `asyncio_mode = "auto"` is configured.
"""

import pytest
from backup_admission import CHECK, COMPLETE, NAMESPACE, build
from backup_operator import Backup, BackupSpec

import konverge as kv
from konverge_testing import Lab, admit


@pytest.mark.asyncio
async def test_a_nightly_backup_gets_its_five_fields() -> None:
    response = await admit(COMPLETE, Backup.new("a", "web", spec=BackupSpec(schedule="nightly")), user="jane")
    assert response.object is not None
    assert response.object.spec.schedule == "0 3 * * *"
    assert response.object.labels == {"example.com/asked-by": "jane"}


@pytest.mark.asyncio
async def test_a_namespace_says_how_many_copies_it_keeps() -> None:
    web = NAMESPACE.new("web", labels={"example.com/most-copies": "3"})
    backup = Backup.new("a", "web", spec=BackupSpec(schedule="nightly", keep_copies=4))
    response = await admit(CHECK, backup, cache=[web])
    assert (response.allowed, response.message) == (False, "web may keep 3 copies")
    assert (await admit(CHECK, backup)).allowed


async def test_both_webhooks_are_called_on_a_write(lab: Lab) -> None:
    most = {"metadata": {"labels": {"example.com/most-copies": "9"}}}
    await lab.client.patch(NAMESPACE, lab.namespace, patch=most, style="merge")
    await lab.start(build)
    stored = await lab.create(Backup.new("a", spec=BackupSpec(schedule="nightly")))
    assert stored.spec.schedule == "0 3 * * *"
    with pytest.raises(kv.ApiError, match="may keep 9 copies"):
        await lab.create(Backup.new("b", spec=BackupSpec(schedule="nightly", keep_copies=10)))
