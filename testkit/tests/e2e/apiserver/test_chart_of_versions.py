"""The chart of an operator whose kind has two versions: its definition leads to the chart's Service, with the certificates of the values."""

from typing import Any

import pytest
import yaml
from helm_template import NAMESPACE, Template, konverge, rights_of

pytestmark = pytest.mark.timeout(
    60, func_only=True
)  # the first test waits for the build of helm, which has its own limit

OPERATOR = "mirror_operator:build"
NAME = "mirrors.mirrors.example.com"
SERVICE = {
    "namespace": NAMESPACE,
    "name": "konverge-webhooks",
    "port": 443,
    "path": "/convert-mirrors-example-com-mirror",
}


@pytest.mark.parametrize(
    ("certificates", "annotation"),
    [("selfManaged", None), ("certManager", f"{NAMESPACE}/konverge-webhooks")],
)
def test_a_definition_leads_to_the_service_of_the_chart(
    template: Template, certificates: str, annotation: str | None
) -> None:
    rendered = template({"webhooks": {"certificates": certificates}})
    definition = rendered.one("CustomResourceDefinition", NAME)
    assert definition["spec"]["conversion"]["webhook"]["clientConfig"] == {"service": SERVICE}
    assert definition["metadata"].get("annotations", {}).get("cert-manager.io/inject-ca-from") == annotation
    assert not rendered.all("MutatingWebhookConfiguration")
    assert rendered.one("Service", "konverge-webhooks")


def test_a_chart_grants_the_printed_right_on_its_definition(template: Template) -> None:
    words = ("--set", f"webhooks.service={NAMESPACE}/konverge-webhooks", "--set", "webhooks.configuration=konverge")
    printed = [role for role in yaml.safe_load_all(konverge("rbac", OPERATOR, *words)) if role]
    wanted = {right for role in printed for right in rights_of(role) if right[2] == "customresourcedefinitions"}
    rendered: Any = template({})
    assert {right for right in rendered.rights if right[2] == "customresourcedefinitions"} == wanted
    mounted = template({"webhooks": {"certificates": "certManager"}})
    assert not {right for right in mounted.rights if right[2] == "customresourcedefinitions"}


def test_a_definition_without_webhooks_is_refused_with_the_value(template: Template) -> None:
    complaint = template.refused({"webhooks": {"enabled": False}})
    assert f"webhooks.enabled: {NAME} has versions that a webhook converts; set webhooks.enabled=true" in complaint
