"""Every name and label that a family derives is valid for its kind, for every name of an object that the API server admits.

Names of several forms and of each length at a limit are sent to the API server. For each name that it admits, the family's own functions
render the derived objects, and the API server, with the definitions of the stand-ins, has to admit them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import pytest
from machines_lab import KINDS as MACHINE_KINDS
from pools.materials import FULL, Materials

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.crds.pools_v1alpha1 import MAX_INSTANCE_NAME, Nextcloud, NextcloudInstance, NextcloudPool
from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import Invalid
from konverge.kinds import Kind, kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.operations.child import to_create
from konverge.reconcilers.apps.operations.engines.engine import EngineRequest, ObjectKey, Rendered, Target, child_name
from konverge.reconcilers.apps.operations.engines.velero.render import velero_place
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.turns import lease_name
from konverge.reconcilers.apps.render import children_of
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.machines.clusters.imports import ImportedPool
from konverge.reconcilers.machines.clusters.kubeconfig import kubeconfig_secret
from konverge.reconcilers.machines.clusters.render import cluster_objects, imported_pool, machine_pool
from konverge.reconcilers.machines.ondemand.demand import Demand, PodRef
from konverge.reconcilers.machines.ondemand.render import infrastructure, machine, machine_name
from konverge.reconcilers.machines.pools.render import shard_group
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.pools.claims.render import tenant_intent
from konverge.reconcilers.pools.instances import names
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER, application_secret
from konverge.reconcilers.pools.instances.render import release_of
from konverge.reconcilers.pools.instances.secrets import needed_secrets
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.versions import ResolvedChart
from konverge.reconcilers.pools.kinds import SECRET
from konverge.reconcilers.pools.names import MAX_WORD, instance_name, name_for
from konverge.reconcilers.pools.pool.render import new_member
from konverge.reconcilers.quota.words import QuotaLabel, quota_name
from konverge.reconcilers.workspaces.observe import id_problem
from konverge.reconcilers.workspaces.secrets import new_secret
from konverge_testing import Lab, install_crds
from konverge_testing.capi import definitions
from konverge_testing.cnpg import cnpg_crds
from konverge_testing.flux import flux_crds

NAMESPACE: Final = "lab"
UID: Final = "3f0c1c1e-6a53-4c66-9a1e-1f0f3ad1a111"
NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
LENGTHS: Final = (1, 47, 48, 63, 64, 253)
FORMS: Final = ("n", "0", "n-", "n--", "0-n", "n.", "0.n-")
"""Names are cut in the middle of such a form: between two dashes, before a dot, in a run of digits."""
CRON_JOB: Final = {
    "schedule": "0 0 * * *",
    "jobTemplate": {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}}
    },
}
JOB: Final = CRON_JOB["jobTemplate"]["spec"]  # type: ignore[index]  # a dict of dicts
BUILT_IN: Final = {
    "CronJob": kind("batch/v1", "CronJob", namespaced=True, plural="cronjobs"),
    "Job": kind("batch/v1", "Job", namespaced=True, plural="jobs"),
    "Service": kind("v1", "Service", namespaced=True, plural="services"),
    "ConfigMap": kind("v1", "ConfigMap", namespaced=True, plural="configmaps"),
    "Lease": kind("coordination.k8s.io/v1", "Lease", namespaced=True, plural="leases"),
    "Pod": kind("v1", "Pod", namespaced=True, plural="pods"),
    "ResourceQuota": kind("v1", "ResourceQuota", namespaced=True, plural="resourcequotas"),
}
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""API servers before 1.34 take no other name of a Service."""
_BUCKET: Final = re.compile(r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]")


def drawn() -> Iterator[str]:
    """Yield names of each form and length; a final dash or dot is replaced by a letter."""
    for length in LENGTHS:
        for form in FORMS:
            name = (form * length)[:length]
            yield name if name[-1].isalnum() else f"{name[:-1]}z"


def made(what: str, name: str, labels: dict[str, str] | None = None, **parts: Any) -> Object:
    return BUILT_IN[what].new(name, NAMESPACE, labels=labels, **parts)


