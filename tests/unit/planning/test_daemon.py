"""The plan of the daemon with all families."""

from typing import Any

from hosted import NAMES, daemon_settings

import konverge as kv
from konverge.crds import crd_manifests
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.daemon.families import discover
from konverge.daemon.plan import filling
from konverge.daemon.settings import Settings
from konverge.planning import plan, text_of
from konverge_testing import Lab, install_crds
from konverge_testing.flux import flux_crds

HELM_RELEASE = kv.kind("helm.toolkit.fluxcd.io/v2", "HelmRelease")


def settings() -> Settings:
    return daemon_settings(controllers=NAMES)


async def test_the_daemon_plans_the_objects_of_its_families(lab: Lab) -> None:
    models = [model for hosted in discover() for model in hosted.family.models()]
    await install_crds(lab.client, [*crd_manifests(models), *flux_crds()])
    spec: dict[str, Any] = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    report = await plan("konverge", lab.server.config(), filling(None, settings()))
    assert ("create", "HelmRelease") in {(change.action, change.kind) for change in report.changes}, text_of(report)
    assert await lab.find(HELM_RELEASE, "shop") is None
    assert {entry.controller for entry in report.failed if not entry.key} <= {
        "nstancecluster",
        "nstancemachine",
        "nstancemachinepool",
        "nstanceshardgroup",
        "ondemandpod",
    }, text_of(report)
