"""The pure parts of an instance: versions, Secrets, values, the account of S3, phases, and what may be deleted."""

import base64
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from konverge.crds.pools_v1alpha1 import AppliedS3Config, InstanceSettings, NextcloudInstance
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.pools.instances.access import access_from
from konverge.reconcilers.pools.instances.backups import backup_state
from konverge.reconcilers.pools.instances.databases import engine_of, unused_by_sqlite
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB, copy_spec, copy_state, copy_target
from konverge.reconcilers.pools.instances.names import bucket_name
from konverge.reconcilers.pools.instances.render import release_of, url_of, values_of
from konverge.reconcilers.pools.instances.secrets import content_of, external_database, needed_secrets
from konverge.reconcilers.pools.instances.status import phase_of
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.teardown.decide import (
    deletes_database,
    is_protected,
    is_spare,
    keeps_data,
    owns_namespace,
)
from konverge.reconcilers.pools.instances.versions import ResolvedChart, VersionTable, resolve
from konverge.reconcilers.pools.instances.words import DatabaseReason

TABLE = VersionTable(
    charts={"32.0.9": "6.0.0", "33.0.1": "7.0.0", "33.0.10": "7.1.0"},
    images={"33.0.1": "registry.test/nextcloud:33.0.1-fpm"},
    aliases={"stable": "33.0.1"},
    fallback="6.6.10",
)
EMPTY = VersionTable(charts={}, images={}, aliases={}, fallback="6.6.10")


def spec(**fields: Any) -> InstanceSettings:
    return InstanceSettings.model_validate(fields)


@pytest.mark.parametrize(
    ("wanted", "chart", "table", "expected"),
    [
        ("33.0.1", "", TABLE, ResolvedChart("7.0.0", "33.0.1", "registry.test/nextcloud:33.0.1-fpm")),
        ("33", "", TABLE, ResolvedChart("7.1.0", "33.0.10")),
        ("33.0", "", TABLE, ResolvedChart("7.1.0", "33.0.10")),
        ("3", "", TABLE, None),
        ("", "", TABLE, ResolvedChart("7.0.0", "33.0.1", "registry.test/nextcloud:33.0.1-fpm")),
        ("latest", "", TABLE, ResolvedChart("7.1.0", "33.0.10")),
        ("33", "9.9.9", TABLE, ResolvedChart("9.9.9", "33.0.10")),
        ("31.0.2", "", TABLE, ResolvedChart("6.6.10", "31.0.2", tag="31.0.2")),
        ("", "", EMPTY, ResolvedChart("6.6.10")),
        ("33", "", EMPTY, None),
        ("33", "9.9.9", EMPTY, ResolvedChart("9.9.9")),
    ],
)
def test_a_version_is_resolved_by_helm_version_map_alias_and_prefix(
    wanted: str, chart: str, table: VersionTable, expected: ResolvedChart | None
) -> None:
    assert resolve(wanted, chart, table) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("admin", "nc-admin", True)]),
        ({"admin": {"credentialsSecret": "mine"}}, [("admin", "mine", False)]),
        ({"redis": {"enabled": True}}, [("admin", "nc-admin", True), ("redis", "nc-redis", True)]),
        ({"redis": {"enabled": False}}, [("admin", "nc-admin", True)]),
        (
            {"database": {"type": "postgresql", "credentialsSecret": "theirs"}},
            [("admin", "nc-admin", True), ("db", "theirs", False)],
        ),
        ({"database": {"type": "postgresql", "managed": True}}, [("admin", "nc-admin", True)]),
        ({"s3": {"enabled": True, "credentialsSecret": "keys"}}, [("admin", "nc-admin", True), ("s3", "keys", False)]),
        ({"mail": {"enabled": True}}, [("admin", "nc-admin", True), ("mail", "nc-mail", False)]),
    ],
)
def test_each_part_of_the_spec_needs_its_secret(fields: dict[str, Any], expected: list[tuple[str, str, bool]]) -> None:
    found = [(one.purpose, one.name, one.generated) for one in needed_secrets("nc", spec(**fields))]
    assert found == expected


