"""The children: their fields, and the fields that they never have."""

from datetime import timedelta
from typing import Any

import pytest

from konverge.reconcilers.apps import Settings
from konverge.reconcilers.apps.render import (
    children_of,
    desired_release,
    helm_release,
    helm_repository,
    label_value,
    oci_repository,
    oci_url,
)

SETTINGS = Settings()
OCI = {"chart": {"sourceType": "oci", "url": "oci://registry.example.com/charts"}}
OWN = {
    "labels": {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/application-instance": "shop"},
    "annotations": {
        "app.vworkspace.io/application-instance": "shop",
        "app.vworkspace.io/application-instance-uid": "shop-uid",
    },
}


def test_a_helm_chart_is_a_repository_and_a_release_that_names_it(make: Any) -> None:
    children = children_of(make.instance(), SETTINGS)
    assert children.source.data == {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": {"name": "shop", "namespace": "team", **OWN},
        "spec": {"url": "https://charts.example.com", "interval": "5m"},
    }
    assert children.release.data == {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "shop", "namespace": "team", **OWN},
        "spec": {
            "interval": "5m",
            "timeout": "5m",
            "releaseName": "shop",
            "targetNamespace": "team",
            "driftDetection": {"mode": "enabled"},
            "chart": {
                "spec": {"chart": "shop", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "shop"}}
            },
            "values": {"replicas": 1},
        },
    }


def test_an_oci_chart_is_an_oci_repository_and_a_chart_ref(make: Any) -> None:
    children = children_of(make.instance(spec=OCI), SETTINGS)
    assert children.source.kind_name == "OCIRepository"
    assert children.source.spec == {
        "url": "oci://registry.example.com/charts/shop",
        "interval": "5m",
        "ref": {"tag": "1.0.0"},
        "layerSelector": {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"},
    }
    assert children.release.spec["chartRef"] == {"kind": "OCIRepository", "name": "shop"}
    assert "chart" not in children.release.spec


@pytest.mark.parametrize(
    ("default", "named", "rendered"),
    [("", None, None), ("tenant", None, "tenant"), ("", "robot", "robot"), ("tenant", "robot", "robot")],
)
def test_chart_is_installed_with_rights_of_the_named_or_default_account(
    make: Any, default: str, named: str | None, rendered: str | None
) -> None:
    release = helm_release(make.instance(spec={"serviceAccountName": named}), Settings(service_account=default))
    assert release.spec.get("serviceAccountName") == rendered


def test_a_tag_writes_plus_as_underscore(make: Any) -> None:
    instance = make.instance(spec={"chart": {**OCI["chart"], "version": "1.0.0+build.5"}})
    assert oci_repository(instance, SETTINGS).get("spec", "ref", "tag") == "1.0.0_build.5"


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("oci://registry.example.com/charts", "oci://registry.example.com/charts/shop"),
        ("oci://registry.example.com/charts/", "oci://registry.example.com/charts/shop"),
        ("oci://registry.example.com/charts/shop", "oci://registry.example.com/charts/shop"),
        ("oci://registry.example.com/shop-charts", "oci://registry.example.com/shop-charts/shop"),
        ("oci://registry.example.com", "oci://registry.example.com/shop"),
    ],
)
def test_the_charts_name_is_appended_unless_it_is_there(url: str, full: str) -> None:
    assert oci_url(url, "shop") == full


def test_only_insecure_registries_of_the_settings_are_reached_by_plain_http(make: Any) -> None:
    instance = make.instance(spec={"chart": {"sourceType": "oci", "url": "oci://127.0.0.1:5000/charts"}})
    assert (
        oci_repository(instance, Settings(insecure_registries=frozenset({"127.0.0.1:5000"}))).spec["insecure"] is True
    )
    assert "insecure" not in oci_repository(instance, SETTINGS).spec


def test_a_malformed_registry_url_is_rendered_and_left_to_flux_to_refuse(make: Any) -> None:
    instance = make.instance(spec={"chart": {"sourceType": "oci", "url": "oci://[::1"}})
    assert oci_repository(instance, SETTINGS).spec["url"].startswith("oci://[::1")


