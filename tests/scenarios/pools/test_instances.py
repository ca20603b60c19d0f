"""The life of a NextcloudInstance: what it materialises and in what order, its waits, and what its deletion removes and keeps."""

import asyncio
from typing import Any

import pytest
from pools.materials import EVENT, FULL, NAME, Materials, OnlyOurs, TakenDownInOrder

from konverge.crds.pools_v1alpha1 import NextcloudInstance, NextcloudVersionMap
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets.api import ObjectVersion
from konverge.reconcilers.pools.buckets.failures import failure_of
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.instances.names import bucket_name
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import NAMESPACE, SECRET, VOLUME_CLAIM
from konverge.reconcilers.pools.words import PoolsAnnotation
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge_testing import Lab

EXTERNAL = {"type": "mysql", "credentialsSecret": "their-db"}
RUN = PoolsAnnotation.RUN_MAINTENANCE
PLAIN: dict[str, Any] = {"database": None, "redis": None, "s3": None, "persistence": None}


@pytest.fixture
async def here(lab: Lab) -> Materials:
    made = Materials(lab)
    lab.always.append(OnlyOurs(lab, made.s3))
    return await made.start()


async def get(here: Materials, what: Kind[Object], name: str) -> Object:
    return await here.lab.client.get(what, name, here.lab.namespace)


