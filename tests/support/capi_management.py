"""A management cluster: a control plane on which `clusterctl init` installed Cluster API and our provider, with core and operator as
processes.

The operator runs with the account, arguments and environment of the components that clusterctl installed.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from capi_core_runner import CORE_RELEASE, core_components, core_running
from clusterctl_runner import Clusterctl, container_of
from go_programs import CAPI_CORE, CLUSTERCTL, go_program
from nstance_server import NstanceProcess
from operators import Operator
from patience import PATIENCE

from konverge.client import Client, ClientConfig
from konverge.reconcilers.machines.kinds import CONFIG_MAP, SECRET
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab, install_crds
from konverge_testing.config import CONTROLLERS
from konverge_testing.failures import BinariesMissing

NAMESPACE = "nstance-system"
_NAMES = {"NSTANCE_CLUSTER_ID": "acme", "NSTANCE_TENANT": "blue"}
_QUICK = {"POLL": "2", "RETIRE_AFTER": "2", "INSTANCE_START_POLL": "0.3", "DRAIN_POLL": "0.5"}


@dataclass(frozen=True)
class Management:
    """The processes of a management cluster, and its clusterctl."""

    plane: ControlPlane
    clusterctl: Clusterctl
    operator: Operator
    core_log: Path

    def story(self) -> str:
        """Return the ends of the logs."""
        return f"the core:\n{self.core_log.read_text()[-6000:]}\nthe operator:\n{self.operator.story()}"


@asynccontextmanager
async def management_cluster(folder: Path, **settings: str) -> AsyncIterator[tuple[Lab, Management]]:
    """Run a control plane, initialize it, and run the core; skips the test if the programs are missing. The operator is not started.

    The lab is of the namespace of the provider; `settings` are further variables of the family, without their prefix.
    """
    try:
        core, program = (go_program(name, os.environ, tell=None) for name in (CAPI_CORE, CLUSTERCTL))
    except BinariesMissing:
        pytest.skip("no Cluster API in the cache: python tools/go_programs.py cluster-api")
    folder.mkdir()
    names = (
        *CONTROLLERS,
        "clusterrole-aggregation-controller",
    )  # the core has the rights that providers give it by a label
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(
            ControlPlane(ControlPlaneConfig(controllers=True, controller_names=names))
        )
        config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
        client = await stack.enter_async_context(Client(config, name="test"))
        lab = await stack.enter_async_context(Lab(client, config, NAMESPACE, patience=PATIENCE))
        await install_crds(lab.client, [_definition("issuers", "Issuer"), _definition("certificates", "Certificate")])
        clusterctl = Clusterctl(program, folder)
        clusterctl.add_core(*await core_components(core, plane), CORE_RELEASE)
        await clusterctl.init(plane.admin_kubeconfig, CORE_RELEASE, **_NAMES)
        operator = await _operator(plane, container_of(await clusterctl.generate(**_NAMES)), folder, settings)
        log = await stack.enter_async_context(core_running(core, plane, folder / "core"))
        made = Management(plane, clusterctl, operator, log)
        try:
            yield lab, made
        finally:
            print(made.story())


async def _operator(plane: ControlPlane, container: dict[str, Any], folder: Path, settings: dict[str, str]) -> Operator:
    """Return the operator as the container runs it, with the files of its account."""
    mount = folder / "serviceaccount"
    await plane.service_account_files(mount, namespace=NAMESPACE, name="nstance")
    environment = {
        **plane.environment,
        **{one["name"]: one.get("value", NAMESPACE if "valueFrom" in one else "") for one in container["env"]},
        **{f"KONVERGE_MACHINES__{name}": value for name, value in {**_QUICK, **settings}.items()},
        "KONVERGE_SERVICE_ACCOUNT": str(mount),
        "KONVERGE_METRICS": "127.0.0.1:0",
        "KONVERGE_HEALTH": "127.0.0.1:0",
        "KONVERGE_DEBUG": "127.0.0.1:0",
    }
    return Operator(container["args"][1:], folder / "operator.log", environment=environment)


async def introduce(lab: Lab, servers: NstanceProcess, *, nonce: bool = True) -> None:
    """Create what an administrator gives the operator."""
    document = {"cluster_id": "acme", "tenant": "blue", "shards": servers.facts["addresses"]}
    await lab.create(CONFIG_MAP.new("nstance-cluster-ca", data={"ca.crt": servers.facts["ca"]}))
    await lab.create(CONFIG_MAP.new("nstance-shards", data={"config.yaml": json.dumps(document)}))
    if nonce:
        text = base64.b64encode(servers.facts["nonce"].encode()).decode()
        await lab.create(SECRET.new("nstance-operator-nonce", data={"nonce.jwt": text}))


def _definition(plural: str, name: str) -> dict[str, object]:
    """Return a kind of cert-manager: clusterctl installs it from the network if it is missing. Nothing acts on its objects here."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io",
            "names": {"plural": plural, "kind": name},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
