"""Every query of every dashboard and alert, run on a real Prometheus that scrapes daemons at work, returns data.

Three daemons run as processes, on in-memory API servers over HTTPS. The first runs all default families. The second has the semantics of
Capsule v0.14, whose series differ, and workspaces whose owners a coordinator assigns. The third runs the machines. Each elects a leader.
Some objects fail, one request is refused, and watches are cut, so that the series of failures exist.
"""

import asyncio
import base64
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
import yaml
from apps.lab import OCI_CHART, REFUSED, Apps
from go_programs import PROMETHEUS, go_program
from operators import Operator
from prometheus_runner import Prometheus, Target, prometheus
from promql import filled, operands
from quota.lab import CPU, TENANT, Quotas

from konverge.client import Client
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.catalogue import all_manifests
from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.crds.ops_v1alpha1 import Cluster, Operation
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudPool
from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim, WorkspaceClaimSpec
from konverge.kinds import kind
from konverge.reconcilers.machines.clusters.render import machine_pool
from konverge.reconcilers.machines.kinds import CONFIG_MAP, MACHINE_POOL
from konverge.reconcilers.machines.settings import MachineSettings
from konverge_testing import ApiServer, Lab, install_crds
from konverge_testing.agent_server import AgentServer, serving
from konverge_testing.apiserver.faults.rules import Drop, Match, Refuse, Rule
from konverge_testing.capi import definitions
from konverge_testing.failures import BinariesMissing
from konverge_testing.flux import HelmController, World, flux_crds
from konverge_testing.kubeconfigs import write_kubeconfig
from konverge_testing.nstance import CallFault, NstanceWorld
from konverge_testing.nstance.instances import RUNNING
from konverge_testing.nstance.world import ShardAddress

DEPLOY = Path(__file__).parents[2] / "deploy"
if not DEPLOY.exists():
    pytest.skip("deploy/ is not part of the wheel", allow_module_level=True)

JOB, NAMESPACE = "konverge-system/konverge", "konverge-system"
PATIENCE = 60.0
TOKEN = "registration-token-of-east"  # a test's token
KUBEBUILDER = tuple(
    query.replace("OF", f'job="{JOB}", namespace="{NAMESPACE}"')
    for query in (
        "sum(controller_runtime_active_workers{OF}) by (controller)",
        *(
            f"sum(rate({metric}{{OF}}[5m])) by (instance, pod)"
            for metric in ("controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total")
        ),
        "sum(workqueue_depth{OF}) by (instance, name)",
        *(
            f"sum(rate({metric}{{OF}}[5m])) by (instance, name)"
            for metric in ("workqueue_adds_total", "workqueue_retries_total")
        ),
        *(
            f"histogram_quantile({quantile}, sum(rate({metric}_bucket{{OF}}[5m])) by (instance, name, le))"
            for metric in ("workqueue_queue_duration_seconds", "workqueue_work_duration_seconds")
            for quantile in ("0.50", "0.90", "0.99")
        ),
        "rate(workqueue_unfinished_work_seconds{OF}[5m])",
        "sum(rate(process_cpu_seconds_total{OF}[5m])) by (pod)",
        "sum(process_resident_memory_bytes{OF}) by (pod)",
    )
)
"""The queries of the dashboards that kubebuilder's Grafana plugin makes: these metrics, by these labels, of one job and namespace.

https://book.kubebuilder.io/plugins/available/grafana-v1-alpha
"""


def queries() -> Iterator[tuple[str, str, bool]]:
    """Every query: its source, its text, and whether it is an instant query."""
    for path in sorted((DEPLOY / "dashboards").iterdir()):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", filled(target["expr"]), target.get("instant", False)
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert found is not None
                yield f"{path.stem}: ${variable['name']}", filled(f"count by ({found[2]}) ({found[1]})"), True
    for path in sorted((DEPLOY / "alerts").iterdir()):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                if "record" in rule:
                    yield rule["record"], rule["expr"], True
                    continue
                for part in operands(rule["expr"]):
                    yield rule["alert"], part, True
    for query in KUBEBUILDER:
        yield "kubebuilder", query, False


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return go_program(PROMETHEUS, os.environ, tell=None)
    except BinariesMissing:
        pytest.skip("no Prometheus in the cache: python tools/go_programs.py prometheus")


