"""The Job of a command, as rendered from the parameters of an Operation."""

from datetime import timedelta
from typing import Any

import pytest
from apps.engine_replay import request_of
from apps.operations import FREE, Operations

from konverge.reconcilers.apps.operations.engines.engine import Refused, Rendered
from konverge.reconcilers.apps.operations.engines.job import KEPT_AT_LEAST, JobEngine
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab


def container(**parameters: Any) -> dict[str, Any]:
    made = JobEngine().render(request_of("RunCommand", image="busybox", **parameters))
    assert isinstance(made, Rendered)
    found: dict[str, Any] = made.object.spec["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("name", ["activeDeadlineSeconds", "timeoutSeconds"])
def test_both_names_of_the_deadline_of_a_command_reach_its_job(name: str) -> None:
    parameters: dict[str, Any] = {"image": "busybox", name: 90}
    made = JobEngine().render(request_of("RunCommand", **parameters))
    assert isinstance(made, Rendered)
    assert made.object.spec["activeDeadlineSeconds"] == 90


SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "app", "key": "token"}}}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"A": "1", "B": ""}, [{"name": "A", "value": "1"}, {"name": "B", "value": ""}]),
        ([{"name": "A", "value": "1"}, SECRET], [{"name": "A", "value": "1"}, SECRET]),
    ],
    ids=["a map", "a list"],
)
def test_the_environment_of_a_command_is_a_map_or_a_list(given: Any, written: Any) -> None:
    assert container(env=given)["env"] == written


@pytest.mark.parametrize(
    "given", ["A=1", ["A=1"], {"A": 1}, [{"name": ""}], [{"name": 1}], [{"name": "A", "from": "x"}]]
)
def test_an_environment_of_another_form_is_refused(given: Any) -> None:
    found = JobEngine().render(request_of("RunCommand", image="busybox", env=given))
    assert isinstance(found, Refused)
    assert "parameters.env is neither a map of texts nor a list" in found.message


def job(settings: OperationSettings | None = None, **parameters: Any) -> dict[str, Any]:
    made = JobEngine().render(request_of("RunCommand", settings=settings, image="busybox", **parameters))
    assert isinstance(made, Rendered)
    found: dict[str, Any] = made.object.spec
    return found


def test_command_pods_meet_the_restricted_standard_and_are_never_restarted() -> None:
    """The whole pod: an additional field would be a hole in the contract, so it fails here first."""
    assert job(command=["true"], args=["-v"], env={"A": "1"})["template"] == {
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "vworkspace-operation-runner",
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "command",
                    "image": "busybox",
                    "command": ["true"],
                    "args": ["-v"],
                    "env": [{"name": "A", "value": "1"}],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        }
    }


@pytest.mark.parametrize(
    "more",
    [
        {"serviceAccountName": "default"},
        {"securityContext": {"runAsUser": 0}},
        {"restartPolicy": "OnFailure"},
        {"volumes": []},
        {"hostNetwork": True},
        {"privileged": True},
    ],
    ids=lambda more: next(iter(more)),
)
def test_no_parameter_loosens_the_security_of_the_pods(more: dict[str, Any]) -> None:
    found = JobEngine().render(request_of("RunCommand", image="busybox", **more))
    assert isinstance(found, Refused)
    assert f"parameters.{next(iter(more))}" in found.message


def test_the_service_account_of_a_command_is_that_of_the_settings() -> None:
    settings = OperationSettings(runner_service_account="runner")
    assert job(settings)["template"]["spec"]["serviceAccountName"] == "runner"


@pytest.mark.parametrize(
    ("given", "settings", "written"),
    [
        ({}, None, 86_400),
        ({}, OperationSettings(job_ttl=timedelta(hours=2)), 7_200),
        ({"ttlSecondsAfterFinished": 3_600}, None, 3_600),
        ({"ttlSecondsAfterFinished": 0}, None, KEPT_AT_LEAST),
        ({}, OperationSettings(job_ttl=timedelta(seconds=1)), KEPT_AT_LEAST),
    ],
)
def test_finished_job_is_kept_as_configured_and_until_its_end_is_read(
    given: dict[str, Any], settings: OperationSettings | None, written: int
) -> None:
    spec = job(settings, **given)
    assert spec["ttlSecondsAfterFinished"] == written
    made = JobEngine().render(request_of("RunCommand", settings=settings, image="busybox", **given))
    assert isinstance(made, Rendered)
    assert made.kept == timedelta(seconds=written), "for so long its absence shows that it was never made"


async def test_the_stored_job_has_what_was_rendered(lab: Lab) -> None:
    ops = await Operations(lab).start(FREE)
    await ops.target()
    await ops.create(parameters={"image": "busybox", "backoffLimit": 1, "timeoutSeconds": 60})
    stored = await ops.job_of()
    pod = stored.get("spec", "template", "spec")
    assert (pod["restartPolicy"], pod["serviceAccountName"]) == ("Never", "vworkspace-operation-runner")
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    limits = {name: stored.spec[name] for name in ("ttlSecondsAfterFinished", "backoffLimit", "activeDeadlineSeconds")}
    assert limits == {"ttlSecondsAfterFinished": 86_400, "backoffLimit": 1, "activeDeadlineSeconds": 60}
