"""The settings sent for a group, and its status: the decisions as tables."""

from datetime import UTC, datetime

import pytest

from konverge.crds.machines_v1beta1 import ControlPlaneEndpoint, NstanceShardGroup
from konverge.outcome import RequeueAfter
from konverge.reconcilers.machines.clusters.decide import endpoint_of, shards_condition
from konverge.reconcilers.machines.groups.conditions import conditions_of_failure, in_sync
from konverge.reconcilers.machines.groups.config import drift, leftover_vars, static_differences
from konverge.reconcilers.machines.groups.decide import (
    GroupStep,
    InSync,
    SendGroup,
    WaitForShard,
    deletion_obstacle,
    next_step,
    plan_synced,
)
from konverge.reconcilers.machines.records import AdmittedIds
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import Group, GroupConfig
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.shards.states import GroupView

WANTED = GroupConfig(3, "std", "c7.large", "private", {"zone": "a"})
SHOWN = Group("workers", "std", 3, "c7.large", "private", {"zone": "a", "of": "template"})
STATIC = Group("workers", "fixed", 3, "c7.large", "public", {"zone": "a"}, is_static=True)


@pytest.mark.parametrize(
    ("wanted", "shown", "differs"),
    [
        (WANTED, SHOWN, ()),
        (GroupConfig(3), SHOWN, ()),
        (GroupConfig(2), SHOWN, ("size",)),
        (GroupConfig(3, "other", "huge", "public"), SHOWN, ("instance_type", "subnet_pool", "template")),
        (GroupConfig(3, vars={"zone": "b"}), SHOWN, ("vars",)),
        (GroupConfig(3, vars={"new": ""}), SHOWN, ("vars",)),
    ],
)
def test_a_group_differs_only_in_settings_that_are_wanted(
    wanted: GroupConfig, shown: Group, differs: tuple[str, ...]
) -> None:
    assert drift(wanted, shown) == differs


@pytest.mark.parametrize(
    ("view", "accepted", "static", "step"),
    [
        (GroupView(True, listed=SHOWN), True, False, InSync(SHOWN)),
        (GroupView(True, listed=SHOWN), False, False, SendGroup(WANTED)),
        (GroupView(True), True, False, SendGroup(WANTED)),
        (GroupView(True, "no response"), False, False, WaitForShard("no response")),
        (GroupView(True, "no response", SHOWN), True, False, WaitForShard("no response")),
        (GroupView(False, "not named"), True, False, WaitForShard("not named")),
        (GroupView(True, listed=STATIC), True, False, InSync(STATIC)),
        (
            GroupView(True, listed=STATIC),
            False,
            False,
            SendGroup(GroupConfig(3, "", "c7.large", "", {"zone": "a"})),
        ),
        (GroupView(True), False, True, SendGroup(GroupConfig(3, "", "c7.large", "", {"zone": "a"}))),
    ],
)
def test_group_is_sent_to_a_reachable_shard_that_lacks_it(
    view: GroupView, accepted: bool, static: bool, step: GroupStep
) -> None:
    assert next_step(WANTED, view, accepted=accepted, static=static) == step


@pytest.mark.parametrize(
    ("kind", "said", "found"),
    [
        (FailureKind.UNREACHABLE, "gone", {"ShardReachable": "ShardUnreachable", "Ready": "Syncing"}),
        (FailureKind.FAILED, "disk full", {"Ready": "ProviderError", "ShardReachable": "Connected"}),
        (
            FailureKind.FAILED,
            'failed to upsert group: cannot override template for static group "x" (INTERNAL)',
            {"Ready": "ProviderError", "ShardReachable": "Connected", "ConfigValid": "ConfigValidationFailed"},
        ),
        (
            FailureKind.FAILED,
            'failed to upsert group: template "x" not found (INTERNAL)',
            {"Ready": "ProviderError", "ShardReachable": "Connected", "ConfigValid": "ConfigValidationFailed"},
        ),
        (
            FailureKind.FAILED,
            "failed to upsert group: groups file was modified by another process (INTERNAL)",
            {"Ready": "ProviderError", "ShardReachable": "Connected"},
        ),
        (
            FailureKind.INVALID,
            "key is required",
            {"Ready": "ProviderError", "ShardReachable": "Connected", "ConfigValid": "ConfigValidationFailed"},
        ),
    ],
)
def test_a_failure_of_a_call_becomes_conditions(kind: FailureKind, said: str, found: dict[str, str]) -> None:
    conditions = conditions_of_failure(ShardFailure("a", kind, said), ready_reason="ProviderError")
    assert {one.type: one.reason for one in conditions} == found
    assert not next(one for one in conditions if one.type == "Ready").status