async def test_a_full_instance_becomes_ready_with_every_part_of_it(here: Materials) -> None:
    await here.create()
    instance = await here.phase("Ready")
    bucket = next(iter(here.s3.buckets))
    assert bucket.startswith(f"{NAME}-")
    assert {condition.type: condition.status for condition in instance.conditions} == {
        **dict.fromkeys(
            ("Ready", "SecretsReady", "DatabaseReady", "BucketReady", "BackupsReady", "ReleaseReady"), "True"
        )
    }
    status = instance.status
    assert status.applied_s3_config is not None
    assert (status.applied_s3_config.auto_created, status.applied_s3_config.bucket) == (True, bucket)
    assert status.ready_at is not None
    values = (await get(here, HELM_RELEASE, NAME)).get("spec", "values")
    assert values["nextcloud"]["existingSecret"]["secretName"] == f"{NAME}-admin"
    assert values["externalDatabase"]["existingSecret"]["secretName"] == f"{NAME}-db-app"
    assert values["nextcloud"]["objectStore"]["s3"]["bucket"] == bucket
    assert values["redis"]["auth"]["existingSecret"] == f"{NAME}-redis"
    assert values["persistence"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "hunter2" not in str(values)


async def test_nothing_that_holds_data_has_an_owner_that_the_garbage_collector_follows(here: Materials) -> None:
    await here.create()
    await here.phase("Ready")
    for what, name in ((CNPG_CLUSTER, f"{NAME}-db"), (SECRET, f"{NAME}-admin"), (SECRET, f"{NAME}-redis")):
        assert (await get(here, what, name)).metadata.owner_references == ()


async def test_at_rest_nothing_is_written_and_no_password_changes(here: Materials) -> None:
    await here.create()
    instance = await here.phase("Ready")
    password = (await get(here, SECRET, f"{NAME}-admin")).get("data", "password")
    patch = {"metadata": {"annotations": {"k8s.bnerd.com/reconcile": "now"}}}
    await here.lab.client.patch(NextcloudInstance, NAME, here.lab.namespace, patch=patch, style="merge")
    await asyncio.sleep(120)
    found = await here.lab.get(NextcloudInstance, NAME)
    assert found.status == instance.status
    assert (await get(here, SECRET, f"{NAME}-admin")).get("data", "password") == password


async def test_a_vanilla_instance_needs_no_database_and_no_bucket(here: Materials) -> None:
    await here.create(**PLAIN)
    instance = await here.phase("Ready")
    assert (instance.condition("DatabaseReady").reason, instance.condition("BucketReady").reason) == ("NotWanted",) * 2
    assert instance.condition("DatabaseReady").message == ""
    assert not here.s3.log
    values = (await get(here, HELM_RELEASE, NAME)).get("spec", "values")
    assert values["internalDatabase"] == {"enabled": True}


async def test_instance_with_sqlite_reports_that_its_database_settings_have_no_effect(here: Materials) -> None:
    await here.create(**{**PLAIN, "database": {"credentialsSecret": "db"}})
    said = (await here.phase("Ready")).condition("DatabaseReady")
    assert (said.reason, said.message.partition(":")[0]) == (
        "NotWanted",
        "the database is SQLite, which has no use for database.credentialsSecret",
    )


async def test_a_managed_database_without_a_type_is_postgresql_and_never_sqlite(here: Materials) -> None:
    await here.create(**{**PLAIN, "database": {"managed": True}})
    instance = await here.phase("Ready")
    assert instance.condition("DatabaseReady").reason == "DatabaseReady"
    assert f"Cluster/{NAME}-db" in await here.left()
    values = (await get(here, HELM_RELEASE, NAME)).get("spec", "values")
    assert values["internalDatabase"] == {"enabled": False}
    assert values["externalDatabase"]["existingSecret"]["secretName"] == f"{NAME}-db-app"


async def test_values_of_the_author_are_merged_last(here: Materials) -> None:
    await here.create(**{**PLAIN, "helm": {"version": "6.6.10", "values": {"internalDatabase": {"name": "mine"}}}})
    await here.phase("Ready")
    values = (await get(here, HELM_RELEASE, NAME)).get("spec", "values")
    assert values["internalDatabase"] == {"enabled": True, "name": "mine"}


async def test_a_secret_that_its_author_has_to_make_is_waited_for(here: Materials) -> None:
    await here.create(**{**PLAIN, "database": EXTERNAL})
    instance = await here.reason("SecretsReady", "SecretMissing")
    assert "create the Secret their-db" in instance.condition("Ready").message
    await here.secret("their-db", {"host": "db", "database": "nc", "user": "nc", "password": "x"})
    instance = await here.phase("Ready")
    assert instance.condition("DatabaseReady").reason == "DatabaseExternal"


async def test_a_generated_secret_that_is_gone_is_reported_and_not_made_anew(here: Materials) -> None:
    await here.create(**PLAIN)
    await here.phase("Ready")
    await here.lab.client.delete(SECRET, f"{NAME}-admin", here.lab.namespace)
    instance = await _nudged(here, "SecretLost")
    assert instance.status.phase == "Degraded"
    assert f"Secret/{NAME}-admin" not in await here.left()


async def _nudged(here: Materials, reason: str) -> NextcloudInstance:
    patch = {"metadata": {"annotations": {"k8s.bnerd.com/reconcile": reason}}}
    await here.lab.client.patch(NextcloudInstance, NAME, here.lab.namespace, patch=patch, style="merge")
    return await here.reason("Ready", reason)


@pytest.mark.parametrize(
    ("what", "name", "type_", "reason"),
    [
        (SECRET, f"{NAME}-admin", "SecretsReady", "SecretTaken"),
        (CNPG_CLUSTER, f"{NAME}-db", "DatabaseReady", "DatabaseTaken"),
        (HELM_RELEASE, NAME, "ReleaseReady", "ReleaseTaken"),
    ],
)
async def test_an_object_of_another_owner_is_neither_used_nor_deleted(
    here: Materials, what: Kind[Object], name: str, type_: str, reason: str
) -> None:
    spec = {"interval": "1m", "chart": {"spec": {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}}}
    foreign = what.new(name, here.lab.namespace) if what is SECRET else what.new(name, here.lab.namespace, spec=spec)
    made = await here.lab.create(foreign)
    await here.create(database=FULL["database"] if what is CNPG_CLUSTER else None, s3=None)
    await here.reason(type_, reason)
    await here.deleted()
    assert (await get(here, what, name)).metadata.uid == made.metadata.uid


async def test_volumes_of_another_release_of_the_same_name_are_not_deleted(here: Materials) -> None:
    spec = {"interval": "1m", "chart": {"spec": {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "x"}}}}
    await here.lab.create(HELM_RELEASE.new(NAME, here.lab.namespace, spec=spec))
    await here.volume("theirs", app_kubernetes_io__instance=NAME)
    await here.create(database=None, s3=None)
    await here.reason("ReleaseReady", "ReleaseTaken")
    await here.deleted()
    assert not (await get(here, VOLUME_CLAIM, "theirs")).metadata.deleting


