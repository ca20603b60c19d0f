"""A kind that is watched only in some namespaces."""

from collections.abc import Iterable
from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.crds import crd
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Metadata
from konverge.rbac import cluster_role, narrowed_roles
from konverge.runtime import Caches, Controller, ManagerSettings, rules_of
from konverge_testing import Lab, install_crds

SECRET = kv.kind("v1", "Secret", namespaced=True)
NODE = kv.kind("v1", "Node", namespaced=False)


def the_widget(secret: Metadata, caches: Caches) -> Iterable[Key]:
    return caches(Widget).keys()


async def leave(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    return kv.Done()


def narrowed(*namespaces: str, by: Any = leave) -> Controller[Widget]:
    return (
        Controller.of(Widget)
        .watches(SECRET, to=the_widget, metadata_only=True, namespaces=namespaces)
        .indexes(SECRET, "tier", by=lambda found: [found.label("tier")])
        .reads_live(SECRET)
        .reconciled_by(By(by))
    )


def test_kind_watched_in_some_namespaces_needs_rights_only_in_them() -> None:
    rules = rules_of(narrowed("b", "a"))
    role = cluster_role("shop", rules)
    assert "secrets" not in str(role)
    assert "widgets" in str(role)
    secrets = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}]
    assert [(one["kind"], one["metadata"], one["rules"]) for one in narrowed_roles("shop", rules)] == [
        ("Role", {"name": "shop", "namespace": place}, secrets) for place in ("a", "b")
    ]
    assert "secrets" in str(cluster_role("shop", rules, namespace="a"))
    assert "secrets" not in str(cluster_role("shop", rules, namespace="elsewhere"))


@pytest.mark.parametrize(
    ("kind", "namespaces"),
    [(SECRET, [""]), (SECRET, "web"), (NODE, ["web"])],
    ids=["empty", "a string", "of no namespace"],
)
def test_namespaces_that_name_none_are_an_error(kind: Any, namespaces: Any) -> None:
    with pytest.raises(UsageError, match="give names of namespaces"):
        Controller.of(Widget).watches(kind, to=the_widget, metadata_only=True, namespaces=namespaces)


@pytest.mark.parametrize("alone", [False, True], ids=["of the whole cluster", "of one namespace"])
async def test_only_named_namespaces_are_watched_and_cached_and_trigger_reconciles(lab: Lab, alone: bool) -> None:
    await install_crds(lab.client, [crd(Widget)])
    other, elsewhere = await lab.namespace_also("other"), await lab.namespace_also("elsewhere")
    seen: list[dict[str, Any]] = []

    async def look(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        secrets = ctx.cache(SECRET)
        seen.append(
            {
                "all": sorted((one.namespace, one.name) for one in secrets.list()),
                "keys": len(secrets.keys()),
                "number": len(secrets),
                "by index": len(secrets.metadata_by_index("tier", "gold")),
                "elsewhere": secrets.find(elsewhere, "s"),
                "here": secrets.metadata(lab.namespace, "s") is not None,
                "synced": secrets.synced,
                "there alone": len(secrets.list(other)),
            }
        )
        return kv.Done()

    for place in (lab.namespace, other, elsewhere):
        await lab.client.create(SECRET.new("s", place, labels={"tier": "gold"}))
    controller = narrowed(lab.namespace, other, by=look)
    settings = ManagerSettings(namespace=lab.namespace if alone else None, strict=True)
    await lab.start(lambda manager: manager.add(controller), settings=settings)
    await lab.create(widget())
    await lab.settled()
    places = [lab.namespace] if alone else sorted([lab.namespace, other])
    assert seen[-1] == {
        "all": [(place, "s") for place in places],
        **dict.fromkeys(("keys", "number", "by index"), len(places)),
        "elsewhere": None,
        "here": True,
        "synced": True,
        "there alone": len(places) - 1,
    }
    passes = len(seen)
    await lab.client.create(SECRET.new("new", elsewhere))
    await lab.settled()
    assert len(seen) == passes
    await lab.client.create(SECRET.new("new", lab.namespace))
    await lab.settled()
    assert len(seen) == passes + 1
    assert kind_of(Widget) == controller.kind


async def test_controller_of_some_namespaces_finds_no_other_objects_by_shared_index(lab: Lab) -> None:
    await install_crds(lab.client, [crd(Widget)])
    other, elsewhere = await lab.namespace_also("other"), await lab.namespace_also("elsewhere")
    config_map, account = kv.kind("v1", "ConfigMap"), kv.kind("v1", "ServiceAccount")
    watched: dict[kv.Kind[Any], tuple[str, ...]] = {
        kind_of(Widget): (lab.namespace, other),
        account: (lab.namespace,),
        config_map: (),
    }
    found: dict[str, list[str]] = {}

    async def look(_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        found[ctx.key.kind.kind] = sorted(one.namespace for one in ctx.cache(SECRET).metadata_by_index("tier", "gold"))
        return kv.Done()

    def by_tier(secret: Metadata) -> list[str]:
        return [secret.label("tier")]

    def build(manager: kv.Manager) -> None:
        for kind, namespaces in watched.items():
            manager.add(
                Controller.of(kind)
                .watches(SECRET, to=lambda _, __: (), metadata_only=True, namespaces=namespaces)
                .indexes(SECRET, "tier", by=by_tier)
                .reconciled_by(By(look))
            )

    for place in (lab.namespace, other, elsewhere):
        await lab.client.create(SECRET.new("s", place, labels={"tier": "gold"}))
    await lab.start(build, settings=ManagerSettings(strict=True))
    await lab.create(widget())
    await lab.create(config_map.new("c"))
    await lab.create(account.new("a"))
    await lab.settled()
    assert found == {
        "Widget": sorted([lab.namespace, other]),
        "ServiceAccount": [lab.namespace],
        "ConfigMap": sorted([lab.namespace, other, elsewhere]),
    }
