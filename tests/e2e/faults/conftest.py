"""Faults on a real control plane: one more plane, which tests here may break, and a lab on it."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from patience import PATIENCE

from konverge.client import Client, ClientConfig
from konverge_testing import ControlPlane, ControlPlaneConfig, FaultProxy, Lab

ADMINISTRATORS = "cluster-admin"


@pytest.fixture(scope="session")
def fragile() -> Iterator[ControlPlane]:
    """A control plane whose API server may be stopped and started; it writes an audit log, and has no controllers."""
    with ControlPlane(ControlPlaneConfig(audit=True)) as plane:
        yield plane


@pytest.fixture(scope="session")
def fragile_token(fragile: ControlPlane) -> str:
    """A token on the fragile plane with all permissions, for requests through a proxy, which have no client certificate."""
    token = fragile.blocking.service_account_token("default", "operator")
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    fragile.blocking.api.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "operator"},
            "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ADMINISTRATORS},
        },
    )
    return token


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest_asyncio.fixture
async def fragile_lab(fragile: ControlPlane, _numbers: Iterator[int]) -> AsyncIterator[Lab]:
    """A lab in a fresh namespace of the fragile plane."""
    namespace = f"fragile-{next(_numbers)}"
    await fragile.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(fragile.kubeconfig)
    async with Client(config, name="lab-user") as client, Lab(client, config, namespace, patience=PATIENCE) as lab:
        yield lab


@pytest_asyncio.fixture
async def proxy(fragile: ControlPlane) -> AsyncIterator[FaultProxy]:
    """A proxy in front of the fragile plane."""
    async with FaultProxy(fragile.url, fragile.ca_file) as running:
        yield running


@pytest.fixture
def behind_proxy(proxy: FaultProxy, fragile_token: str) -> ClientConfig:
    """The configuration of a client that connects through the proxy."""
    return ClientConfig.direct(proxy.url, token=fragile_token)
