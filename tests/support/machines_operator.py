"""The family of machines as an operator of its own: `konverge run tests/support/machines_operator.py:build`; the namespace is in the environment."""

import os

import konverge as kv
from konverge.reconcilers import machines
from konverge.reconcilers.machines.settings import MachineSettings


def settings(namespace: str) -> MachineSettings:
    """Return settings whose waits suit a test on the wall clock."""
    return MachineSettings(
        namespace=namespace,
        cluster_id="acme",
        tenant="blue",
        control_plane_stub=False,
        workload_account="",
        call_timeout=5.0,
        poll=2.0,
        retry=1.0,
        unreachable_retry=0.5,
        instance_start_poll=0.3,
        instance_poll=1.0,
        retire_after=2.0,
        drain_poll=0.5,
    )


def build(manager: kv.Manager) -> None:
    machines.install(manager, settings(os.environ["MACHINES_NAMESPACE"]))
