"""The two programs of docs/guide/moving-from-kopf.md do the same for their users, on a real control plane."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from example_programs import program
from leave_kopf import FINALIZER, leave_kopf
from page_operator import CONFIG_MAP, Page, PageSpec

import konverge as kv
from konverge.crds import crd
from konverge_testing import ControlPlane, Lab, install_crds

pytestmark = pytest.mark.control_plane

ADDRESSES = {"KONVERGE_METRICS": "0", "KONVERGE_HEALTH": "127.0.0.1:0", "KONVERGE_DEBUG": "127.0.0.1:0"}


@pytest.fixture
async def cluster(lab: Lab, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The environment of the programs: $KUBECONFIG, the CRD, the namespace."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("KONVERGE_NAMESPACE", lab.namespace)
    for name, address in ADDRESSES.items():
        monkeypatch.setenv(name, address)
    await install_crds(lab.client, [crd(Page)])
    return lab


def shows(text: str) -> Callable[[kv.Object], bool]:
    return lambda map_: map_.get("data") == {"index.html": text}


async def publish_and_change(lab: Lab, name: str) -> None:
    await lab.create(Page.new(name, spec=PageSpec(text="hello")))
    await lab.until(CONFIG_MAP, name, shows("hello"))
    await lab.until(Page, name, lambda page: page.status.characters == 5)
    await lab.patch(Page, name, {"spec": {"text": "hello, world"}})
    await lab.until(CONFIG_MAP, name, shows("hello, world"))
    await lab.until(Page, name, lambda page: page.status.characters == 12)


async def test_pages_move_from_kopf_to_konverge(cluster: Lab) -> None:
    kopf = ("-m", "kopf", "run", "page_kopf.py", "--namespace", cluster.namespace, "--standalone")
    async with program(*kopf):
        await publish_and_change(cluster, "old")
        await publish_and_change(cluster, "withdrawn")
        await cluster.delete(Page, "withdrawn")
        await cluster.until_gone(Page, "withdrawn")
    assert FINALIZER in (await cluster.get(Page, "old")).metadata.finalizers
    async with program("page_operator.py"):
        await publish_and_change(cluster, "new")
        await cluster.until(Page, "old", kv.is_true("Ready"))
        assert await leave_kopf(cluster.client, cluster.namespace) == 1
        await cluster.delete(CONFIG_MAP, "old")
        await cluster.until(CONFIG_MAP, "old", shows("hello, world"))
        for name in ("old", "new"):
            await cluster.delete(Page, name)
            await cluster.until_gone(Page, name)
