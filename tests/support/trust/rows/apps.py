"""Attacks by ApplicationInstances: the charts that Flux installs, and the rights of these installations."""

from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import ATTACKER, HOME, VICTIM
from trust.victim import APP

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Forbidden
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE

RELEASE: Final = {"name": "shop", "namespace": ATTACKER}


async def app(here: Scene, name: str = "evil", /, *, spec: dict[str, Any] | None = None, **metadata: Any) -> None:
    """Create an ApplicationInstance as a tenant."""
    whole = {**APP, "release": RELEASE, **(spec or {})}
    await here.mallory.create(ApplicationInstance, {"metadata": {"name": name, **metadata}, "spec": whole})


async def release_elsewhere(here: Scene) -> None:
    for number, namespace in enumerate((VICTIM, HOME, "kube-system", "velero")):
        await app(here, f"evil-{number}", spec={"release": {"name": "shop", "namespace": namespace}})


async def accounts(here: Scene) -> list[str]:
    names = ("cluster-installer", "default", "konverge", "kustomize-controller")
    for number, name in enumerate(names):
        await app(here, f"evil-{number}", spec={"serviceAccountName": name})
    await here.rest()
    found = (await here.admin.list(HELM_RELEASE, ATTACKER)).items
    return [
        f"{one.name} runs as {one.spec['serviceAccountName']}"
        for one in found
        if one.spec.get("serviceAccountName") in names
    ]


async def created_elsewhere(here: Scene) -> None:
    spec = {**APP, "release": {"name": "evil", "namespace": VICTIM}}
    await here.mallory.create(ApplicationInstance, {"metadata": {"name": "evil"}, "spec": spec}, VICTIM)


async def adopt(here: Scene) -> None:
    """Adopt the release of the victim by its name, and a release that an administrator installed in the attacker's namespace."""
    await here.admin.create(
        HELM_RELEASE.new(
            "platform",
            ATTACKER,
            spec={"interval": "5m", "serviceAccountName": "cluster-installer", "chart": {"spec": _CHART}},
        )
    )
    for name in ("shop", "platform"):
        await app(here, name, annotations={"apps.vworkspace.io/adopt": "true"})
    await here.rest()
    await here.mallory.delete_all(ApplicationInstance)


_CHART: Final = {"chart": "x", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "x"}}


async def values_of_others(here: Scene) -> None:
    for source in ("secretRef", "configMapRef"):
        values = {"source": source, source: {"name": "values", "key": "values.yaml"}}
        await app(here, f"evil-{source.lower()}", spec={"values": values})


async def forged_metadata(here: Scene) -> None:
    victim = await here.admin.get(ApplicationInstance, "shop", VICTIM)
    labels = {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/application-instance": "shop",
        "app.vworkspace.io/application-instance-uid": victim.metadata.uid,
        "helm.toolkit.fluxcd.io/name": "shop",
        "helm.toolkit.fluxcd.io/namespace": VICTIM,
    }
    notes = {"apps.vworkspace.io/override-forbidden": "true", "meta.helm.sh/release-namespace": VICTIM}
    reference = {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "name": "shop",
        "uid": victim.metadata.uid,
        "controller": True,
    }
    await app(here, "shop", labels=labels, annotations=notes, ownerReferences=[reference])
    await here.rest()
    await here.mallory.delete_all(ApplicationInstance)


async def forged_chart(here: Scene) -> None:
    """A HelmChart of Flux that names the victim's release wakes the victim's instance, and no more."""
    labels = {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": VICTIM}
    await here.admin.create(HELM_CHART.new("evil", ATTACKER, labels=labels, spec=_CHART | {"interval": "5m"}))


async def without_finalizer(here: Scene) -> None:
    await app(here)
    await here.rest()
    await here.mallory.patch(ApplicationInstance, "evil", {"metadata": {"finalizers": ["attacker.example.com/never"]}})
    await here.mallory.delete(ApplicationInstance, "evil")


async def impersonate(here: Scene) -> None:
    """Applies in the name of the daemon's field manager."""
    await here.mallory.apply(ApplicationInstance, "evil", {"spec": {**APP, "release": RELEASE}})
    await here.rest()
    await here.mallory.apply(ApplicationInstance, "evil", {"spec": {**APP, "release": RELEASE, "mode": "managed"}})


async def write_status(here: Scene) -> None:
    await app(here)
    status = {"helmReleaseRef": {"name": "shop", "namespace": VICTIM}}
    await here.mallory.patch(ApplicationInstance, "evil", {"status": status}, subresource="status")


async def forged_status(here: Scene) -> None:
    await app(here)
    await here.rest()
    status = {"helmReleaseRef": {"name": "shop", "namespace": VICTIM}}
    await here.landlord.patch(ApplicationInstance, "evil", {"status": status}, subresource="status")
    await here.rest(5)
    await here.landlord.delete(ApplicationInstance, "evil")


async def write_finalizers(here: Scene) -> None:
    await app(here)
    await here.mallory.patch(ApplicationInstance, "evil", {"metadata": {"finalizers": []}}, subresource="finalizers")


async def urls(here: Scene) -> None:
    chart = APP["chart"]
    for number, url in enumerate(("http://169.254.169.254/latest", "http://localhost:8081", "https://[::1]/charts")):
        await app(here, f"evil-{number}", spec={"chart": {**chart, "url": url}})


ATTACKS: Final = (
    Attack("a release is installed in other namespaces", ("ApplicationInstance spec.release",), release_elsewhere),
    Attack("a chart names an account of more rights", ("ApplicationInstance spec.serviceAccountName",), accounts),
    Attack(
        "an instance is created in the victims namespace",
        ("ApplicationInstance metadata.name",),
        created_elsewhere,
        Forbidden,
    ),
    Attack("a release of others is adopted and deleted", ("ApplicationInstance metadata.annotations",), adopt),
    Attack("values come from the victims Secret", ("ApplicationInstance spec.values",), values_of_others),
    Attack(
        "an instance has forged labels annotations and owners",
        (
            "ApplicationInstance metadata.labels",
            "ApplicationInstance metadata.annotations",
            "ApplicationInstance metadata.ownerReferences",
        ),
        forged_metadata,
    ),
    Attack("a HelmChart names the victims release", ("ApplicationInstance metadata.labels",), forged_chart),
    Attack(
        "the finalizer is replaced by a foreign finalizer",
        ("ApplicationInstance metadata.finalizers",),
        without_finalizer,
    ),
    Attack(
        "a tenant applies as the field manager of the daemon",
        ("ApplicationInstance metadata.managedFields",),
        impersonate,
    ),
    Attack("a tenant writes the status of an instance", ("ApplicationInstance status",), write_status, Forbidden),
    Attack("a forged status names the victims release", ("ApplicationInstance status",), forged_status),
    Attack(
        "a tenant writes the finalizers subresource",
        ("ApplicationInstance metadata.finalizers",),
        write_finalizers,
        Forbidden,
    ),
    Attack("chart URLs name internal addresses", ("ApplicationInstance spec.chart",), urls),
)