@pytest.mark.parametrize(
    ("database", "engine", "external"),
    [
        (None, "sqlite", False),
        ({}, "sqlite", False),
        ({"managed": False}, "sqlite", False),
        ({"managed": True}, "postgresql", False),
        ({"managed": True, "type": "pgsql"}, "postgresql", False),
        ({"managed": True, "type": "sqlite"}, "sqlite", False),
        ({"managed": True, "type": "mariadb"}, "mysql", False),
        ({"type": "postgres"}, "postgresql", True),
        ({"type": "mysql", "managed": False}, "mysql", True),
        ({"type": "sqlite"}, "sqlite", False),
    ],
)
def test_database_follows_its_type_and_managed_without_type_is_postgresql(
    database: dict[str, Any] | None, engine: str, external: bool
) -> None:
    given = spec() if database is None else spec(database=database)
    assert (engine_of(given), external_database(given)) == (engine, external)


@pytest.mark.parametrize(
    ("database", "words"),
    [
        (None, ""),
        ({}, ""),
        ({"type": "sqlite", "managed": False}, ""),
        ({"managed": True}, ""),
        ({"type": "mysql", "credentialsSecret": "db"}, ""),
        (
            {"credentialsSecret": "db"},
            "no use for database.credentialsSecret: set database.type to postgresql or mysql,",
        ),
        ({"type": "sqlite", "managed": True}, "no use for database.managed: set database.type to postgresql,"),
        ({"postgres": {"replicas": 3}}, "no use for database.postgres: set database.type to postgresql,"),
        (
            {"managed": False, "credentialsSecret": "db", "postgres": {}},
            "no use for database.credentialsSecret and database.postgres: set database.type to postgresql,",
        ),
    ],
)
def test_sqlite_names_the_fields_that_it_has_no_use_for(database: dict[str, Any] | None, words: str) -> None:
    found = unused_by_sqlite(spec() if database is None else spec(database=database))
    assert words in found
    assert bool(found) == bool(words)


