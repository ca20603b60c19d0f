"""`konverge crds --migrate-storage`: every object is stored in the new version, whatever else happens, and only then the status is trimmed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tanks import BETA, GROUP, TANKS, AlphaTank, BetaSpec, BetaTank, Tank, from_beta, to_beta

import konverge as kv
from konverge.client import Client
from konverge.crds import crd
from konverge.daemon import storage
from konverge.daemon.storage import DEFINITION, migrate_kind, plan_of, rights_of
from konverge.errors import KonvergeError, NotFound, ServerFailure
from konverge.rbac import cluster_role
from konverge_testing import Lab
from konverge_testing.apiserver.reading import stored
from konverge_testing.apiserver.requests import User

NAME = f"tanks.{GROUP}"


@kv.resource(BETA, kind="Tank")
class StoredBeta(kv.CustomResource[BetaSpec, kv.Status]):
    """The version that was stored before."""


def build(manager: kv.Manager) -> None:
    manager.add(TANKS)


@pytest.fixture
async def upgraded(lab: Lab) -> Lab:
    """A cluster with objects that are stored in v1beta1, and a definition that stores v1 now."""
    await lab.client.apply(DEFINITION, crd(StoredBeta), force=True)
    await lab.until(DEFINITION, NAME, kv.is_true("Established"))
    for number in range(7):
        await lab.client.create(StoredBeta.new(f"t{number}", lab.namespace, spec=BetaSpec(litres=number)))
    await lab.start(build)
    return lab


async def stored_versions(lab: Lab) -> list[str]:
    versions: list[str] = (await lab.client.get(DEFINITION, NAME)).get("status", "storedVersions")
    return versions


def forms(lab: Lab) -> set[str]:
    """Return the versions in which the server stores tanks."""
    server: Any = lab._server
    [resource] = [each for each in server.registry.resources if each.kind == "Tank"]
    entries = server.store.list(resource.id)
    return {stored(entry, resource)["apiVersion"].rpartition("/")[2] for entry in entries}


async def test_every_object_is_rewritten_and_the_status_is_trimmed(upgraded: Lab, monkeypatch: Any) -> None:
    monkeypatch.setattr(storage, "_PAGE", 3)
    assert (await stored_versions(upgraded), forms(upgraded)) == (["v1beta1", "v1"], {"v1beta1"})
    lines: list[str] = []
    result = await migrate_kind(upgraded.client, NAME, lines.append)
    assert (result.objects, result.failures) == (7, [])
    assert lines == [f"{NAME}: 3 objects, about 4 remain", f"{NAME}: 6 objects, about 1 remain"]
    assert (await stored_versions(upgraded), forms(upgraded)) == (["v1"], {"v1"})
    assert result.line() == f"{NAME}: 7 objects rewritten in v1; storedVersions was v1beta1, v1"
    again = await migrate_kind(upgraded.client, NAME)
    assert again.line() == f"{NAME}: every object is stored in v1"


async def test_a_list_that_expires_is_begun_again(upgraded: Lab, monkeypatch: Any) -> None:
    monkeypatch.setattr(storage, "_PAGE", 3)
    server: Any = upgraded._server
    lines: list[str] = []

    def compact(line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            server.store.compact()

    result = await migrate_kind(upgraded.client, NAME, compact)
    assert (result.objects, result.failures, forms(upgraded)) == (7, [], {"v1"})
    assert len(lines) == 3, "the second list begins with the first page"


async def test_a_migration_changes_nothing_but_the_stored_form(upgraded: Lab) -> None:
    before = {tank.name: tank for tank in (await upgraded.client.list(Tank)).items}
    await migrate_kind(upgraded.client, NAME)
    for tank in (await upgraded.client.list(Tank)).items:
        assert tank.spec == before[tank.name].spec
        assert tank.generation == before[tank.name].generation


async def test_a_second_migration_writes_only_what_is_left(upgraded: Lab) -> None:
    await upgraded.client.patch(Tank, "t3", upgraded.namespace, patch={"spec": {"lid": "shut"}}, style="merge")
    before = (await upgraded.client.get(Tank, "t3", upgraded.namespace)).metadata.resource_version
    await migrate_kind(upgraded.client, NAME)
    tank = await upgraded.client.get(Tank, "t3", upgraded.namespace)
    assert (tank.metadata.resource_version, tank.spec.lid) == (before, "shut")


async def test_writes_during_a_migration_are_kept(upgraded: Lab) -> None:
    async def write(number: int) -> None:
        patch = {"spec": {"lid": f"lid {number}"}}
        await upgraded.client.patch(BetaTank, f"t{number}", upgraded.namespace, patch=patch, style="merge")

    writes = [write(number) for number in range(6)]
    remove = upgraded.client.delete(Tank, "t6", upgraded.namespace)
    others = asyncio.gather(*writes, remove)
    result = await migrate_kind(upgraded.client, NAME)
    await others
    assert result.failures == []
    tanks = (await upgraded.client.list(Tank)).items
    assert [tank.spec.lid for tank in tanks] == [f"lid {number}" for number in range(6)]
    assert (await stored_versions(upgraded), forms(upgraded)) == (["v1"], {"v1"})


def refuses_five(old: BetaTank) -> Tank:
    if old.spec.litres == 5:
        raise kv.NotConvertible(".spec.litres", "five is not converted")
    return from_beta(old)


async def test_an_object_that_cannot_be_converted_ends_a_migration_with_its_name(lab: Lab) -> None:
    lab.expects(kv.NotConvertible)
    await lab.client.apply(DEFINITION, crd(StoredBeta), force=True)
    await lab.until(DEFINITION, NAME, kv.is_true("Established"))
    await lab.client.create(StoredBeta.new("bad", lab.namespace, spec=BetaSpec(litres=5)))
    conversion = kv.Conversion.of(Tank).version(BetaTank, up=refuses_five, down=to_beta)
    await lab.start(lambda manager: manager.add(conversion))
    with pytest.raises(ServerFailure, match=r"Tank lab/bad of .*five is not converted.*kubectl edit tanks\.v1beta1"):
        await migrate_kind(lab.client, NAME)
    assert await stored_versions(lab) == ["v1beta1", "v1"]


async def test_a_refused_object_is_named_and_nothing_is_trimmed(upgraded: Lab) -> None:
    def refuse(request: kv.AdmissionRequest[Tank]) -> kv.Allow | kv.Deny:
        return kv.Deny("never t2") if request.name == "t2" else kv.Allow()

    guard = kv.Webhook.validating(Tank).handled_by(refuse)
    await upgraded.start(lambda manager: manager.add(guard), name="guard", crds=False)
    result = await migrate_kind(upgraded.client, NAME)
    assert result.objects == 7
    [failure] = result.failures
    assert failure.startswith(f"{upgraded.namespace}/t2: ")
    assert "never t2" in failure
    assert "1 of 7 objects are not rewritten, and storedVersions is still v1beta1, v1:" in result.line()
    assert await stored_versions(upgraded) == ["v1beta1", "v1"]


async def test_a_definition_that_changes_during_a_migration_is_not_trimmed(upgraded: Lab) -> None:
    plan = plan_of((await upgraded.client.get(DEFINITION, NAME)).data)
    with pytest.raises(KonvergeError, match="changed during the migration"):
        await storage._trim(upgraded.client, replace(plan, before=("v1beta1",)))
    with pytest.raises(KonvergeError, match="changed during the migration"):
        await storage._trim(upgraded.client, replace(plan, storage="v1beta1"))
    assert await stored_versions(upgraded) == ["v1beta1", "v1"]


async def test_a_definition_that_is_not_installed_is_not_found(lab: Lab) -> None:
    with pytest.raises(NotFound, match=NAME):
        await migrate_kind(lab.client, NAME)


async def test_the_printed_rights_suffice(upgraded: Lab) -> None:
    server: Any = upgraded._server
    rules = rights_of([crd(Tank, BetaTank, AlphaTank)])
    server.rbac.grant("migrator", [cluster_role("migrator", rules)])
    async with Client(server.config(user=User("migrator")), name="migrator") as client:
        result = await migrate_kind(client, NAME)
    assert (result.objects, result.failures) == (7, [])


@pytest.mark.parametrize(
    ("versions", "version"),
    [
        ([("v1", True, True), ("v1beta1", True, False)], "v1"),
        ([("v1", False, True), ("v1beta1", True, False)], "v1beta1"),
    ],
)
def test_objects_are_read_in_a_served_version(versions: list[tuple[str, bool, bool]], version: str) -> None:
    entries = [{"name": name, "served": served, "storage": stored} for name, served, stored in versions]
    spec = {**crd(Tank)["spec"], "versions": entries}
    assert plan_of({"metadata": {"name": NAME}, "spec": spec}).kind.version == version
    with pytest.raises(KonvergeError, match="serves no version"):
        unserved = [{**entry, "served": False} for entry in entries]
        plan_of({"metadata": {"name": NAME}, "spec": {**spec, "versions": unserved}})
