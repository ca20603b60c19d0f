"""The tests of a user's first operator as in the documents: no mark, no option, only `lab`.

The same functions run on the in-memory API server and on a real control plane if there is one.
"""

import pytest
from backup_operator import SECRET, Backup, BackupSpec, build

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Unmet


async def test_a_backup_waits_for_its_secret(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
    backup = await lab.until(Backup, "nightly", kv.is_false("Ready"))
    assert backup.condition("Ready").reason == "SecretMissing"
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    await lab.until(Backup, "nightly", kv.is_true("Ready"))


async def test_a_wait_that_fails_tells_the_story_of_the_object(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
    await lab.until(Backup, "nightly", kv.is_false("Ready"))
    await lab.settled()
    with pytest.raises(Unmet) as story:
        await lab.until(Backup, "nightly", kv.is_true("Ready"), timeout=1)
    told = str(story.value)
    assert f"Backup {lab.namespace}/nightly: waited 1 s for Ready=True" in told
    assert "Ready=False SecretMissing: create a Secret named target with the key url (generation 1)" in told
    assert f"{lab.namespace}/nightly: Done because of created; wrote status" in told


@pytest.mark.control_plane
class TestOnARealControlPlane:
    test_a_backup_waits_for_its_secret = staticmethod(test_a_backup_waits_for_its_secret)
    test_a_wait_that_fails_tells_the_story_of_the_object = staticmethod(
        test_a_wait_that_fails_tells_the_story_of_the_object
    )
