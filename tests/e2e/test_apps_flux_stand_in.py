"""The stand-in for Flux on a real API server, and the CRDs that it brings."""

from typing import Any

import pytest

from konverge.errors import Invalid
from konverge.kinds import Kind
from konverge.objects import Object
from konverge_testing import Lab, install_crds
from konverge_testing.flux import KINDS, HelmController, World, flux_crds

pytestmark = pytest.mark.control_plane

RELEASE, REPOSITORY, OCI = KINDS["HelmRelease"], KINDS["HelmRepository"], KINDS["OCIRepository"]
SOURCE = {"kind": "HelmRepository", "name": "shop"}


def release(version: str = "1.0.0", **more: Any) -> Object:
    chart = {"chart": {"spec": {"chart": "shop", "version": version, "sourceRef": SOURCE}}}
    return RELEASE.new("shop", spec={"interval": "5m", **chart, **more})


def says(type_: str, reason: str) -> Any:
    def test(found: Object) -> bool:
        condition = found.find_condition(type_)
        settled = found.get("status", "observedGeneration") == found.metadata.generation
        return condition is not None and condition.reason == reason and settled

    return test


def ready(reason: str) -> Any:
    return says("Ready", reason)


async def test_a_release_is_installed_upgraded_and_uninstalled(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace) as flux:
        await lab.create(REPOSITORY.new("shop", spec={"url": "https://charts.example.com", "interval": "5m"}))
        await lab.create(release())
        await lab.until(RELEASE, "shop", ready("InstallSucceeded"))
        assert flux.world.installed == {f"{lab.namespace}/shop": "1.0.0"}
        await lab.patch(RELEASE, "shop", {"spec": {"chart": {"spec": {"version": "1.1.0"}}}})
        await lab.until(RELEASE, "shop", ready("UpgradeSucceeded"))
        await lab.delete(RELEASE, "shop")
        await lab.until_gone(RELEASE, "shop")
        await lab.until_gone(KINDS["HelmChart"], f"{lab.namespace}-shop")
        assert flux.world.installed == {}


async def test_it_writes_status_as_helm_controller_through_the_subresource(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace, world=World(refused={"1.0.0": "no"})):
        await lab.create(REPOSITORY.new("shop", spec={"url": "https://charts.example.com", "interval": "5m"}))
        await lab.create(release())
        # As in helm-controller the failure is written first, then counted, and the exhausted retries are reported last.
        failed = await lab.until(RELEASE, "shop", says("Stalled", "RetriesExceeded"))
    writers = {(entry["manager"], entry.get("subresource", "")) for entry in failed.data["metadata"]["managedFields"]}
    assert ("helm-controller", "status") in writers
    assert failed.condition("Ready").reason == "InstallFailed"


REFUSED: tuple[tuple[str, Kind[Object], dict[str, Any], str], ...] = (
    (
        "chart and chartRef",
        RELEASE,
        {"chart": {"spec": {"chart": "s", "sourceRef": SOURCE}}, "chartRef": {"kind": "OCIRepository", "name": "s"}},
        "either chart or chartRef",
    ),
    ("neither", RELEASE, {}, "either chart or chartRef"),
    (
        "an OCIRepository as sourceRef",
        RELEASE,
        {"chart": {"spec": {"chart": "s", "sourceRef": {"kind": "OCIRepository", "name": "s"}}}},
        "OCIRepository",
    ),
    ("a HelmRepository as chartRef", RELEASE, {"chartRef": {"kind": "HelmRepository", "name": "s"}}, "HelmRepository"),
    ("days", RELEASE, {"interval": "30d", "chartRef": {"kind": "OCIRepository", "name": "s"}}, "interval"),
    ("an OCI URL without its scheme", OCI, {"url": "registry.example.com/charts/shop"}, "url"),
    (
        "a long release name",
        RELEASE,
        {"releaseName": "a" * 54, "chartRef": {"kind": "OCIRepository", "name": "s"}},
        "releaseName",
    ),
)


@pytest.mark.parametrize(("what", "kind", "spec", "says"), REFUSED, ids=[case[0] for case in REFUSED])
async def test_the_crds_refuse_what_upstreams_refuse(
    lab: Lab, what: str, kind: Kind[Object], spec: dict[str, Any], says: str
) -> None:
    await install_crds(lab.client, flux_crds())
    with pytest.raises(Invalid, match=says):
        await lab.create(kind.new("shop", spec={"interval": "5m", **spec}))


async def test_a_new_object_says_that_no_controller_has_seen_it(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    made = await lab.create(release())
    assert made.get("status", "observedGeneration") == -1
