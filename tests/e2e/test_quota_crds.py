"""Pools and claims on kube-apiserver: what their definitions accept and reject without a controller; the server in memory agrees.

The table is in tests/unit/quota/test_crd_rules.py. Established definitions show that their rules keep within the server's budget for CEL.
"""

import re

import pytest
from conformance.targets import real_target
from crd_cases import Answer, on_real
from quota.crd_cases import CREATED, EXAMPLES, TABLE, UPDATED, World, accept_examples, claim, condition, outlive, pool

from konverge_testing import ControlPlane

pytestmark = pytest.mark.control_plane

Answers = dict[str, Answer]


@pytest.fixture(scope="module")
def answers(control_plane: ControlPlane) -> tuple[Answers, Answers]:
    """The responses of the real and of the in-memory server, by case."""
    return TABLE.on_both(control_plane)


@pytest.mark.parametrize("case", CREATED)
def test_the_definition_decides_which_objects_may_be_created_on_a_real_server(
    answers: tuple[Answers, Answers], case: str
) -> None:
    real, _ = answers
    obj, words = CREATED[case].before, CREATED[case].words
    assert real[case].status == (422 if words else 201), real[case].message
    assert words in real[case].message
    if not words:
        assert {name: real[case].document["spec"][name] for name in obj["spec"]} == obj["spec"]


@pytest.mark.parametrize("case", UPDATED)
def test_the_definition_decides_which_changes_are_allowed_on_a_real_server(
    answers: tuple[Answers, Answers], case: str
) -> None:
    real, _ = answers
    words = UPDATED[case].words
    assert real[case].status == (422 if words else 200), real[case].message
    assert words in real[case].message


@pytest.mark.parametrize("case", [*CREATED, *UPDATED])
def test_both_servers_answer_in_the_same_words(answers: tuple[Answers, Answers], case: str) -> None:
    real, memory = answers
    assert (memory[case].status, memory[case].message) == (real[case].status, real[case].message)
    assert memory[case].document.get("spec") == real[case].document.get("spec")


@pytest.fixture(scope="module")
def examples(control_plane: ControlPlane) -> Answers:
    """The responses of the real server to the examples of Capsule's page."""
    return on_real(control_plane, accept_examples)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_real_server_accepts_every_example_of_the_requirement_as_it_stands(examples: Answers, name: str) -> None:
    assert examples[name].status == 201, examples[name].message
    kept = examples[name].document["spec"]
    assert {field: kept[field] for field in EXAMPLES[name]["spec"]}.keys() == EXAMPLES[name]["spec"].keys()


def test_objects_older_than_the_rules_can_still_be_changed(control_plane: ControlPlane) -> None:
    found = on_real(control_plane, outlive)
    assert len(found) == 6
    assert {name: answer.message for name, answer in found.items() if answer.status != 200} == {}


NOT_FOUND = 'ResourcePool.capsule.clastix.io "migration-compute" not found'
QUEUED = "requested: requests.memory=2Gi, queued: requests.memory=1Gi"
CLAIMS = {
    "compute": ("", "Assigned", "False", "Failed", NOT_FOUND),
    "get-mem": ("sampler", "Bound", "False", "QueueExhausted", QUEUED),
    "skip-the-line": ("sampler", "Bound", "True", "Succeeded", "Claimed resources"),
}
"""Rows of the tables of Capsule's page: pool, type, status, reason, message."""


def cells(table: str) -> list[list[str]]:
    """Return the cells of a table of kubectl without the last column, which is the age."""
    return [re.split(r" {2,}", line.strip())[:-1] for line in table.strip().splitlines()]


async def test_kubectl_prints_claims_as_the_requirement_shows_them(control_plane: ControlPlane, namespace: str) -> None:
    async with real_target(control_plane) as real:
        world = World(real, namespace)
        await world.install()
        for name, (pool_name, type_, status, reason, message) in CLAIMS.items():
            obj = claim({"requests.memory": "2Gi"}, name=name)
            stored = await world.create(obj)
            reference = {"pool": {"name": pool_name, "uid": "u"}} if pool_name else {}
            shown = condition(type_, status, **reference)
            shown["condition"] |= {"reason": reason, "message": message}
            answer = await world.send("PUT", f"{world.path(obj)}/{name}/status", {**stored.document, "status": shown})
            assert answer.status == 200, answer.message
    table = await control_plane.kubectl("get", "resourcepoolclaims", "-n", namespace)
    assert cells(table) == [
        ["NAME", "POOL", "STATUS", "REASON", "MESSAGE"],
        *[
            [cell for cell in (name, pool_name, type_, reason, message) if cell]
            for name, (pool_name, type_, _, reason, message) in CLAIMS.items()
        ],
    ]


async def test_kubectl_finds_pools_by_their_short_name_and_prints_their_counts(control_plane: ControlPlane) -> None:
    async with real_target(control_plane) as real:
        world = World(real)
        await world.install()
        obj = pool(name="printed")
        stored = await world.create(obj)
        counts = {**stored.document, "status": {"claimCount": 2, "namespaceCount": 3}}
        answer = await world.send("PUT", f"{world.path(obj)}/printed/status", counts)
        assert answer.status == 200, answer.message
        try:
            table = await control_plane.kubectl("get", "quotapool", "printed")
        finally:
            await world.send("DELETE", f"{world.path(obj)}/printed")
    assert cells(table) == [["NAME", "CLAIMS", "NAMESPACES"], ["printed", "2", "3"]]
