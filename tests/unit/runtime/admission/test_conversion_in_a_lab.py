"""A manager's conversion webhook behind the in-memory API server, in virtual time."""

import asyncio
from typing import Any

import pytest
from tanks import (
    BETA,
    GROUP,
    KEEPING,
    TANKS,
    V1,
    BetaSpec,
    BetaTank,
    Pump,
    Tank,
    TankSpec,
    TankStatus,
    Volume,
    from_beta,
    to_beta,
)
from widgets import By

import konverge as kv
from konverge.errors import ServerFailure, UsageError
from konverge.runtime.admission.configurations import DEFINITION
from konverge_testing import Lab
from konverge_testing.lab import explore

pytestmark = pytest.mark.usefixtures("logs")


async def measure(tank: Tank, ctx: kv.Context[Tank]) -> kv.Outcome:
    ctx.status.draft.level = tank.spec.volume.millilitres
    ctx.status.set_condition("Ready", True, "Measured", "as asked")
    return kv.Done()


def build_of(conversion: kv.Conversion[Any]) -> Any:
    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Tank).reconciled_by(By(measure)))
        manager.add(conversion)

    return build


async def test_each_version_is_read_and_watched_as_its_model(lab: Lab) -> None:
    await lab.start(build_of(TANKS))
    await lab.create(BetaTank.new("a", spec=BetaSpec(litres=3)))
    tank = await lab.until(Tank, "a", kv.is_true("Ready"))
    assert tank.spec.volume.millilitres == tank.status.level == 3000
    old = await lab.get(BetaTank, "a")
    assert (old.spec.litres, old.status.level, old.condition("Ready").reason) == (3, 3000, "Measured")
    listed = await lab.client.list(BetaTank, lab.namespace)
    assert [(item.name, item.spec.litres) for item in listed.items] == [("a", 3)]


async def test_a_definition_has_all_versions_and_the_webhook(lab: Lab) -> None:
    manager = await lab.start(build_of(TANKS))
    definition = await lab.client.get(DEFINITION, f"tanks.{GROUP}")
    spec = definition.data["spec"]
    versions = {version["name"]: (version["served"], version["storage"]) for version in spec["versions"]}
    assert versions == {"v1": (True, True), "v1beta1": (True, False), "v1alpha1": (True, False)}
    assert spec["versions"][1]["deprecationWarning"] == "use tanks.example.com/v1"
    client = spec["conversion"]["webhook"]["clientConfig"]
    assert client == manager.conversion_clients()[f"tanks.{GROUP}"]
    assert definition.get("status", "storedVersions") == ["v1"]


async def test_a_write_in_an_older_version_keeps_what_it_cannot_hold(lab: Lab) -> None:
    await lab.start(build_of(KEEPING))
    spec = TankSpec(volume=Volume(millilitres=3500), colour="red", pumps=(Pump(name="p", speed=4),))
    await lab.create(Tank.new("a", spec=spec))
    await lab.client.patch(BetaTank, "a", lab.namespace, patch={"spec": {"lid": "shut"}}, style="merge")
    tank = await lab.get(Tank, "a")
    assert (tank.spec.lid, tank.spec.colour, tank.spec.volume.millilitres) == ("shut", "red", 3500)
    assert tank.spec.pumps == (Pump(name="p", speed=4),)
    assert not tank.annotations


@kv.resource(V1, kind="Tank", storage=False, conditions=("Ready",))
class NewTank(kv.CustomResource[TankSpec, TankStatus]):
    """The hub of a release that still stores v1beta1."""


@kv.resource(BETA, kind="Tank")
class StoredBeta(kv.CustomResource[BetaSpec, TankStatus]):
    """The stored version."""


def from_stored(old: StoredBeta) -> NewTank:
    volume = Volume(millilitres=old.spec.litres * 1000)
    return NewTank(spec=TankSpec(volume=volume, lid=old.spec.lid), status=old.status)