@asynccontextmanager
async def daemon(folder: Path, server: ApiServer, *words: str) -> AsyncIterator[Operator]:
    """Run a daemon on a server, as a process."""
    async with server.http(tls=True) as shell:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", shell)
        options = {
            "--kubeconfig": str(kubeconfig),
            "--metrics": "127.0.0.1:0",
            "--health": "127.0.0.1:0",
            "--debug": "127.0.0.1:0",
            "--log-format": "json",
            "--drain": "0",
        }
        sets = ("election.enabled=true", f"election.namespace={NAMESPACE}", *words)
        arguments = [word for pair in options.items() for word in pair] + [
            word for one in sets for word in ("--set", one)
        ]
        operator = Operator(arguments, folder / "log")
        async with operator.running_for():
            await operator.ready()
            yield operator


def target(operator: Operator, job: str) -> Target:
    serving = operator.said("serving")
    assert serving is not None
    return Target(urlsplit(serving["metrics"]).netloc, job, NAMESPACE, f"{job}-0".replace("/", "-"))


async def prepared(server: ApiServer, stack: AsyncExitStack) -> Lab:
    """Definitions, a namespace, and a lab for the verbs of the families' tests."""
    client = await stack.enter_async_context(Client(server.config(), name="test"))
    await client.create(kind("v1", "Namespace").new(NAMESPACE))
    await install_crds(client, [*all_manifests(), *flux_crds()])
    return Lab(client, server.config(namespace="default"), "default", server=server)


async def pools(lab: Lab) -> None:
    """A pool with a bound claim and a waiting claim."""
    quotas = Quotas(lab)
    await quotas.namespace("prod")
    hard = {CPU: 4, "limits.memory": "4Gi", "pods": 10}
    selectors = [{"matchLabels": {TENANT: f"solar-{lab.namespace}"}}]
    spec = {"quota": {"hard": hard}, "selectors": selectors}
    await lab.client.create(ResourcePool.decode({"metadata": {"name": "p"}, "spec": spec}))
    await quotas.claim("prod", "small", {CPU: 1, "limits.memory": "1Gi", "pods": 1})
    await quotas.claim("prod", "large", {CPU: 4000})


async def clouds(lab: Lab) -> None:
    """A pool of Nextclouds that fills up."""
    template = {"metadata": {"labels": {"tier": "small"}}}
    spec = {"replicas": 1, "instanceNamespace": lab.namespace, "template": template}
    await lab.client.create(NextcloudPool.decode({"metadata": {"name": "small"}, "spec": spec}))


async def joined(lab: Lab, url: str) -> None:
    """A Cluster whose agent fetches jobs from this control plane."""
    spec = {"clusterId": "east", "controlPlaneEndpoint": url, "registrationToken": TOKEN}
    await lab.client.create(Cluster.decode({"metadata": {"name": "east"}, "spec": spec}))


@asynccontextmanager
async def nstance() -> AsyncIterator[NstanceWorld]:
    """A server of Nstance on the loopback."""
    world = NstanceWorld(random=Random(1))
    world.add_shard("a")
    async with world.serve():
        yield world


