"""Every object that the API server admits gets a status of its own, whatever it holds and whatever another writer put into its status.

Fields of a good object get values drawn from the CRD's own schema, and its status is overwritten with what that schema admits. In the end
each object has a condition of its own generation, no reconcile ended in an unexpected exception, and a later good object has its status
too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from any_value import changed
from apps.lab import OCI_CHART, Apps
from apps.operations import Operations
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from machines_lab import Farm
from pools.crd_cases import KINDS
from pull_lab import Plane
from quota.lab import CPU, Quotas
from workspaces_lab import Workspaces

from konverge import errors
from konverge.client import Client, decode_object
from konverge.client.requests import MERGE
from konverge.crds import CustomResource, crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.catalogue import own_resources
from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.crds.ops_v1alpha1 import Cluster, Operation
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import ApiError, NotFound
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.reconcilers import pools
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.admitted_values import admitted
from konverge_testing.flux import flux_crds
from konverge_testing.lab.plans import Plan
from konverge_testing.lab.runs import run

pytestmark = pytest.mark.slow

_EXPECTED = frozenset(errors.__all__)
"""The library's errors are reported in the status; any other exception of a reconcile is a defect."""
_OF_THE_STRANGER = ("observedGeneration went back", "vanished from status.conditions")
APP = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": "lab"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}
OCI = {**APP, "chart": {**APP["chart"], **OCI_CHART}}  # type: ignore[dict-item]  # a dict of its own
COMMAND = {
    "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"},
    "type": "RunCommand",
    "engine": "job",
    "parameters": {"image": "busybox"},
}
CLUSTER = {"clusterId": "east", "controlPlaneEndpoint": "https://plane.example.com", "registrationToken": "t"}
POOL = {"quota": {"hard": {CPU: "4"}}, "selectors": [{"matchLabels": {"capsule.clastix.io/tenant": "solar-lab"}}]}
NEXTCLOUDS = {
    "replicas": 2,
    "profileRef": {"name": "base"},
    "allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}},
    "template": {"metadata": {"labels": {"tier": "small"}}},
}
FROM_POOL = {"poolSelector": {"matchLabels": {"tier": "small"}}, "version": "33.0.1"}
FROM_PROFILE = {"profile": "base", "ingress": {"enabled": True, "host": "cloud.example.com"}}
INSTANCE = {
    "version": "33.0.1",
    "allowedNamespaces": {"from": "All"},
    "redis": {"enabled": True},
    "s3": {"enabled": True, "bucket": "files"},
}
CLAIM = {"pool": "p", "claim": {CPU: "1"}}


async def _apps(lab: Lab, stack: AsyncExitStack) -> None:
    await Apps(lab, stack).start(flux=False)


async def _operations(lab: Lab, stack: AsyncExitStack) -> None:
    operations = await Operations(lab).start()
    await operations.target()


async def _clusters(lab: Lab, stack: AsyncExitStack) -> None:
    await Plane(lab).run()


async def _quota(lab: Lab, stack: AsyncExitStack) -> None:
    quotas = await Quotas(lab).start("a")
    await quotas.pool()


async def _pools(lab: Lab, stack: AsyncExitStack) -> None:
    await install_crds(lab.client, [*(crd(one) for one in KINDS), *flux_crds()])
    await lab.client.create(
        NextcloudProfile.decode({"metadata": {"name": "base"}, "spec": {"defaults": {"replicas": 2}}})
    )
    never = (
        1e9  # no Flux runs here: an instance that is late would be replaced, and in the end nothing would be at rest
    )
    made = MaterialSettings(stuck_after=never, database_deadline=never, retry=3600)
    settings = PoolSettings(
        instance_namespace=lab.namespace,
        progress_deadline=never,
        creates_per_window=2,
        window=never,
        retry=3600,
        instances=made,
    )
    everywhere = ManagerSettings(namespace=None, strict=True)
    await lab.start(lambda manager: pools.install(manager, settings), name="konverge", settings=everywhere)


async def _workspaces(lab: Lab, stack: AsyncExitStack) -> None:
    await Workspaces(lab).start(credential_seconds=1e9, recheck=1e9)


async def _machines(lab: Lab, stack: AsyncExitStack) -> None:
    farm = await stack.enter_async_context(Farm(lab))
    # Sizes are drawn up to 2**31, and rejected objects are retried: in the end nothing would be at rest.
    for shard in farm.world.shards.values():
        shard.state.fleet.room = 20
    later = {"unreachable_retry": 3600.0, "retry": 3600.0, "instance_poll": 3600.0}
    farm.settings = farm.settings.model_copy(update=later)
    await farm.start()


@dataclass(frozen=True)
class Family:
    model: type[CustomResource[Any, Any]]
    bases: tuple[dict[str, Any], ...]
    start: Callable[[Lab, AsyncExitStack], Awaitable[None]]
    namespace: str = "lab"
    later: bool = False
    """Whether an object may be written later for its own sake: at a deadline, or when its time to live is over."""
    kept: bool = False
    """Whether a deletion may wait forever: for a bucket that the other writer put into the status, without an account to delete it."""