async def test_a_database_that_never_becomes_ready_is_reported_and_the_instance_fails(here: Materials) -> None:
    here.databases.stuck.add("*")
    await here.create()
    await here.reason("DatabaseReady", "DatabaseProvisioning")
    instance = await here.reason("DatabaseReady", "DatabaseStalled")
    assert instance.status.phase == "Failed"
    assert "PersistentVolumeClaims are bound" in instance.condition("Ready").message
    here.databases.stuck.clear()
    await here.phase("Ready")


async def test_a_cluster_that_its_webhook_refuses_is_reported_with_the_reason(here: Materials) -> None:
    def database(size: str) -> dict[str, Any]:
        return {"type": "postgresql", "managed": True, "postgres": {"storage": {"size": size}}}

    await here.create(**{**PLAIN, "database": database("2Gi")})
    await here.phase("Ready")
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"database": database("1Gi")}})
    instance = await here.reason("DatabaseReady", "DatabaseRefused")
    assert "can't shrink existing storage" in instance.condition("Ready").message
    assert instance.status.phase == "Degraded"
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"database": database("3Gi")}})
    await here.phase("Ready")


BACKUP: dict[str, Any] = {
    "enabled": True,
    "s3": {"bucket": "dumps", "endpoint": "s3.test", "credentialsSecret": "dump-keys"},
}


async def test_instance_in_a_recreated_namespace_does_not_find_former_backups(here: Materials) -> None:
    copies = {"data": {"enabled": True, "bucket": "copies", "credentialsSecret": "s3-keys"}}
    backup = {**BACKUP, "s3": {**BACKUP["s3"], "credentialsSecret": "s3-keys"}}
    database = {"type": "postgresql", "managed": True, "deleteOnCleanup": True, "postgres": {"backup": backup}}
    places: list[set[str]] = []
    for _ in range(2):
        await here.create(database=database, backups=copies)
        await here.phase("Ready")
        store = (await get(here, CNPG_CLUSTER, f"{NAME}-db")).get("spec", "backup", "barmanObjectStore")
        job = await get(here, CRON_JOB, f"{NAME}-files")
        [container] = job.get("spec", "jobTemplate", "spec", "template", "spec", "containers")
        places.append({store["destinationPath"], container["args"][2]})
        await here.deleted()
    assert not places[0] & places[1]


async def test_maintenance_annotation_is_rejected_by_a_condition_with_the_remedy(here: Materials) -> None:
    await here.create(**PLAIN)
    await here.phase("Ready")
    await here.lab.patch(NextcloudInstance, NAME, {"metadata": {"annotations": {RUN: "1"}}})
    instance = await here.reason("MaintenanceRun", "NotSupported")
    assert "kubectl exec" in instance.condition("MaintenanceRun").message
    assert (instance.status.phase, instance.condition("Ready").status) == ("Ready", "True")
    await here.lab.patch(NextcloudInstance, NAME, {"metadata": {"annotations": {RUN: "2"}}})
    await here.lab.settled()
    [event] = [one for one in await here.lab.client.list(EVENT) if one.get("reason") == "NotSupported"]
    assert event.get("type") == "Warning"
    await here.lab.patch(NextcloudInstance, NAME, {"metadata": {"annotations": {RUN: None}}})
    await here.until(lambda one: one.find_condition("MaintenanceRun") is None)


