"""Every value that the server draws for a field is declared: two servers with other seeds and versions have no other difference."""

import copy
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from yaml_files import load_yaml

from konverge.client import Client
from konverge.errors import AlreadyExists
from konverge.kinds import kind
from konverge_testing import ApiServer
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.resources import Resource
from konverge_testing.lab.masks import State, state_of
from konverge_testing.loop import VirtualTimeLoop

TESTS = Path(__file__).parents[3]
MADE = [row["object"] for row in load_yaml(TESTS / "unit/apiserver/tables/made.yaml")]
BODIES = [
    {"apiVersion": row["api"], "kind": row["kind"], **row["body"]}
    for row in load_yaml(TESTS / "conformance/kinds.yaml").values()
    if "body" in row and not row.get("custom")
]
BODIES.append(
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "local"},
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]},
    }
)
"""Objects of all built-in kinds."""
NAMESPACE = "tables"
LIMITING = ("LimitRange", "ResourceQuota")
"""Kinds that refuse others, and so come last."""
GENERATED = {("", "pods"), ("", "configmaps"), ("batch", "jobs")}
"""Kinds of which a second object gets a generated name."""


Stored = tuple[Mapping[tuple[tuple[str, str], str, str], dict[str, Any]], dict[str | int, str]]


def stored(seed: int) -> Stored:
    """Return all objects as a server of a seed stores them, and its drawn values."""

    async def main() -> Stored:
        async with ApiServer(random=Random(seed), rbac=False, namespaces=("default", NAMESPACE)) as server:
            async with Client(server.config(), name="tests") as client:
                for number in range(seed):  # other versions and another state of each counter
                    await client.create(kind("v1", "ConfigMap").new(f"earlier-{number}", NAMESPACE))
                    await client.delete(kind("v1", "ConfigMap"), f"earlier-{number}", NAMESPACE)
                for number, data in enumerate(sorted([*MADE, *BODIES], key=lambda data: data["kind"] in LIMITING)):
                    await _create(client, server.registry.by_kind(data["apiVersion"], data["kind"]), data, number)
            objects = {
                (resource, entry.namespace, entry.name): entry.object()
                for resource in server.store.resources()
                for entry in server.store.list(resource)
            }
            return objects, server.draws.drawn

    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


async def _create(client: Client, resource: Resource | None, data: dict[str, Any], number: int) -> None:
    assert resource is not None, data["kind"]
    what = kind(data["apiVersion"], data["kind"], namespaced=resource.namespaced, plural=resource.plural)
    place = {"namespace": NAMESPACE} if resource.namespaced else {}
    names = [{"name": data.get("metadata", {}).get("name", f"object-{number}")}]
    if resource.id in GENERATED:
        names.append({"generateName": f"drawn-{number}-"})
    for name in names:
        metadata = {key: value for key, value in data.get("metadata", {}).items() if key != "name"} | place | name
        body = {key: value for key, value in data.items() if key != "status"} | {"metadata": metadata}
        try:
            await client.create(what.decode(_placed(body)))
        except AlreadyExists:
            pass  # two rows may have one name


def _placed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _placed(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_placed(item) for item in value]
    return value.replace("$ns", NAMESPACE) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def servers() -> tuple[Stored, Stored]:
    return stored(1), stored(2)


def states(servers: tuple[Stored, Stored], undeclared: str = "") -> list[State]:
    """Return the masked states of two servers, without the declarations of one field."""
    return [
        state_of(
            copy.deepcopy(objects),
            drawn={value: words for value, words in drawn.items() if not undeclared or undeclared not in words.split()},
        )
        for objects, drawn in servers
    ]


def test_every_field_that_the_server_draws_is_declared(servers: tuple[Stored, Stored]) -> None:
    first, second = states(servers)
    assert len({resource for resource, _, _ in servers[0][0]}) >= 45
    assert first == second


@pytest.mark.parametrize("field", ["clusterIP", "nodePort", "healthCheckNodePort", "token", "name"])
def test_a_field_without_a_declaration_is_noticed(servers: tuple[Stored, Stored], field: str) -> None:
    first, second = states(servers, field)
    assert first != second


def test_a_declared_value_has_the_field_and_the_object() -> None:
    draws = Draws(Random(1))
    service = draws.of("Service", {"metadata": {"name": "web"}})
    address, port = service.pick("clusterIP", ["10.0.0.7"]), service.pick("nodePort", [30007])
    name = draws.of("Pod", {"metadata": {"generateName": "run-"}}).suffixed("name", "run-")
    assert draws.drawn == {
        address: "clusterIP of Service web",
        port: "nodePort of Service web",
        name: "name run-(drawn)",
    }