FAMILIES = (
    Family(ApplicationInstance, (APP, OCI), _apps),
    Family(Operation, (COMMAND,), _operations, later=True),
    Family(Cluster, (CLUSTER,), _clusters, ""),
    Family(NextcloudPool, (NEXTCLOUDS,), _pools, "", later=True),
    Family(Nextcloud, (FROM_POOL, FROM_PROFILE), _pools, later=True),
    Family(NextcloudInstance, (INSTANCE,), _pools, later=True, kept=True),
    Family(ResourcePool, (POOL,), _quota, ""),
    Family(ResourcePoolClaim, (CLAIM,), _quota, "lab-a"),
    Family(NstanceCluster, ({},), _machines),
    Family(NstanceMachinePool, ({"group": "workers", "shards": ["a", "b"], "template": "std"},), _machines),
    Family(NstanceShardGroup, ({"group": "workers", "shard": "a", "size": 1, "template": "std"},), _machines),
    Family(NstanceMachine, ({"groupRef": "workers"},), _machines),
    Family(WorkspaceClaim, ({"id": "acme"}, {}), _workspaces, ""),
)


def test_each_kind_of_ours_is_part_of_this() -> None:
    without_controller = {"NextcloudProfile", "NextcloudVersionMap", "NstanceControlPlane", "NstanceMachineTemplate"}
    kinds = {model.__name__ for model in own_resources()}
    assert {family.model.__name__ for family in FAMILIES} == kinds - without_controller


def _schema(model: type[Any], part: str) -> dict[str, Any]:
    version = crd(model)["spec"]["versions"][0]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"][part]
    return found


async def _speaks(client: Client, family: Family, name: str, *, expires: bool = False) -> None:
    """Wait until a condition of the object has its generation, or, if it expires after its end, until it is deleted."""
    kind = kind_of(family.model)
    async with asyncio.timeout(120):
        while True:
            try:
                found = Object(decode_object(await client.raw("GET", _path(family, kind, name))))
            except NotFound:
                if expires:
                    return
                raise
            status = found.get("status", default={}) or {}
            said = [*(status.get("conditions") or ()), *filter(None, [status.get("condition")])]
            if any(one.get("observedGeneration") == found.metadata.generation for one in said):
                return
            await asyncio.sleep(1)


def _path(family: Family, kind: Kind[Any], name: str = "") -> str:
    where = f"/namespaces/{family.namespace}" if family.namespace else ""
    return f"/apis/{kind.api_version}{where}/{kind.plural}" + (f"/{name}" if name else "")


async def _play(lab: Lab, family: Family, drawn: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    kind, client = kind_of(family.model), lab.client
    async with AsyncExitStack() as stack:
        await family.start(lab, stack)
        for number, (spec, status) in enumerate(drawn):
            name = f"drawn-{number}"
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
            try:
                await client.raw("POST", _path(family, kind), body=body)
            except ApiError:
                continue  # it was not admitted
            expires = "ttlSecondsAfterFinished" in spec
            await _speaks(client, family, name, expires=expires)
            try:
                await client.raw(
                    "PATCH", f"{_path(family, kind, name)}/status", body={"status": status}, content_type=MERGE
                )
            except ApiError:
                continue
            lab.manager.runner(_controller(lab, family)).resync_now()
            await asyncio.sleep(5)
            await _speaks(client, family, name, expires=expires)
        neighbour = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "neighbour"}}
        await client.raw("POST", _path(family, kind), body={**neighbour, "spec": family.bases[0]})
        await _speaks(client, family, "neighbour")
        wrong = [
            f"{record.key}: {record.outcome}: {record.error}"
            for controller in lab.manager.controllers
            for record in lab.manager.runner(controller.name).history.recent()
            if record.error and record.outcome not in _EXPECTED
        ]
        assert not wrong, wrong


def _controller(lab: Lab, family: Family) -> str:
    return next(one.name for one in lab.manager.controllers if one.kind == kind_of(family.model))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model.__name__)
@settings(
    max_examples=8,
    phases=[Phase.generate],
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(data=st.data())
def test_whatever_is_admitted_gets_a_status_and_is_never_retried_in_silence(
    family: Family, data: st.DataObject
) -> None:
    one = st.tuples(
        st.sampled_from(family.bases).flatmap(lambda base: changed(base, _schema(family.model, "spec"))),
        admitted(_schema(family.model, "status")),
    )
    drawn = data.draw(st.lists(one, min_size=8, max_size=8))

    async def scenario(lab: Lab) -> None:
        lab.may_write_on_resync(None, why="the test overwrites statuses and starts the resync that mends them")
        await _play(lab, family, drawn)

    # The other writer's values are not preserved: setting the true generation is allowed, and undeclared conditions are removed.
    problems = run(scenario, Plan(name="as it is")).problems
    allowed = (
        *_OF_THE_STRANGER,
        *(("writes after convergence", "the queue of operation is not empty") if family.later else ()),
    )
    allowed += ("is still being deleted at the end",) if family.kept else ()
    assert [problem for problem in problems if not any(words in problem for words in allowed)] == []
