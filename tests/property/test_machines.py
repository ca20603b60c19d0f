"""Distribution, node correlation and imports of machine pools hold for any input; their vectors are tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.reconcilers.machines.clusters.imports import ImportedPool, ImportPlan, plan_imports
from konverge.reconcilers.machines.correlation import matches, pool_provider_ids, the_match
from konverge.reconcilers.machines.pools.distribution import distribute
from konverge.reconcilers.machines.shards.messages import Group

SHARDS = st.lists(st.sampled_from(["a", "b", "c", "us-west-2a", "us-west-2b", "z"]), min_size=1, max_size=8)
IDS = st.sampled_from([f"i-{number}" for number in range(5)])
FULL = st.builds(
    lambda scheme, zone, name: f"{scheme}:///{zone}/{name}", st.sampled_from(["aws", "gce"]), st.sampled_from("ab"), IDS
)


@pytest.mark.parametrize(
    ("replicas", "shards", "expected"),
    [
        (10, ["c", "a", "b"], {"a": 4, "b": 3, "c": 3}),
        (5, ["us-west-2a", "us-west-2b"], {"us-west-2a": 3, "us-west-2b": 2}),
        (1, ["a", "b", "c"], {"a": 1, "b": 0, "c": 0}),
        (0, ["a", "b"], {"a": 0, "b": 0}),
        (7, list("abcdefg"), dict.fromkeys("abcdefg", 1)),
        (None, ["a"], {"a": 0}),
        (-3, ["a", "b"], {"a": 0, "b": 0}),
        (3, ["a", "a"], {"a": 3}),
        (3, [], {}),
    ],
)
def test_replicas_are_distributed_as_the_original_does(
    replicas: int | None, shards: list[str], expected: dict[str, int]
) -> None:
    found = distribute(replicas, shards)
    assert found == expected
    assert list(found) == sorted(found)


@given(st.integers(0, 10_000), SHARDS)
def test_shares_are_even_and_an_extra_replica_changes_one_shard(replicas: int, shards: list[str]) -> None:
    found = distribute(replicas, shards)
    assert sum(found.values()) == replicas
    assert max(found.values()) - min(found.values()) <= 1
    assert distribute(replicas, reversed(shards)) == found
    more = distribute(replicas + 1, shards)
    assert sorted(more[name] - found[name] for name in found) == [*[0] * (len(found) - 1), 1]


@pytest.mark.parametrize(
    ("node", "instance", "expected"),
    [
        ("", "", False),
        ("", "i-0a", False),
        ("aws:///us-west-2a/i-0a", "", False),
        ("i-0a", "i-0a", True),
        ("aws:///us-west-2a/i-0a", "i-0a", True),
        ("aws://123456789012/us-west-2a/i-0a", "i-0a", True),
        ("aws:///us-west-2a/i-0a", "us-west-2a", False),
        ("aws:///us-west-2a/i-0ab", "i-0a", False),
        ("gce://project/us-central1-a/vm-1", "vm-1", True),
        ("gce://project/us-central1-a/vm-1", "gce://project/us-central1-a/vm-1", True),
        ("dev:///vm-1", "vm-1", False),
        ("azure:///subscriptions/x/vm-1", "vm-1", False),
        ("AWS:///us-west-2a/i-0a", "i-0a", False),
        ("aws:///us-west-2a/", "", False),
    ],
)
def test_node_matches_by_the_last_id_segment_on_aws_and_gce(node: str, instance: str, expected: bool) -> None:
    assert matches(node, instance) is expected


def test_a_name_that_several_nodes_have_matches_none() -> None:
    both = ["gce://one/zone/vm-1", "gce://two/zone/vm-1"]
    assert the_match("vm-1", both) == ""
    assert the_match("vm-1", [both[0], both[0], "gce://one/zone/vm-2"]) == both[0]
    assert pool_provider_ids(["vm-1"], published=[], node_ids=both) == ("vm-1",)
    assert pool_provider_ids(["vm-1"], published=[both[1]], node_ids=both) == (both[1],)


@given(st.lists(IDS, unique=True), st.lists(st.one_of(FULL, IDS)), st.lists(FULL), st.lists(FULL))
def test_matched_node_id_stays_published_while_its_instance_exists(
    instances: list[str], published: list[str], nodes: list[str], later: list[str]
) -> None:
    first = pool_provider_ids(instances, published=published, node_ids=nodes)
    assert len(first) == len(instances), "each instance has one id"
    assert all(sum(matches(shown, one) for shown in first) == 1 for one in instances)
    # Whatever Nodes are added and removed, and in whatever order instances are listed: full ids stay.
    again = pool_provider_ids(reversed(instances), published=first, node_ids=later)
    assert {one for one in first if "/" in one} <= set(again)
    assert pool_provider_ids(instances, published=again, node_ids=[]) == again


WORKERS = Group("workers", template="std", size=3, instance_type="c7.large", vars={"zone": "a"})


@pytest.mark.parametrize(
    ("expected", "listed", "existing", "plan"),
    [
        ([], {}, [], ImportPlan()),
        (["a"], {}, [], ImportPlan(missing=("a",))),
        (["b", "a"], {"a": [WORKERS]}, [], ImportPlan(missing=("b",))),
        (["a"], {"a": []}, [], ImportPlan()),
        (["a"], {"a": [WORKERS]}, ["workers"], ImportPlan()),
        (
            ["a"],
            {"a": [WORKERS], "removed": [Group("old", size=9)]},
            [],
            ImportPlan((ImportedPool("workers", ("a",), 3, "std", "c7.large", {"zone": "a"}),)),
        ),
        (
            ["us-west-2b", "us-west-2a"],
            {"us-west-2a": [Group("main", size=3)], "us-west-2b": [Group("main", size=2), WORKERS]},
            [],
            ImportPlan(
                (
                    ImportedPool("main", ("us-west-2a", "us-west-2b"), 5),
                    ImportedPool("workers", ("us-west-2b",), 3, "std", "c7.large", {"zone": "a"}),
                )
            ),
        ),
        (
            ["a", "b"],
            {
                "a": [Group("main", template="std", size=1)],
                "b": [Group("main", template="std", size=1, is_static=True)],
            },
            [],
            ImportPlan((ImportedPool("main", ("a", "b"), 2),)),
        ),
        (
            ["a"],
            {"a": [Group("No Identifier", size=1), Group("ok")]},
            [],
            ImportPlan((ImportedPool("ok", ("a",), 0),), (), ("No Identifier",)),
        ),
    ],
)
def test_groups_without_a_pool_are_imported_with_the_sum_of_their_sizes(
    expected: list[str], listed: dict[str, list[Group]], existing: list[str], plan: ImportPlan
) -> None:
    assert plan_imports(expected, listed, existing) == plan


GROUPS = st.lists(
    st.builds(Group, st.sampled_from(["main", "workers", "gpu"]), size=st.integers(0, 9)),
    unique_by=lambda group: group.key,
)


@given(
    st.sets(st.sampled_from("abcd"), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), GROUPS),
    st.sets(st.sampled_from(["main", "gpu"])),
)
def test_import_waits_for_every_shard_and_loses_no_size(
    expected: set[str], listed: dict[str, list[Group]], existing: set[str]
) -> None:
    plan = plan_imports(expected, listed, existing)
    assert set(plan.missing) == expected - listed.keys()
    if plan.missing:
        assert plan.pools == ()
        return
    sizes = {
        (shard, group.key): group.size for shard in expected for group in listed[shard] if group.key not in existing
    }
    assert sum(pool.replicas for pool in plan.pools) == sum(sizes.values())
    assert {(shard, pool.group) for pool in plan.pools for shard in pool.shards} == sizes.keys()