async def test_only_a_new_value_of_the_reconcile_annotation_causes_a_reconcile(here: Materials) -> None:
    await here.create(**PLAIN)
    await here.phase("Ready")
    found: list[float] = []
    for value in ("1", "2", "2"):
        await here.lab.settled()
        await here.lab.patch(NextcloudInstance, NAME, {"metadata": {"annotations": {PoolsAnnotation.RECONCILE: value}}})
        await here.lab.settled()
        sample = {"controller": "nextcloudinstance", "result": "success"}
        found.append(
            here.lab.manager.metrics.registry.get_sample_value("controller_runtime_reconcile_total", sample) or 0
        )
    assert found[0] < found[1] == found[2]


async def test_scheduled_database_backup_runs_and_its_failure_is_reported(here: Materials) -> None:
    postgres = {"type": "postgresql", "managed": True, "deleteOnCleanup": True, "postgres": {"backup": BACKUP}}
    await here.create(**{**PLAIN, "database": postgres})
    await here.reason("SecretsReady", "SecretMissing")
    await here.secret("dump-keys", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hunter2"})
    instance = await here.phase("Ready")
    assert instance.condition("BackupsReady").reason == "BackupsScheduled"
    store = (await get(here, CNPG_CLUSTER, f"{NAME}-db")).get("spec", "backup", "barmanObjectStore")
    folder = bucket_name(NAME, instance.uid)
    assert (store["destinationPath"], store["endpointURL"]) == (f"s3://dumps/{folder}", "https://s3.test")
    assert store["s3Credentials"]["secretAccessKey"] == {"name": "dump-keys", "key": "AWS_SECRET_ACCESS_KEY"}
    schedule = (await get(here, SCHEDULED_BACKUP, f"{NAME}-db")).spec
    assert (schedule["schedule"], schedule["cluster"]["name"]) == ("0 0 2 * * *", f"{NAME}-db")
    failed = {
        "type": "LastBackupSucceeded",
        "status": "False",
        "reason": "LastBackupFailed",
        "message": "no such bucket",
    }
    conditions = (await get(here, CNPG_CLUSTER, f"{NAME}-db")).get("status", "conditions")
    patch = {"status": {"conditions": [*conditions, failed]}}
    await here.lab.patch(CNPG_CLUSTER, f"{NAME}-db", patch, subresource="status")
    instance = await here.reason("BackupsReady", "BackupsFailing")
    assert (instance.status.phase, instance.condition("Ready").status) == ("Ready", "True")
    assert "no such bucket" in instance.condition("BackupsReady").message
    await here.deleted()
    assert await here.left() == {"Secret/s3-keys", "Secret/dump-keys"}


async def test_a_version_map_that_is_created_later_chooses_the_chart(here: Materials) -> None:
    await here.create(**{**PLAIN, "version": "33", "helm": None})
    instance = await here.reason("ReleaseReady", "VersionUnknown")
    assert instance.status.phase == "Failed"
    entries = [{"version": f"33.0.{number}", "chartVersion": f"7.{number}.0"} for number in (9, 10)]
    made = NextcloudVersionMap.decode({"metadata": {"name": "map"}, "spec": {"versions": entries}})
    await here.lab.client.create(made)
    instance = await here.phase("Ready")
    assert instance.status.version == "33.0.10"
    release = await get(here, HELM_RELEASE, NAME)
    assert release.get("spec", "chart", "spec", "version") == "7.10.0"
    await here.lab.client.delete(NextcloudVersionMap, "map")


async def test_cluster_without_version_maps_uses_the_versions_of_the_settings(lab: Lab) -> None:
    here = Materials(lab)
    here.settings = MaterialSettings(versions={"33.0.4": "7.4.0"})
    await here.start(without=[NextcloudVersionMap])
    await here.create(**{**PLAIN, "version": "33", "helm": None})
    assert (await here.phase("Ready")).status.version == "33.0.4"


DATA: dict[str, Any] = {
    "enabled": True,
    "bucket": "safe",
    "endpoint": "https://safe.test",
    "credentialsSecret": "safe-keys",
}


async def files_backed_up(here: Materials, **data: Any) -> NextcloudInstance:
    """Create an instance whose files are copied beside other objects, and wait until it is ready."""
    here.s3.fill("safe", 3, account="safe")
    await here.secret("safe-keys", {"AWS_ACCESS_KEY_ID": "safe", "AWS_SECRET_ACCESS_KEY": "hunter2"})
    await here.create(**{**PLAIN, "s3": FULL["s3"], "backups": {"data": {**DATA, **data}}})
    instance = await here.phase("Ready")
    folder = next(name for name in here.s3.buckets if name.startswith(NAME))
    here.s3.buckets["safe"].versions.extend(ObjectVersion(f"{folder}/{number}") for number in range(2_500))
    return instance


async def test_scheduled_file_copy_runs_and_its_failure_is_reported(here: Materials) -> None:
    instance = await files_backed_up(here, schedule="15 3 * * *")
    assert instance.condition("BackupsReady").reason == "BackupsScheduled"
    job = await get(here, CRON_JOB, f"{NAME}-files")
    assert job.get("spec", "schedule") == "15 3 * * *"
    assert "hunter2" not in str(job.spec)
    failed = {"status": {"lastScheduleTime": "2026-01-02T03:15:00Z"}}
    await here.lab.client.patch(CRON_JOB, job.name, job.namespace, patch=failed, style="merge", subresource="status")
    instance = await here.reason("BackupsReady", "BackupsFailing")
    assert instance.status.phase == "Ready"
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"backups": {"data": {**DATA, "schedule": "never"}}}})
    instance = await here.reason("BackupsReady", "BackupsRefused")
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"backups": None}})
    await here.reason("BackupsReady", "NotWanted")
    assert f"CronJob/{NAME}-files" not in await here.left()


