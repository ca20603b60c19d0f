"""Webhooks, tested: each handler alone, and all of them in the way of what people write."""

import pytest
from backup_admission import CHECK, COMPLETE, NAMESPACE, build
from backup_operator import Backup, BackupSpec

import konverge as kv
from konverge.testing import Lab, admit


async def test_a_nightly_backup_gets_its_five_fields() -> None:
    answer = await admit(COMPLETE, Backup.new("a", "web", spec=BackupSpec(schedule="nightly")), user="jane")
    assert answer.object is not None
    assert answer.object.spec.schedule == "0 3 * * *"
    assert answer.object.labels == {"example.com/asked-by": "jane"}


async def test_a_namespace_says_how_many_copies_it_keeps() -> None:
    web = NAMESPACE.new("web", labels={"example.com/most-copies": "3"})
    backup = Backup.new("a", "web", spec=BackupSpec(schedule="nightly", keep_copies=4))
    answer = await admit(CHECK, backup, cache=[web])
    assert (answer.allowed, answer.message) == (False, "web may keep 3 copies")
    assert (await admit(CHECK, backup)).allowed


async def test_both_stand_in_the_way_of_what_is_written(lab: Lab) -> None:
    most = {"metadata": {"labels": {"example.com/most-copies": "9"}}}
    await lab.client.patch(NAMESPACE, lab.namespace, patch=most, style="merge")
    await lab.start(build)
    stored = await lab.create(Backup.new("a", spec=BackupSpec(schedule="nightly")))
    assert stored.spec.schedule == "0 3 * * *"
    with pytest.raises(kv.ApiError, match="may keep 9 copies"):
        await lab.create(Backup.new("b", spec=BackupSpec(schedule="nightly", keep_copies=10)))
