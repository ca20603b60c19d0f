"""The writes of a pool: the owner of a group, sizes, status, provider ids that stay, and the creation of a MachinePool."""

from datetime import UTC, datetime, timedelta

import pytest

from konverge.crds.machines_v1beta1 import NstanceMachinePool
from konverge.objects import Metadata
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.machines.pools.decide import creation_problem, plan_deletion, plan_pool, plan_writes
from konverge.reconcilers.machines.pools.duplicates import SameGroupPool, duplicate_of
from konverge.reconcilers.machines.pools.observe import ObservedPool, ShardSize
from konverge.reconcilers.machines.pools.unlisted import UnlistedIds
from konverge.reconcilers.machines.settings import MachineSettings

SETTINGS = MachineSettings()


OLD, NEW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("own", "others", "path"),
    [
        (SameGroupPool("u1", "x/one", NEW, False), [], ""),
        (SameGroupPool("u1", "x/one", NEW, False), [SameGroupPool("u2", "x/two", OLD, False)], "x/two"),
        (SameGroupPool("u1", "x/one", OLD, False), [SameGroupPool("u2", "x/two", NEW, False)], ""),
        (SameGroupPool("u1", "x/one", OLD, False), [SameGroupPool("u2", "x/two", OLD, False)], ""),
        (SameGroupPool("u1", "x/one", OLD, False), [SameGroupPool("u2", "x/two", NEW, True)], "x/two"),
        (SameGroupPool("u1", "x/one", NEW, True), [SameGroupPool("u2", "x/two", OLD, False)], ""),
        (SameGroupPool("u1", "x/one", None, False), [SameGroupPool("u2", "x/two", NEW, False)], "x/two"),
    ],
)
def test_the_pool_that_works_has_the_group_and_else_the_oldest(
    own: SameGroupPool, others: list[SameGroupPool], path: str
) -> None:
    assert duplicate_of(own, others) == path


def observed(**changes: object) -> ObservedPool:
    members = (ShardSize("a", 2, True, "", 2, ("i-1", "i-2")), ShardSize("b", 1, True, "", 1, ("i-3",)))
    values: dict[str, object] = {"document": ("a", "b"), "replicas": 3, "members": members, **changes}
    return ObservedPool("workers", ("b", "a"), **values)  # type: ignore[arg-type]  # a table's


@pytest.mark.parametrize(
    ("pool", "sizes", "reason", "message"),
    [
        (observed(), {"a": 2, "b": 1}, "Reconciled", "3 replicas on 2 shards"),
        (observed(replicas=5), {"a": 3, "b": 2}, "Reconciling", "a: its shard group is being written; b: its shard"),
        (observed(replicas=None), None, "Reconciling", "waits for its MachinePool"),
        (observed(replicas=None, owner_problem="it is gone"), None, "Reconciling", "it is gone"),
        (observed(document=None), None, "Reconciling", "waits for the document of shards"),
        (observed(document=("a",)), None, "Invalid", "the document of shards does not name b"),
        (observed(duplicate_of="x/two"), None, "DuplicateGroup", "pool x/two has group workers"),
        (observed(members=()), {"a": 2, "b": 1}, "Reconciling", "a: its shard group is being written"),
        (
            observed(members=(ShardSize("a", 2, True, copied=False), ShardSize("b", 1, False, "no capacity"))),
            {"a": 2, "b": 1},
            "Reconciling",
            "a: its shard group has other settings: delete it if that stays, and it is created again; b: no capacity",
        ),
        (
            observed(members=(ShardSize("a", 2, True), ShardSize("b", 1, True), ShardSize("c", 4, True))),
            {"a": 2, "b": 1},
            "Reconciling",
            "c: the shard group is being deleted",
        ),
    ],
)
def test_pool_distributes_the_replicas_of_its_machine_pool_or_reports_why(
    pool: ObservedPool, sizes: dict[str, int] | None, reason: str, message: str
) -> None:
    plan = plan_pool(pool)
    assert plan.sizes == sizes
    assert (plan.ready, plan.reason) == (reason == "Reconciled", reason)
    assert plan.message.startswith(message)


def test_a_pool_shows_what_its_shards_have() -> None:
    members = (
        ShardSize("a", 2, True, "", 2, ("i-1", "i-2"), False, "std", ("private",)),
        ShardSize("b", 1, True, "", 1, ("i-3",), True, "std", ("public",)),
    )
    plan = plan_pool(observed(members=members, published=("aws:///z/i-3",), node_ids=("aws:///z/i-1",)))
    assert plan.provider_ids == ("aws:///z/i-1", "aws:///z/i-3", "i-2")
    assert (plan.replicas, plan.is_static, plan.template, plan.subnets) == (3, True, "std", ("private", "public"))


