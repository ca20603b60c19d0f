import base64
import json
from pathlib import Path

import pytest

from konverge_testing.apiserver.certificates import KeyPair
from konverge_testing.arguments import (
    HOST,
    Layout,
    apiserver_arguments,
    audit_policy,
    controller_manager_arguments,
    etcd_arguments,
    kubeconfig,
)
from konverge_testing.config import CONTROLLERS, ControlPlaneConfig
from konverge_testing.control_plane import ControlPlane
from konverge_testing.failures import ControlPlaneError

LAYOUT = Layout(Path("/plane"), etcd_port=2000, apiserver_port=3000)


def flags(arguments: list[str]) -> dict[str, str]:
    named = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
    assert len(named) == len(arguments), "no flag is given twice"
    return named


def test_everything_listens_on_loopback_and_etcd_asks_for_certificates() -> None:
    etcd, apiserver = flags(etcd_arguments(LAYOUT)), flags(apiserver_arguments(ControlPlaneConfig(), LAYOUT))
    assert etcd["listen-client-urls"] == apiserver["etcd-servers"] == f"https://{HOST}:2000"
    assert etcd["client-cert-auth"] == "true"
    assert etcd["trusted-ca-file"] != apiserver["client-ca-file"], "no user's certificate opens etcd"
    assert (apiserver["bind-address"], apiserver["secure-port"]) == (HOST, "3000")


def test_rbac_is_on_and_no_token_file_is_used() -> None:
    apiserver = flags(apiserver_arguments(ControlPlaneConfig(), LAYOUT))
    assert apiserver["authorization-mode"] == "RBAC"
    assert not {"token-auth-file", "anonymous-auth", "insecure-port"} & set(apiserver)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ControlPlaneConfig(), {"disable-admission-plugins": "ServiceAccount"}),
        (ControlPlaneConfig(controllers=True), {"disable-admission-plugins": None}),
        (ControlPlaneConfig(), {"watch-cache": None, "feature-gates": None, "audit-log-path": None}),
        (ControlPlaneConfig(watch_cache=False), {"watch-cache": "false"}),
        (
            ControlPlaneConfig(watch_cache_sizes={"secrets": 5, "jobs.batch": 0}),
            {"watch-cache-sizes": "jobs.batch#0,secrets#5"},
        ),
        (ControlPlaneConfig(min_watch_seconds=5), {"min-request-timeout": "5"}),
        (ControlPlaneConfig(compaction_seconds=2), {"etcd-compaction-interval": "2s"}),
        (
            ControlPlaneConfig(feature_gates={"WatchList": False, "A": True}),
            {"feature-gates": "A=true,WatchList=false"},
        ),
        (ControlPlaneConfig(audit=True), {"audit-log-path": "/plane/logs/audit.jsonl"}),
        (ControlPlaneConfig(apiserver_flags={"v": "4"}), {"v": "4"}),
        (
            ControlPlaneConfig(apiserver_flags={"authorization-mode": "AlwaysAllow"}),
            {"authorization-mode": "AlwaysAllow"},
        ),
    ],
)
def test_the_config_becomes_flags_of_the_api_server(
    config: ControlPlaneConfig, expected: dict[str, str | None]
) -> None:
    found = flags(apiserver_arguments(config, LAYOUT))
    assert {name: found.get(name) for name in expected} == expected


def test_controllers_run_under_service_accounts_of_their_own() -> None:
    config = ControlPlaneConfig(controllers=True, controller_manager_flags={"concurrent-gc-syncs": "2"})
    found = flags(controller_manager_arguments(config, LAYOUT))
    assert found["controllers"] == ",".join(CONTROLLERS)
    assert (found["use-service-account-credentials"], found["concurrent-gc-syncs"]) == ("true", "2")
    signing = flags(apiserver_arguments(config, LAYOUT))["service-account-signing-key-file"]
    assert found["service-account-private-key-file"] == signing


@pytest.mark.parametrize("name", ["--v", "-v", "v=4"])
def test_a_flag_in_the_wrong_spelling_is_refused_with_the_right_one(name: str) -> None:
    with pytest.raises(ControlPlaneError, match="without dashes"):
        ControlPlaneConfig(apiserver_flags={name: "4"})


@pytest.mark.parametrize(
    ("credentials", "identity"),
    [
        (
            KeyPair(b"certificate", b"key"),
            {
                "client-certificate-data": base64.b64encode(b"certificate").decode(),
                "client-key-data": base64.b64encode(b"key").decode(),
            },
        ),
        ("secret-token", {"token": "secret-token"}),
    ],
)
def test_a_kubeconfig_holds_everything_that_a_client_needs(
    credentials: KeyPair | str, identity: dict[str, str]
) -> None:
    document = kubeconfig(url=LAYOUT.url, authority=b"ca", user="jane", credentials=credentials, namespace="web")
    assert document["users"] == [{"name": "jane", "user": identity}]
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:3000",
        "certificate-authority-data": base64.b64encode(b"ca").decode(),
    }
    assert document["contexts"][0] == {
        "name": document["current-context"],
        "context": {"cluster": document["clusters"][0]["name"], "user": "jane", "namespace": "web"},
    }


def test_a_key_pair_does_not_show_its_key() -> None:
    assert "PRIVATE" not in repr(KeyPair(b"", b"PRIVATE"))


def test_every_request_is_audited_once() -> None:
    policy = json.loads(audit_policy())
    assert policy["omitStages"] == ["RequestReceived"]
    assert policy["rules"] == [{"level": "Metadata"}]


def test_a_plane_that_was_not_entered_says_so() -> None:
    plane = ControlPlane()
    assert repr(plane) == "<ControlPlane not running>"
    with pytest.raises(ControlPlaneError, match="enter it first"):
        _ = plane.kubeconfig
