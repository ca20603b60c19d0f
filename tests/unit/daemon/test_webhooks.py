"""`konverge webhooks`: its output, and its error without webhooks."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hosted import daemon_settings

import konverge as kv
from konverge.daemon.main import program
from konverge.daemon.programs import fill, narrow
from konverge.daemon.settings import Settings

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "backup_admission.py")
SERVICE = ("--service", "web/hooks")


pytestmark = pytest.mark.usefixtures("untouched_imports")


def konverge(*words: str) -> Result:
    return CliRunner().invoke(program, list(words), prog_name="konverge")


def printed(*words: str) -> dict[str, Any]:
    answer = konverge("webhooks", f"{EXAMPLE}:build", *words)
    assert answer.exit_code == 0, answer.output
    return {one["kind"]: one for one in yaml.safe_load_all(answer.stdout) if one}


def test_an_operator_with_its_own_certificates_gets_a_secret_too() -> None:
    found = printed(*SERVICE, "--name", "shop")
    assert set(found) == {"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    assert {one["metadata"]["name"] for one in found.values()} == {"shop", "shop-webhooks"}
    assert found["Secret"]["metadata"]["namespace"] == "web"
    (entry,) = found["MutatingWebhookConfiguration"]["webhooks"]
    assert entry["clientConfig"]["service"]["path"] == "/mutate-example-com-v1-backup"
    assert "caBundle" not in entry["clientConfig"]


def test_cert_manager_is_named_instead_of_a_secret() -> None:
    found = printed(*SERVICE, "--cert-manager", "web/hooks")
    assert set(found) == {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    annotations = found["ValidatingWebhookConfiguration"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "web/hooks"}


def test_a_given_ca_file_is_put_into_the_configurations(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    found = printed("--url", "https://hooks.example.com:9443", "--ca", str(authority))
    (entry,) = found["ValidatingWebhookConfiguration"]["webhooks"]
    assert entry["clientConfig"] == {
        "url": "https://hooks.example.com:9443/validate-example-com-v1-backup",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }


def test_service_and_url_can_be_settings_instead_of_flags() -> None:
    found = printed("--set", "webhooks.service=web/hooks:8443", "--set", "webhooks.configuration=other")
    (entry,) = found["ValidatingWebhookConfiguration"]["webhooks"]
    assert entry["clientConfig"]["service"]["port"] == 8443
    assert found["Secret"]["metadata"]["name"] == "other-webhooks"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((f"{EXAMPLE}:build",), 1, "set webhooks.service to namespace/name"),
        ((f"{EXAMPLE}:build", "--service", "hooks"), 2, "write namespace/name"),
        ((f"{EXAMPLE}:build", *SERVICE, "--url", "https://x"), 2, "give one of them"),
        ((f"{EXAMPLE}:build", *SERVICE, "--ca", "no-such-file"), 2, "No such file"),
        ((EXAMPLE.replace("backup_admission", "backup_operator") + ":build", *SERVICE), 1, "has no webhooks"),
    ],
)
def test_a_mistake_is_reported_in_one_line(words: tuple[str, ...], code: int, said: str) -> None:
    answer = konverge("webhooks", *words)
    assert answer.exit_code == code
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("chosen", "belongs", "left"),
    [
        ((), {"ones": ("one", "/first--v1-secret"), "twos": ("two", "/second--v1-secret")}, ["first", "second"]),
        (("ones",), {"ones": ("one", "/first--v1-secret"), "twos": ("two", "/second--v1-secret")}, ["first"]),
        (("one",), {"ones": ("one", "/first--v1-secret"), "twos": ("two", "/second--v1-secret")}, []),
        (("one",), {}, ["first", "second"]),
    ],
)
async def test_the_webhooks_of_a_family_are_dropped_with_it(
    chosen: tuple[str, ...], belongs: dict[str, tuple[str, ...]], left: list[str]
) -> None:
    class Reconciler:
        async def reconcile(self, secret: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
            return kv.Done()

    secret = kv.kind("v1", "Secret")
    manager = kv.Manager("shop")
    for name in ("one", "two"):
        manager.add(kv.Controller.of(secret).named(name).writes_status_as(name).reconciled_by(Reconciler()))
    for name in ("first", "second"):
        manager.add(kv.Webhook.validating(secret).named(name).handled_by(lambda _: kv.Allow()))
    await narrow(manager, Settings(controllers=chosen), belongs)
    assert [webhook.label for webhook in manager.webhooks] == left


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ((), ("agents",)),
        (("pools",), ()),
        (("clusters",), ("agents",)),
        (("cluster",), ("agents",)),
        (("apps",), ()),
        (("machines",), ("nstance",)),
        (("nstancemachine",), ("nstance",)),
    ],
)
async def test_background_work_of_a_family_ends_with_its_last_controller(
    chosen: tuple[str, ...], left: tuple[str, ...]
) -> None:
    manager = kv.Manager("konverge")
    await fill(manager, None, daemon_settings(controllers=chosen))
    assert manager.background == left


@pytest.mark.parametrize("watched", ["", "shop"])
def test_rbac_with_webhooks_names_its_own_objects_in_their_namespace(watched: str) -> None:
    words = ["rbac", f"{EXAMPLE}:build", "--namespace", watched, "--set", "webhooks.service=web/hooks"]
    roles = list(yaml.safe_load_all(konverge(*words).stdout))
    named = {
        (role["metadata"].get("namespace", ""), tuple(rule["resources"])): rule["resourceNames"]
        for role in roles
        for rule in role["rules"]
        if "resourceNames" in rule
    }
    assert named == {
        ("web", ("secrets",)): ["backup-admission-webhooks"],
        ("", ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")): ["backup-admission"],
    }
    kinds = {role["metadata"].get("namespace", ""): role["kind"] for role in roles}
    assert kinds == {"": "ClusterRole", "web": "Role"} | ({watched: "Role"} if watched else {})