@pytest.mark.parametrize(("goes", "left"), [(None, 2_503), (True, 3)])
async def test_the_copies_of_the_files_stay_unless_the_spec_gives_them_up(
    here: Materials, goes: bool | None, left: int
) -> None:
    await files_backed_up(here, deleteOnCleanup=goes)
    await here.deleted()
    assert set(here.s3.buckets) == {"safe"}
    assert len(here.s3.buckets["safe"].versions) == left
    assert await here.left() == {"Secret/s3-keys", "Secret/safe-keys", "Bucket/safe"}


async def test_copies_that_cannot_be_deleted_hold_the_deletion_with_a_remedy(here: Materials) -> None:
    await files_backed_up(here, deleteOnCleanup=True)
    await here.lab.client.delete(SECRET, "safe-keys", here.lab.namespace)
    await here.lab.delete(NextcloudInstance, NAME)
    instance = await here.reason("Ready", "BucketCredentialsRefused")
    assert "restore them, or set backups.data.deleteOnCleanup to false" in instance.condition("Ready").message
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"backups": {"data": {**DATA, "deleteOnCleanup": False}}}})
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)


async def test_database_that_no_longer_needs_backups_loses_its_schedule(here: Materials) -> None:
    database = {"type": "postgresql", "managed": True, "postgres": {"backup": BACKUP}}
    await here.secret("dump-keys", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hunter2"})
    await here.create(**{**PLAIN, "database": database})
    await here.phase("Ready")
    assert f"ScheduledBackup/{NAME}-db" in await here.left()
    await here.lab.patch(NextcloudInstance, NAME, {"spec": {"database": {"postgres": {"backup": None}}}})
    await here.reason("BackupsReady", "NotWanted")
    assert f"ScheduledBackup/{NAME}-db" not in await here.left()


SPARE = {"k8s.bnerd.com/pool": "small", "k8s.bnerd.com/assigned": "false"}


async def test_pool_member_without_a_tenant_leaves_nothing_even_with_retain(here: Materials) -> None:
    await here.create(labels=SPARE, policy="Retain", database={"type": "postgresql", "managed": True})
    await here.phase("Ready")
    await here.volume("chart-data", app_kubernetes_io__instance=NAME)
    await here.deleted()
    assert await here.left() == {"Secret/s3-keys"}


async def test_a_secret_or_volume_that_a_finalizer_holds_is_waited_for(here: Materials) -> None:
    await here.create(**PLAIN)
    await here.phase("Ready")
    await here.volume("chart-data", app_kubernetes_io__instance=NAME)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    for what, name in ((SECRET, f"{NAME}-admin"), (VOLUME_CLAIM, "chart-data")):
        await here.lab.patch(what, name, held)
    await here.lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "DeletingSecrets")
    await here.lab.patch(SECRET, f"{NAME}-admin", {"metadata": {"finalizers": None}})
    await here.reason("Ready", "DeletingVolumes")
    await here.lab.patch(VOLUME_CLAIM, "chart-data", {"metadata": {"finalizers": None}})
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)