def of_instance(owner: NextcloudInstance) -> Iterator[Object]:
    name, cluster = owner.name, names.cluster_name(owner.name)
    yield made("CronJob", names.copy_name(name), spec=CRON_JOB)
    yield CNPG_CLUSTER.new(cluster, NAMESPACE, spec={"storage": {"size": "1Gi"}})
    yield made("ConfigMap", names.claim_name(name))
    for part in ("rw", "ro", "r"):
        yield made("Service", f"{cluster}-{part}", spec={"ports": [{"port": 5432}]})
    yield made("Service", f"{name}-nextcloud"[:63].rstrip("-"), spec={"ports": [{"port": 8080}]})
    secrets = {needed.name for needed in needed_secrets(name, owner.spec)}
    for secret in (*secrets, application_secret(cluster), names.claim_name(name), f"{name}-tls"):
        yield SECRET.new(secret, NAMESPACE)
    for url in ("https://charts.test", "oci://charts.test"):
        settings = MaterialSettings(chart_url=url)
        rendered = release_of(name, NAMESPACE, {}, ResolvedChart("6.6.10"), settings)
        yield from (rendered.source, rendered.release)
    assert _BUCKET.fullmatch(names.bucket_name(name, UID))


def of_nextcloud(owner: Nextcloud) -> Iterator[Object]:
    yield tenant_intent(owner, name_for(owner.uid, 0, ["a" * MAX_WORD], ["n" * MAX_WORD]), NAMESPACE, pool="p" * 63)


def of_pool(owner: NextcloudPool) -> Iterator[Object]:
    yield new_member(owner, name_for(owner.uid), NAMESPACE, "", {}, "", "nonce")


def of_application(owner: ApplicationInstance) -> Iterator[Object]:
    children = children_of(owner, Settings(cluster_id=owner.name))
    yield from (children.source, children.release)


def of_operation(owner: Operation) -> Iterator[Object]:
    target = Target(NAMESPACE, owner.name, UID)
    request = EngineRequest(
        *(_key(owner), UID, NOW, "Backup", {"direction": "source"}, target, OperationSettings()),
    )
    job = made("Job", child_name(request), spec=JOB)
    yield to_create(owner, Rendered(job), target, owner.name)
    yield made("Job", f"volsync-src-{VolSyncEngine().place(request).name}", spec=JOB)
    yield made("ConfigMap", velero_place(request).name, {"velero.io/backup-name": velero_place(request).name})


def of_resource_pool(owner: ResourcePool) -> Iterator[Object]:
    yield made("ResourceQuota", quota_name(owner.name), {QuotaLabel.POOL: owner.name}, spec={"hard": {"pods": "1"}})


def of_workspace(owner: WorkspaceClaim) -> Iterator[Object]:
    if id_problem(owner) is None:
        yield new_secret(owner, NAMESPACE)


def of_pod(owner: Object) -> Iterator[Object]:
    pod = PodRef(owner.namespace, owner.name, UID)
    for with_namespace in (False, True):
        name = machine_name(pod, with_namespace=with_namespace)
        for render in (machine, infrastructure):
            yield _object(render(Demand(pod, "workers"), name=name, namespace=NAMESPACE, cluster="acme--blue"))


@dataclass(frozen=True)
class Owner:
    """A kind of the family's users, with a good spec, and the names derived from the name of such an object."""

    what: Kind[Any] | type[Any]
    derive: Callable[[Any], Iterator[Object]]
    spec: dict[str, Any]
    longest: int
    """The length of the longest of the names that the API server admits."""

    def of(self, name: str) -> Any:
        found = kind_of(self.what)
        metadata = {"name": name, "uid": UID, **({"namespace": NAMESPACE} if found.namespaced else {})}
        body = {"apiVersion": found.api_version, "kind": found.kind, "metadata": metadata, "spec": self.spec}
        return found.decode(body) if isinstance(self.what, Kind) else self.what.decode(body)


