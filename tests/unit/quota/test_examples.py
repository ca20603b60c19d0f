"""The YAML examples of Capsule's page, in `capsule_examples/`; the examples of its migration are in `examples/quota_migration/`."""

from collections import Counter
from typing import Any

import pytest
from crd_cases import Answer, on_memory
from quota.crd_cases import EXAMPLES, accept_examples

from konverge.crds import CustomResource
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.quantities import Quantity

OURS: dict[str, type[CustomResource[Any, Any]]] = {
    "ResourcePool": ResourcePool,
    "ResourcePoolClaim": ResourcePoolClaim,
}
OF_OURS = [name for name, example in EXAMPLES.items() if example["kind"] in OURS]


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """The response of the in-memory server to each example."""
    return on_memory(accept_examples)


def test_no_example_of_the_requirement_is_missing() -> None:
    kinds = Counter(example["kind"] for example in EXAMPLES.values())
    assert kinds == {"ResourcePool": 10, "ResourcePoolClaim": 4, "Tenant": 2, "TenantResource": 1}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_accepted_as_it_stands(answers: dict[str, Answer], name: str) -> None:
    assert answers[name].status == 201, answers[name].message
    kept = answers[name].document["spec"]
    assert {field: kept[field] for field in EXAMPLES[name]["spec"] if field != "config"} == {
        field: value for field, value in EXAMPLES[name]["spec"].items() if field != "config"
    }


@pytest.mark.parametrize("name", OF_OURS)
def test_an_example_is_read_into_its_model_and_written_as_it_was(name: str) -> None:
    example = EXAMPLES[name]
    assert OURS[example["kind"]].decode(dict(example)).to_dict() == example


@pytest.mark.parametrize("name", OF_OURS)
def test_every_amount_of_an_example_is_a_quantity(name: str) -> None:
    spec = EXAMPLES[name]["spec"]
    maps = [spec.get("claim"), spec.get("defaults"), spec.get("quota", {}).get("hard")]
    amounts = [amount for values in maps for amount in (values or {}).values()]
    assert amounts
    assert all(not Quantity.parse(amount) < Quantity.of(0) for amount in amounts)


def test_the_switch_of_an_example_is_on_and_the_others_are_off(answers: dict[str, Answer]) -> None:
    config = answers["pool_defaults_zero example"].document["spec"]["config"]
    assert config == {"defaultsZero": True, "orderedQueue": False, "deleteBoundResources": False}