@pytest.mark.parametrize(
    ("said", "setting", "expected"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
async def test_bucket_path_style_follows_the_spec_or_else_the_settings(
    lab: Lab, said: bool | None, setting: bool, expected: bool
) -> None:
    here = Materials(lab)
    here.settings = MaterialSettings(s3_path_style=setting)
    await here.start()
    s3 = FULL["s3"] | ({} if said is None else {"pathStyle": said})
    await here.create(s3=s3)
    await here.phase("Ready")
    release = await lab.get(HELM_RELEASE, NAME)
    assert release.spec["values"]["nextcloud"]["objectStore"]["s3"]["usePathStyle"] is expected
    assert here.s3.path_styles == {expected}


async def test_a_busy_s3_server_delays_the_instance_and_its_deletion(here: Materials) -> None:
    here.s3.down = failure_of("CreateBucket", "SlowDown", 503)
    await here.create()
    instance = await here.reason("BucketReady", "BucketServerBusy")
    assert instance.status.applied_s3_config is not None
    here.s3.down = None
    await here.phase("Ready")
    here.s3.fill(next(iter(here.s3.buckets)), 2_500)
    here.s3.down = failure_of("ListObjectVersions", "SlowDown", 503)
    await here.lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "BucketServerBusy")
    assert f"Cluster/{NAME}-db" in await here.left()  # the database waits for the bucket
    here.s3.down = None
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)
    assert not here.s3.buckets


async def test_a_deletion_takes_what_was_made_and_leaves_what_users_made(here: Materials) -> None:
    await here.create()
    await here.phase("Ready")
    here.s3.fill("users", 3)
    await here.volume("chart-data", app_kubernetes_io__instance=NAME)
    await here.volume("users-data")
    await here.deleted()
    assert await here.left() == {"Secret/s3-keys", "PersistentVolumeClaim/users-data", "Bucket/users"}
    assert (await here.lab.client.get(NAMESPACE, here.lab.namespace)).metadata.deleting is False


async def test_each_step_of_a_deletion_waits_until_the_one_before_has_ended(here: Materials) -> None:
    order = TakenDownInOrder(here.lab, here.s3)
    here.lab.always.append(order)
    here.s3.fill("safe", 3, account="safe")
    await here.secret("safe-keys", {"AWS_ACCESS_KEY_ID": "safe", "AWS_SECRET_ACCESS_KEY": "hunter2"})
    await here.create(backups={"data": {**DATA, "deleteOnCleanup": True}})
    await here.phase("Ready")
    await here.volume(f"{NAME}-data", app_kubernetes_io__instance=NAME)
    here.s3.fill(next(name for name in here.s3.buckets if name.startswith(NAME)), 2_500)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await here.lab.patch(CNPG_CLUSTER, f"{NAME}-db", hold)
    await here.lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "DeletingDatabase")
    await asyncio.sleep(120)
    assert f"Secret/{NAME}-admin" in await here.left()
    await here.lab.patch(CNPG_CLUSTER, f"{NAME}-db", {"metadata": {"finalizers": None}})
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)
    assert order.steps == {NAME: {0, 1, 2, 3, 4, 5}}
    assert await here.left() == {"Secret/s3-keys", "Secret/safe-keys", "Bucket/safe"}


