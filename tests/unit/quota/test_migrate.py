"""The pools, claims and notes of a migration, as a pure function of a tenant."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import KonvergeError
from konverge.quantities import read, written
from konverge.reconcilers.quota.migrate import Migration, plan, read_tenant
from konverge.reconcilers.quota.migrate_amounts import shared_out

Uses = Mapping[str, list[dict[str, Any] | None]]


def tenant(*items: dict[str, Any], scope: str | None = None, listed: tuple[str, ...] = ()) -> dict[str, Any]:
    quotas = {"items": list(items), **({"scope": scope} if scope else {})}
    return {
        "metadata": {"name": "solar"},
        "spec": {"resourceQuotas": quotas},
        "status": {"namespaces": list(listed)},
    }


def quotas(uses: Uses) -> list[dict[str, Any]]:
    return [
        {"metadata": {"namespace": namespace, "name": f"capsule-solar-{index}"}, "status": {"used": used}}
        for namespace, each in uses.items()
        for index, used in enumerate(each)
        if used is not None
    ]


def migrated(found: dict[str, Any], uses: Uses, **options: Any) -> Migration:
    return plan(read_tenant(found, uses, quotas(uses)), **options)


def pools(migration: Migration) -> dict[str, Any]:
    return {pool.name: pool.to_dict()["spec"]["quota"] for pool in migration.pools}


def claims(migration: Migration) -> dict[tuple[str, str], Any]:
    return {(claim.namespace, claim.name): claim.to_dict()["spec"]["claim"] for claim in migration.claims}


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ([{"limits.cpu": "2", "memory": "1Gi"}, {"pods": "7"}], ["solar-compute", "solar-size"]),
        ([{"requests.storage": "1Gi", "persistentvolumeclaims": "3"}], ["solar-storage"]),
        ([{"count/jobs.batch": "7"}, {"secrets": "1"}], ["solar-size", "solar-size-1"]),
        ([{"pods": "7", "cpu": "1"}, {}], ["solar-quota-0", "solar-quota-1"]),
    ],
)
def test_a_pool_is_named_by_the_class_of_its_resources(items: list[dict[str, str]], names: list[str]) -> None:
    migration = migrated(tenant(*({"hard": hard} for hard in items)), {})
    assert [pool.name for pool in migration.pools] == names


def test_pools_may_begin_with_another_name_than_the_tenants() -> None:
    migration = migrated(tenant({"hard": {"pods": "7"}}), {"a": [{"pods": "1"}]}, prefix="sun")
    assert [pool.name for pool in migration.pools] == ["sun-size"]
    assert migration.claims[0].spec.pool == "sun-size"


def test_pool_that_a_label_cannot_name_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        KonvergeError, match="65 characters, and 63 are allowed; choose a short beginning with --prefix"
    ):
        migrated(tenant({"hard": {"pods": "7"}}), {}, prefix="p" * 60)


def test_a_pool_keeps_the_scopes_of_its_item() -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}
    migration = migrated(tenant({"hard": {"pods": 7}, "scopes": ["NotBestEffort"], "scopeSelector": selector}), {})
    assert pools(migration) == {
        "solar-size": {"hard": {"pods": "7"}, "scopes": ["NotBestEffort"], "scopeSelector": selector}
    }


def test_a_quota_for_each_namespace_becomes_a_pool_for_all_of_them() -> None:
    uses: Uses = {name: [{"memory": "10Mi"}] for name in ("a", "b", "c")}
    migration = migrated(tenant({"hard": {"memory": "1Gi", "cpu": "500m"}}, scope="Namespace"), uses)
    assert pools(migration) == {"solar-compute": {"hard": {"memory": "3Gi", "cpu": "1500m"}}}
    assert claims(migration) == {(name, "compute"): {"memory": "10Mi"} for name in uses}


def test_a_quota_for_each_namespace_of_a_tenant_without_namespaces_is_rejected() -> None:
    with pytest.raises(KonvergeError, match="has no namespace"):
        migrated(tenant({"hard": {"pods": "7"}}, scope="Namespace"), {})


def test_unused_resources_are_not_claimed() -> None:
    uses: Uses = {"a": [{"cpu": "0", "memory": "0"}], "b": [{"cpu": "1", "memory": "0"}]}
    assert claims(migrated(tenant({"hard": {"cpu": "2", "memory": "1Gi"}}), uses)) == {("b", "compute"): {"cpu": "1"}}


def test_a_namespace_that_uses_nothing_is_noted() -> None:
    uses: Uses = {"a": [{"cpu": "0", "memory": "0"}], "b": [{"cpu": "1"}], "c": [{}]}
    migration = migrated(tenant({"hard": {"cpu": "2", "memory": "1Gi"}}), uses)
    assert migration.notes == tuple(
        f"namespace {namespace} uses nothing of it: nothing is claimed for it from pool solar-compute, and without a claim it can use "
        "nothing"
        for namespace in ("a", "c")
    )


def test_resources_that_the_item_does_not_limit_are_not_claimed() -> None:
    uses: Uses = {"a": [{"cpu": "1", "pods": "3"}]}
    assert claims(migrated(tenant({"hard": {"cpu": "2"}}), uses)) == {("a", "cpu"): {"cpu": "1"}}


def test_claims_of_one_name_in_one_namespace_are_prefixed_with_their_pool() -> None:
    items = ({"hard": {"pods": "7"}}, {"hard": {"pods": "3"}, "scopes": ["BestEffort"]})
    found = claims(migrated(tenant(*items), {"a": [{"pods": "2"}, {"pods": "1"}]}))
    assert found == {("a", "pods"): {"pods": "2"}, ("a", "solar-size-1-pods"): {"pods": "1"}}


def test_a_claim_of_one_resource_has_a_name_that_the_api_accepts() -> None:
    found = claims(migrated(tenant({"hard": {"count/jobs.batch": "7"}}), {"a": [{"count/jobs.batch": "2"}]}))
    assert found == {("a", "count-jobs.batch"): {"count/jobs.batch": "2"}}


def test_namespaces_that_no_pool_would_select_are_noted() -> None:
    migration = migrated(tenant({"hard": {"pods": "7"}}, listed=("a", "b")), {"a": [{"pods": "1"}]})
    assert list(claims(migration)) == [("a", "pods")]
    assert migration.notes == (
        "namespace b is listed by the tenant and does not bear the label capsule.clastix.io/tenant=solar: no pool selects it",
    )


def test_a_namespace_without_the_tenants_quota_is_noted() -> None:
    migration = migrated(tenant({"hard": {"pods": "7"}}), {"a": [{"pods": "1"}], "b": [None]})
    assert list(claims(migration)) == [("a", "pods")]
    assert migration.notes == (
        "namespace b has no ResourceQuota capsule-solar-0: nothing is claimed for it from pool solar-size",
    )


@pytest.mark.parametrize("found", [{}, {"spec": {}}, {"spec": {"resourceQuotas": {"scope": "Tenant"}}}])
def test_a_tenant_without_quotas_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(KonvergeError, match=r"has no spec.resourceQuotas.items: there is nothing to migrate"):
        read_tenant({"metadata": {"name": "solar"}, **found}, (), ())


def test_a_quota_that_was_not_counted_yet_is_refused() -> None:
    quota = {"metadata": {"namespace": "a", "name": "capsule-solar-0"}, "spec": {"hard": {"pods": "7"}}}
    with pytest.raises(KonvergeError, match=r"ResourceQuota a/capsule-solar-0 does not say yet what is used"):
        read_tenant(tenant({"hard": {"pods": "7"}}), ["a"], [quota])


def test_an_invalid_amount_is_rejected_with_its_field() -> None:
    with pytest.raises(
        KonvergeError, match=r"Tenant solar: spec.resourceQuotas.items\[0\].hard: quantities must match"
    ):
        read_tenant(tenant({"hard": {"pods": "many"}}), (), ())


def test_quotas_that_capsule_did_not_make_are_left_alone() -> None:
    foreign = {"metadata": {"namespace": "a", "name": "capsule-solar-00"}, "status": {"used": {"pods": "9"}}}
    seen = read_tenant(tenant({"hard": {"pods": "7"}}), ["a"], [*quotas({"a": [{"pods": "1"}]}), foreign])
    assert claims(plan(seen)) == {("a", "pods"): {"pods": "1"}}


def test_the_order_of_what_was_read_changes_nothing() -> None:
    found = tenant({"hard": {"pods": "7"}}, {"hard": {"cpu": "1"}})
    uses: Uses = {name: [{"pods": "1"}, {"cpu": "100m"}] for name in ("b", "a", "c")}
    backward: Uses = {name: uses[name] for name in sorted(uses, reverse=True)}
    assert migrated(found, uses) == migrated(found, backward)
    assert list(claims(migrated(found, uses))) == [(name, claim) for name in "abc" for claim in ("cpu", "pods")]


@pytest.mark.parametrize(
    ("hard", "used", "percent", "wanted", "noted"),
    [
        ({"cpu": "2"}, {"a": "375m", "b": "500m"}, 0, {"a": "375m", "b": "500m"}, ""),
        ({"cpu": "2"}, {"a": "375m", "b": "500m"}, 10, {"a": "413m", "b": "550m"}, ""),
        ({"pods": "9"}, {"a": "3", "b": "2"}, 10, {"a": "4", "b": "3"}, ""),
        ({"memory": "2Gi"}, {"a": "384Mi", "b": "128Mi"}, 20, {"a": "461Mi", "b": "154Mi"}, ""),
        ({"memory": "2G"}, {"a": "1000", "b": "0"}, 10, {"a": "1100"}, ""),
        ({"cpu": "1"}, {"a": "450m", "b": "450m"}, 50, {"a": "500m", "b": "500m"}, "headroom of 50 % is more than hard (1) has room for; it is less"),
        ({"pods": "7"}, {"a": "3", "b": "2", "c": "2"}, 50, {"a": "3", "b": "2", "c": "2"}, "headroom of 50 % is more than"),
        ({"pods": "7"}, {"a": "3", "b": "3"}, 50, {"a": "3", "b": "3"}, "headroom of 50 % is more than"),
        ({"pods": "5"}, {"a": "3", "b": "3"}, 50, {"a": "3", "b": "3"}, "6 is used where hard is 5; the claims that do not fit will wait"),
        ({"pods": "5"}, {"a": "3", "b": "3"}, 0, {"a": "3", "b": "3"}, "6 is used where hard is 5"),
    ],
)  # fmt: skip
def test_headroom_is_rounded_up_without_claims_beyond_the_pool(
    hard: dict[str, str], used: dict[str, str], percent: int, wanted: dict[str, str], noted: str
) -> None:
    [resource] = hard
    uses = {namespace: read({resource: amount}) for namespace, amount in used.items()}
    shares = shared_out(read(hard), uses, Fraction(percent, 100))
    found = {namespace: written(amounts)[resource] for namespace, amounts in shares.amounts.items() if amounts}
    assert found == wanted
    assert (noted in " ".join(shares.notes)) if noted else shares.notes == ()


USED = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**13), max_size=4)


@given(
    st.sampled_from((("cpu", "m"), ("pods", ""), ("memory", "Ki"), ("requests.storage", ""))),
    USED,
    st.integers(0, 10**14),
    st.fractions(0, 10),
)
def test_no_claim_is_below_its_use_and_headroom_never_exceeds_the_pool(
    resource: tuple[str, str], used: dict[str, int], hard: int, headroom: Fraction
) -> None:
    name, unit = resource
    uses = {namespace: read({name: f"{amount}{unit}"}) for namespace, amount in used.items()}
    limit = read({name: f"{hard}{unit}"})
    shares = shared_out(limit, uses, headroom)
    claimed = {namespace: amounts[name].billionths for namespace, amounts in shares.amounts.items() if amounts}
    before = {namespace: amounts[name].billionths for namespace, amounts in uses.items() if amounts[name]}
    assert claimed.keys() == before.keys()
    assert all(claimed[namespace] >= amount for namespace, amount in before.items())
    total, room = sum(before.values()), limit[name].billionths
    assert sum(claimed.values()) <= max(total, room)
    if total > room or not headroom:
        assert claimed == before
    assert bool(shares.notes) or all(claimed[each] >= amount * (1 + headroom) for each, amount in before.items())
