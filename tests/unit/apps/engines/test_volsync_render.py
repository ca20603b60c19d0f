"""ReplicationSources and ReplicationDestinations as the engine renders them, and its rejections."""

from typing import Any

import pytest
from apps.engine_replay import request_of
from recordings import Json

from konverge.reconcilers.apps.operations.engines.engine import EngineRequest, Refused, Rendered
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine

ENGINE = VolSyncEngine()
REPOSITORY = {"secretName": "repo"}


def rendered(request: EngineRequest) -> Json:
    found = ENGINE.render(request)
    assert isinstance(found, Rendered), found
    return found.object.to_dict()


def test_a_backup_is_a_source_with_the_operations_uid_as_its_token() -> None:
    made = rendered(request_of(pvc="data", repository=REPOSITORY, retain={"last": 3, "daily": 7, "within": "3d"}))
    assert (made["kind"], made["metadata"]["name"], made["metadata"]["namespace"]) == (
        "ReplicationSource",
        "op-uid-1",
        "team",
    )
    assert made["spec"] == {
        "sourcePVC": "data",
        "trigger": {"manual": "uid-1"},
        "restic": {
            "repository": "repo",
            "copyMethod": "Snapshot",
            "retain": {"daily": 7, "last": "3", "within": "3d"},
        },
    }


def test_a_restore_is_a_destination_into_the_volume() -> None:
    made = rendered(request_of("Restore", pvc="data", repository=REPOSITORY))
    assert made["kind"] == "ReplicationDestination"
    assert made["spec"] == {
        "trigger": {"manual": "uid-1"},
        "restic": {"repository": "repo", "copyMethod": "Direct", "destinationPVC": "data"},
    }


@pytest.mark.parametrize(
    ("type_", "method", "owned"),
    [("Backup", "Snapshot", True), ("Restore", "Direct", True), ("Restore", "Snapshot", False)],
)
def test_a_destination_whose_result_is_its_snapshot_outlives_its_operation(
    type_: str, method: str, owned: bool
) -> None:
    found = ENGINE.render(request_of(type_, pvc="data", repository=REPOSITORY, copyMethod=method))
    assert isinstance(found, Rendered)
    assert found.owned is owned


def test_the_direction_can_be_written() -> None:
    for type_, direction, kind in (
        ("Migration", "destination", "ReplicationDestination"),
        ("Restore", "source", "ReplicationSource"),
    ):
        made = rendered(request_of(type_, direction=direction, pvc="data", repository=REPOSITORY))
        assert made["kind"] == kind


def test_rclone_has_a_section_and_a_path() -> None:
    repository = {"secretName": "r", "type": "rclone", "configSection": "s3", "path": "bucket/x"}
    made = rendered(request_of(pvc="data", repository=repository, copyMethod="Clone"))
    assert made["spec"]["rclone"] == {
        "rcloneConfig": "r",
        "rcloneConfigSection": "s3",
        "rcloneDestPath": "bucket/x",
        "copyMethod": "Clone",
    }


@pytest.mark.parametrize("type_", ["Backup", "Restore"])
def test_a_copy_method_and_a_trigger_are_always_written(type_: str) -> None:
    spec = rendered(request_of(type_, pvc="data", repository=REPOSITORY))["spec"]
    assert spec["restic"]["copyMethod"]
    assert spec["trigger"] == {"manual": "uid-1"}


def test_the_name_leaves_room_for_the_name_of_the_job() -> None:
    uid = "01a23933-32d2-4dcc-938a-99a1db90dd6e"
    name = rendered(request_of(pvc="data", repository=REPOSITORY, uid=uid))["metadata"]["name"]
    assert len(f"volsync-rclone-src-{name}") <= 63


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "parameters.pvc: required"),
        ({"pvc": "data\x00", "repository": REPOSITORY}, "parameters.pvc"),
        ({"pvc": "data"}, "parameters.repository: required"),
        ({"pvc": "data", "repository": {}}, "parameters.repository.secretName: required"),
        ({"pvc": "data", "repository": {"secretName": "r", "type": "syncthing"}}, "parameters.repository.type"),
        ({"pvc": "data", "repository": {"secretName": "r", "type": "rclone"}}, "configSection and path"),
        ({"pvc": "data", "repository": REPOSITORY, "schedule": "0 1 * * *"}, "an Operation is one run and ends"),
        ({"pvc": "data", "repository": REPOSITORY, "copyMethod": "None"}, "parameters.copyMethod"),
        ({"pvc": "data", "repository": REPOSITORY, "direction": "up"}, "parameters.direction"),
        (
            {"pvc": "data", "repository": REPOSITORY, "direction": "destination", "copyMethod": "Clone"},
            "a destination takes Direct or Snapshot",
        ),
        (
            {"pvc": "data", "repository": REPOSITORY, "direction": "destination", "retain": {"last": 1}},
            "only a source has it",
        ),
        ({"pvc": "data", "repository": REPOSITORY, "retain": {"last": -1}}, "parameters.retain.last"),
    ],
)
def test_wrong_parameters_of_a_replication_are_refused(parameters: Any, message: str) -> None:
    found = ENGINE.render(request_of(**parameters))
    assert isinstance(found, Refused)
    assert message in found.message
