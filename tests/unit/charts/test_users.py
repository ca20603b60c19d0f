"""The rules of the ClusterRoles for users, pinned by kind and verb: a new kind is closed to tenants until its declaration names them."""

from itertools import chain
from typing import Any

import pytest
import yaml
from hosted import NAMES

import konverge as kv
from konverge.charts import FOLDER, user_rules
from konverge.crds.catalogue import own_resources
from konverge.crds.resource import declaration_of

READ = {"get", "list", "watch"}
WRITE = READ | {"create", "delete", "deletecollection", "patch", "update"}

OF_TENANTS = {
    "apps": {"applicationinstances.apps.vworkspace.io", "operations.ops.vworkspace.io"},
    "pools": {"nextclouds.k8s.bnerd.com"},
    "quota": {"resourcepoolclaims.capsule.clastix.io"},
    "workspaces": {"workspaceclaims.cloudapi.team-orca.dev"},
}
OF_ADMINISTRATORS = {
    "clusters": {"clusters.ops.vworkspace.io"},
    "machines": {
        f"{plural}.infrastructure.cluster.x-k8s.io"
        for plural in (
            *("nstanceclusters", "nstancecontrolplanes", "nstancemachinepools"),
            *("nstancemachines", "nstancemachinetemplates", "nstanceshardgroups"),
        )
    },
    "pools": {
        f"{plural}.k8s.bnerd.com"
        for plural in ("nextcloudinstances", "nextcloudpools", "nextcloudprofiles", "nextcloudversionmaps")
    },
    "quota": {"resourcepools.capsule.clastix.io"},
}


SECRET = {"clusters.ops.vworkspace.io"}
"""Kinds whose spec may hold a secret: the registration token of a Cluster."""


def rules_of(family: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / "files" / family / "users.yaml").read_text())
    return found


def rights(rules: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the verbs by resource and group."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                plural, slash, below = resource.partition("/")
                found.setdefault(f"{plural}.{group}{slash}{below}", set()).update(rule["verbs"])
    return found


def test_every_family_has_rules_for_users() -> None:
    assert {path.parent.name for path in FOLDER.glob("files/*/users.yaml")} == {*NAMES}


@pytest.mark.parametrize("family", NAMES)
def test_tenants_write_their_kinds_and_administrators_all_others(family: str) -> None:
    rules = rules_of(family)
    assert rights(rules["edit"]) == dict.fromkeys(OF_TENANTS.get(family, ()), WRITE)
    assert rights(rules["admin"]) == dict.fromkeys(OF_ADMINISTRATORS.get(family, ()), WRITE)


@pytest.mark.parametrize("family", NAMES)
def test_every_kind_and_status_is_readable_unless_its_spec_has_secrets(family: str) -> None:
    kinds = (OF_TENANTS.get(family, set()) | OF_ADMINISTRATORS.get(family, set())) - SECRET
    assert rights(rules_of(family)["view"]) == dict.fromkeys([*kinds, *(f"{kind}/status" for kind in kinds)], READ)


def test_every_kind_of_ours_has_one_writer() -> None:
    written = [kind for kinds in (*OF_TENANTS.values(), *OF_ADMINISTRATORS.values()) for kind in kinds]
    assert sorted(written) == sorted(declaration_of(model).crd_name for model in own_resources())


@pytest.mark.parametrize("family", NAMES)
def test_no_role_writes_a_subresource(family: str) -> None:
    rules = rules_of(family)
    written = chain(rules["edit"], rules["admin"], rules["cluster"])
    assert [resource for rule in written for resource in rule["resources"] if "/" in resource] == []


@pytest.mark.parametrize("family", NAMES)
def test_the_role_that_joins_the_clusters_admin_has_no_namespaced_kind(family: str) -> None:
    of_cluster = {declaration_of(model).crd_name for model in own_resources() if not declaration_of(model).namespaced}
    assert rights(rules_of(family)["cluster"]).keys() <= of_cluster


def test_a_kind_is_closed_to_tenants_unless_its_declaration_names_them() -> None:
    @kv.resource("example.com/v1")
    class Closed(kv.CustomResource[kv.Model, kv.Status]):
        """A kind without a declaration of its writers."""

    @kv.resource("example.com/v1", written_by="tenants")
    class Open(kv.CustomResource[kv.Model, kv.Status]):
        """A kind for tenants."""

    rules = user_rules(declaration_of(model) for model in (Closed, Open))
    assert rights(rules["edit"]).keys() == {"opens.example.com"}
    assert rights(rules["admin"]).keys() == {"closeds.example.com"}