@pytest.mark.parametrize(
    ("document", "certificate", "problems", "shards", "reason", "message"),
    [
        ("", "", {}, ("a",), "Connected", "1 shards answer"),
        ("bad", "none", {"a": "gone"}, ("a",), "InvalidShardMap", "bad; the shards in use stay"),
        ("bad", "", {}, None, "InvalidShardMap", "bad"),
        ("", "none", {"a": "gone"}, ("a",), "NoCertificate", "none"),
        ("", "", {"b": "y", "a": "x"}, ("a", "b"), "ShardUnreachable", "groups are not imported meanwhile: a: x; b: y"),
    ],
)
def test_the_state_of_all_shards_is_one_condition(
    document: str,
    certificate: str,
    problems: dict[str, str],
    shards: tuple[str, ...] | None,
    reason: str,
    message: str,
) -> None:
    found = shards_condition(document=document, certificate=certificate, problems=problems, shards=shards)
    assert (found.status, found.reason, found.message) == (reason == "Connected", reason, message)


@pytest.mark.parametrize(
    ("setting", "server", "host", "port"),
    [
        ("api.example.com:6443", "https://10.0.0.1", "api.example.com", 6443),
        ("", "https://10.0.0.1", "10.0.0.1", 443),
        ("", "https://[2001:db8::1]:6443", "2001:db8::1", 6443),
        ("", "http://localhost", "localhost", 80),
    ],
)
def test_machines_use_the_api_server_of_the_setting_or_the_operator(
    setting: str, server: str, host: str, port: int
) -> None:
    assert endpoint_of(setting, server) == ControlPlaneEndpoint(host=host, port=port)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cluster_id": "A"}, "at most 32 lower-case letters"),
        ({"cluster_id": "a" * 32, "tenant": "b" * 32}, "at most 61 together"),
        ({"control_plane_endpoint": "10.0.0.1"}, "has no port"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_remedy(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MachineSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("wanted", "shown", "left"),
    [
        (WANTED, SHOWN, ("of",)),
        (GroupConfig(3), SHOWN, ("of", "zone")),
        (GroupConfig(3, vars={"zone": "", "of": ""}), SHOWN, ()),
        (GroupConfig(3), STATIC, ()),
    ],
)
def test_vars_only_on_the_server_invalidate_the_config_but_not_readiness(
    wanted: GroupConfig, shown: Group, left: tuple[str, ...]
) -> None:
    assert leftover_vars(wanted, shown) == left
    found = {one.type: (one.status, one.reason) for one in in_sync(left)}
    assert found["Ready"] == (True, "SyncSucceeded")
    assert found["ConfigValid"] == ((False, "VarsNotRemovable") if left else (True, "Valid"))


@pytest.mark.parametrize(
    ("wanted", "shown", "named"),
    [
        (GroupConfig(3), STATIC, ()),
        (GroupConfig(3, template="fixed", subnet_pool="public"), STATIC, ()),
        (GroupConfig(3, template="gpu"), STATIC, ("template",)),
        (GroupConfig(3, template="gpu", subnet_pool="private"), STATIC, ("template", "subnets")),
        (GroupConfig(3, template="gpu"), SHOWN, ()),
    ],
)
def test_settings_that_a_static_group_does_not_have_make_the_config_invalid(
    wanted: GroupConfig, shown: Group, named: tuple[str, ...]
) -> None:
    differences = static_differences(wanted, shown)
    assert tuple(difference.partition(" ")[0] for difference in differences) == named
    found = {one.type: (one.status, one.reason) for one in in_sync(static=differences)}
    assert found["ConfigValid"] == ((False, "StaticSettings") if named else (True, "Valid"))


def test_shard_that_keeps_a_value_other_than_sent_is_not_in_sync() -> None:
    ready = {one.type: one for one in in_sync(differing=("instance_type", "size"))}["Ready"]
    assert (ready.status, ready.message) == (False, "the shard has another value than it was sent: instance_type, size")


def test_refused_changes_are_retried_with_backoff_and_unreachable_shards_at_fixed_intervals() -> None:
    delays = FailureDelays(MachineSettings(retry=30, unreachable_retry=10))
    refused = ShardFailure("a", FailureKind.FAILED, "no")
    away = ShardFailure("a", FailureKind.UNREACHABLE, "away")
    assert [delays.after("u1", refused) for _ in range(6)] == [30, 60, 120, 240, 300, 300]
    assert [delays.after("u1", away) for _ in range(2)] == [10, 10]
    assert delays.after("u2", refused) == 30, "each object has its own"
    delays.forget("u1")
    assert delays.after("u1", refused) == 30


def shard_group(**status: object) -> NstanceShardGroup:
    return NstanceShardGroup.model_validate(
        {
            "metadata": {"name": "workers--a", "namespace": "ops"},
            "spec": {"group": "workers", "shard": "a", "size": 3},
            "status": status,
        }
    )


def test_a_listing_without_news_keeps_the_time_of_the_status() -> None:
    ids, settings, now = AdmittedIds(("i-1",)), MachineSettings(), datetime(2026, 1, 2, tzinfo=UTC)
    stored = {"replicas": 0, "providerIDs": ["i-1"], "isStatic": True, "lastSyncTime": "2026-01-01T00:00:00Z"}
    shown = Group("workers", size=3, is_static=True)

    def synced(group: NstanceShardGroup) -> str | None:
        draft = plan_synced(group, group.spec, shown, ids, InSync(shown), settings, now).draft
        assert draft is not None
        return draft.last_sync_time

    assert synced(shard_group(**stored, config={})) == "2026-01-01T00:00:00Z"
    assert synced(shard_group(**{**stored, "providerIDs": ["i-0"]}, config={})) == "2026-01-02T00:00:00Z"


def test_the_instances_of_another_shard_are_left_out_with_an_event() -> None:
    group, shown, ids = shard_group(), Group("workers", size=3), AdmittedIds(("i-1",), foreign=("i-2",))
    plan = plan_synced(
        group, group.spec, shown, ids, InSync(shown), MachineSettings(), datetime(2026, 1, 2, tzinfo=UTC)
    )
    assert plan.draft is not None
    assert plan.draft.provider_ids == ("i-1",)
    assert [(event.reason, event.type_) for event in plan.events] == [("ProviderError", "Warning")]
    assert plan.outcome == RequeueAfter(MachineSettings().unreachable_retry)


@pytest.mark.parametrize(
    ("group", "view", "reason"),
    [
        (shard_group(), GroupView(True), "DeleteSucceeded"),
        (shard_group(lastSyncTime="2026-01-01T00:00:00Z"), GroupView(False), "DeleteFailed"),
        (shard_group(lastSyncTime="2026-01-01T00:00:00Z"), GroupView(True), None),
        (shard_group(lastSyncTime="2026-01-01T00:00:00Z"), GroupView(True, "no response"), None),
    ],
    ids=["never-sent", "shard-removed", "sent", "shard-unreachable"],
)
def test_a_group_is_deleted_on_its_shard_only_if_it_was_sent(
    group: NstanceShardGroup, view: GroupView, reason: str | None
) -> None:
    obstacle = deletion_obstacle(group, None, view)
    assert (None if obstacle is None else obstacle.reason) == reason
