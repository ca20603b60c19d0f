from typing import Any

import pytest

from konverge.conditions import Condition, is_true
from konverge.crds import crd, declaration_of, schema_of
from konverge.crds.quota_v1beta2 import (
    Allocation,
    ClaimList,
    LabelSelector,
    PoolQuota,
    PoolReference,
    ResourcePool,
    ResourcePoolClaim,
    ResourcePoolClaimSpec,
    ResourcePoolClaimStatus,
    ResourcePoolSpec,
    ResourcePoolStatus,
)

AMOUNTS = {"a": "0.5", "b": 3, "c": "1024Mi", "d": "1000m"}
BOUND = {
    "type": "Bound",
    "status": "True",
    "reason": "Succeeded",
    "message": "Claimed resources",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}


def fields(schema: dict[str, Any], path: str = "") -> set[str]:
    found: set[str] = set()
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        found |= {here} | fields(part, here)
        for step, below in (("[]", part.get("items")), ("{}", part.get("additionalProperties"))):
            if below:
                found |= fields(below, here + step) | fields(below.get("items", {}), f"{here}{step}[]")
    return found


def columns(kind: Any) -> list[tuple[str, str, str]]:
    listed = crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
    return [(column["name"], column["type"], column["jsonPath"]) for column in listed]


