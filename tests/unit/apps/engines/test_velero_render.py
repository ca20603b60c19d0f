"""Backups and Restores as the engine renders them, its rejections, and its waits."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apps.engine_replay import NAMESPACE_UID, request_of
from recordings import Json

from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations.engines.engine import (
    DeleteChild,
    EngineBlocked,
    EngineRequest,
    ObjectRef,
    Refused,
    Rendered,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.engines.velero import VeleroEngine
from konverge.reconcilers.apps.operations.engines.velero.kinds import (
    BACKUP,
    BACKUP_STORAGE_LOCATION,
    VOLUME_SNAPSHOT_CLASS,
)
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.words import RunningReason

ENGINE = VeleroEngine()
TENANT = ObjectRef(NAMESPACE, "", "team", live=True)
LOCATION = ObjectRef(BACKUP_STORAGE_LOCATION, "velero", "default")
SOURCE = ObjectRef(BACKUP, "velero", "op-7")
AVAILABLE: Json = {"spec": {}, "status": {"phase": "Available"}}


def backup(
    phase: str = "Completed",
    operation: str = "team/first",
    namespaces: Any = ("team",),
    uid: str | None = NAMESPACE_UID,
) -> Json:
    annotations = {
        "ops.vworkspace.io/operation-name": operation,
        **({} if uid is None else {"ops.vworkspace.io/namespace-uid": uid}),
    }
    return {
        "metadata": {"name": "op-7", "annotations": annotations},
        "spec": {"includedNamespaces": list(namespaces), "storageLocation": "default"},
        "status": {"phase": phase} if phase else {},
    }


def rendered(request: EngineRequest) -> Json:
    found = ENGINE.render(request)
    assert isinstance(found, Rendered), found
    return found.object.to_dict()


def test_location_without_a_readable_validation_time_is_not_a_sign_of_life() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    location = {"spec": {}, "status": {"phase": "Available", "lastValidationTime": "yesterday"}}
    request = replace(request_of(related={LOCATION: location}), written=now - timedelta(days=1))
    child = {"metadata": {"name": "op-uid-1"}, "status": {"phase": "InProgress"}}
    seen = ENGINE.observe(request, child, asked_to_cancel=False, started=now, now=now)
    assert seen.reason == RunningReason.ENGINE_SILENT


def test_backup_is_in_the_velero_namespace_under_the_operations_uid() -> None:
    made = rendered(request_of(related={LOCATION: AVAILABLE}))
    assert (made["metadata"]["namespace"], made["metadata"]["name"]) == ("velero", "op-uid-1")
    assert made["spec"] == {"includedNamespaces": ["team"], "storageLocation": "default"}


def test_a_backup_is_not_owned_by_its_operation_even_beside_it() -> None:
    location = ObjectRef(BACKUP_STORAGE_LOCATION, "team", "default")
    settings = OperationSettings(velero_namespace="team")
    found = ENGINE.render(request_of(related={location: AVAILABLE}, settings=settings))
    assert isinstance(found, Rendered)
    assert not found.owned


def test_two_namespaces_with_one_operation_name_have_two_backups() -> None:
    first, second = (
        rendered(request_of(related={LOCATION: AVAILABLE}, namespace=namespace, uid=f"uid-{namespace}"))
        for namespace in ("a", "b")
    )
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert [made["spec"]["includedNamespaces"] for made in (first, second)] == [["a"], ["b"]]


@pytest.mark.parametrize("name", ["retention", "ttl"])
@pytest.mark.parametrize(
    ("given", "written"), [("30d", "720h"), ("72h", "72h"), ("1d12h", "36h"), (3600, "1h"), ("90m", "1h30m")]
)
def test_a_retention_is_written_as_a_go_duration(name: str, given: Any, written: str) -> None:
    assert rendered(request_of(related={LOCATION: AVAILABLE}, **{name: given}))["spec"]["ttl"] == written


@pytest.mark.parametrize("given", ["soon", "30 days", "", "0s", "-1h", True, 1.5, None, {"days": 30}, "9" * 400 + "d"])
def test_a_retention_that_velero_could_not_read_is_refused(given: Any) -> None:
    found = ENGINE.render(request_of(related={LOCATION: AVAILABLE}, ttl=given))
    if given is None:
        assert isinstance(found, Rendered), "null is as if it was not written"
        return
    assert isinstance(found, Refused)
    assert found.message.startswith("parameters.ttl: write a duration")


def test_every_parameter_of_a_backup_reaches_the_backup() -> None:
    snapshots = ObjectRef(VOLUME_SNAPSHOT_CLASS, "", "fast")
    location = ObjectRef(BACKUP_STORAGE_LOCATION, "velero", "cold")
    made = rendered(
        request_of(
            related={location: AVAILABLE, snapshots: {"driver": "ebs.csi.aws.com"}},
            retention="7d",
            storageLocation="cold",
            snapshotClassName="fast",
            snapshotVolumes=True,
            snapshotMoveData=False,
            defaultVolumesToFsBackup=False,
            includedResources=["secrets", "deployments.apps"],
            excludedResources=["events"],
            csiSnapshotTimeout="20m",
            itemOperationTimeout="1d",
        )
    )
    assert made["spec"] == {
        "includedNamespaces": ["team"],
        "includedResources": ["secrets", "deployments.apps"],
        "excludedResources": ["events"],
        "storageLocation": "cold",
        "ttl": "168h",
        "snapshotVolumes": True,
        "snapshotMoveData": False,
        "defaultVolumesToFsBackup": False,
        "csiSnapshotTimeout": "20m",
        "itemOperationTimeout": "24h",
    }
    assert made["metadata"]["annotations"] == {
        "velero.io/csi-volumesnapshot-class_ebs.csi.aws.com": "fast",
        "ops.vworkspace.io/namespace-uid": NAMESPACE_UID,
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ttl": "1h", "retention": "2h"}, "retention and ttl name the same thing"),
        ({"snapshotClassName": "a", "csiSnapshotClassName": "b"}, "name the same thing"),
        ({"includedResources": ["secrets"], "excludedResources": ["secrets"]}, "secrets: remove it from"),
        ({"retencion": "30d"}, "parameters.retencion: unknown; the engine knows "),
        ({"snapshotVolumes": "hunter2"}, "parameters.snapshotVolumes: "),
        ({"storageLocation": "../x"}, "parameters.storageLocation: "),
    ],
)
def test_wrong_parameters_of_a_backup_are_refused_before_anything_is_made(parameters: Json, message: str) -> None:
    found = ENGINE.render(request_of(related={LOCATION: AVAILABLE}, **parameters))
    assert isinstance(found, Refused)
    assert message in found.message
    assert "hunter2" not in found.message
    assert ENGINE.needs(request_of(**parameters)) == ()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (None, "BackupStorageLocation velero/default does not exist"),
        ({"status": {"phase": "Unavailable", "message": "RequestID: xyz"}}, "is not Available"),
        ({"spec": {}}, "is not Available"),
        ({"spec": {"accessMode": "ReadOnly"}, "status": {"phase": "Available"}}, "is read-only"),
    ],
)
def test_a_backup_waits_for_its_location(location: Json | None, message: str) -> None:
    found = ENGINE.render(request_of(related={LOCATION: location}))
    assert isinstance(found, EngineBlocked)
    assert (found.reason, message in found.message, "xyz" in found.message) == ("DependencyMissing", True, False)


def test_a_backup_waits_for_its_snapshot_class() -> None:
    found = ENGINE.render(request_of(related={LOCATION: AVAILABLE}, csiSnapshotClassName="fast"))
    assert isinstance(found, EngineBlocked)
    assert found.reason == "MissingVolumeSnapshotClass"


def test_the_namespace_of_velero_is_a_setting() -> None:
    request = request_of(settings=OperationSettings(velero_namespace="backups"))
    assert [ref.namespace for ref in ENGINE.needs(request)] == ["", "backups"]


# --- Restore -------------------------------------------------------------------------------------------------------------------


def restore(source: Json | None, **parameters: Any) -> EngineRequest:
    related = {SOURCE: source, LOCATION: AVAILABLE}
    return request_of("Restore", related, **{"backupName": "op-7", **parameters})


def test_a_restore_takes_the_targets_namespace_alone() -> None:
    made = rendered(restore(backup(), restorePVs=True, existingResourcePolicy="update"))
    spec = made["spec"]
    assert (made["kind"], made["metadata"]["name"]) == ("Restore", "op-uid-1")
    assert (spec["backupName"], spec["includedNamespaces"]) == ("op-7", ["team"])
    assert (spec["restorePVs"], spec["existingResourcePolicy"]) == (True, "update")
    assert "namespaceMapping" not in spec


def test_the_location_of_a_restore_is_read_after_its_backup() -> None:
    assert ENGINE.needs(request_of("Restore", backupName="op-7")) == (SOURCE, TENANT)
    assert ENGINE.needs(request_of("Restore", {SOURCE: backup()}, backupName="op-7")) == (SOURCE, TENANT, LOCATION)


@pytest.mark.parametrize(
    "source",
    [
        backup(operation="other/first"),
        backup(operation=""),
        backup(operation="team"[:3] + "/x"),
        backup(namespaces=("team", "other")),
        backup(namespaces=("*",)),
        backup(namespaces=()),
        {"metadata": {"name": "op-7"}, "spec": {}},
    ],
)
def test_a_restore_of_a_backup_of_another_tenant_is_refused(source: Json) -> None:
    found = ENGINE.render(restore(source))
    assert isinstance(found, Refused)
    assert "was not made by an Operation of namespace team" in found.message
    assert ENGINE.needs(restore(source)) == (SOURCE, TENANT)


@pytest.mark.parametrize("mapping", [{"team": "other"}, {"other": "team"}, {"team": "team", "x": "y"}])
def test_a_restore_into_another_namespace_is_refused(mapping: Json) -> None:
    found = ENGINE.render(restore(backup(), namespaceMapping=mapping))
    assert isinstance(found, Refused)
    assert "restores the namespace team into itself" in found.message


def test_a_mapping_of_the_namespace_to_itself_is_left_out() -> None:
    assert "namespaceMapping" not in rendered(restore(backup(), namespaceMapping={"team": "team"}))["spec"]


@pytest.mark.parametrize("phase", ["", "New", "Queued", "ReadyToStart", "InProgress", "Finalizing"])
def test_a_restore_waits_for_an_unfinished_backup_which_velero_would_not(phase: str) -> None:
    found = ENGINE.render(restore(backup(phase)))
    assert isinstance(found, EngineBlocked)
    assert "not completed yet" in found.message


def test_a_restore_waits_for_a_backup_that_is_not_there() -> None:
    found = ENGINE.render(restore(None))
    assert found == EngineBlocked(
        "DependencyMissing", "there is no Backup op-7; name one from the outputs of another Operation"
    )


@pytest.mark.parametrize("phase", ["PartiallyFailed", "Failed", "FailedValidation", "Deleting"])
def test_a_restore_of_a_backup_that_never_completes_is_refused(phase: str) -> None:
    found = ENGINE.render(restore(backup(phase)))
    assert isinstance(found, Refused)
    assert (found.reason, phase in found.message) == ("PreconditionFailed", True)


def test_a_partially_failed_backup_is_restored_if_that_is_tolerated() -> None:
    assert rendered(restore(backup("PartiallyFailed"), toleratePartialFailure=True))["kind"] == "Restore"


def test_a_restore_needs_a_location_that_answers_and_may_be_read_only() -> None:
    down = restore(backup())
    assert isinstance(
        ENGINE.render(request_of("Restore", {SOURCE: backup(), LOCATION: None}, backupName="op-7")), EngineBlocked
    )
    read_only = {"spec": {"accessMode": "ReadOnly"}, "status": {"phase": "Available"}}
    made = request_of("Restore", {SOURCE: backup(), LOCATION: read_only}, backupName="op-7")
    assert isinstance(ENGINE.render(made), Rendered)
    assert isinstance(ENGINE.render(down), Rendered)


def test_our_own_kinds_and_withdrawn_rights_never_come_back() -> None:
    excluded = rendered(restore(backup(), includedResources=["*"]))["spec"]["excludedResources"]
    assert {"applicationinstances.apps.vworkspace.io", "operations.ops.vworkspace.io"} <= {*excluded}
    assert {"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"} <= {*excluded}
    found = ENGINE.render(restore(backup(), includedResources=["operations.ops.vworkspace.io"]))
    assert isinstance(found, Refused)


def test_flux_objects_and_jobs_come_back_only_if_they_are_named() -> None:
    plain = rendered(restore(backup()))["spec"]["excludedResources"]
    named = rendered(restore(backup(), includedResources=["jobs"]))["spec"]["excludedResources"]
    assert {*plain} - {*named} == {"jobs.batch"}
    assert "helmreleases.helm.toolkit.fluxcd.io" in named


@pytest.mark.parametrize(
    "parameters", [{}, {"backupName": ""}, {"backupName": "op-7", "existingResourcePolicy": "replace"}]
)
def test_wrong_parameters_of_a_restore_are_refused(parameters: Json) -> None:
    assert isinstance(ENGINE.render(request_of("Restore", **parameters)), Refused)


# --- cancel --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "action"),
    [
        ("", DeleteChild),
        ("New", DeleteChild),
        ("Queued", DeleteChild),
        ("ReadyToStart", DeleteChild),
        ("InProgress", WaitForEnd),
        ("WaitingForPluginOperations", WaitForEnd),
        ("Finalizing", WaitForEnd),
        ("Completed", WaitForEnd),
    ],
)
def test_a_cancel_deletes_only_what_has_not_begun(phase: str, action: type) -> None:
    assert isinstance(ENGINE.cancel(request_of(), {"status": {"phase": phase} if phase else {}}), action)


@pytest.mark.parametrize(
    ("uid", "word"), [("former-uid", "was deleted"), ("", "does not record"), (None, "does not record")]
)
def test_a_backup_of_another_namespace_of_the_same_name_is_refused(uid: str | None, word: str) -> None:
    found = ENGINE.render(restore(backup(uid=uid)))
    assert isinstance(found, Refused)
    assert word in found.message
    assert f"ops.vworkspace.io/namespace-uid={NAMESPACE_UID}" in found.message


@pytest.mark.parametrize("namespace", [None, {}])
def test_without_its_namespace_neither_a_backup_nor_a_restore_is_made(namespace: Json | None) -> None:
    for request in (
        request_of(related={LOCATION: AVAILABLE, TENANT: namespace}),
        request_of("Restore", {SOURCE: backup(), LOCATION: AVAILABLE, TENANT: namespace}, backupName="op-7"),
    ):
        found = ENGINE.render(request)
        assert isinstance(found, EngineBlocked)
        assert "namespace team does not exist" in found.message


GUARDED = ("roles", "rolebindings", "resourcequotas", "limitranges", "helmreleases", "kustomizations")
SPELLINGS: tuple[tuple[str, str], ...] = (
    ("roles", "roles"),
    ("roles", "Role"),
    ("roles", "ROLES.rbac.authorization.k8s.io"),
    ("rolebindings", "rolebindings"),
    ("rolebindings", "RoleBinding"),
    ("rolebindings", "rolebinding.rbac"),
    ("rolebindings", "rolebindings.rbac.authorization.k8s.io"),
    ("resourcequotas", "quota"),
    ("resourcequotas", "ResourceQuota"),
    ("limitranges", "limits"),
    ("helmreleases", "hr"),
    ("helmreleases", "HelmRelease.helm.toolkit.fluxcd.io"),
    ("kustomizations", "ks"),
)


def excludes(request: EngineRequest) -> set[str]:
    return {entry.partition(".")[0] for entry in rendered(request)["spec"]["excludedResources"]}


def allowing(request: EngineRequest, *rights: str) -> EngineRequest:
    return replace(request, settings=OperationSettings.model_validate({"restorable_rights": rights}))


@pytest.mark.parametrize("included", [None, ["*"], ["secrets"], ["jobs.batch", "*"]])
@pytest.mark.parametrize("policy", [None, "none", "update"])
def test_a_restore_brings_no_rights_back(included: list[str] | None, policy: str | None) -> None:
    given: Json = {"includedResources": included, "existingResourcePolicy": policy}
    found = restore(backup(), **{name: value for name, value in given.items() if value is not None})
    assert {*GUARDED, "clusterroles", "clusterrolebindings", "namespaces"} <= excludes(found)


@pytest.mark.parametrize(("right", "spelling"), SPELLINGS)
def test_no_spelling_includes_a_right_in_a_restore(right: str, spelling: str) -> None:
    found = restore(backup(), includedResources=["secrets", spelling])
    refused = ENGINE.render(found)
    assert isinstance(refused, Refused)
    assert f"{spelling} cannot be restored by an Operation" in refused.message
    assert right not in excludes(allowing(found, right))


@pytest.mark.parametrize("spelling", ["clusterroles", "ClusterRoleBinding", "crd", "ns", "Namespace", "appinst", "op"])
def test_no_setting_lets_a_restore_bring_the_cluster_back(spelling: str) -> None:
    found = allowing(restore(backup(), includedResources=[spelling]), *GUARDED)
    assert isinstance(ENGINE.render(found), Refused)


@pytest.mark.parametrize("right", GUARDED)
def test_an_administrator_allows_one_kind_of_right(right: str) -> None:
    found = allowing(restore(backup(), includedResources=[right]), right)
    assert excludes(found).intersection(GUARDED) == {*GUARDED} - {right}
    quiet = allowing(restore(backup()), right)
    of_flux = right in ("helmreleases", "kustomizations")
    assert (right in excludes(quiet)) == of_flux, "objects of Flux have to be named as well"


def test_resources_of_other_groups_with_such_a_name_are_restored() -> None:
    made = rendered(restore(backup(), includedResources=["roles.example.com", "quotas"]))
    assert made["spec"]["includedResources"] == ["roles.example.com", "quotas"]


@pytest.mark.parametrize(("volumes", "cluster"), [(None, None), (True, None), (False, False)])
def test_a_restore_without_volumes_takes_nothing_of_the_cluster(volumes: bool | None, cluster: bool | None) -> None:
    given = {} if volumes is None else {"restorePVs": volumes}
    assert rendered(restore(backup(), **given))["spec"].get("includeClusterResources") is cluster


@pytest.mark.parametrize(
    ("names", "open_"), [(None, True), ("team", True), ("a, team", True), ("a,b", False), ("", False)]
)
def test_a_location_is_used_only_by_the_namespaces_that_it_names(names: str | None, open_: bool) -> None:
    metadata = {} if names is None else {"annotations": {"ops.vworkspace.io/allowed-namespaces": names}}
    location = {**AVAILABLE, "metadata": metadata}
    for found in (
        ENGINE.render(request_of(related={LOCATION: location})),
        ENGINE.render(request_of("Restore", {SOURCE: backup(), LOCATION: location}, backupName="op-7")),
    ):
        assert isinstance(found, Rendered) == open_
        if isinstance(found, EngineBlocked):
            assert "is not for this namespace" in found.message
            assert "a,b" not in found.message
