"""Each family at work in a lab: together the actions use every right of the family, apart from the rights for rare events."""

import asyncio
from collections.abc import Callable

import pytest
from audit import Right
from quota.lab import CPU, Quotas

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Invalid
from konverge.reconcilers.apps.kinds import CONFIG_MAP, HELM_RELEASE, SECRET
from konverge_testing import Lab

_ENGINE_OBJECTS = (
    "backups.velero.io",
    "restores.velero.io",
    "replicationdestinations.volsync.backube",
    "replicationsources.volsync.backube",
    "workflows.argoproj.io",
)
_ENGINE_SETTINGS = (
    "backupstoragelocations.velero.io",
    "clusterworkflowtemplates.argoproj.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
    "workflowtemplates.argoproj.io",
)
_OPERATIONS: dict[Right, str] = {
    **{
        (verb, one): "the engine of these Operations is not installed here; tests/scenarios/operations plays it"
        for kinds, verbs in (
            (_ENGINE_OBJECTS, ("create", "delete", "get", "list", "patch", "watch")),
            (_ENGINE_SETTINGS, ("list", "watch")),
        )
        for one in kinds
        for verb in verbs
    },
    **{
        (verb, one): "no Operation is created here"
        for one, verbs in {
            "events": ("list",),
            "jobs.batch": ("create", "delete", "get", "patch"),
            "leases.coordination.k8s.io": ("update",),
            "namespaces": ("get",),
            "operations.ops.vworkspace.io": ("delete", "get", "patch"),
            "operations.ops.vworkspace.io/finalizers": ("update",),
            "operations.ops.vworkspace.io/status": ("patch",),
            "pods": ("list",),
            "serviceaccounts": ("get",),
        }.items()
        for verb in verbs
    },
}
_WRITTEN = (
    "applicationinstances.apps.vworkspace.io",
    "resourcepoolclaims.capsule.clastix.io",
)
MANAGED = {"type": "postgresql", "managed": True, "deleteOnCleanup": True}
UNUSED: dict[Right, str] = {
    **_OPERATIONS,
    **{
        ("get", one): "if the cache cannot tell whether it shows a write, the barrier asks how the object stands"
        for one in _WRITTEN
    },
    (
        "get",
        "resourcequotas",
    ): "while the cache is not complete, a child is looked for before its first apply; the barrier, as above",
    **{
        (
            "update",
            f"{one}/finalizers",
        ): "OwnerReferencesPermissionEnforcement asks for it of who sets blockOwnerDeletion on a child"
        for one in ("applicationinstances.apps.vworkspace.io", "resourcepools.capsule.clastix.io")
    },
}
"""Printed rights that these do not use, and what needs them."""


async def install_and_remove(lab: Lab) -> None:
    """Have an application installed with values from a Secret, upgraded, and removed."""
    await lab.create(SECRET.new("values", stringData={"values.yaml": "replicas: 1"}))
    await lab.create(shop(lab.namespace))
    for wanted in ("1.0.0", "1.1.0"):
        await lab.patch(ApplicationInstance, "shop", {"spec": {"chart": {"version": wanted}}})
        await lab.until(ApplicationInstance, "shop", runs(wanted), timeout=60)
    release = await lab.get(HELM_RELEASE, "shop")
    assert release.get("spec", "chart", "spec", "version") == "1.1.0"
    assert release.metadata.controller is not None
    with pytest.raises(Invalid):
        await lab.patch(ApplicationInstance, "shop", {"spec": {"release": {"name": "other"}}})
    await lab.delete(ApplicationInstance, "shop")
    await lab.until_gone(ApplicationInstance, "shop", timeout=60)
    assert await lab.find(HELM_RELEASE, "shop") is None


def shop(namespace: str) -> ApplicationInstance:
    """Return an instance with values from a Secret."""
    chart = {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"}
    spec = {
        "appRef": {"catalogId": "shop"},
        "chart": chart,
        "release": {"name": "shop", "namespace": namespace},
        "values": {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}},
    }
    return ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec})


def runs(version: str) -> Callable[[ApplicationInstance], bool]:
    def test(found: ApplicationInstance) -> bool:
        ready, chart = found.find_condition("Ready"), found.status.last_applied_chart
        told = ready is not None and ready.is_true and ready.observed_generation == found.generation
        return told and chart is not None and chart.version == version

    return test


