"""`konverge chart module:build`: helm accepts the chart, and its rights, definitions and webhooks match the operator's."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_template import NAMESPACE, Right, Template, check_names, konverge, merged, rights_of

pytestmark = pytest.mark.timeout(
    60, func_only=True
)  # the first test waits for the build of helm, which has its own limit

OPERATOR = "backup_admission:build"
OFF: dict[str, Any] = {"webhooks": {"enabled": False}}
ELECTED = tuple(
    word for one in ("enabled=true", f"namespace={NAMESPACE}", "name=konverge") for word in ("--set", f"election.{one}")
)
ALL: dict[str, Any] = {
    "replicas": 3,
    "metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "networkPolicy": {"enabled": True},
}


def test_helm_finds_nothing_wrong(helm_program: Path, chart: Path) -> None:
    done = subprocess.run([helm_program, "lint", "--strict", chart], capture_output=True, text=True, check=False)
    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("values", [{}, OFF, ALL, merged(ALL, {"webhooks": {"certificates": "certManager"}})], ids=str)
def test_every_switch_renders(template: Template, values: dict[str, Any]) -> None:
    check_names(template(values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ("--set", f"webhooks.service={NAMESPACE}/konverge-webhooks", "--set", "webhooks.configuration=konverge")),
        (OFF, ("--set", "webhooks.address=0")),
    ],
    ids=str,
)
def test_it_has_exactly_the_rights_that_the_command_prints(
    template: Template, values: dict[str, Any], words: tuple[str, ...]
) -> None:
    printed = yaml.safe_load_all(konverge("rbac", OPERATOR, *ELECTED, *words))
    assert template(values).rights == {narrowed(right) for role in printed for right in rights_of(role)}


def narrowed(right: Right) -> Right:
    """The chart grants the right on the Secret of certificates only in the chart's own namespace."""
    _, group, resource, names, verb = right
    return (NAMESPACE, group, resource, names, verb) if names and resource == "secrets" else right


def test_its_definitions_and_webhooks_are_those_that_the_commands_print(template: Template) -> None:
    rendered = template()
    [definition] = yaml.safe_load_all(konverge("crds", OPERATOR))
    assert rendered.one("CustomResourceDefinition")["spec"] == definition["spec"]
    service = ("--service", f"{NAMESPACE}/konverge-webhooks")
    for one in yaml.safe_load_all(konverge("webhooks", OPERATOR, *service)):
        assert rendered.one(one["kind"]).get("webhooks") == one.get("webhooks")


def test_the_container_runs_the_operator(template: Template) -> None:
    assert template().container["args"] == ["run", OPERATOR]
    assert "KONVERGE_CONTROLLERS" not in template().environment
    assert template(OFF).environment["KONVERGE_WEBHOOKS__ADDRESS"] == "0"


def test_settings_of_our_families_are_refused(template: Template) -> None:
    assert "additional properties 'apps' not allowed" in template.refused({"settings": {"apps": {}}})
    assert "additional properties 'families' not allowed" in template.refused({"families": {}})