async def test_a_bucket_that_the_spec_names_is_never_deleted(here: Materials) -> None:
    here.s3.fill("users", 3)
    await here.create(s3={**FULL["s3"], "bucket": "users"})
    instance = await here.phase("Ready")
    assert instance.status.applied_s3_config is not None
    assert instance.status.applied_s3_config.auto_created is False
    await here.deleted()
    assert len(here.s3.buckets["users"].versions) == 3


@pytest.mark.parametrize(
    ("delete_on_cleanup", "owned", "kept"),
    [(None, False, True), (True, False, False), (False, False, True), (None, True, False), (False, True, True)],
)
async def test_database_is_deleted_by_its_spec_policy_or_with_its_namespace(
    here: Materials, delete_on_cleanup: bool | None, owned: bool, kept: bool
) -> None:
    await here.create(database={"type": "postgresql", "managed": True, "deleteOnCleanup": delete_on_cleanup}, s3=None)
    await here.phase("Ready")
    if owned:
        await here.own_namespace()
    await here.deleted()
    if owned and not kept:
        standing = [one.name for one in await here.lab.client.list(NAMESPACE) if not one.metadata.deleting]
        assert here.lab.namespace not in standing
    else:
        assert not (await here.lab.client.get(NAMESPACE, here.lab.namespace)).metadata.deleting
        assert (f"Cluster/{NAME}-db" in await here.left()) is kept
    await asyncio.sleep(2)
    events = [one for one in (await here.lab.client.list(EVENT)).items if one.get("reason") == "DatabaseKept"]
    assert [f"Cluster {NAME}-db is kept" in one.get("note") for one in events] == [True] * kept


async def test_an_assigned_instance_refuses_its_deletion_until_its_nextcloud_releases_it(here: Materials) -> None:
    await here.create(claimed=True)
    await here.phase("Ready")
    await here.lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "DeletionRefused")
    assert f"HelmRelease/{NAME}" in await here.left()
    await here.released()
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)
    assert await here.left() == {"Secret/s3-keys"}


async def test_an_assigned_instance_goes_with_the_label_force_delete(here: Materials) -> None:
    await here.create(claimed=True)
    await here.phase("Ready")
    await here.lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "DeletionRefused")
    patch = {"metadata": {"labels": {"k8s.bnerd.com/force-delete": "true"}}}
    await here.lab.client.patch(NextcloudInstance, NAME, here.lab.namespace, patch=patch, style="merge")
    await here.lab.until_gone(NextcloudInstance, NAME, timeout=3600)


async def test_retain_keeps_everything_that_makes_the_data_readable(here: Materials) -> None:
    await here.create(claimed=True, policy="Retain")
    await here.phase("Ready")
    await here.volume("chart-data", app_kubernetes_io__instance=NAME)
    await here.own_namespace()
    kept = await here.left() - {f"HelmRelease/{NAME}"}
    await here.released()
    instance = await here.phase("Released")
    assert instance.spec.claim_ref is not None
    await here.until(lambda one: "are kept" in one.condition("Ready").message)
    assert await here.left() == kept
    await here.deleted()  # by an administrator, later: the data still stay
    assert await here.left() == kept
    assert (await here.lab.client.get(NAMESPACE, here.lab.namespace)).metadata.deleting is False


async def test_a_suspended_release_is_resumed_before_its_deletion(here: Materials) -> None:
    await here.create(**PLAIN)
    await here.phase("Ready")
    patch = {"spec": {"suspend": True}}
    await here.lab.client.patch(HELM_RELEASE, NAME, here.lab.namespace, patch=patch, style="merge")
    await here.deleted()
    assert f"HelmRelease/{NAME}" not in await here.left()