def test_passwords_are_long_and_come_from_the_given_source() -> None:
    first, again, other = (content_of("admin", Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(base64.b64decode(first["password"])) == 32
    assert base64.b64decode(first["username"]) == b"admin"


def test_every_value_refers_to_secrets_by_name() -> None:
    given = spec(
        replicas=2,
        ingress={"enabled": True, "host": "a.example.com", "className": "nginx", "tls": {"enabled": True}},
        database={"type": "mariadb", "credentialsSecret": "their-db"},
        redis={"enabled": True},
        s3={"enabled": True},
        resources={"requests": {"cpu": "1"}},
        persistence={"enabled": True, "storageClass": "fast"},
        helm={"values": {"replicaCount": 5, "nextcloud": {"update": 1}}},
    )
    bucket = AppliedS3Config(auto_created=True, bucket="b", endpoint="http://s3.test:9000", region="eu")
    values = values_of(
        "nc", given, ResolvedChart("7", "33.0.1", "registry.test:5000/nextcloud:33"), bucket, "keys", path_style=True
    )
    assert values["image"] == {"repository": "registry.test:5000/nextcloud", "tag": "33"}
    assert values["ingress"]["tls"] == [{"secretName": "nc-tls", "hosts": ["a.example.com"]}]
    assert values["externalDatabase"]["type"] == "mysql"
    assert values["externalDatabase"]["existingSecret"]["secretName"] == "their-db"
    s3 = values["nextcloud"]["objectStore"]["s3"]
    assert (s3["host"], s3["port"], s3["ssl"], s3["existingSecret"]) == ("s3.test", "9000", False, "keys")
    assert (values["replicaCount"], values["nextcloud"]["update"], values["nextcloud"]["host"]) == (
        5,
        1,
        "a.example.com",
    )
    assert url_of(given) == "https://a.example.com"
    assert url_of(spec()) is None


@pytest.mark.parametrize(
    ("url", "field", "source"),
    [
        ("https://charts.test", "chart", "HelmRepository"),
        ("oci://registry.test/charts", "chartRef", "OCIRepository"),
    ],
)
def test_the_chart_comes_from_a_helm_repository_or_an_oci_registry(url: str, field: str, source: str) -> None:
    rendered = release_of("nc", "pool", {}, ResolvedChart("7.0.0"), MaterialSettings(chart_url=url))
    assert field in rendered.release.spec
    assert rendered.source.kind_name == source
    assert rendered.desired.oci is (source == "OCIRepository")


def secret(**data: str) -> Object:
    encoded = {name.replace("__", "."): base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return kind("v1", "Secret").new("keys", "pool", data=encoded)


@pytest.mark.parametrize(
    ("found", "endpoint", "complete"),
    [
        (secret(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b"), "https://s3.test", True),
        (secret(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", endpoint="https://s3.test"), None, True),
        (secret(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b"), None, False),
        (secret(AWS_ACCESS_KEY_ID="a"), "https://s3.test", False),
        (kind("v1", "Secret").new("keys", "pool", data={"AWS_ACCESS_KEY_ID": "%%"}), "https://s3.test", False),
        (None, "https://s3.test", False),
    ],
)
def test_an_account_needs_both_keys_and_an_endpoint(found: Object | None, endpoint: str | None, complete: bool) -> None:
    account = access_from(found, AppliedS3Config(endpoint=endpoint), MaterialSettings(), path_style=True)
    assert (account is not None) is complete
    assert account is None or (account.endpoint, account.region) == ("https://s3.test", "us-east-1")


def test_recreated_instance_gets_another_bucket_and_the_longest_name_fits() -> None:
    assert bucket_name("nc", "1") != bucket_name("nc", "2")
    assert len(bucket_name("n" * 47, "1")) <= 63


@pytest.mark.parametrize(
    ("state", "was_ready", "phase"),
    [
        (StepState(ready=True, reason="Ready"), False, "Ready"),
        (StepState(ready=False, reason="Installing"), False, "Provisioning"),
        (StepState(ready=None, reason="Reconciling"), False, "Provisioning"),
        (StepState(ready=False, reason="Installing"), True, "Degraded"),
        (StepState(ready=False, reason=DatabaseReason.STALLED), False, "Failed"),
        (StepState(ready=False, reason="SecretTaken", lasting=True), False, "Failed"),
        (StepState(ready=False, reason="SecretTaken", lasting=True), True, "Degraded"),
    ],
)
def test_the_phase_follows_from_the_last_step(state: StepState, was_ready: bool, phase: str) -> None:
    assert phase_of(state, was_ready=was_ready) == phase


def instance(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **fields: Any
) -> NextcloudInstance:
    metadata = {"name": "nc", "namespace": "pool", "uid": "u", "labels": labels or {}, "annotations": annotations or {}}
    return NextcloudInstance.decode({"metadata": metadata, "spec": fields})


CLAIM = {"namespace": "team", "name": "main", "uid": "c"}
RELEASED_BY = "k8s.bnerd.com/released-by"


@pytest.mark.parametrize(
    ("found", "protected"),
    [
        (instance(), False),
        (instance({"k8s.bnerd.com/assigned": "false"}), False),
        (instance({"k8s.bnerd.com/assigned": "true"}), True),
        (instance(claimRef=CLAIM), True),
        (instance({"k8s.bnerd.com/force-delete": "true"}, claimRef=CLAIM), False),
        (instance({"k8s.bnerd.com/force-delete": "no"}, claimRef=CLAIM), True),
        (instance(annotations={RELEASED_BY: "c"}, claimRef=CLAIM), False),
        (instance(annotations={RELEASED_BY: "another"}, claimRef=CLAIM), True),
    ],
)
def test_only_an_assigned_instance_that_was_not_released_is_protected(
    found: NextcloudInstance, protected: bool
) -> None:
    assert is_protected(found) is protected


@pytest.mark.parametrize(
    ("said", "owned", "deleted"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False), (False, False, False)],
)
def test_an_explicit_word_about_the_database_wins_over_the_namespace(
    said: bool | None, owned: bool, deleted: bool
) -> None:
    found = instance(database={"type": "postgresql", "managed": True, "deleteOnCleanup": said})
    assert deletes_database(found, owns_the_namespace=owned) is deleted


SPARE = {"k8s.bnerd.com/pool": "small", "k8s.bnerd.com/assigned": "false"}


@pytest.mark.parametrize(
    ("found", "spare"),
    [
        (instance(SPARE), True),
        (instance({"k8s.bnerd.com/assigned": "false"}), False),
        (instance({"k8s.bnerd.com/pool": "small"}), False),
        (instance({**SPARE, "k8s.bnerd.com/assigned": "true"}), False),
        (instance({**SPARE, "k8s.bnerd.com/claim-uid": "c"}), False),
        (instance(SPARE, claimRef=CLAIM), False),
        (instance(SPARE, {RELEASED_BY: "c"}), False),
    ],
)
def test_any_sign_of_a_claim_means_possible_tenant_data(found: NextcloudInstance, spare: bool) -> None:
    retained = found.model_copy(update={"spec": found.spec.model_copy(update={"reclaim_policy": "Retain"})})
    assert (is_spare(found), keeps_data(retained), deletes_database(found, owns_the_namespace=False)) == (
        spare,
        not spare,
        spare,
    )


def test_mail_is_configured_by_variables_that_refer_to_its_secret() -> None:
    given = spec(
        mail={"enabled": True, "credentialsSecret": "smtp"}, ingress={"enabled": True, "host": "a.example.com"}
    )
    values = values_of("nc", given, ResolvedChart("7"), None, "keys", path_style=True)
    variables = {one["name"]: one for one in values["nextcloud"]["extraEnv"]}
    assert variables["SMTP_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": "smtp", "key": "password"}
    assert variables["MAIL_DOMAIN"]["value"] == "a.example.com"


def test_apps_are_enabled_by_a_script_before_each_start_that_never_fails(tmp_path: Path) -> None:
    given = spec(apps=("mail", "user_saml"))
    script = values_of("nc", given, ResolvedChart("7"), None, "keys", path_style=True)["nextcloud"]["hooks"][
        "before-starting"
    ]
    php = tmp_path / "php"
    for end in (0, 1):
        php.write_text(f'#!/bin/sh\necho "$@"\nexit {end}\n')
        php.chmod(0o755)
        ran = subprocess.run(["/bin/sh", "-euc", script], env={"PATH": str(tmp_path)}, capture_output=True, check=True)
        assert ran.stdout.decode() == "/var/www/html/occ app:enable mail user_saml\n"
        assert ("not all apps" in ran.stderr.decode()) is bool(end)
    theirs = spec(apps=("mail",), helm={"values": {"nextcloud": {"hooks": {"before-starting": "theirs"}}}})
    assert values_of("nc", theirs, ResolvedChart("7"), None, "keys", path_style=True)["nextcloud"]["hooks"] == {
        "before-starting": "theirs"
    }
    assert "hooks" not in values_of("nc", spec(), ResolvedChart("7"), None, "keys", path_style=True)["nextcloud"]


def backed_up(**backup: Any) -> InstanceSettings:
    return spec(database={"type": "postgresql", "managed": True, "postgres": {"backup": {"enabled": True, **backup}}})


@pytest.mark.parametrize(
    ("given", "ready", "reason"),
    [
        (spec(), True, "NotWanted"),
        (backed_up(enabled=False), True, "NotWanted"),
        (backed_up(), False, "BackupsIncomplete"),
        (backed_up(s3={"bucket": "dumps"}), False, "BackupsIncomplete"),
        (backed_up(s3={"bucket": "dumps", "credentialsSecret": "keys"}), True, "BackupsScheduled"),
    ],
)
def test_backups_that_are_not_made_are_never_reported_as_ready(
    given: InstanceSettings, ready: bool, reason: str
) -> None:
    found = backup_state(given, None)
    assert (found.ready, found.reason) == (ready, reason)


S3: dict[str, Any] = {"enabled": True, "credentialsSecret": "s3-keys"}
DATA: dict[str, Any] = {"enabled": True, "bucket": "safe", "credentialsSecret": "safe-keys", "endpoint": "safe.test"}
BEGAN, ENDED = "2026-11-24T02:30:00Z", "2026-11-24T02:31:00Z"


def cron_job(**status: Any) -> Object:
    return CRON_JOB.new("nc-files", "pool", status=status)


@pytest.mark.parametrize(
    ("given", "job", "reason"),
    [
        (spec(), None, "NotWanted"),
        (spec(backups={"data": {**DATA, "enabled": False}}), None, "NotWanted"),
        (spec(backups={"data": DATA}), None, "BackupsIncomplete"),
        (spec(s3=S3, backups={"data": {"enabled": True}}), None, "BackupsIncomplete"),
        (spec(s3=S3, backups={"data": {**DATA, "credentialsSecret": None}}), None, "BackupsIncomplete"),
        (spec(s3=S3, backups={"data": DATA}), None, "BackupsScheduled"),
        (spec(s3=S3, backups={"data": DATA}), cron_job(), "BackupsScheduled"),
        (spec(s3=S3, backups={"data": DATA}), cron_job(lastScheduleTime=BEGAN, active=[{}]), "BackupsScheduled"),
        (spec(s3=S3, backups={"data": DATA}), cron_job(lastScheduleTime=BEGAN), "BackupsFailing"),
        (
            spec(s3=S3, backups={"data": DATA}),
            cron_job(lastScheduleTime=BEGAN, lastSuccessfulTime=ENDED),
            "BackupsScheduled",
        ),
        (
            spec(s3=S3, backups={"data": DATA}),
            cron_job(lastScheduleTime=ENDED, lastSuccessfulTime=BEGAN),
            "BackupsFailing",
        ),
        (
            spec(s3=S3, backups={"data": DATA}),
            cron_job(lastScheduleTime="soon", lastSuccessfulTime=5),
            "BackupsScheduled",
        ),
    ],
)
def test_last_file_copy_is_judged_by_the_times_of_its_cron_job(
    given: InstanceSettings, job: Object | None, reason: str
) -> None:
    assert copy_state(given, job).reason == reason


def test_copy_uses_the_secrets_of_both_buckets_and_its_own_folder() -> None:
    target = copy_target(spec(s3=S3, backups={"data": DATA}))
    assert target is not None
    source = AppliedS3Config(bucket="nc-1", endpoint="http://s3.test:9000", region="eu")
    found = copy_spec(source, "s3-keys", target, "nc-4a49acf8a6", MaterialSettings(), path_style=False)
    (container,) = found["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["copy", "FILES:nc-1", "BACKUP:safe/nc-4a49acf8a6"]
    variables = {one["name"]: one.get("value") or one["valueFrom"]["secretKeyRef"] for one in container["env"]}
    assert variables["RCLONE_CONFIG_FILES_ENDPOINT"] == "http://s3.test:9000"
    assert variables["RCLONE_CONFIG_BACKUP_ENDPOINT"] == "https://safe.test"
    assert variables["RCLONE_CONFIG_FILES_FORCE_PATH_STYLE"] == "false"
    assert variables["RCLONE_CONFIG_BACKUP_FORCE_PATH_STYLE"] == "true"
    assert variables["RCLONE_CONFIG_FILES_ACCESS_KEY_ID"] == {"name": "s3-keys", "key": "AWS_ACCESS_KEY_ID"}
    assert variables["RCLONE_CONFIG_BACKUP_SECRET_ACCESS_KEY"] == {"name": "safe-keys", "key": "AWS_SECRET_ACCESS_KEY"}


def test_a_namespace_is_owned_by_the_instance_that_its_label_names() -> None:
    namespace = kind("v1", "Namespace", namespaced=False)
    assert owns_namespace(instance(), namespace.new("pool", labels={"k8s.bnerd.com/instance": "nc"}))
    assert not owns_namespace(instance(), namespace.new("pool", labels={"k8s.bnerd.com/instance": "other"}))
    assert not owns_namespace(instance(), namespace.new("pool"))
    assert not owns_namespace(instance(), None)
    assert keeps_data(instance(reclaimPolicy="Retain"))
    assert not keeps_data(instance())
