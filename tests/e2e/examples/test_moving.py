"""The four programs of docs/guide/side-by-side.md do the same for their users, on a real control plane, and konverge takes over from each."""

from collections.abc import Callable
from pathlib import Path

import leave_kubebuilder
import pytest
from built_programs import built_or_skipped
from example_programs import program
from leave_kopf import FINALIZER, leave_kopf
from page_operator import CONFIG_MAP, Page, PageSpec

import konverge as kv
from konverge.crds import crd
from konverge_testing import ControlPlane, Lab, install_crds

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(300, func_only=True)]  # a build has its own limit

LEASE = kv.kind("coordination.k8s.io/v1", "Lease")
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


@pytest.fixture(scope="module")
def kubebuilder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator in Go under the file name of kubebuilder's projects, which becomes its field manager."""
    link = tmp_path_factory.mktemp("kubebuilder") / leave_kubebuilder.OLD
    link.symlink_to(built_or_skipped("page-kubebuilder", request.config) / "program")
    return link


@pytest.fixture(scope="module")
def kube_rs(request: pytest.FixtureRequest) -> Path:
    """The operator in Rust."""
    return built_or_skipped("page-kube-rs", request.config) / "program"


def shows(text: str) -> Callable[[kv.Object], bool]:
    return lambda map_: map_.get("data") == {"index.html": text}


async def publish_and_change(lab: Lab, name: str) -> None:
    """Publish a page and change it; each program has to leave this child, this finalizer and this status."""
    await lab.create(Page.new(name, spec=PageSpec(text="hello")))
    await lab.until(CONFIG_MAP, name, shows("hello"))
    await lab.until(Page, name, lambda page: page.status.characters == 5)
    await lab.patch(Page, name, {"spec": {"text": "hello, world"}})
    await lab.until(CONFIG_MAP, name, shows("hello, world"))
    page = await lab.until(Page, name, lambda page: page.status.characters == 12)
    [owner] = (await lab.get(CONFIG_MAP, name)).metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Page", page.uid, True)
    assert page.metadata.finalizers


async def work_of_the_old_operator(lab: Lab) -> None:
    await publish_and_change(lab, "old")
    await publish_and_change(lab, "withdrawn")
    await lab.delete(Page, "withdrawn")
    await lab.until_gone(Page, "withdrawn")


async def repair_and_withdraw(lab: Lab) -> None:
    await lab.delete(CONFIG_MAP, "old")
    await lab.until(CONFIG_MAP, "old", shows("hello, world"))
    for name in ("old", "new"):
        await lab.delete(Page, name)
        await lab.until_gone(Page, name)


async def field_managers(lab: Lab, name: str) -> set[tuple[str, str]]:
    entries = (await lab.get(CONFIG_MAP, name)).get("metadata", "managedFields", default=())
    return {(entry["manager"], entry["operation"]) for entry in entries}


async def test_pages_move_from_kopf_to_konverge(cluster: Lab) -> None:
    kopf = ("-m", "kopf", "run", "page_kopf.py", "--namespace", cluster.namespace, "--standalone")
    async with program(*kopf):
        await work_of_the_old_operator(cluster)
    assert FINALIZER in (await cluster.get(Page, "old")).metadata.finalizers
    async with program("page_operator.py"):
        await publish_and_change(cluster, "new")
        await cluster.until(Page, "old", kv.is_true("Ready"))
        assert await leave_kopf(cluster.client, cluster.namespace) == 1
        await repair_and_withdraw(cluster)


async def test_pages_move_from_kube_rs_to_konverge(
    cluster: Lab, kube_rs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCH_NAMESPACE", cluster.namespace)
    async with program(executable=str(kube_rs)):
        await work_of_the_old_operator(cluster)
        await cluster.delete(CONFIG_MAP, "old")
        await cluster.until(CONFIG_MAP, "old", shows("hello, world"))
        before = await cluster.until(Page, "old", kv.is_true("Ready"))
    assert await field_managers(cluster, "old") == {("pages", "Apply")}
    async with program("page_operator.py"):  # the name of the field manager is the same, so nothing has to move
        await publish_and_change(cluster, "new")
        after = await cluster.until(Page, "old", kv.is_true("Ready"))
        assert after.metadata.finalizers == before.metadata.finalizers == ("example.com/search",)
        assert await field_managers(cluster, "old") == {("pages", "Apply")}
        await repair_and_withdraw(cluster)


async def test_pages_move_from_kubebuilder_to_konverge(
    cluster: Lab, kubebuilder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCH_NAMESPACE", cluster.namespace)
    monkeypatch.setenv("KONVERGE_ELECTION__ENABLED", "true")
    monkeypatch.setenv("KONVERGE_ELECTION__NAMESPACE", cluster.namespace)
    async with program(executable=str(kubebuilder)):
        await work_of_the_old_operator(cluster)
        await cluster.delete(CONFIG_MAP, "old")
        await cluster.until(CONFIG_MAP, "old", shows("hello, world"))
    before = await cluster.get(Page, "old")
    assert await field_managers(cluster, "old") == {("manager", "Update")}
    # A status, a ConfigMap, and that of the withdrawn page until a garbage collector has run: only some tests of this plane start it.
    assert await leave_kubebuilder.leave_kubebuilder(cluster.client, cluster.namespace) in (2, 3)
    assert await field_managers(cluster, "old") == {("pages", "Apply")}
    async with program("page_operator.py"):
        await publish_and_change(cluster, "new")
        assert (await cluster.get(LEASE, "pages")).spec["leaseTransitions"] == 1  # the same Lease has another holder
        after = await cluster.until(Page, "old", kv.is_true("Ready"))
        assert after.metadata.finalizers == before.metadata.finalizers == ("example.com/search",)
        assert await field_managers(cluster, "old") == {("pages", "Apply")}
        await repair_and_withdraw(cluster)
