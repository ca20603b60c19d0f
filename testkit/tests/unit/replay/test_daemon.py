"""A recording of the daemon is replayed with its own families."""

from pathlib import Path
from typing import Any

from hosted import daemon_settings

import konverge as kv
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.daemon.plan import filling
from konverge.reconcilers.apps.family import FAMILY
from konverge.recording import read_recording, record
from konverge_testing import Lab, install_crds
from konverge_testing.flux import flux_crds
from konverge_testing.replay import compare, replay, text_of


async def test_reconciles_of_a_family_are_repeated(lab: Lab, tmp_path: Path) -> None:
    settings = daemon_settings(controllers=("applicationinstance",))

    def build(manager: kv.Manager) -> None:
        record(manager, str(tmp_path / "tape"))
        FAMILY.install(manager, FAMILY.settings())

    await install_crds(lab.client, flux_crds())
    await lab.start(build, name="konverge", settings=kv.ManagerSettings(strict=True), rbac=False)
    spec: dict[str, Any] = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    await lab.settled()
    await lab.stop()
    recording = read_recording(tmp_path / "tape")
    assert len(recording.reconciles) > 2
    for entry in recording.reconciles:
        report = compare(recording, entry, await replay(recording, entry, filling(None, settings)))
        assert not report, text_of(report)
