"""Objects whose definition has changed since they were written: read in the current form, by a GET, a list, a watch and every write."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest_asyncio

from konverge.client import Client
from konverge.kinds import kind
from konverge_testing import ApiServer
from konverge_testing.lab import install_crds

FORM = kind("example.com/v1", "Form")
INTENT = {"apiVersion": "example.com/v1", "kind": "Form", "metadata": {"name": "one", "namespace": "default"}}


def definition(**properties: Any) -> dict[str, Any]:
    spec, status = ({"type": "object", "properties": one} for one in (properties, {"n": {"type": "integer"}}))
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "forms.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "forms", "singular": "form", "kind": "Form", "listKind": "FormList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


OLD = definition(a={"type": "integer"}, b={"type": "integer"})
NEW = definition(b={"type": "integer", "default": 2})


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    """On a server with an object that was written under the old definition, while the new one is in force."""
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="somebody", random=Random(2)) as opened,
    ):
        await install_crds(opened, [OLD])
        await opened.create(FORM.new("one", "default", spec={"a": 1}))
        await install_crds(opened, [NEW])
        await asyncio.sleep(1)
        yield opened


async def test_an_old_object_is_read_pruned_and_with_its_new_defaults(client: Client) -> None:
    assert (await client.get(FORM, "one", "default")).data["spec"] == {"b": 2}
    assert [found.data["spec"] for found in await client.list(FORM, "default")] == [{"b": 2}]


async def test_status_write_to_an_old_object_converts_its_form(client: Client) -> None:
    stored = await client.apply(FORM, {**INTENT, "status": {"n": 1}}, subresource="status")
    assert (stored.data["spec"], stored.data["metadata"]["generation"]) == ({"b": 2}, 1)
    stored = await client.apply(FORM, {**INTENT, "spec": {}})
    assert (stored.data["spec"], stored.data["metadata"]["generation"]) == ({"b": 2}, 1)


async def test_first_empty_write_stores_the_new_form_and_second_nothing(client: Client) -> None:
    read = await client.get(FORM, "one", "default")
    first = await client.replace(read)
    second = await client.replace(first)
    assert first.metadata.resource_version != read.metadata.resource_version
    assert second.metadata.resource_version == first.metadata.resource_version


async def test_a_field_that_the_schema_lost_does_not_keep_others_from_applying(client: Client) -> None:
    stored = await client.apply(FORM, {**INTENT, "spec": {"b": 9}})
    assert (stored.data["spec"], stored.data["metadata"]["generation"]) == ({"b": 9}, 2)