def to_stored(new: NewTank) -> StoredBeta:
    spec = BetaSpec(litres=new.spec.volume.millilitres // 1000, lid=new.spec.lid)
    return StoredBeta(spec=spec, status=new.status)


async def fill(tank: NewTank, ctx: kv.Context[NewTank]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Measured", f"{tank.spec.volume.millilitres} ml")
    return kv.Done()


async def test_a_hub_that_is_not_stored_keeps_all_fields(lab: Lab) -> None:
    conversion = kv.Conversion.of(NewTank).version(StoredBeta, up=from_stored, down=to_stored).keeping_lost_fields()

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(NewTank).reconciled_by(By(fill)))
        manager.add(conversion)

    await lab.start(build)
    spec = TankSpec(volume=Volume(millilitres=3500), colour="red", pumps=(Pump(name="p", speed=2),))
    await lab.create(NewTank.new("a", spec=spec))
    tank = await lab.until(NewTank, "a", kv.is_true("Ready"))
    assert (tank.spec.volume.millilitres, tank.spec.colour, tank.spec.pumps[0].speed) == (3500, "red", 2)
    assert tank.condition("Ready").message == "3500 ml"
    assert not tank.annotations
    assert (await lab.get(StoredBeta, "a")).spec.litres == 3


async def test_an_apply_in_an_older_version_keeps_what_it_cannot_hold(lab: Lab) -> None:
    await lab.start(build_of(KEEPING))
    await lab.create(Tank.new("a", spec=TankSpec(volume=Volume(millilitres=3500), colour="red")))
    body = BetaTank.new("a", lab.namespace, spec=BetaSpec(litres=5)).to_dict()
    await lab.client.apply(BetaTank, body, force=True)
    tank = await lab.get(Tank, "a")
    assert (tank.spec.volume.millilitres, tank.spec.colour) == (5000, "red")


async def patiently(lab: Lab, model: type[Tank | BetaTank], patch: dict[str, Any]) -> None:
    """Patch a tank again until it can be converted: nothing converts while the operator is down."""
    while True:
        try:
            await lab.patch(model, "a", patch)
        except ServerFailure:
            await asyncio.sleep(60)
        else:
            return


async def both_versions(lab: Lab) -> None:
    await lab.start(build_of(KEEPING))
    await lab.create(BetaTank.new("a", spec=BetaSpec(litres=2)))
    await lab.until(Tank, "a", kv.is_true("Ready"))
    await patiently(lab, Tank, {"spec": {"colour": "red"}})
    await patiently(lab, BetaTank, {"spec": {"litres": 3}})
    tank = await lab.until(Tank, "a", lambda tank: tank.status.level == 3000)
    assert tank.spec.colour == "red"


def test_two_versions_survive_every_fault() -> None:
    report = explore(both_versions, mode="quick", seed=1, budget=20, workers=1, strict=False)
    assert report.passed, report.text()


def refuses(new: Tank) -> BetaTank:
    if new.spec.colour:
        raise kv.NotConvertible(".spec.colour", "v1beta1 has no colours")
    return to_beta(new)


def fails(new: Tank) -> BetaTank:
    raise ValueError(f"secret {new.name}")


@pytest.mark.parametrize(
    ("down", "error", "words"),
    [
        (refuses, kv.NotConvertible, r"\.spec\.colour: v1beta1 has no colours\. Correct the field"),
        (fails, ValueError, r"the conversion raised ValueError; see the log of the operator\."),
    ],
)
async def test_a_failed_conversion_names_object_field_and_remedy(
    lab: Lab, down: Any, error: type[Exception], words: str
) -> None:
    lab.expects(error)
    await lab.start(build_of(kv.Conversion.of(Tank).version(BetaTank, up=from_beta, down=down)))
    await lab.create(Tank.new("a", spec=TankSpec(volume=Volume(millilitres=1), colour="red")))
    with pytest.raises(ServerFailure, match=words) as refused:
        await lab.client.list(BetaTank, lab.namespace)
    message = str(refused.value)
    assert f"Tank {lab.namespace}/a of tanks.example.com/v1 cannot be converted to tanks.example.com/v1beta1" in message
    assert f"kubectl edit tanks.v1.tanks.example.com a -n {lab.namespace}" in message
    assert "secret" not in message
    assert [item.name for item in (await lab.client.list(Tank, lab.namespace)).items] == ["a"]


async def test_an_object_that_cannot_be_converted_can_be_deleted(lab: Lab, logs: list[Any]) -> None:
    await lab.start(build_of(kv.Conversion.of(Tank).version(BetaTank, up=from_beta, down=refuses)))
    tank = Tank.new("a", lab.namespace, spec=TankSpec(volume=Volume(millilitres=1), colour="red"))
    await lab.create(tank)
    hold: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
    await lab.client.patch(Tank, "a", lab.namespace, patch=hold, style="merge")
    await lab.client.delete(Tank, "a", lab.namespace)
    hold["metadata"]["finalizers"] = None
    await lab.client.patch(kv.kind(BETA, "Tank"), "a", lab.namespace, patch=hold, style="merge")
    assert await lab.client.find(Tank, "a", lab.namespace) is None
    assert {line["log_level"] for line in logs if "cannot be converted" in line["event"]} == {"warning"}


async def test_every_replica_converts_before_it_leads(lab: Lab) -> None:
    election = kv.ElectionSettings(enabled=True, namespace=lab.namespace, identity="first")
    webhooks = kv.WebhookSettings(address="0", url="https://tanks.example.com")
    settings = kv.ManagerSettings(namespace=lab.namespace, strict=True, webhooks=webhooks, election=election)
    first = await lab.start(build_of(TANKS), name="tanks", settings=settings, rbac=False)
    second = kv.Manager("tanks", lab.config, settings=settings)
    build_of(TANKS)(second)
    async with second:
        assert first.leads
        assert not second.leads
        answer = await second.admission.door.answer(TANKS.path, _review)
    assert b'"millilitres":2000' in answer.body


async def _review() -> bytes:
    return (
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"7","desiredAPIVersion":'
        b'"tanks.example.com/v1","objects":[{"apiVersion":"tanks.example.com/v1beta1","kind":"Tank","metadata":'
        b'{"name":"a"},"spec":{"litres":2}}]}}'
    )


def test_a_conversion_is_checked_when_it_is_added() -> None:
    manager = kv.Manager("tanks")
    with pytest.raises(UsageError, match=r"has one version; add the others with \.version"):
        manager.add(kv.Conversion.of(Tank))
    manager.add(TANKS)
    with pytest.raises(UsageError, match="has two conversions"):
        manager.add(KEEPING)
    assert manager.conversions == (TANKS,)


def test_two_stored_versions_are_refused() -> None:
    wrong: Any = StoredBeta
    with pytest.raises(UsageError, match="stored in v1, v1beta1"):
        kv.Manager("tanks").add(kv.Conversion.of(Tank).version(wrong, up=from_beta, down=to_beta))


def test_a_conversion_needs_the_right_to_patch_its_definition_only() -> None:
    settings = kv.ManagerSettings(webhooks=kv.WebhookSettings(service="web/hooks"))
    manager = kv.Manager("tanks", settings=settings)
    manager.add(TANKS)
    rule = kv.Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get", "patch"),
        (f"tanks.{GROUP}",),
        cluster_wide=True,
    )
    secret = kv.Rule("", ("secrets",), ("get", "update"), ("tanks-webhooks",), "web")
    assert set(manager.rules()) == {rule, secret}
    mounted = kv.WebhookSettings(service="web/hooks", certificates="/mounted")
    manager = kv.Manager("tanks", settings=kv.ManagerSettings(webhooks=mounted))
    manager.add(TANKS)
    assert manager.rules() == ()


async def test_an_operator_removes_a_conversion_by_its_path() -> None:
    manager = kv.Manager("tanks")
    manager.add(TANKS)
    await manager.remove(TANKS.path)
    assert manager.conversions == ()