async def change_source_and_values(lab: Lab) -> None:
    """Have an application installed with values from a ConfigMap, its source's URL changed, and then the kind of its source, and back."""
    await lab.create(CONFIG_MAP.new("values", data={"values.yaml": "replicas: 1"}))
    helm = {"sourceType": "helm", "url": "https://charts.example.com", "name": "blog", "version": "1.0.0"}
    oci = {"sourceType": "oci", "url": "oci://registry.example.com/charts", "name": "blog", "version": "1.1.0"}
    spec = {
        "appRef": {"catalogId": "blog"},
        "chart": helm,
        "release": {"name": "blog", "namespace": lab.namespace},
        "values": {"source": "configMapRef", "configMapRef": {"name": "values", "key": "values.yaml"}},
    }
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "blog"}, "spec": spec}))
    await lab.until(ApplicationInstance, "blog", runs("1.0.0"), timeout=60)
    steps = (
        {"url": "https://mirror.example.com", "version": "1.0.1"},
        oci,
        {"url": "oci://mirror.example.com/charts", "version": "1.1.1"},
        {**helm, "version": "1.2.0"},
    )
    for step in steps:
        await lab.patch(ApplicationInstance, "blog", {"spec": {"chart": step}})
        await lab.until(ApplicationInstance, "blog", runs(step["version"]), timeout=60)
    await lab.delete(ApplicationInstance, "blog")
    await lab.until_gone(ApplicationInstance, "blog", timeout=60)


async def share_a_pool(lab: Lab) -> None:
    """Have a pool shared, changed, claimed from, released, and removed with its claims."""
    here = Quotas(lab)
    await here.namespace("a")
    await here.pool(deleteBoundResources=True)
    await here.claim("a", "stays", cpu=1)
    await here.bound("a", "stays")
    await here.claim("a", "edited", cpu=1)
    await here.bound("a", "edited")
    await here.grants("a", {CPU: 2})
    await here.release("a", "edited")
    await here.grants("a", {CPU: 1})
    await here.patch("a", "edited", {"spec": {"claim": {CPU: 2}}})
    await here.grants("a", {CPU: 3})
    await here.bound("a", "edited")
    await lab.client.delete(ResourcePool, "p")
    async with asyncio.timeout(60):
        while (await lab.client.list(ResourcePool)).items:
            await asyncio.sleep(0.1)
    assert [claim.name for claim in await lab.client.list(ResourcePoolClaim, here.ns("a"))] == []


UNUSED_OF_POOLS: dict[Right, str] = {
    **{
        (verb, one): reason
        for verbs, kinds, reason in (
            (
                ("create", "get", "delete", "patch"),
                ("ocirepositories.source.toolkit.fluxcd.io",),
                "the chart of these instances is in a repository over HTTP",
            ),
            (
                ("create", "delete", "patch"),
                ("scheduledbackups.postgresql.cnpg.io",),
                "these databases have no backups",
            ),
            (("create", "delete", "get", "list", "patch"), ("cronjobs.batch",), "the files of these have no copies"),
            (("get", "delete"), ("helmrepositories.source.toolkit.fluxcd.io",), "the garbage collector deletes these"),
            (("delete",), ("namespaces",), "no namespace is owned by an instance here"),
            (("delete",), ("persistentvolumeclaims",), "no chart leaves a volume here"),
            (
                ("get",),
                tuple(f"{name}.k8s.bnerd.com" for name in ("nextclouds", "nextcloudinstances", "nextcloudpools")),
                "the barrier, as above",
            ),
            (("update",), ("nextcloudinstances.k8s.bnerd.com/finalizers",), "as above"),
        )
        for verb in verbs
        for one in kinds
    },
}
"""Those of the family pools, in `claim_and_release`."""


async def claim_and_release(lab: Lab) -> None:
    """Have a pool filled, an instance of it claimed, edited and deleted with its Nextcloud, and the pool removed."""
    template = {
        "metadata": {"labels": {"tier": "rights"}},
        "spec": {"database": MANAGED, "helm": {"version": "6.6.10"}},
    }
    spec = {
        "replicas": 1,
        "allowedNamespaces": {"from": "All"},
        "profileRef": {"name": "rights"},
        "template": template,
    }
    await lab.client.create(NextcloudProfile.decode({"metadata": {"name": "rights"}, "spec": {"defaults": {}}}))
    await lab.client.create(NextcloudPool.decode({"metadata": {"name": "rights"}, "spec": spec}))
    spec = {"poolSelector": {"matchLabels": {"tier": "rights"}}, "version": "33.0.1"}
    await lab.create(Nextcloud.decode({"metadata": {"name": "main"}, "spec": spec}))
    served = await lab.until(Nextcloud, "main", lambda one: one.status.phase == "Ready", timeout=120)
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    await lab.patch(NextcloudInstance, name, {"spec": {"version": "0.0.1"}})
    await lab.until(NextcloudInstance, name, lambda one: one.spec.version == "33.0.1", timeout=60)
    await lab.delete(Nextcloud, "main")
    await lab.until_gone(Nextcloud, "main", timeout=120)
    await lab.client.delete(NextcloudPool, "rights")
    async with asyncio.timeout(120):
        while (await lab.client.list(NextcloudPool)).items:
            await asyncio.sleep(0.2)
