"""`konverge crds`, `webhooks`, `rbac` and `chart` for an operator whose kind has two versions."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.daemon.main import program

EXAMPLE = f"{Path(__file__).parents[3] / 'examples' / 'mirror_operator.py'}:build"
SERVICE = ("--set", "webhooks.service=web/hooks")
PATH = "/convert-mirrors-example-com-mirror"

pytestmark = pytest.mark.usefixtures("untouched_imports")


def konverge(*words: str) -> Result:
    return CliRunner().invoke(program, list(words), prog_name="konverge")


def definition(*words: str) -> dict[str, Any]:
    result = konverge("crds", EXAMPLE, "-o", "json", *words)
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_a_definition_has_every_version_and_the_webhook() -> None:
    spec = definition(*SERVICE)["spec"]
    versions = [(each["name"], each["storage"], each.get("deprecationWarning", "")) for each in spec["versions"]]
    assert versions == [("v2", True, ""), ("v1", False, "mirrors.example.com/v1 ends in May; use v2")]
    service = {"namespace": "web", "name": "hooks", "path": PATH, "port": 443}
    assert spec["conversion"]["webhook"] == {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}


def test_certificates_of_others_are_in_the_definition(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    webhook = definition(*SERVICE, "--ca", str(authority))["spec"]["conversion"]["webhook"]
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"PEM"
    annotations = definition(*SERVICE, "--cert-manager", "web/hooks")["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "web/hooks"}


def test_an_operator_without_admission_webhooks_gets_the_secret_of_its_certificates() -> None:
    result = konverge("webhooks", EXAMPLE, "--service", "web/hooks")
    [secret] = yaml.safe_load_all(result.stdout)
    assert (secret["kind"], secret["metadata"]["namespace"]) == ("Secret", "web")


def test_the_printed_rights_name_the_definition() -> None:
    role = yaml.safe_load(konverge("rbac", EXAMPLE, *SERVICE).stdout.split("---")[1])
    [rule] = [rule for rule in role["rules"] if rule["resources"] == ["customresourcedefinitions"]]
    assert (rule["verbs"], rule["resourceNames"]) == (["get", "patch"], ["mirrors.mirrors.example.com"])


def test_the_rights_of_a_migration_are_printed_without_a_cluster() -> None:
    result = konverge("crds", EXAMPLE, "--migrate-storage", "--rights")
    role = yaml.safe_load(result.stdout)
    rights = {(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in role["rules"]}
    assert rights == {
        (("customresourcedefinitions",), ("get",)),
        (("customresourcedefinitions/status",), ("patch",)),
        (("mirrors",), ("list", "patch")),
    }
    assert role["metadata"]["name"] == "mirror-operator-storage"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "set webhooks.service to namespace/name of the Service"),
        (("--rights",), "--rights goes with --migrate-storage"),
        (("--migrate-storage", "--apply"), "goes neither with --apply nor with --dry-run"),
        (("--migrate-storage", "--kubeconfig", "/nowhere/config"), "kubeconfig /nowhere/config"),
        ((*SERVICE, "--ca", "/nowhere/ca.crt"), "--ca /nowhere/ca.crt: No such file"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(words: tuple[str, ...], hint: str) -> None:
    result = konverge("crds", EXAMPLE, *words)
    assert result.exit_code in (1, 2)
    assert hint in result.stderr


def test_a_chart_enables_the_webhooks_and_leaves_the_service_to_its_values(tmp_path: Path) -> None:
    assert konverge("chart", EXAMPLE, "-o", str(tmp_path), "--name", "mirrors").exit_code == 0
    assert yaml.safe_load((tmp_path / "values.yaml").read_text())["webhooks"]["enabled"]
    files = tmp_path / "files" / "operator"
    stored = yaml.safe_load((files / "crd-mirrors.mirrors.example.com.yaml").read_text())
    assert stored["spec"]["conversion"]["webhook"]["clientConfig"] == {"service": {"path": PATH}}
    assert yaml.safe_load((files / "webhooks.yaml").read_text())["converting"] == ["mirrors.mirrors.example.com"]
