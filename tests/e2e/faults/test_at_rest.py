"""No write at rest: the whole daemon, measured by the API server's own audit log."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit import Audited, audited
from operators import Operator
from prometheus_client.parser import text_string_to_metric_families

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.reconcilers import apps
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.flux import HelmController, World, flux_crds
from konverge_testing.rights import grant

pytestmark = pytest.mark.control_plane

RESYNCS = 10
SECRET = kind("v1", "Secret")


def instance(lab: Lab, name: str, **parts: Any) -> ApplicationInstance:
    spec: dict[str, Any] = {
        "appRef": {"catalogId": name},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": name, "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1, "memory": "1024Mi"}},
        **parts,
    }
    return ApplicationInstance.decode({"metadata": {"name": name}, "spec": {k: v for k, v in spec.items() if v}})


def says(type_: str, status: str, reason: str) -> Callable[[ApplicationInstance], bool]:
    def test(found: ApplicationInstance) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and (condition.status, condition.reason) == (status, reason)

    return test


READY = says("Ready", "True", "HelmReleaseReady")


async def one_of_each(lab: Lab) -> int:
    """Bring an instance into each of the states that can last; returns the number of instances."""
    oci = {"sourceType": "oci", "url": "oci://registry.example.com/charts", "name": "shop", "version": "1.0.0"}
    bad = {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "6.6.6"}
    elsewhere = {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}}
    nowhere = {"source": "secretRef", "secretRef": {"name": "nothing", "key": "values.yaml"}}
    await lab.create(SECRET.new("values", data={"values.yaml": base64.b64encode(b"replicas: 1").decode()}))
    await lab.create(
        HELM_RELEASE.new("taken", spec={"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "x"}})
    )
    states: dict[str, tuple[dict[str, Any], Callable[[ApplicationInstance], bool]]] = {
        "plain": ({}, READY),
        "oci": ({"chart": oci}, READY),
        "secret": ({"values": elsewhere}, READY),
        "failed": ({"chart": bad}, says("Stalled", "True", "RetriesExceeded")),
        "waiting": ({"values": nowhere}, says("Ready", "False", "WaitingForSecret")),
        "taken": ({}, says("Blocked", "True", "PolicyDenied")),
        "suspended": ({}, READY),
        "placeholder": (
            {"mode": "placeholder", "chart": None, "release": None, "values": None},
            says("Ready", "True", "Placeholder"),
        ),
    }
    for name, (parts, _) in states.items():
        await lab.create(instance(lab, name, **parts))
    for name, (_, test) in states.items():
        await lab.until(ApplicationInstance, name, test, timeout=60)
    await lab.patch(HELM_RELEASE, "suspended", {"spec": {"suspend": True}})
    await lab.until(ApplicationInstance, "suspended", says("Suspended", "True", "ManuallySuspended"))
    return len(states)


async def resync_passes(daemon: Operator) -> float:
    """Return the number of reconciles that a resync requested, from the daemon's metrics."""
    _, text = await daemon.answers("/metrics", part="metrics")
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "konverge_reconcile_reasons_total" and sample.labels["reason"] == "resync"
    )


def writes(plane: ControlPlane, lab: Lab) -> list[Audited]:
    """Return the daemon's write requests so far, Events included."""
    return [one for one in audited(plane, agent="konverge", namespace=lab.namespace) if one.call.method != "GET"]


async def settled(plane: ControlPlane, lab: Lab) -> int:
    """Wait until the daemon has not written for a second; returns the number of its writes before."""
    seen, now = -1, len(writes(plane, lab))
    for _ in range(30):
        if now == seen:
            return seen
        await asyncio.sleep(1.0)
        seen, now = now, len(writes(plane, lab))
    raise AssertionError("it never comes to rest: " + "; ".join(str(one.call) for one in writes(plane, lab)[-10:]))


@pytest.mark.timeout(180)
async def test_ten_resyncs_of_everything_send_no_write(fragile: ControlPlane, fragile_lab: Lab, tmp_path: Path) -> None:
    lab = fragile_lab
    await install_crds(lab.client, [crd(ApplicationInstance), crd(Operation), *flux_crds()])
    rules = [rule.to_dict() for rule in apps.rules()]
    await asyncio.to_thread(grant, fragile.blocking.api, lab.namespace, "konverge", rules, ())
    kubeconfig = await fragile.service_account_kubeconfig(lab.namespace, "konverge")
    served = (
        "--metrics",
        "127.0.0.1:0",
        "--health",
        "127.0.0.1:0",
        "--debug",
        "127.0.0.1:0",
        "--set",
        "reconcile.resync=0.5",
    )
    daemon = Operator(("--kubeconfig", str(kubeconfig), "--namespace", lab.namespace, *served), tmp_path / "log")
    world = World(refused={"6.6.6": "spec.ports[0].port: Invalid value"})
    async with daemon.running_for(), HelmController(lab.config, namespace=lab.namespace, world=world):
        await daemon.ready()
        number = await one_of_each(lab)
        at_rest = await settled(fragile, lab)
        assert at_rest > number
        wanted = await resync_passes(daemon) + RESYNCS * number
        async with asyncio.timeout(60):
            while await resync_passes(daemon) < wanted:
                await asyncio.sleep(0.1)
        assert await daemon.stop() == 0
    assert [str(one.call) for one in writes(fragile, lab)[at_rest:]] == []