APPLICATION: Final = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.test", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": NAMESPACE},
    "values": {"source": "inline", "inline": {}},
}
TARGET: Final = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
OWNERS: Final = (
    Owner(NextcloudInstance, of_instance, {**FULL, "mail": {"enabled": True}}, 47),
    Owner(Nextcloud, of_nextcloud, {}, 253),
    Owner(NextcloudPool, of_pool, {"replicas": 1}, 63),
    Owner(ApplicationInstance, of_application, APPLICATION, 63),
    Owner(Operation, of_operation, {"targetRef": TARGET, "type": "Backup", "engine": "velero"}, 253),
    Owner(ResourcePool, of_resource_pool, {"quota": {"hard": {"pods": "1"}}}, 63),
    Owner(WorkspaceClaim, of_workspace, {}, 253),
    Owner(BUILT_IN["Pod"], of_pod, {"containers": [{"name": "c", "image": "c"}]}, 253),
)


def _object(resource: Any) -> Object:
    return resource if isinstance(resource, Object) else Object(resource.to_dict())


def _key(owner: Operation) -> Any:
    return ObjectKey(owner.namespace, owner.name)


async def is_admitted(lab: Lab, what: Any) -> bool:
    try:
        await lab.client.create(_without_uid(what), dry_run=True)
    except Invalid:
        return False
    return True


def _without_uid(what: Any) -> Object:
    data = _object(what).to_dict()
    data["metadata"].pop("uid", None)
    data["metadata"].pop("resourceVersion", None)
    return Object(data)


async def install(lab: Lab) -> None:
    models = (NextcloudInstance, Nextcloud, NextcloudPool, ApplicationInstance, Operation, ResourcePool, WorkspaceClaim)
    ours = (crd(model) for model in (*models, *MACHINE_KINDS))
    await install_crds(lab.client, [*ours, *flux_crds(), *cnpg_crds(), *definitions()])


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: kind_of(owner.what).kind)
async def test_the_objects_of_an_admitted_name_are_valid_for_their_kinds(lab: Lab, owner: Owner) -> None:
    await install(lab)
    admitted = [found for found in map(owner.of, drawn()) if await is_admitted(lab, found)]
    assert max(len(found.name) for found in admitted) == owner.longest
    for found in admitted:
        for derived in owner.derive(found):
            if derived.kind_name == "Service":
                assert _SERVICE.fullmatch(derived.name), derived.name
            await lab.client.create(_without_uid(derived), dry_run=True)


async def test_the_objects_of_the_longest_identifiers_of_machines_are_valid(lab: Lab) -> None:
    await install(lab)
    for form in ("n", "0", "n-0"):
        longest = (form * 32)[:31] + "z"
        assert is_identifier(longest)
        settings = MachineSettings(cluster_id=longest, tenant=longest[-29:])
        cluster = settings.cluster_name
        pool = imported_pool(ImportedPool(longest, (longest,), 1), namespace=NAMESPACE, cluster=cluster, labels={})
        for derived in (
            *cluster_objects(cluster, NAMESPACE, {}, control_plane=True),
            kubeconfig_secret(cluster, NAMESPACE, "", NOW, {}),
            machine_pool(longest, NAMESPACE, cluster=cluster, replicas=1, labels={}),
            *(pool, shard_group(pool, longest, 1)),
        ):
            await lab.client.create(_without_uid(derived), dry_run=True)


async def test_the_lease_of_the_longest_namespace_is_valid(lab: Lab) -> None:
    for name in ("n" * 63, "0" * 63, "n" + "-" * 61 + "n"):
        await lab.client.create(made("Lease", lease_name(name)), dry_run=True)


def test_a_new_instance_has_a_name_that_the_api_server_admits() -> None:
    words = ["n" * MAX_WORD]
    assert len(instance_name(Random(1), words, words)) <= MAX_INSTANCE_NAME


def has_backups(instance: NextcloudInstance) -> bool:
    condition = instance.find_condition("BackupsReady")
    return condition is not None and condition.reason == "BackupsScheduled"


async def test_an_instance_with_the_longest_name_gets_its_backups(lab: Lab) -> None:
    here = Materials(lab)
    await here.start()
    here.s3.fill("safe", 3, account="ours")
    copies = {"enabled": True, "bucket": "safe", "endpoint": "https://s3.test", "credentialsSecret": "s3-keys"}
    name = "n" * MAX_INSTANCE_NAME
    spec = {**FULL, "backups": {"data": {**copies, "schedule": "15 3 * * *"}}}
    await lab.create(NextcloudInstance.decode({"metadata": {"name": name}, "spec": spec}))
    await lab.until(NextcloudInstance, name, has_backups, timeout=600)
