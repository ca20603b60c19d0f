"""The changes of pools that the webhook denies: changes of a static group that its servers would reject."""

from typing import Any

import pytest

from konverge.objects import Object
from konverge.reconcilers.machines.kinds import NAMESPACE
from konverge.reconcilers.machines.kinds import POOL as POOLS
from konverge.reconcilers.machines.pools.protection import protecting, refused_changes
from konverge_testing import admit

SPEC = {"group": "workers", "template": "std", "shards": ["a", "b"], "subnets": ["private"], "vars": {"x": "1"}}
SERVERS = {"template": "std", "subnets": ["private"]}


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"template": "gpu"}, ["spec.template"]),
        ({"template": None}, ["spec.template"]),
        ({"shards": ["a"]}, ["spec.shards"]),
        ({"shards": ["b", "a"]}, []),
        ({"subnets": []}, ["spec.subnets"]),
        ({"instanceType": "c7.large"}, []),
        ({"vars": {}}, []),
        ({"providerIDList": ["i-0a"]}, []),
    ],
)
async def test_of_a_static_pool_template_subnets_and_shards_stay(change: dict[str, Any], refused: list[str]) -> None:
    changed = {**SPEC, **change}
    assert list(refused_changes(SPEC, changed, SERVERS)) == refused
    for static in (True, False):
        old = pool() if static else POOLS.decode({**pool().to_dict(), "status": {}})
        answer = await admit(protecting(), POOLS.decode({**old.to_dict(), "spec": changed}), old=old, cache=[])
        assert answer.allowed is not (static and bool(refused))


def pool(**metadata: Any) -> Object:
    found = {"name": "workers", "namespace": "lab", "uid": "u", **metadata}
    return POOLS.decode({"metadata": found, "spec": SPEC, "status": {"isStatic": True, **SERVERS}})


def namespace(**metadata: Any) -> Object:
    return NAMESPACE.decode({"metadata": {"name": "lab", **metadata}})


@pytest.mark.parametrize(
    ("old", "seen", "allowed"),
    [
        (pool(), [namespace()], False),
        (pool(annotations={"nstance.dev/allow-deletion": ""}), [namespace()], True),
        (pool(), [namespace(deletionTimestamp="2026-01-01T00:00:00Z")], True),
        (pool(), [], True),
    ],
    ids=["static", "annotated", "with its namespace", "namespace unknown"],
)
async def test_a_static_pool_is_deleted_with_an_annotation_or_with_its_namespace(
    old: Object, seen: list[Object], allowed: bool
) -> None:
    answer = await admit(protecting(), old=old, cache=seen)
    assert answer.allowed is allowed