@pytest.mark.parametrize(
    ("source", "field", "kind"), [("secretRef", "secretRef", "Secret"), ("configMapRef", "configMapRef", "ConfigMap")]
)
def test_values_in_a_secret_or_config_map_are_referenced_and_not_copied(
    make: Any, source: str, field: str, kind: str
) -> None:
    instance = make.instance(spec={"values": {"source": source, field: {"name": "vals", "key": "values.yaml"}}})
    spec = helm_release(instance, SETTINGS).spec
    assert spec["valuesFrom"] == [{"kind": kind, "name": "vals", "valuesKey": "values.yaml"}]
    assert "values" not in spec


def test_fields_that_flux_or_a_user_decides_are_not_rendered(make: Any) -> None:
    spec = helm_release(make.instance(), SETTINGS).spec
    assert not {"suspend", "install", "upgrade", "rollback", "uninstall", "test", "storageNamespace"} & set(spec)


def test_settings_reach_the_children(make: Any) -> None:
    settings = Settings(
        interval=timedelta(minutes=10), timeout=timedelta(hours=2), drift_detection="warn", cluster_id="eu-1"
    )
    release, repository = helm_release(make.instance(), settings), helm_repository(make.instance(), settings)
    assert (release.spec["interval"], release.spec["timeout"], release.spec["driftDetection"]) == (
        "10m",
        "2h",
        {"mode": "warn"},
    )
    assert repository.spec["interval"] == "10m"
    assert (
        release.metadata.label("app.vworkspace.io/cluster-id")
        == repository.metadata.label("app.vworkspace.io/cluster-id")
        == "eu-1"
    )


def test_without_a_cluster_id_its_label_is_left_out(make: Any) -> None:
    assert "app.vworkspace.io/cluster-id" not in (helm_release(make.instance(), SETTINGS).metadata.labels or {})


def test_long_name_is_shortened_in_the_label_and_whole_in_annotation(make: Any) -> None:
    name = "a" * 200
    metadata = helm_release(make.instance(name=name), SETTINGS).metadata
    label = metadata.label("app.vworkspace.io/application-instance")
    assert (len(label), label[:53]) == (63, "a" * 52 + "-")
    assert int(label[53:], 16) >= 0
    assert metadata.annotation("app.vworkspace.io/application-instance") == name
    assert metadata.name == name


def test_two_long_names_with_one_beginning_get_two_labels() -> None:
    assert label_value("a" * 63) == "a" * 63
    assert label_value("a" * 64 + "b") != label_value("a" * 64 + "c")


def test_rendering_twice_gives_equal_bytes(make: Any) -> None:
    assert (
        children_of(make.instance(), SETTINGS).release.data
        == children_of(make.instance(generation=9), SETTINGS).release.data
    )


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"chart": {"version": "1.0.1"}}},
        {"spec": {"chart": {"url": "https://mirror.example.com"}}},
        {"spec": {"values": {"source": "inline", "inline": {"replicas": 2}}}},
        {"spec": OCI},
    ],
    ids=["version", "url", "values", "source"],
)
def test_the_intent_digest_changes_with_every_field_of_the_spec(make: Any, change: dict[str, Any]) -> None:
    assert children_of(make.instance(**change), SETTINGS).intent("") != children_of(make.instance(), SETTINGS).intent(
        ""
    )


def test_intent_digest_changes_with_referenced_values_and_not_with_labels(make: Any) -> None:
    children = children_of(make.instance(), SETTINGS)
    assert children.intent("one") != children.intent("two")
    assert children.intent("") == children_of(make.instance(), Settings(cluster_id="eu-1")).intent("")


def test_the_desired_release_has_the_version_and_the_kind_of_source(make: Any) -> None:
    instance = make.instance(spec=OCI)
    found = desired_release(instance, children_of(instance, SETTINGS), "token")
    assert (found.version, found.oci, found.token) == ("1.0.0", True, "token")
