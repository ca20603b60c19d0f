"""A rolling update from the previous release to the current release and back, replica by replica, while objects are created, edited and
deleted.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from kcp_server import KcpServer, kcp_server
from operators import Operator
from patience import PATIENCE
from previous_release import MissingHistory, unpack
from prometheus_client.parser import text_string_to_metric_families
from rolling_load import NAMESPACE, RollingLoad
from widgets import SECRET

from konverge.client import Client
from konverge.daemon.crds import apply_all
from konverge.kinds import kind
from konverge_testing import ApiServer, install_crds
from konverge_testing.flux import KINDS as FLUX
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.kubeconfigs import write_kubeconfig

pytestmark = pytest.mark.timeout(300)

HOME = "konverge-system"
FAMILIES = "apps,quota,workspaces"
QUOTA = kind("v1", "ResourceQuota", namespaced=True, plural="resourcequotas")
OWN = {"leases", "events", "customresourcedefinitions"}
SHARED = {"resourcepools", "resourcequotas"}
"""Objects that each change of a claim writes."""
LOOP = 3
"""Failures of one object in a row that are a loop."""
MOST_WRITES = 40
"""Writes of one object in its life: a loop of two releases that disagree exceeds it within seconds."""


@dataclass(frozen=True)
class Releases:
    """The program of the previous release, and the definitions of the previous release (True) and of this tree (False)."""

    previous: str
    definitions: dict[bool, list[dict[str, Any]]]


@dataclass
class Deployment:
    """Replicas that are replaced like the pods of a Deployment with maxSurge 1, on an API server in memory."""

    client: Client
    kubeconfig: Path
    kcp: KcpServer
    folder: Path
    releases: Releases
    mode: str
    stack: AsyncExitStack
    commits: Counter[tuple[str, str]] = field(default_factory=Counter)
    replicas: list[Operator] = field(default_factory=list)
    started: list[Operator] = field(default_factory=list)

    def observe(self, event: Any) -> None:
        resource = event.entry.resource[1]
        if resource not in OWN:
            self.commits[resource, str(event.entry.key)] += 1

    async def define(self, *, previous: bool) -> None:
        """Apply the definitions of a release, as helm does before it changes the Deployment."""
        await apply_all(self.client, self.releases.definitions[previous])

    async def add(self, *, previous: bool) -> None:
        """Start a replica; returns when it is ready."""
        name = f"{'previous' if previous else 'present'}-{len(self.started)}"
        sets = {
            "workspaces.kubeconfig": self.kcp.kubeconfig,
            "workspaces.namespace": HOME,
            "workspaces.poll": 0.2,
            "workspaces.retry": 0.5,
            "election.enabled": "true",
            "election.namespace": HOME,
            "election.identity": name,
            "election.lease_seconds": 6,
            "election.renew_seconds": 4,
            "election.retry_seconds": 0.5,
        }
        if self.mode == "hash":
            sets |= {"sharding.mode": "hash", "sharding.namespace": HOME, "sharding.ring": "rolling"}
            times = {"lease": 6.0, "renew": 4.0, "retry": 0.5, "join": 1.0}
            sets |= {f"sharding.{what}_seconds": seconds for what, seconds in times.items()}
        replica = Operator(
            (
                *("--controllers", FAMILIES, "--kubeconfig", str(self.kubeconfig), "--log-format", "json"),
                *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0"),
                *(word for key, value in sets.items() for word in ("--set", f"{key}={value}")),
            ),
            self.folder / f"{name}.log",
            program=self.releases.previous if previous else "",
        )
        await self.stack.enter_async_context(replica.running_for())
        self.replicas.append(replica)
        self.started.append(replica)
        await replica.ready()

    async def remove_oldest(self) -> None:
        """Stop the oldest replica as a kubelet does."""
        replica = self.replicas.pop(0)
        assert await replica.stop() == 0, replica.story()

    async def replace(self, load: RollingLoad, *, previous: bool) -> None:
        """Replace definitions and replicas, and let the load run against each mixture of releases."""
        await self.define(previous=previous)
        for _ in range(len(self.replicas)):
            await self.add(previous=previous)
            await load.advance(1)
            await self.remove_oldest()
            await load.advance(1)

    def errors(self) -> list[str]:
        """Return the lines of the logs that report an error, and the lines that are not log lines."""
        lines = [
            f"{replica.log.name}: {line}" for replica in self.started for line in replica.log.read_text().splitlines()
        ]
        return [line for line in lines if _is_error(line.partition(": ")[2])]


def _is_error(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return True  # a traceback, or a warning of Python
    if entry.get("error_type") == "Unreachable" and entry.get("failures", 0) < LOOP:
        return False  # a server closed a kept connection, and the next attempt succeeded
    return entry["level"] in {"error", "critical"}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    previous = str(unpack(tmp_path_factory.mktemp("previous")))
    programs = {True: (previous,), False: (sys.executable, "-m", "konverge.daemon.main")}
    return Releases(previous, {which: printed(program) for which, program in programs.items()})


def printed(program: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the definitions that a release prints."""
    words = (*program, "crds", "--output", "json")
    items: list[dict[str, Any]] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["items"]
    return items


