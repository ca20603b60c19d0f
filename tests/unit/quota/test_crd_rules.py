"""The in-memory API server accepts and rejects pools and claims by the rules in their definitions only: no webhook runs.

The same table runs on kube-apiserver in tests/e2e/test_quota_crds.py.
"""

from random import Random

import pytest
from crd_cases import Answer, on_memory
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from quota.amounts import read
from quota.crd_cases import BOUND, CREATED, TABLE, UPDATED, outlive

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePoolClaim
from konverge.daemon.crds import apply_all
from konverge.kinds import kind
from konverge.quantities import Quantity
from konverge.reconcilers.quota.amounts import problem_in
from konverge_testing import ApiServer
from konverge_testing.apiserver.cel import validate_rules
from konverge_testing.apiserver.nodes import Node


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    """The responses of the server by case."""
    return TABLE.on_memory()


@pytest.mark.parametrize("case", CREATED)
def test_the_definition_decides_which_objects_may_be_created(answers: dict[str, Answer], case: str) -> None:
    obj, words = CREATED[case].before, CREATED[case].words
    assert answers[case].status == (422 if words else 201), answers[case].message
    assert words in answers[case].message
    if not words:
        assert {name: answers[case].document["spec"][name] for name in obj["spec"]} == obj["spec"]


@pytest.mark.parametrize("case", UPDATED)
def test_the_definition_decides_which_changes_are_allowed(answers: dict[str, Answer], case: str) -> None:
    words = UPDATED[case].words
    assert answers[case].status == (422 if words else 200), answers[case].message
    assert words in answers[case].message


def test_a_refusal_names_the_resource_or_the_field(answers: dict[str, Answer]) -> None:
    assert "spec.claim[requests.cpu]:" in answers["x01: a negative claim"].message
    assert "spec.quota.hard: Forbidden" in answers["hard is lowered below what is claimed"].message
    assert "spec.claim: Forbidden" in answers["an allocated claim asks for more"].message
    assert "spec.pool: Forbidden" in answers["an allocated claim moves"].message


def test_rejected_edit_of_an_allocated_claim_names_the_remedies(answers: dict[str, Answer]) -> None:
    message = answers["an allocated claim asks for more"].message
    assert 'annotation projectcapsule.dev/release: "true"' in message
    assert "or delete it and create another" in message


def test_an_accepted_amount_stays_as_it_was_written(answers: dict[str, Answer]) -> None:
    written = answers["x09: an allocated claim is spelt in numbers"].document["spec"]["claim"]
    assert written == {"requests.cpu": 1, "limits.memory": 1073741824, "pods": 0}


def test_objects_stored_before_the_rules_can_still_be_marked_released_and_deleted() -> None:
    found = on_memory(outlive)
    assert len(found) == 6
    assert {name: answer.message for name, answer in found.items() if answer.status != 200} == {}


SCHEMA = Node(crd(ResourcePoolClaim)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e1", "e-1", "E2")
TEXTS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(("", "+", "-")),
    st.integers(0, 99_999_999),
    st.sampled_from(("", ".", ".0", ".5", ".25", ".001", ".125000")),
    st.sampled_from(SUFFIXES),
)
AMOUNTS = st.one_of(TEXTS, st.integers(-100, 10**9))
RESOURCES = st.sampled_from(
    ("pods", "services.nodeports", "count/jobs.batch", "requests.cpu", "requests.example.com/gpu", "requests.storage")
)


BEYOND_A_DOUBLE = 2**53 * 10**9
"""Billionths from which on the rule takes every amount for whole: it computes with doubles, which hold no fraction there."""


def test_fraction_beyond_double_precision_passes_the_definition_and_family_refuses_it() -> None:
    amounts = {"pods": "8388608.001Gi"}
    assert not validate_rules(SCHEMA, {"metadata": {"name": "a"}, "spec": {"claim": amounts}}, None)
    assert "whole number" in problem_in(read(amounts))


# The first example compiles every rule, which takes longest on a busy machine.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(RESOURCES, AMOUNTS, min_size=1, max_size=3))
@example({"pods": "-0"})
@example({"requests.memory": "-0Gi"})
@example({"requests.memory": "0e999"})
def test_the_definition_refuses_exactly_what_the_family_would_refuse(amounts: dict[str, str | int]) -> None:
    assume(all(amount < BEYOND_A_DOUBLE for amount in read(amounts).values()))
    refused = bool(validate_rules(SCHEMA, {"metadata": {"name": "a"}, "spec": {"claim": amounts}}, None))
    assert refused == bool(problem_in(read(amounts)))


@given(
    st.dictionaries(RESOURCES, AMOUNTS.filter(lambda amount: not str(amount).startswith("-")), max_size=3), st.data()
)
def test_allocated_claim_may_be_written_in_every_equivalent_notation(
    amounts: dict[str, str | int], data: st.DataObject
) -> None:
    before = {"metadata": {"name": "a"}, "spec": {"claim": amounts}, "status": {"condition": BOUND}}
    other = {name: data.draw(st.sampled_from((amount, respelt(amount), "1"))) for name, amount in amounts.items()}
    after = {**before, "spec": {"claim": other}}
    errors = [error for error in validate_rules(SCHEMA, after, before) if error.kind == "Forbidden"]
    assert bool(errors) == (read(other) != read(amounts))


def respelt(amount: str | int) -> str:
    """The same amount in billionths."""
    return f"{Quantity.parse(amount).billionths}n"


async def test_definitions_that_capsule_left_are_replaced_whole() -> None:
    """Nothing of another schema stays: no required fields, no columns, and no fields that ours lacks."""
    theirs = crd(ResourcePoolClaim)
    version = theirs["spec"]["versions"][0]
    spec, status = (version["schema"]["openAPIV3Schema"]["properties"][name] for name in ("spec", "status"))
    spec["required"] = ["claim", "pool"]
    del version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    status["required"] = ["conditions"]
    status["properties"]["conditions"] = {"type": "array", "items": {"type": "string"}}
    version["additionalPrinterColumns"] = [{"name": "Ready", "type": "string", "jsonPath": ".status.conditions"}]
    definitions = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
    async with ApiServer(random=Random(1)) as server, Client(server.config(), name="helm", random=Random(2)) as client:
        await client.create(definitions.new(theirs["metadata"]["name"], spec=theirs["spec"]))
        await apply_all(client, [crd(ResourcePoolClaim)])
        stored = await client.get(definitions, theirs["metadata"]["name"])
    assert stored.data["spec"]["versions"] == crd(ResourcePoolClaim)["spec"]["versions"]
