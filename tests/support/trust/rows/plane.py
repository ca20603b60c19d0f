"""Attacks by the control plane of pull mode: its jobs write ApplicationInstances and Operations, and nothing else."""

from collections.abc import Sequence
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import HOME, INSTANCES, VELERO, VICTIM
from trust.victim import APP, operation

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind

NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
DENIED: Final = ("kube-system", "kube-public", "kube-whatever", HOME, VELERO, "flux-system", "cert-manager")
WEB: Final = "web"


def manifest(namespace: str = WEB, name: str = "evil", **more: Any) -> dict[str, Any]:
    """Return the payload of an apply job."""
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    spec = {**APP, "release": {"name": name, "namespace": namespace}, **more}
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": metadata,
        "spec": spec,
    }


def ensure(namespace: str = WEB, name: str = "evil", **more: Any) -> dict[str, Any]:
    """Return the payload of an intent."""
    spec = {**APP, "release": {"name": name, "namespace": namespace}}
    return {"intent": "ensure-application-instance", "namespace": namespace, "name": name, "spec": spec, **more}


def request(namespace: str = WEB, **more: Any) -> dict[str, Any]:
    """Return the payload of an intent that requests an Operation."""
    return {"intent": "request-operation", "namespace": namespace, "spec": operation("RunCommand", "job", **more)}


async def prepare(here: Scene) -> None:
    for name in (WEB, "kube-whatever", "flux-system", "cert-manager"):
        await here.stage.lab.namespace_also(name)
    await here.rest(5)
    here.judge.rebase()


async def created(here: Scene, namespaces: Sequence[str]) -> list[str]:
    """Return what exists of the two kinds in these namespaces, and delete it."""
    await here.rest()
    found = []
    for model in (ApplicationInstance, Operation):
        for one in (await here.admin.list(model)).items:
            if one.namespace in namespaces:
                found.append(f"{model.__name__} {one.namespace}/{one.name} was created")
                await here.admin.delete(model, one.name, one.namespace)
    await here.rest(60)
    return found


async def denied_namespaces(here: Scene) -> list[str]:
    await prepare(here)
    for namespace in DENIED:
        here.stage.plane.submit("apply", manifest(namespace))
        here.stage.plane.submit("intent", ensure(namespace))
        here.stage.plane.submit("intent", request(namespace))
    return await created(here, DENIED)


async def denied_by_another_field(here: Scene) -> list[str]:
    """A job names another namespace for its release, target or reference."""
    await prepare(here)
    body = manifest()
    here.stage.plane.submit(
        "apply", {**body, "spec": {**body["spec"], "release": {"name": "evil", "namespace": VELERO}}}
    )
    for namespace in (
        " kube-system",
        "KUBE-SYSTEM",
        "kube-system\n",
        "kube\u2010system",
        "../kube-system",
        "kube-system/x",
        "",
    ):
        here.stage.plane.submit("apply", manifest(namespace))
        here.stage.plane.submit("intent", ensure(namespace))
    found = await created(here, DENIED)
    await created(here, (WEB,))
    here.judge.rebase()
    return found


async def trusted_metadata(here: Scene) -> list[str]:
    """A job sets no annotation, owner or finalizer that the daemon trusts."""
    await prepare(here)
    victim = await here.admin.get(ApplicationInstance, "shop", VICTIM)
    reference = {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "name": "shop",
        "uid": victim.metadata.uid,
        "controller": True,
    }
    parts: tuple[dict[str, Any], ...] = (
        {"annotations": {"apps.vworkspace.io/override-forbidden": "true"}},
        {"annotations": {"apps.vworkspace.io/adopt": "true"}},
        {"ownerReferences": [reference]},
        {"finalizers": ["apps.vworkspace.io/finalizer"]},
    )
    for number, part in enumerate(parts):
        here.stage.plane.submit("apply", manifest(name=f"evil-{number}", metadata=part))
    await here.rest()
    found = []
    for one in (await here.admin.list(ApplicationInstance, WEB)).items:
        trusted = {name for name in one.metadata.annotations or {} if name.startswith("apps.vworkspace.io/")}
        references = one.to_dict()["metadata"].get("ownerReferences", [])
        owners = [owner for owner in references if owner["uid"] == victim.metadata.uid]
        found += [f"{one.name} has {name}" for name in trusted] + [f"{one.name} has a forged owner" for _ in owners]
    await created(here, (WEB,))
    here.judge.rebase()
    return found


async def approvals(here: Scene) -> list[str]:
    await prepare(here)
    await here.stage.plane.result(here.stage.plane.submit("apply", manifest(name="shop")))
    claim = {"cluster": "", "namespace": WEB, "name": "x", "digest": "x", "expires": "2040-01-01T00:00:00Z"}
    here.stage.plane.submit("intent", request(approvals={"required": False, "claim": str(claim)}))
    here.stage.plane.submit(
        "apply",
        {
            "apiVersion": "ops.vworkspace.io/v1alpha1",
            "kind": "Operation",
            "metadata": {"name": "approved", "namespace": WEB},
            "spec": operation("RunCommand", "job", approvals={"claim": str(claim), "approvedBy": "nobody"}),
        },
    )
    await here.rest()
    found = [
        f"Operation {one.name} has an approval"
        for one in (await here.admin.list(Operation, WEB)).items
        if one.spec.approvals is not None and one.spec.approvals.claim
    ]
    await created(here, (WEB,))
    here.judge.rebase()
    return found


async def other_kinds(here: Scene) -> None:
    await prepare(here)
    for api_version, name in (
        ("v1", "Secret"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("k8s.bnerd.com/v1alpha1", "Nextcloud"),
        ("ops.vworkspace.io/v1alpha1", "Cluster"),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
    ):
        metadata = {"name": "evil", "namespace": WEB}
        body = {"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": {}}
        here.stage.plane.submit("apply", body)
        here.stage.plane.submit("delete", body)
    victims = {"metadata": {"name": "shop", "namespace": VICTIM}}
    here.stage.plane.submit("delete", {"apiVersion": "v1", "kind": "Namespace", **victims})


async def delete_denied(here: Scene) -> None:
    await prepare(here)
    for namespace in (HOME, INSTANCES, "kube-system"):
        here.stage.plane.submit("delete", manifest(namespace, "shop"))


ATTACKS: Final = (
    Attack("a job writes in a denied namespace", ("job namespace",), denied_namespaces),
    Attack("a job writes in a denied namespace by another spelling", ("job namespace",), denied_by_another_field),
    Attack("a job sets metadata that the daemon trusts", ("job metadata",), trusted_metadata),
    Attack("a job approves its own Operation", ("job spec.approvals",), approvals),
    Attack("a job writes or deletes other kinds", ("job kind",), other_kinds),
    Attack("a job deletes in a denied namespace", ("job namespace",), delete_denied),
)
