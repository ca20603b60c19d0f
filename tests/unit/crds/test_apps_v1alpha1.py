from typing import Any

import pytest

from konverge.crds import crd, declaration_of, schema_of
from konverge.crds.apps_v1alpha1 import ADOPT, ApplicationInstance, ApplicationInstanceSpec, Values
from konverge.errors import InvalidObject

MANAGED: dict[str, Any] = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.2.3"},
    "release": {"name": "shop", "namespace": "web"},
    "values": {"source": "inline", "inline": {"password": "hunter2"}},
}


def fields(schema: dict[str, Any], path: str = "") -> set[str]:
    found: set[str] = set()
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        found |= {here} | fields(part, here) | fields(part.get("items", {}), f"{here}[]")
    return found


def test_the_api_is_that_of_the_original() -> None:
    definition = crd(ApplicationInstance)
    assert definition["metadata"]["name"] == "applicationinstances.apps.vworkspace.io"
    assert definition["spec"]["names"]["shortNames"] == ["appinst"]
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [(column["name"], column["jsonPath"]) for column in columns] == [
        ("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        ("Chart", ".spec.chart.name"),
        ("Version", ".spec.chart.version"),
        ("Age", ".metadata.creationTimestamp"),
    ]
    assert declaration_of(ApplicationInstance).conditions == (
        *("Ready", "Reconciling", "Degraded", "Suspended", "Blocked", "Deleting", "Stalled"),
    )


def test_the_fields_are_those_of_the_original() -> None:
    properties = schema_of(ApplicationInstance)["properties"]
    chart = {".chart", ".chart.sourceType", ".chart.url", ".chart.name", ".chart.version"}
    assert fields(properties["spec"]) == chart | {
        ".serviceAccountName",  # ours
        *(".mode", ".appRef", ".appRef.catalogId", ".release", ".release.name", ".release.namespace"),
        *(
            ".values",
            ".values.source",
            ".values.inline",
            ".values.secretRef",
            ".values.secretRef.name",
            ".values.secretRef.key",
        ),
        *(".values.configMapRef", ".values.configMapRef.name", ".values.configMapRef.key"),
        *(".integrations", ".integrations.externalSecrets", ".integrations.externalSecrets.enabled"),
        *(".integrations.certManager", ".integrations.certManager.enabled"),
        *(".integrations.ingress", ".integrations.ingress.enabled", ".integrations.ingress.host"),
    }
    status = {path for path in fields(properties["status"]) if not path.startswith(".conditions")}
    assert status == {path.replace(".chart", ".lastAppliedChart") for path in chart} | {
        *(".observedGeneration", ".helmReleaseRef", ".helmReleaseRef.name", ".helmReleaseRef.namespace"),
        *(".lastReconcileTime", ".endpoints"),
        *(".endpoints[].name", ".endpoints[].url", ".endpoints[].type", ".endpoints[].notes"),
    }
    assert properties["spec"]["required"] == ["appRef"]


def test_an_instance_is_read_into_its_models() -> None:
    found = ApplicationInstance.decode({"metadata": {"name": "shop", "namespace": "web"}, "spec": MANAGED})
    assert found.spec.mode == "managed"
    assert found.spec.chart is not None
    assert (found.spec.chart.source_type, found.spec.chart.version) == ("helm", "1.2.3")
    assert found.spec.values is not None
    assert found.spec.values.inline == {"password": "hunter2"}
    assert found.to_dict()["spec"] == MANAGED


def test_inline_values_are_not_shown() -> None:
    assert "hunter2" not in repr(ApplicationInstanceSpec.model_validate(MANAGED))
    assert "hunter2" not in str(Values(source="inline", inline={"password": "hunter2"}))


@pytest.mark.parametrize(
    ("annotations", "adopts"), [(None, False), ({ADOPT: "true"}, True), ({ADOPT: "false"}, False), ({ADOPT: ""}, False)]
)
def test_an_instance_adopts_only_if_it_says_so(annotations: dict[str, str] | None, adopts: bool) -> None:
    spec = ApplicationInstanceSpec.model_validate(MANAGED)
    assert ApplicationInstance.new("shop", "web", spec=spec, annotations=annotations).adopts is adopts


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("version", "latest", ".spec.chart.version"),
        ("version", ">=1.0.0", ".spec.chart.version"),
        ("url", "https://me:hunter2@charts.example.com", ".spec.chart.url"),
        ("url", "file:///etc/passwd", ".spec.chart.url"),
        ("sourceType", "git", ".spec.chart.sourceType"),
    ],
)
def test_an_object_stored_before_the_rules_is_an_error_with_its_path(field: str, value: str, path: str) -> None:
    spec = {**MANAGED, "chart": {**MANAGED["chart"], field: value}}
    with pytest.raises(InvalidObject) as caught:
        ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec})
    assert caught.value.field == path
    assert value not in str(caught.value)
