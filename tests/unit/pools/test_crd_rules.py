"""The API server accepts and rejects objects of the family by the rules in their definitions, without a webhook.

The same table runs on kube-apiserver in tests/e2e/test_pools_crds.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from crd_cases import Answer
from pools.crd_cases import CASES, KINDS, TABLE

from konverge.crds import crd, declaration_of
from konverge.crds.pools_v1alpha1 import InstanceSettings, NextcloudSpec
from konverge.reconcilers.pools.claims.drift import SETS


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return TABLE.on_memory()


@pytest.mark.parametrize("name", CASES)
def test_the_definition_decides_what_may_be_written(answers: dict[str, Answer], name: str) -> None:
    case, answer = CASES[name], answers[name]
    assert answer.status in ({422} if case.words else {200, 201}), answer.message
    assert case.words in answer.message


def test_names_and_columns_are_those_of_the_original() -> None:
    found = {
        declaration.kind: (declaration.short_names[0], [column.name for column in declaration.all_columns()])
        for declaration in map(declaration_of, KINDS)
    }
    assert found == {
        "NextcloudPool": ("ncp", ["Desired", "Ready", "Provisioning", "Assigned", "Profile", "Age"]),
        "Nextcloud": ("nc", ["Phase", "URL", "Version", "Instance", "Pool", "Age"]),
        "NextcloudInstance": ("nci", ["Phase", "Assigned", "Nextcloud", "Version", "URL", "Age"]),
        "NextcloudProfile": ("ncprofile", ["Version", "Age"]),
        "NextcloudVersionMap": ("ncvm", ["Age"]),
    }


def test_a_pool_can_be_scaled() -> None:
    pool = crd(KINDS[0])["spec"]["versions"][0]["subresources"]["scale"]
    assert pool == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def _defaults(schema: dict[str, object]) -> bool:
    return "default" in schema or any(
        _defaults(value) for key, value in schema.items() if isinstance(value, dict) and key != "description"
    )


def test_field_that_a_tenant_may_omit_has_no_default() -> None:
    schema = crd(KINDS[1])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert InstanceSettings.model_fields.keys() <= NextcloudSpec.model_fields.keys()
    assert [name for name, field in schema.items() if _defaults(field)] == []


def _shared_lists(schema: dict[str, Any], at: str) -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") in ("set", "map"):
        yield at
    for name, below in schema.get("properties", {}).items():
        yield from _shared_lists(below, f"{at}.{name}")


def test_drift_is_compared_item_by_item_in_lists_with_item_owners() -> None:
    schema = crd(KINDS[2])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(_shared_lists(schema, ".spec")) == SETS
