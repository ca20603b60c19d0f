"""docs/guide/operations.md is accurate: its examples run, and it names the existing fields and settings."""

import json
import re
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from apps.engine_shop import EngineShop
from apps.hook_release import deploy
from apps.lab import READY, WITH_OPERATIONS, Apps
from apps.operations import FREE, Operations, phase

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import EngineName, Operation
from konverge.objects import Object
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.policy import check_policy
from konverge_testing import Lab

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "guide" / "operations.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for document in yaml.safe_load_all(block)
]
ACCOUNTS = [one for one in EXAMPLES if one["kind"] == "ServiceAccount"]
TARGETS = [one for one in EXAMPLES if one["kind"] == "ApplicationInstance"]
OPERATIONS = [one for one in EXAMPLES if one["kind"] == "Operation"]


def examples_of(*engines: str) -> Any:
    """Return the parameters of a test: the examples of these engines."""
    return [pytest.param(one, id=one["metadata"]["name"]) for one in OPERATIONS if one["spec"]["engine"] in engines]


ON_JOBS, ON_STAND_INS = ("job", "helmHookJob"), ("velero", "workflow", "volsync")


def here(lab: Lab, one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(one).replace('"namespace": "web"', f'"namespace": "{lab.namespace}"'))
    return found


@pytest.mark.parametrize("example", examples_of(*ON_JOBS))
async def test_an_example_of_the_guide_makes_a_job_and_succeeds_with_it(lab: Lab, example: dict[str, Any]) -> None:
    ops = await Operations(lab).start(FREE)
    for account in ACCOUNTS:
        await lab.create(Object(here(lab, account)))
    for target in TARGETS:
        made = await lab.create(ApplicationInstance.decode(here(lab, target)))
        await ops.ready(made.name, made.generation)
    await deploy(lab)  # the hook of the engine helmHookJob
    await lab.create(Operation.decode(here(lab, example)))
    await ops.complete(example["metadata"]["name"])


@pytest.mark.parametrize("example", examples_of("helm"))
async def test_an_example_of_the_guide_upgrades_a_release(lab: Lab, example: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(WITH_OPERATIONS)
        await apps.create()
        [offer] = re.findall(r"The instance must offer `([^:`]+): helm`", TEXT)
        await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": {offer: "helm"}}})
        await apps.until(READY)
        await lab.create(Operation.decode(here(lab, example)))
        done = await lab.until(Operation, example["metadata"]["name"], phase("Succeeded"))
        release, given = await apps.release(), example["spec"]["parameters"]
        assert release.get("spec", "chart", "spec", "version") == given["targetVersion"]
        assert release.spec["values"] == given["valuesPatch"]
        [outputs] = re.findall(r"Outputs: (`fromVersion`[^.]+)\.", TEXT)
        assert set(re.findall(r"`(\w+)`", outputs)) == set(done.status.outputs)


@pytest.mark.parametrize("example", examples_of(*ON_STAND_INS))
async def test_an_example_of_the_guide_succeeds_on_the_stand_ins(lab: Lab, example: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        shop = await EngineShop(lab, stack).open(target=False)
        for account in ACCOUNTS:
            await lab.create(Object(here(lab, account)))
        for target in TARGETS:
            made = await lab.create(ApplicationInstance.decode(here(lab, target)))
            await shop.ready(made.name, made.generation)
        await lab.create(Operation.decode(here(lab, example)))
        await shop.until(example["metadata"]["name"], phase("Succeeded"))


def test_guide_namespace_allows_saturday_night_upgrades_and_no_runbook() -> None:
    [namespace] = [one for one in EXAMPLES if one["kind"] == "Namespace"]
    annotations = namespace["metadata"]["annotations"]
    settings = OperationSettings()

    def reason(type_: str, now: str) -> str:
        given = next(one for one in EXAMPLES if one["kind"] == "Operation" and one["spec"]["type"] == type_)
        moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
        plan = check_policy(Operation.decode(given), {}, annotations, settings, moment).plan
        return "" if plan is None else plan.set_conditions[-1].reason

    assert reason("Upgrade", "2030-01-05T21:30:00") == ""
    assert reason("Upgrade", "2030-01-07T05:30:00") == "OutsideMaintenanceWindow"
    assert reason("Backup", "2030-01-07T05:30:00") == ""
    assert reason("Runbook", "2030-01-05T21:30:00") == "TypeNotAllowed"


def test_every_engine_has_an_example_that_is_run() -> None:
    assert {one["spec"]["engine"] for one in OPERATIONS} == set(get_args(EngineName))
    assert set(get_args(EngineName)) == {*ON_JOBS, *ON_STAND_INS, "helm"}


def test_every_field_of_an_operation_is_in_the_table() -> None:
    [version] = crd(Operation)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    fields = {f"{part}.{name}" for part in ("spec", "status") for name in schema[part]["properties"]}
    assert set(re.findall(r"`((?:spec|status)\.\w+)`", TEXT)) == fields - {
        "status.conditions",
        "status.observedGeneration",
    }


def test_every_setting_that_is_named_exists() -> None:
    named = set(re.findall(r"`apps\.operations\.([a-z_]+)", TEXT))
    assert named <= set(OperationSettings.model_fields)