def pool(*owners: dict[str, str], **status: object) -> NstanceMachinePool:
    return NstanceMachinePool.model_validate(
        {
            "metadata": {"name": "workers", "namespace": "ops", "ownerReferences": owners},
            "spec": {"group": "workers", "shards": ["b", "a"], "providerIDList": ["i-1", "i-2", "i-3"]},
            "status": status,
        }
    )


def test_a_pool_without_sizes_leaves_its_shard_groups_untouched() -> None:
    plan = plan_writes(pool(), observed(replicas=None), SETTINGS)
    assert plan.children is None
    assert plan.draft is not None
    assert plan.draft.observed_owner_generation is None


def test_a_duplicate_writes_its_condition_only() -> None:
    plan = plan_writes(pool(), observed(duplicate_of="x/two", published=()), SETTINGS)
    assert (plan.children, plan.applies, plan.draft) == (None, (), None)
    assert [update.reason for update in plan.set_conditions] == ["DuplicateGroup"]


def test_provider_ids_are_applied_only_if_they_change() -> None:
    assert plan_writes(pool(), observed(published=("i-1", "i-2", "i-3")), SETTINGS).applies == ()
    (apply,) = plan_writes(pool(), observed(node_ids=("aws:///z/i-2",)), SETTINGS).applies
    assert apply.force
    assert apply.object.to_dict()["spec"] == {"providerIDList": ["aws:///z/i-2", "i-1", "i-3"]}


def test_ready_of_a_pool_stays_once_it_was_true() -> None:
    waiting = observed(members=())
    first, later = plan_writes(pool(), waiting, SETTINGS).draft, plan_writes(pool(ready=True), waiting, SETTINGS).draft
    assert first is not None
    assert later is not None
    assert (first.ready, later.ready) == (False, True)


def test_the_status_counts_each_node_with_a_published_id() -> None:
    draft = plan_writes(pool(), observed(node_ids=("aws:///z/i-1", "gce://p/z/other", "i-2", "i-2")), SETTINGS).draft
    assert draft is not None
    assert draft.nodes == 3


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Done()),
        ({"kept": ("i-9",)}, RequeueAfter(SETTINGS.retire_after / 3)),
        ({"document": ("a",), "kept": ("i-9",)}, RequeueAfter(SETTINGS.unreachable_retry)),
    ],
)
def test_a_kept_id_or_an_invalid_pool_is_checked_again(
    changes: dict[str, object], outcome: Done | RequeueAfter
) -> None:
    assert plan_writes(pool(), observed(**changes), SETTINGS).outcome == outcome


@pytest.mark.parametrize(
    ("created", "replicas", "name_taken", "problem"),
    [
        (pool(), 3, False, ""),
        (pool(), 0, False, ""),
        (pool(), None, False, "waits for every shard"),
        (pool(), 3, True, "MachinePool workers refers to other infrastructure"),
        (pool(observedOwnerGeneration=1), 3, False, "its MachinePool is gone"),
    ],
)
def test_a_machine_pool_is_created_once_with_the_replicas_of_the_servers(
    created: NstanceMachinePool, replicas: int | None, name_taken: bool, problem: str
) -> None:
    text = creation_problem(created, replicas, name_taken=name_taken)
    assert text.startswith(problem)
    assert bool(text) == bool(problem)


def test_pool_that_references_a_deleted_machine_pool_gets_no_other() -> None:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "workers", "uid": "u"}
    assert creation_problem(pool(owner), 3, name_taken=False).startswith("its MachinePool is gone")


def test_a_deleted_pool_waits_for_its_shard_groups() -> None:
    groups = [Metadata(name="b", uid="u2"), Metadata(name="a", uid="u1", deletion_timestamp="2026-01-01T00:00:00Z")]
    plan = plan_deletion(groups, SETTINGS)
    assert [(delete.name, delete.uid) for delete in plan.deletes] == [("b", "u2")]
    assert plan.set_conditions[0].message == "waits for a, b"
    assert plan.outcome == RequeueAfter(timedelta(seconds=SETTINGS.retry))
    assert plan_deletion([], SETTINGS).outcome == Done()


def test_an_unlisted_id_stays_while_it_is_fresh_or_drained() -> None:
    unlisted, drained = UnlistedIds(), {"i-2"}

    def kept(now: float, *ids: str) -> tuple[str, ...]:
        return unlisted.kept("u", ids, now, retire_after=30, drains=drained.__contains__)

    assert kept(100, "aws:///z/i-1", "aws:///z/i-2") == ("aws:///z/i-1", "aws:///z/i-2")
    assert kept(129, "aws:///z/i-1", "aws:///z/i-2") == ("aws:///z/i-1", "aws:///z/i-2")
    assert kept(130, "aws:///z/i-1", "aws:///z/i-2") == ("aws:///z/i-2",)
    drained.clear()
    assert kept(131, "aws:///z/i-2") == ()
    assert kept(132) == ()
    assert kept(133, "aws:///z/i-2") == ("aws:///z/i-2",), "an id that was listed again begins again"