def test_the_pool_is_that_of_the_original() -> None:
    definition = crd(ResourcePool)
    assert definition["metadata"]["name"] == "resourcepools.capsule.clastix.io"
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["spec"]["names"]["shortNames"] == ["quotapool"]
    assert columns(ResourcePool) == [
        ("Claims", "integer", ".status.claimCount"),
        ("Namespaces", "integer", ".status.namespaceCount"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    assert declaration_of(ResourcePool).conditions == ("Ready", "Exhausted")


def test_the_claim_is_that_of_the_original() -> None:
    definition = crd(ResourcePoolClaim)
    assert definition["metadata"]["name"] == "resourcepoolclaims.capsule.clastix.io"
    assert definition["spec"]["scope"] == "Namespaced"
    assert "shortNames" not in definition["spec"]["names"]
    assert columns(ResourcePoolClaim) == [
        ("Pool", "string", ".status.pool.name"),
        ("Status", "string", ".status.condition.type"),
        ("Reason", "string", ".status.condition.reason"),
        ("Message", "string", ".status.condition.message"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]


def test_the_fields_of_a_pool_are_those_of_the_original_and_releasing() -> None:
    properties = schema_of(ResourcePool)["properties"]
    scope = ".quota.scopeSelector.matchExpressions"
    selector = ".selectors[].matchExpressions"
    assert fields(properties["spec"]) == {
        *(".quota", ".quota.hard", ".quota.scopes", ".quota.scopeSelector", ".defaults"),
        *(scope, f"{scope}[].scopeName", f"{scope}[].operator", f"{scope}[].values"),
        *(".selectors", ".selectors[].matchLabels", selector),
        *(f"{selector}[].key", f"{selector}[].operator", f"{selector}[].values"),
        *(".config", ".config.defaultsZero", ".config.orderedQueue", ".config.deleteBoundResources"),
    }
    assert {path for path in fields(properties["status"]) if not path.startswith(".conditions[]")} == {
        *(".observedGeneration", ".conditions", ".namespaceCount", ".claimCount", ".namespaces"),
        *(".claims", ".claims{}[].name", ".claims{}[].namespace", ".claims{}[].uid", ".claims{}[].claims"),
        *(".allocation", ".allocation.hard", ".allocation.used", ".allocation.available"),
        *(".exhaustions", ".exhaustions{}.available", ".exhaustions{}.requesting", ".releasing"),
    }
    assert properties["spec"]["required"] == ["quota"]


def test_the_fields_of_a_claim_are_those_of_both_originals() -> None:
    properties = schema_of(ResourcePoolClaim)["properties"]
    assert fields(properties["spec"]) == {".pool", ".claim"}
    assert properties["spec"]["required"] == ["claim"]
    status = {path for path in fields(properties["status"]) if not path.startswith((".condition.", ".conditions[]"))}
    assert status == {
        ".observedGeneration",
        *(f".{place}{part}" for place in ("pool", "queue") for part in ("", ".name", ".namespace", ".uid")),
        *(".condition", ".conditions", ".semantics"),
    }


def test_every_switch_of_a_pool_is_off_by_default() -> None:
    config = schema_of(ResourcePool)["properties"]["spec"]["properties"]["config"]
    assert config["default"] == {"defaultsZero": False, "orderedQueue": False, "deleteBoundResources": False}
    made = ResourcePool.decode({"metadata": {"name": "solar"}, "spec": {"quota": {}}})
    assert (made.spec.config.defaults_zero, made.spec.config.ordered_queue) == (False, False)
    assert made.spec.config.delete_bound_resources is False


@pytest.mark.parametrize("name", ["claims", "allocation", "exhaustions", "releasing"])
def test_the_large_parts_of_a_pools_status_have_one_owner_each(name: str) -> None:
    part = schema_of(ResourcePool)["properties"]["status"]["properties"][name]
    assert part["x-kubernetes-map-type"] == "atomic"


def test_amounts_stay_as_they_were_written() -> None:
    spec = {"quota": {"hard": AMOUNTS}, "defaults": AMOUNTS, "selectors": [{"matchLabels": {"a": "b"}}, {}]}
    pool = ResourcePool.decode({"metadata": {"name": "solar"}, "spec": spec})
    assert pool.to_dict()["spec"] == spec
    assert pool.spec.quota.hard == AMOUNTS
    claim = ResourcePoolClaim.decode({"metadata": {"name": "a", "namespace": "web"}, "spec": {"claim": AMOUNTS}})
    assert (claim.to_dict()["spec"], claim.spec.pool) == ({"claim": AMOUNTS}, None)


def test_an_object_stored_before_the_rules_still_decodes() -> None:
    spec = {"claim": {"pods": "-500m", "cpu": "two"}}
    claim = ResourcePoolClaim.decode({"metadata": {"name": "a.b", "namespace": "web"}, "spec": spec})
    assert claim.spec.claim == {"pods": "-500m", "cpu": "two"}


def test_the_claimed_amounts_of_a_pool_are_called_used_on_the_wire() -> None:
    status = ResourcePoolStatus(
        claims=ClaimList({"web": [{"name": "a", "uid": "u", "claims": {"pods": "1"}}]}),
        allocation=Allocation(hard={"pods": 2}, used={"pods": "1"}, available={"pods": "1"}),
    )
    assert status.wire() == {
        "claims": {"web": [{"name": "a", "uid": "u", "claims": {"pods": "1"}}]},
        "allocation": {"hard": {"pods": 2}, "used": {"pods": "1"}, "available": {"pods": "1"}},
    }


def test_the_one_condition_of_a_claim_is_found_as_any_other() -> None:
    stored = {"metadata": {"name": "a", "generation": 1}, "spec": {"claim": {}}}
    claim = ResourcePoolClaim.decode({**stored, "status": {"condition": {**BOUND, "observedGeneration": 1}}})
    assert is_true("Bound")(claim)
    assert claim.condition("Bound").message == "Claimed resources"
    assert claim.find_condition("Assigned") is None
    assert ResourcePoolClaim.decode(stored).conditions == ()


def test_the_status_of_a_claim_is_written_with_one_condition() -> None:
    status = ResourcePoolClaimStatus(
        pool=PoolReference(name="solar", uid="u"), condition=Condition(type="Bound", status="True")
    )
    assert status.wire() == {"pool": {"name": "solar", "uid": "u"}, "condition": {"type": "Bound", "status": "True"}}


def test_a_status_that_newer_versions_of_the_original_wrote_still_decodes() -> None:
    status = {"pool": {}, "conditions": [BOUND], "observedGeneration": 3, "allocation": {"hard": {}}}
    claim = ResourcePoolClaim.decode({"metadata": {"name": "a"}, "spec": {"claim": {}}, "status": status})
    assert (claim.conditions, claim.status.observed_generation) == ((), 3)
    assert claim.status.pool == PoolReference()


def test_pools_and_claims_are_made_in_python() -> None:
    spec = ResourcePoolSpec(quota=PoolQuota(hard={"pods": 7}), selectors=(LabelSelector(match_labels={"a": "b"}),))
    assert ResourcePool.new("solar", spec=spec).to_dict()["spec"] == {
        "quota": {"hard": {"pods": 7}},
        "selectors": [{"matchLabels": {"a": "b"}}],
    }
    claim = ResourcePoolClaim.new("a", "web", spec=ResourcePoolClaimSpec(pool="solar", claim={"pods": "3"}))
    assert claim.to_dict()["spec"] == {"pool": "solar", "claim": {"pods": "3"}}