async def shards(lab: Lab, world: NstanceWorld) -> None:
    """The objects that the operator of machines expects, for two shards; the second has no server."""
    names = MachineSettings().identity_names
    found = {"a": world.shards["a"].address, "away": ShardAddress("127.0.0.1:1", "127.0.0.1:1")}
    document = {
        "cluster_id": world.cluster_id,
        "tenant": world.tenant,
        "shards": {
            name: {"operator_addr": one.operator, "registration_addr": one.registration} for name, one in found.items()
        },
    }
    ca = {"ca.crt": world.authority.certificate.decode()}
    nonce = {"nonce.jwt": base64.b64encode(world.nonce().encode()).decode()}
    shown = {"config.yaml": yaml.safe_dump(document)}
    await install_crds(lab.client, definitions())
    for made in (
        CONFIG_MAP.new(names.ca_configmap, NAMESPACE, data=ca),
        CONFIG_MAP.new(MachineSettings().shards_configmap, NAMESPACE, data=shown),
        kind("v1", "Secret").new(names.nonce_secret, NAMESPACE, data=nonce),
        MACHINE_POOL.new(
            "workers", NAMESPACE, spec=machine_pool("workers", NAMESPACE, cluster="c", replicas=1, labels={}).spec
        ),
        NstanceMachinePool.decode(
            {
                "metadata": {"name": "workers", "namespace": NAMESPACE},
                "spec": {"group": "workers", "shards": ["a"], "template": "std"},
            }
        ),
        NstanceMachine.decode({"metadata": {"name": "m", "namespace": NAMESPACE}, "spec": {"groupRef": "workers"}}),
    ):
        await lab.client.create(made)


async def scales(lab: Lab, world: NstanceWorld) -> None:
    """Size changes, changes that the server rejects, and drains, until the end."""
    shard, number = world.shards["a"], 0
    while True:
        number += 1
        if number % 3 == 0:
            shard.faults.add("UpsertGroup", CallFault.UNAVAILABLE)
        replicas = {"spec": {"replicas": 1 + number % 2}}
        await lab.client.patch(MACHINE_POOL, "workers", NAMESPACE, patch=replicas, style="merge")
        for one in list(shard.state.fleet.instances.values()):
            if one.status == RUNNING and one.drain is None:
                shard.state.fleet.drain(one, "test")
        await asyncio.sleep(2)


async def upgraded(lab: Lab, number: int) -> None:
    """An Upgrade that succeeds, after the previous Upgrade."""
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "offers"}
    spec = {"targetRef": target, "type": "Upgrade", "engine": "helm"}
    parameters = {"parameters": {"valuesPatch": {"replicas": number}}}
    metadata = {"name": f"up-{number}", "namespace": lab.namespace}
    await lab.client.create(Operation.decode({"metadata": metadata, "spec": {**spec, **parameters}}))


async def works(lab: Lab, stack: AsyncExitStack, plane: AgentServer) -> None:
    """Instances that become ready, fail and are rejected, and pools; then one change after the other, until the end."""
    await pools(lab)
    await clouds(lab)
    apps = Apps(lab, stack)
    await apps.create("shop")
    await apps.create("oci", chart=OCI_CHART, release={"name": "oci"})
    await apps.create("broken", chart={"version": next(iter(REFUSED))}, release={"name": "broken"})
    await apps.create("refused", release={"name": "refused", "namespace": "elsewhere"})
    # From an OCI registry: after each cut of the watch of HelmCharts its informer waits longer, and an Upgrade of such a chart with it.
    await apps.create("offers", chart=OCI_CHART, release={"name": "offers"})
    offers = {"annotations": {"ops.vworkspace.io/upgrade": "helm"}}
    await lab.client.patch(ApplicationInstance, "offers", lab.namespace, patch={"metadata": offers}, style="merge")
    faults = lab.server.faults
    number = 0
    while True:
        number += 1
        plane.submit("intent", {"intent": "rotate-operator-credentials"})
        await upgraded(lab, number)
        await lab.create(Nextcloud.decode({"metadata": {"name": f"cloud-{number}"}, "spec": {}}))
        await lab.client.create(WorkspaceClaim.new(f"shop-{number}", spec=WorkspaceClaimSpec()))
        await apps.change(values={"source": "inline", "inline": {"replicas": number}})
        await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: 4 + number}}}}, style="merge")
        cut = Rule(Match(verbs=("watch",), resources=("helmcharts.*",)), Drop(watches=True))
        refused = Rule(Match(verbs=("apply",), resources=("helmreleases.*",)), Refuse(status=503))
        held = [faults.add(rule) for rule in (cut, refused)]
        await asyncio.sleep(0.5)
        for rule in held:
            faults.remove(rule)
        await asyncio.sleep(1.5)