@pytest_asyncio.fixture(params=["leader", "hash"])
async def deployment(request: pytest.FixtureRequest, tmp_path: Path, releases: Releases) -> AsyncIterator[Deployment]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(random=Random(5), rbac=False, namespaces=("default", HOME)))
        shell = await stack.enter_async_context(server.http(tls=True))
        client = await stack.enter_async_context(Client(server.config(), name="test-user", random=Random(6)))
        kcp = await stack.enter_async_context(kcp_server(tmp_path, seconds=0.1, takes_bare_paths=True))
        await install_crds(client, flux_crds())
        await stack.enter_async_context(HelmController(server.config(), random=Random(7)))
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", shell)
        deployed = Deployment(client, kubeconfig, kcp, tmp_path, releases, request.param, stack)
        server.store.observers.append(deployed.observe)
        await deployed.define(previous=True)
        yield deployed


async def children(deployment: Deployment) -> dict[str, list[str]]:
    """Return the names of the children, by family."""
    releases = await deployment.client.list(FLUX["HelmRelease"], NAMESPACE)
    secrets = await deployment.client.list(SECRET, HOME)
    quotas = await deployment.client.list(QUOTA, NAMESPACE)
    return {
        "apps": sorted(one.name for one in releases),
        "quota": [one.name for one in quotas],
        "workspaces": sorted(one.name for one in secrets if one.name.startswith("ws-")),
    }


async def test_rolling_update_and_rollback_under_load_lose_and_double_nothing(deployment: Deployment) -> None:
    await asyncio.gather(deployment.add(previous=True), deployment.add(previous=True))
    load = RollingLoad(deployment.client)
    deployment.stack.push_async_callback(load.cancel)
    await load.start()
    await load.advance(2)
    await deployment.replace(load, previous=False)
    await deployment.replace(load, previous=True)
    await load.stop()
    await load.check()
    names, kept = load.names, await children(deployment)
    assert kept["apps"] == sorted(names["apps"])
    assert kept["workspaces"] == sorted(f"ws-{name}-kubeconfig" for name in names["workspaces"])
    assert len(kept["quota"]) == 1
    (quota,) = await deployment.client.list(QUOTA, NAMESPACE)
    assert quota.get("spec", "hard", "pods") == str(len(names["quota"]))
    assert max(Counter(deployment.kcp.created).values()) == 1, "a workspace was created twice"
    assert set(deployment.kcp.created) - set(deployment.kcp.deleted) == names["workspaces"]
    for replica in deployment.replicas:
        assert await replica.stop() == 0
    assert deployment.errors() == []
    busiest = [found for found in deployment.commits.most_common() if found[0][0] not in SHARED][:3]
    assert busiest[0][1] <= MOST_WRITES, busiest


async def test_each_release_reads_the_other_status_and_writes_nothing_at_rest(deployment: Deployment) -> None:
    await deployment.add(previous=True)
    load = RollingLoad(deployment.client)
    deployment.stack.push_async_callback(load.cancel)
    await load.start()
    await load.advance(2)
    await load.stop()
    for number, previous in enumerate((False, True, False)):
        await deployment.define(previous=previous)
        before = dict(deployment.commits)
        await deployment.add(previous=previous)
        await deployment.remove_oldest()
        await reconciled(deployment.replicas[0], load)
        await load.check()
        written = {key: count - before.get(key, 0) for key, count in deployment.commits.items()}
        stamps = 1 if deployment.mode == "hash" else 0
        recorded = 0 if number else 1  # the new release records the content of each chart in an annotation, once
        allowed = {"helmreleases": stamps + recorded}
        assert {key: count for key, count in written.items() if count > allowed.get(key[0], stamps)} == {}
    assert deployment.errors() == []


async def reconciled(replica: Operator, load: RollingLoad) -> None:
    """Wait until a replica has reconciled each object once."""
    wanted = {
        "applicationinstance": len(load.names["apps"]),
        "resourcepool": 1,
        "workspaceclaim": len(load.names["workspaces"]),
    }
    async with asyncio.timeout(60 * PATIENCE):
        while True:
            counts: Counter[str] = Counter()
            _, text = await replica.answers("/metrics", part="metrics")
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name == "controller_runtime_reconcile_total":
                        counts[sample.labels["controller"]] += int(sample.value)
            if all(counts[controller] >= count for controller, count in wanted.items()):
                return
            await asyncio.sleep(0.1)


def test_missing_history_is_a_failure_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingHistory, match="git fetch --unshallow"):
        unpack(tmp_path, commit="0" * 40)
