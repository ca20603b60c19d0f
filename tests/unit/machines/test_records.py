"""The shard of an instance: the decision about an id that a server names, as tables."""

from collections.abc import Mapping
from typing import Any

import pytest

from konverge.crds.machines_v1beta1 import NstanceShardGroup
from konverge.objects import Object
from konverge.reconcilers.machines.groups.shares import pool_share
from konverge.reconcilers.machines.kinds import NSTANCE_MACHINE, POOL, SHARD_GROUP
from konverge.reconcilers.machines.records import AdmittedIds, ShardRecords, admitted_ids

OF_A = SHARD_GROUP.decode({"spec": {"shard": "a"}, "status": {"providerIDs": ["i-1"]}})
OF_B = NSTANCE_MACHINE.decode({"spec": {"shard": "z"}, "status": {"shard": "b", "providerID": "i-2"}})
TWICE = SHARD_GROUP.decode({"spec": {"shard": "c"}, "status": {"providerIDs": ["i-1"]}})
LISTS = POOL.decode({"spec": {"shards": ["a", "b"], "providerIDList": ["aws:///z/i-3"]}})


@pytest.mark.parametrize(
    ("shard", "provider_id", "foreign"),
    [
        ("a", "i-1", False),
        ("b", "i-1", True),
        ("b", "aws:///z/i-1", True),
        ("b", "i-2", False),
        ("z", "i-2", True),
        ("a", "i-3", False),
        ("c", "i-3", True),
        ("c", "i-unknown", False),
    ],
)
def test_an_id_is_foreign_if_another_shard_has_it(shard: str, provider_id: str, foreign: bool) -> None:
    assert ShardRecords([OF_A], [OF_B], [LISTS]).is_foreign(shard, provider_id) is foreign


def test_an_id_of_two_shards_belongs_to_neither() -> None:
    records = ShardRecords([OF_A, TWICE], [], [])
    assert [records.is_foreign(shard, "i-1") for shard in ("a", "c")] == [True, True]


@pytest.mark.parametrize(
    ("listed", "own", "others", "expected"),
    [
        (["i-2", "i-1"], [], [], AdmittedIds(("i-1", "i-2"))),
        (["i-1", "i-2"], [], ["i-2"], AdmittedIds(("i-1",), ("i-2",))),
        (["i-2"], ["i-2"], ["i-2"], AdmittedIds(("i-2",))),
        (["gce://z/i-2"], ["i-2"], ["i-2"], AdmittedIds((), ("gce://z/i-2",))),
    ],
)
def test_listed_or_owned_id_stays_and_another_objects_id_is_left_out(
    listed: list[str], own: list[str], others: list[str], expected: AdmittedIds
) -> None:
    assert admitted_ids(listed, own, others) == expected


def group(
    name: str = "workers--a", uid: str = "u1", kind: str = "NstanceMachinePool", **spec: Any
) -> NstanceShardGroup:
    owner = {"apiVersion": f"{POOL.group}/v1beta1", "kind": kind, "name": "p", "uid": uid, "controller": True}
    whole = {"group": "workers", "shard": "a", "size": 2, "template": "evil", "vars": {"userdata": "evil"}, **spec}
    metadata = {"name": name, "namespace": "ops", "ownerReferences": [owner]}
    return NstanceShardGroup.decode({"metadata": metadata, "spec": whole})


def pool(namespace: str = "ops", **spec: Any) -> Object:
    whole: Mapping[str, Any] = {"group": "workers", "shards": ["a"], "vars": {"zone": "a"}, **spec}
    return POOL.decode({"metadata": {"name": "p", "namespace": namespace, "uid": "u1"}, "spec": whole})


def test_a_share_has_its_size_and_the_settings_of_its_pool() -> None:
    found = pool_share(group(), pool())
    assert found is not None
    assert (found.size, found.template, found.vars) == (2, None, {"zone": "a"})


@pytest.mark.parametrize(
    ("claimed", "of"),
    [
        (group(), None),
        (group(), pool("attacker")),
        (group(uid="u2"), pool()),
        (group(kind="NstanceMachine"), pool()),
        (group("evil"), pool()),
        (group("workers--b"), pool()),
        (group(group="other", name="other--a"), pool()),
        (group(shard="b", name="workers--b"), pool()),
    ],
)
def test_a_claim_to_a_pool_makes_no_share(claimed: NstanceShardGroup, of: Object | None) -> None:
    assert pool_share(claimed, of) is None