async def unanswered(server: Prometheus, load: asyncio.Task[None]) -> list[str]:
    """Repeat every query until it returns data, under continuous load; returns the queries without data in time."""
    left = list(queries())
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        answered = await asyncio.gather(*(server.gives_data(query, instant=instant) for _, query, instant in left))
        left = [one for one, found in zip(left, answered, strict=True) if not found]
        if not left or asyncio.get_running_loop().time() > deadline:
            return [f"{source}: {query}" for source, query, _ in left]
        await asyncio.sleep(1)
        if load.done():
            load.result()


@pytest.mark.timeout(240)  # most of the time is the start of three processes
async def test_every_query_of_a_dashboard_or_alert_returns_data(program: Path, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        folders = [tmp_path / name for name in ("all", "later", "machines", "prometheus")]
        for folder in folders:
            folder.mkdir()
        servers = [await stack.enter_async_context(ApiServer()) for _ in range(3)]
        labs = [await prepared(server, stack) for server in servers]
        await stack.enter_async_context(HelmController(labs[0].config, world=World(refused=dict(REFUSED))))
        await pools(labs[1])
        world = await stack.enter_async_context(nstance())
        await shards(labs[2], world)
        daemons = (
            daemon(
                folders[0],
                servers[0],
                "apps.source_grace=1s",
                "pools.instance_namespace=default",
                *("sharding.mode=hash", f"sharding.namespace={NAMESPACE}"),
                *(f"apps.namespace={NAMESPACE}", f"clusters.namespace={NAMESPACE}"),
                *("workspaces.provider=memory", f"workspaces.namespace={NAMESPACE}"),
            ),
            daemon(
                folders[1],
                servers[1],
                *("controllers=quota,workspaces", "quota.semantics=v0.14"),
                *("workspaces.provider=memory", f"workspaces.namespace={NAMESPACE}"),
                *("sharding.mode=coordinator", f"sharding.namespace={NAMESPACE}"),
            ),
            daemon(
                folders[2],
                servers[2],
                *("controllers=machines", f"machines.namespace={NAMESPACE}"),
                *("machines.cluster_id=acme", "machines.tenant=blue", "machines.unreachable_retry=1"),
            ),
        )
        first, later, machines = await asyncio.gather(*(stack.enter_async_context(one) for one in daemons))
        plane = AgentServer("east", tokens=(TOKEN,))
        await joined(labs[0], await stack.enter_async_context(serving(plane)))
        load = asyncio.create_task(works(labs[0], stack, plane))
        stack.callback(load.cancel)
        stack.callback(asyncio.create_task(scales(labs[2], world)).cancel)
        rules = sorted((DEPLOY / "alerts").iterdir())
        targets = [target(first, JOB), target(later, "later"), target(machines, "machines")]
        asked = await stack.enter_async_context(prometheus(program, folders[3], targets, rules))
        for nothing in ('sum(workqueue_depth{zone="a"})', "sum(workqueue_depth * NaN)"):
            assert not await asked.gives_data(nothing, instant=True)
            assert not await asked.gives_data(nothing, instant=False)
        missing = await unanswered(asked, load)
        assert missing == []
        names = {
            rule.get("alert") or rule["record"]
            for path in rules
            for group in yaml.safe_load(path.read_text())["groups"]
            for rule in group["rules"]
        }
        assert await asked.rules() == dict.fromkeys(names, "")
