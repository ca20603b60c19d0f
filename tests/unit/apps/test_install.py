"""The family's watches, how changes map to instances, and the RBAC rules that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Metadata, Object
from konverge.rbac import narrowed_roles
from konverge.reconcilers.apps import Settings, controller, install, rules
from konverge.reconcilers.apps.installation import (
    BY_REFERENT,
    instances_in,
    instances_using,
    referents_of,
    release_of_chart,
)
from konverge.reconcilers.apps.kinds import CONFIG_MAP, HELM_CHART, SECRET
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime import Manager, cluster_role
from konverge_testing import Lab, install_crds
from konverge_testing.velero import velero_crds

WITHOUT_OPERATIONS = Settings(operations=OperationSettings(enabled=False))
INSTANCE = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance")


class Caches:
    """The one cache that the map functions read."""

    def __init__(self, *instances: Object) -> None:
        self._instances = instances

    def __call__(self, what: Any) -> Caches:
        return self

    def list(self, namespace: str | None = None) -> Sequence[Object]:
        return [instance for instance in self._instances if namespace in (None, instance.namespace)]

    def metadata_by_index(self, index: str, value: str) -> Sequence[Metadata]:
        assert index == BY_REFERENT
        return [instance.metadata for instance in self._instances if value in referents_of(instance)]

    def keys(self, namespace: str | None = None) -> Sequence[Key]:
        return [Key("", INSTANCE, instance.namespace, instance.name) for instance in self.list(namespace)]


def instance(name: str, values: Any, namespace: str = "team") -> Object:
    return INSTANCE.new(name, namespace, spec={"values": values} if values else {})


def test_flux_is_optional_and_secrets_are_metadata() -> None:
    described = controller()
    flux = [*described.owned, *(watch for watch in described.watched if watch.kind.group == "source.toolkit.fluxcd.io")]
    assert {watch.kind.kind for watch in flux} == {"HelmRelease", "HelmRepository", "OCIRepository", "HelmChart"}
    assert all(watch.optional for watch in flux)
    assert all(watch.metadata_only for watch in described.watched if watch.kind in (SECRET, CONFIG_MAP))
    assert described.finalizer_name == "apps.vworkspace.io/finalizer"
    assert described.invalid == ("Blocked", "ValidationFailed")


@pytest.mark.parametrize(("gate", "selector"), [(False, ""), (True, "app.vworkspace.io/managed-by=control-plane")])
def test_the_managed_by_gate_selects_instances_by_label(gate: bool, selector: str) -> None:
    described = controller(Settings(require_managed_by=gate))
    rivals = [watch.labels for watch in described.watched if watch.kind == described.kind]
    assert (described.labels, rivals) == (selector, [selector])


@pytest.mark.parametrize("gate", [False, True])
def test_namespaces_are_watched_only_for_their_gate(gate: bool) -> None:
    kinds = {watch.kind.kind for watch in controller(Settings(require_namespace_label=gate)).watched}
    assert ("Namespace" in kinds) is gate


def test_a_secret_enqueues_the_instances_that_refer_to_it() -> None:
    caches: Any = Caches(
        instance("a", {"source": "secretRef", "secretRef": {"name": "vals", "key": "k"}}),
        instance("b", {"source": "secretRef", "secretRef": {"name": "other", "key": "k"}}),
        instance("c", {"source": "configMapRef", "configMapRef": {"name": "vals", "key": "k"}}),
        instance("d", {"source": "secretRef", "secretRef": {"name": "vals", "key": "k"}}, "elsewhere"),
        instance("e", None),
        instance("f", "mangled"),  # what an older schema let through
    )
    changed = Metadata(name="vals", namespace="team")
    assert [key.name for key in instances_using(SECRET)(changed, caches)] == ["a"]
    assert [key.name for key in instances_using(CONFIG_MAP)(changed, caches)] == ["c"]


def test_secrets_of_helms_storage_enqueue_no_instance() -> None:
    class Untouched:
        def __call__(self, what: Any) -> Any:
            raise AssertionError("the cache need not be read")

    untouched: Any = Untouched()
    assert list(instances_using(SECRET)(Metadata(name="sh.helm.release.v1.shop.v7", namespace="team"), untouched)) == []


def test_a_helm_chart_enqueues_the_instance_of_its_helm_release() -> None:
    labels = {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "team"}
    chart = HELM_CHART.new("team-shop", "team", labels=labels)
    caches: Any = Caches()
    assert [key.path for key in release_of_chart(chart, caches)] == ["team/shop"]
    assert list(release_of_chart(HELM_CHART.new("x", "team"), caches)) == []


def test_a_namespace_enqueues_its_instances() -> None:
    caches: Any = Caches(instance("a", None), instance("d", None, "elsewhere"))
    assert [key.name for key in instances_in(Metadata(name="team"), caches)] == ["a"]


@pytest.mark.parametrize("operations", [True, False])
def test_installing_adds_the_controllers_and_starts_nothing(operations: bool) -> None:
    manager = Manager("konverge")
    install(manager, Settings(operations=OperationSettings(enabled=operations)))
    assert [added.name for added in manager.controllers] == ["applicationinstance", *["operation"] * operations]


def test_the_rbac_rules_are_exactly_those_that_are_used() -> None:
    found = {
        (rule["apiGroups"][0], resource): set(rule["verbs"])
        for rule in cluster_role("konverge", rules(WITHOUT_OPERATIONS))["rules"]
        for resource in rule["resources"]
    }
    read, own = {"get", "list", "watch"}, {"get", "list", "watch", "create", "patch", "delete"}
    assert found == {
        ("apps.vworkspace.io", "applicationinstances"): read | {"patch"},
        ("apps.vworkspace.io", "applicationinstances/status"): {"patch"},
        ("apps.vworkspace.io", "applicationinstances/finalizers"): {"update"},
        ("events.k8s.io", "events"): {"create", "patch"},
        ("helm.toolkit.fluxcd.io", "helmreleases"): own,
        ("source.toolkit.fluxcd.io", "helmrepositories"): own,
        ("source.toolkit.fluxcd.io", "ocirepositories"): own,
        ("source.toolkit.fluxcd.io", "helmcharts"): {"list", "watch"},
        ("", "secrets"): read,
        ("", "configmaps"): read,
    }


def test_secret_namespaces_need_roles_there_and_no_cluster_wide_rule() -> None:
    found = rules(Settings(secret_namespaces=("web", "shop")))
    assert "secrets" not in str(cluster_role("konverge", found))
    assert [(role["metadata"]["namespace"], role["rules"]) for role in narrowed_roles("konverge", found)] == [
        (place, [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}])
        for place in ("shop", "web")
    ]


def test_secret_namespaces_with_watch_secrets_off_is_an_error() -> None:
    with pytest.raises(ValueError, match="give one of the two"):
        Settings(watch_secrets=False, secret_namespaces=("web",))


def test_with_watch_secrets_off_only_the_rules_on_secrets_are_dropped() -> None:
    chosen = Settings(watch_secrets=False)
    assert {watch.kind for watch in controller().watched} - {watch.kind for watch in controller(chosen).watched} == {
        SECRET
    }
    pairs = [
        {(rule.group, resource, rule.verbs) for rule in rules(one) for resource in rule.resources}
        for one in (Settings(), chosen)
    ]
    assert pairs[0] - pairs[1] == {("", "secrets", ("get", "list", "watch")), ("", "secrets", ("get",))}
    assert pairs[1] <= pairs[0]


# --- the warning -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        (Settings(), True),
        (Settings(allowed_service_accounts=("robot",)), True),
        (Settings(service_account="tenant"), False),
        (Settings(url_allow_list=("https://charts.example.com",)), False),
    ],
    ids=["neither", "accounts allowed but none set", "a service account", "an allow-list of sources"],
)
async def test_a_start_without_service_account_and_url_allow_list_logs_one_warning(
    lab: Lab, settings: Settings, warns: bool
) -> None:
    with capture_logs() as logs:
        await lab.start(lambda manager: install(manager, settings))
        await lab.settled()
    warned = [entry["event"] for entry in logs if "installed with the rights of Flux" in entry["event"]]
    assert len(warned) == warns
    for event in warned:
        assert "set apps.service_account, or apps.url_allow_list" in event


async def test_missing_engines_are_one_log_line_without_a_warning(lab: Lab) -> None:
    with capture_logs() as logs:
        await lab.start(lambda manager: install(manager, Settings(url_allow_list=("https://a",))), name="konverge")
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == []
    said = {line["controller"]: line["kinds"] for line in logs if "kinds" in line}
    assert "HelmRelease.helm.toolkit.fluxcd.io" in said["applicationinstance"]
    assert {"Backup.velero.io", "Workflow.argoproj.io", "ReplicationSource.volsync.backube"} < set(said["operation"])
    assert len([line for line in logs if "kinds" in line]) == 2
    unserved = [one for one in lab.manager.debug()["informers"]() if (one["problem"] or {}).get("cause") == "NotServed"]
    assert len(unserved) == len({*said["operation"], *said["applicationinstance"]})


async def test_engine_installed_later_is_used_and_its_removal_is_a_warning(lab: Lab) -> None:
    await lab.start(lambda manager: install(manager, Settings(url_allow_list=("https://a",))), name="konverge")
    with capture_logs() as logs:
        await install_crds(lab.client, velero_crds())
        await asyncio.sleep(60)
        for definition in velero_crds():
            await lab.client.delete(kind(definition["apiVersion"], definition["kind"]), definition["metadata"]["name"])
        await asyncio.sleep(60)
    gone = [line["selection"] for line in logs if line["log_level"] == "warning" and line["cause"] == "NotServed"]
    assert "Backup.velero.io" in " ".join(gone)
