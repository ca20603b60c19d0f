"""docs/guide/pull-mode.md is accurate: its example runs, and it names the existing words, metrics and settings."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from pull_kit import NAMESPACE, definitions
from pull_lab import phase, until

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.reconcilers import clusters
from konverge.reconcilers.clusters import words
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, OPERATION, SECRET
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.agent_server import AgentServer

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/guide/pull-mode.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


async def test_example_of_the_page_registers_a_cluster_and_executes_its_jobs(lab: Lab) -> None:
    secret, cluster = (one for block in blocks("yaml") for one in yaml.safe_load_all(block))
    token = secret["stringData"]["registrationToken"]
    plane = AgentServer(cluster["spec"]["clusterId"], tokens=(token,), random=lab.rng())
    settings = clusters.Settings(namespace=secret["metadata"]["namespace"])
    await install_crds(lab.client, definitions())
    for name in (settings.namespace, "web"):
        await lab.client.create(NAMESPACE.new(name))
    await lab.start(
        lambda manager: clusters.install(manager, settings, connect=plane.connect),
        settings=ManagerSettings(strict=True),
    )
    await lab.client.create(SECRET.decode(secret))
    await lab.client.create(Cluster.decode(cluster))
    await until(lab, "east", phase("Connected"))
    for block in blocks("json"):
        job: dict[str, Any] = json.loads(block)
        plane.submit(job["kind"], job["payload"], key=job["idempotencyKey"], job_id=job["id"])
        assert (await plane.result(job["id"])).outcome is Outcome.SUCCEEDED
    instance: Object = await lab.client.get(APPLICATION_INSTANCE, "shop", "web")
    assert instance.get("spec", "values", "inline", "replicas") == 2
    assert len(await lab.client.list(OPERATION, "web")) == 1


def test_the_program_of_the_page_runs() -> None:
    (program,) = blocks("python")
    before, _, after = program.partition("web.run_app(")
    space: dict[str, Any] = {}
    exec(f"{before}made = ({after.rstrip().removesuffix(')')},)[0]".replace(", port=8443", ""), space)  # our own page
    assert space["made"].router is not None


def values(*vocabularies: type) -> set[str]:
    return {value for one in vocabularies for name, value in vars(one).items() if name.isupper()}


def test_page_names_every_condition_reason_phase_metric_and_setting() -> None:
    said = values(
        words.ClusterCondition,
        words.Connected,
        words.Disconnected,
        words.Authenticated,
        words.ControllersHealthy,
        words.BufferOverflow,
        words.PhaseName,
        words.Event,
    )
    assert {word for word in said if word not in TEXT} == set()
    named = set(re.findall(r"`clusters\.([a-z_]+)`", TEXT))
    assert named <= set(clusters.Settings.model_fields)
    metrics = Metrics()
    PullMetrics.within(metrics)
    names = {family.name for family in metrics.registry.collect()}
    shown = {name.removesuffix("_total") for name in re.findall(r"^\| `([a-z_]+)", TEXT, re.MULTILINE)}
    assert shown <= names
    assert len(shown) == 5


def test_the_page_is_in_the_table_of_documents() -> None:
    assert "(guide/pull-mode.md)" in (ROOT / "docs/README.md").read_text()
