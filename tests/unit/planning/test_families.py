"""Which controllers of our own families a plan tries."""

from hosted import NAMES, daemon_settings

from konverge.daemon.programs import fill
from konverge.runtime import Manager

OUTSIDE = {
    "cluster": "the control plane",
    "nstancecluster": "the Nstance servers",
    "nstancemachine": "the Nstance servers",
    "nstancemachinepool": "the Nstance servers",
    "nstanceshardgroup": "the Nstance servers",
    "ondemandpod": "the Nstance servers",
    "workspaceclaim": "the provider of workspaces",
}


async def test_controllers_with_effects_outside_kubernetes_declare_them() -> None:
    manager = Manager("test")
    await fill(manager, None, daemon_settings(controllers=NAMES))
    untried = {spec.name: spec.outside for spec in manager.controllers if spec.outside and spec.stand_in is None}
    assert untried == OUTSIDE
    stood_in = {spec.name: spec.outside for spec in manager.controllers if spec.stand_in is not None}
    assert stood_in == {"nextcloudinstance": "the S3 servers"}
