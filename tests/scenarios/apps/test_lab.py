"""The life of an ApplicationInstance under the lab's faults: `make test` quickly, `make lab` with every plan."""

import asyncio
from typing import Any

import pytest
from apps.lab import QUICK, SECRET_VALUES

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.kinds import kind
from konverge.reconcilers import apps
from konverge_testing import Lab, install_crds
from konverge_testing.flux import HelmController, flux_crds

SECRET = kind("v1", "Secret")
RELEASE = kind("helm.toolkit.fluxcd.io/v2", "HelmRelease")
SPEC: dict[str, Any] = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": "lab"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}


FEW = 20
"""Plans of each scenario in quick mode: the scenarios of a file take turns with the kinds of fault. `make lab` runs all plans."""


def says(type_: str, status: str) -> Any:
    def test(found: ApplicationInstance) -> bool:
        condition = found.find_condition(type_)
        current = found.status.observed_generation == found.generation
        return current and condition is not None and condition.status == status

    test.__qualname__ = f"{type_}={status}"
    return test


TOKENS = (
    *("apps.vworkspace.io/values-token", "reconcile.fluxcd.io/requestedAt"),
    *("vworkspace.io/applied-intent-hash", "vworkspace.io/applied-source", "vworkspace.io/applied-chart-digest"),
)


def forget_tokens(data: dict[str, Any]) -> None:
    """Remove annotations with uids and versions (of the source, of the Secret with the values): these differ from run to run."""
    for name in TOKENS:
        (data["metadata"].get("annotations") or {}).pop(name, None)
    (data.get("status") or {}).pop("lastHandledReconcileAt", None)


def forget_history(data: dict[str, Any]) -> None:
    """Remove Flux's history of a release, since a recreated release was installed, and the annotation with a source's uid."""
    for name in (
        "applied-source",
        "applied-chart-digest",
        "last-applied-generation",
    ):  # a recreated instance has generation 1
        (data["metadata"].get("annotations") or {}).pop(f"vworkspace.io/{name}", None)
    if data["kind"] == "HelmRelease" and "status" in data:
        standing = [{"type": one["type"], "status": one["status"]} for one in data["status"].get("conditions", ())]
        data["status"] = {"conditions": standing}


async def start(lab: Lab, **spec: Any) -> None:
    lab.may_differ(None, forget_history, why="what Flux reports of the past of a release depends on the faults")
    await install_crds(lab.client, flux_crds())
    await lab.enter(HelmController(lab.config, namespace=lab.namespace, random=lab.rng()))
    await lab.start(lambda manager: apps.install(manager, QUICK))
    data = {
        "metadata": {"name": "shop"},
        "spec": SPEC | spec | {"release": {"name": "shop", "namespace": lab.namespace}},
    }
    await lab.create(ApplicationInstance.decode(data))
    await lab.until(ApplicationInstance, "shop", says("Ready", "True"))


@pytest.mark.scenario(quick=FEW)
async def test_an_instance_is_made_upgraded_and_deleted(lab: Lab) -> None:
    await start(lab)
    await lab.patch(ApplicationInstance, "shop", {"spec": {"chart": {"version": "1.1.0"}}})
    await lab.until(ApplicationInstance, "shop", says("Ready", "True"))
    await lab.delete(ApplicationInstance, "shop")
    await lab.until_gone(ApplicationInstance, "shop")
    await lab.until_gone(RELEASE, "shop")


def never_two_of_one_release(lab: Lab) -> None:
    """Two HelmReleases that Flux would install under the same Helm release never exist at once."""

    def check() -> None:
        stored = [entry.object() for entry in lab.server.store.list(("helm.toolkit.fluxcd.io", "helmreleases"))]
        standing = [one["metadata"]["name"] for one in stored if "deletionTimestamp" not in one["metadata"]]
        assert len(standing) <= 1, f"{' and '.join(standing)} are HelmReleases of one Helm release"

    lab.always.append(check)


def taken_by(keeper: str) -> Any:
    def test(found: ApplicationInstance) -> bool:
        blocked = found.find_condition("Blocked")
        return (
            blocked is not None
            and (blocked.status, blocked.reason) == ("True", "PolicyDenied")
            and f"belongs to ApplicationInstance {keeper}," in blocked.message
        )

    test.__qualname__ = f"Blocked by {keeper}"
    return test


def named(lab: Lab, name: str) -> ApplicationInstance:
    spec = SPEC | {"release": {"name": "shop", "namespace": lab.namespace}}
    return ApplicationInstance.decode({"metadata": {"name": name}, "spec": spec})


@pytest.mark.scenario(quick=FEW)
async def test_younger_instance_of_a_shared_release_name_waits_for_the_older(lab: Lab) -> None:
    lab.may_differ(
        None, forget_history, forget_tokens, why="what Flux reports of the past of a release depends on the faults"
    )
    never_two_of_one_release(lab)
    await install_crds(lab.client, [*flux_crds(), crd(ApplicationInstance)])
    await lab.create(named(lab, "z-elder"))
    await asyncio.sleep(2)  # of virtual time: creationTimestamp counts whole seconds
    await lab.create(named(lab, "a-younger"))
    await lab.enter(HelmController(lab.config, namespace=lab.namespace, random=lab.rng()))
    await lab.start(lambda manager: apps.install(manager, QUICK), wait=False)  # plans crash it while it starts
    await lab.until(ApplicationInstance, "z-elder", says("Ready", "True"))
    await lab.until(ApplicationInstance, "a-younger", taken_by("z-elder"))
    await lab.delete(ApplicationInstance, "z-elder")
    await lab.until_gone(ApplicationInstance, "z-elder")
    await lab.until(ApplicationInstance, "a-younger", says("Ready", "True"))


@pytest.mark.scenario(quick=FEW)
async def test_a_change_of_values_in_a_secret_is_rolled_out(lab: Lab) -> None:
    lab.may_differ(None, forget_tokens, why="these annotations hold uids and versions")
    await lab.create(SECRET.new("vals", data={"values.yaml": "cmVwbGljYXM6IDE="}))
    await start(lab, values=SECRET_VALUES)
    before = (await lab.get(RELEASE, "shop")).get("status", "history", 0, "configDigest")
    await lab.patch(SECRET, "vals", {"data": {"values.yaml": "cmVwbGljYXM6IDI="}})
    await lab.until(RELEASE, "shop", lambda found: found.get("status", "history", 0, "configDigest") != before)
    await lab.until(ApplicationInstance, "shop", says("Ready", "True"))
