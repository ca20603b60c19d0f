"""The life of an ApplicationInstance with the stand-in for Flux, its sources and its values."""

from datetime import timedelta

import pytest
from apps.lab import EVENT, OCI_CHART, READY, REFUSED, SECRET_VALUES, Apps, handled, rolled_out_since, says

from konverge.conditions import is_true
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers.apps import Settings
from konverge.reconcilers.apps.kinds import CONFIG_MAP, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

# --- the life of an instance -----------------------------------------------------------------------------------------------------


async def test_an_upgrade_is_not_ready_before_it_is_deployed(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.change(chart={"version": "1.1.0"})
    instance = await apps.until(READY)
    assert apps.world.installed[f"{apps.lab.namespace}/shop"] == "1.1.0"
    assert instance.status.last_applied_chart is not None
    assert instance.status.last_applied_chart.version == "1.1.0"


async def test_a_failed_upgrade_degrades_and_a_good_version_recovers(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.change(chart={"version": "1.2.0"})
    failed = await apps.until(says("Degraded", "True", "HelmReleaseFailed"), says("Stalled", "True", "RetriesExceeded"))
    assert failed.condition("Ready").reason == "HelmReleaseFailed"
    told = failed.condition("Degraded").message
    assert 'Service "shop-bad" is invalid; spec.ports[0].port: Invalid value' in told
    assert "99999999" in REFUSED["1.2.0"]
    assert "99999999" not in told
    await apps.change(chart={"version": "1.3.0"})
    healed = await apps.until(READY, says("Degraded", "False", "Recovered"))
    assert healed.find_condition("Stalled") is None


async def test_a_suspended_release_is_uninstalled_all_the_same(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.edit_release({"suspend": True})
    await apps.until(says("Suspended", "True", "ManuallySuspended"), READY)
    await apps.lab.delete(ApplicationInstance, "shop")
    await apps.lab.until_gone(ApplicationInstance, "shop")
    assert apps.world.installed == {}


async def test_an_uninstall_that_hangs_is_reported_and_the_finalizer_is_held(apps: Apps) -> None:
    await apps.start(Settings(uninstall_patience=timedelta(seconds=2)))
    await apps.create()
    await apps.until(READY)
    apps.world.stuck[f"{apps.lab.namespace}/shop"] = "ConfigMap/team/shop-cm termination timeout"
    await apps.lab.delete(ApplicationInstance, "shop")
    stuck = await apps.lab.until(ApplicationInstance, "shop", is_true("Stalled"))
    assert stuck.condition("Stalled").reason == "UninstallTimeout"
    assert "termination timeout" in stuck.condition("Degraded").message
    assert stuck.metadata.finalizers == ("apps.vworkspace.io/finalizer",)
    apps.world.stuck.clear()
    await apps.lab.until_gone(ApplicationInstance, "shop")


async def test_a_placeholder_is_ready_without_helm(apps: Apps) -> None:
    await apps.start(flux=False)
    await apps.create(mode="placeholder", chart=None, release=None, values=None)
    await apps.until(says("Ready", "True", "Placeholder"))
    assert await apps.lab.find(HELM_RELEASE, "shop") is None
    await apps.lab.delete(ApplicationInstance, "shop")
    await apps.lab.until_gone(ApplicationInstance, "shop")


async def test_changing_from_helm_to_oci_leaves_no_repository_behind(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.change(chart={**OCI_CHART, "version": "1.1.0"})
    await apps.until(READY)
    await apps.lab.until_gone(HELM_REPOSITORY, "shop")
    assert (await apps.lab.get(OCI_REPOSITORY, "shop")).spec["url"] == "oci://registry.example.com/charts/shop"
    release = await apps.release()
    assert release.spec["chartRef"] == {"kind": "OCIRepository", "name": "shop"}
    assert "chart" not in release.spec


# --- sources ---------------------------------------------------------------------------------------------------------------------


async def test_an_oci_upgrade_is_ready_only_with_the_new_version(apps: Apps) -> None:
    await apps.start()
    await apps.create(chart=OCI_CHART)
    await apps.until(READY)
    generation = (await apps.release()).metadata.generation
    await apps.change(chart={"version": "1.1.0"})
    await apps.until(READY)
    release = await apps.release()
    assert release.metadata.generation == generation
    assert release.get("status", "history", 0, "chartVersion").startswith("1.1.0+")


async def test_missing_tag_is_unreachable_although_the_release_is_ready(apps: Apps) -> None:
    apps.world.versions = {"1.0.0"}
    await apps.start()
    await apps.create(chart=OCI_CHART)
    await apps.until(READY)
    await apps.change(chart={"version": "7.7.7"})
    found = await apps.until(says("Ready", "False", "ChartUnreachable"), says("Degraded", "True", "ChartUnreachable"))
    assert "MANIFEST_UNKNOWN" in found.condition("Ready").message
    assert (await apps.release()).condition("Ready").status == "True"
    apps.world.versions.add("7.7.7")
    await apps.until(READY, says("Degraded", "False", "Recovered"))


@pytest.mark.parametrize("what", ["an unreachable repository", "a version that does not exist"])
async def test_a_chart_that_cannot_be_had_is_unreachable_and_recovers(apps: Apps, what: str) -> None:
    if what == "an unreachable repository":
        apps.world.unreachable.add("https://charts.example.com")
    else:
        apps.world.versions = set()
    await apps.start()
    await apps.create()
    await apps.until(says("Ready", "False", "ChartUnreachable"), says("Degraded", "True", "ChartUnreachable"))
    apps.world.unreachable.clear()
    apps.world.versions = None
    if what == "a version that does not exist":
        await apps.change(chart={"version": "1.1.0"})
    await apps.until(READY, says("Degraded", "False", "Recovered"))


# --- values ----------------------------------------------------------------------------------------------------------------------


async def test_a_flux_reconcile_by_hand_makes_no_conflict_and_starts_no_fight(apps: Apps) -> None:
    await apps.start()
    await apps.secret("replicas: 1")
    await apps.create(values=SECRET_VALUES)
    await apps.until(READY)
    before = (await apps.release()).get("status", "history", 0, "configDigest")
    await apps.secret("replicas: 2")
    await apps.lab.until(HELM_RELEASE, "shop", rolled_out_since(before))
    await apps.lab.settled()
    await apps.lab.patch(
        HELM_RELEASE, "shop", {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "by hand"}}}
    )
    await apps.lab.until(HELM_RELEASE, "shop", handled("by hand"))
    await apps.lab.settled()
    instance = await apps.until(READY, says("Degraded", "False"))
    release = await apps.release()
    assert release.metadata.annotation("reconcile.fluxcd.io/requestedAt") == "by hand"
    assert instance.condition("Degraded").reason == "Recovered"


async def test_a_missing_secret_is_waited_for(apps: Apps) -> None:
    await apps.start()
    await apps.create(values=SECRET_VALUES)
    waiting = await apps.until(says("Ready", "False", "WaitingForSecret"))
    assert "create it with the key values.yaml" in waiting.condition("Ready").message
    await apps.secret("replicas: 1", "other.yaml")
    waiting = await apps.until(lambda found: "has no key values.yaml" in found.condition("Ready").message)
    assert waiting.condition("Ready").reason == "WaitingForSecret"
    await apps.secret("replicas: 1")
    await apps.until(READY)


async def test_values_that_do_not_parse_are_reported_without_quoting_them(apps: Apps) -> None:
    await apps.start()
    await apps.secret("password: *hunter2")
    await apps.create(values=SECRET_VALUES)
    found = await apps.until(says("Ready", "False", "ValuesError"), says("Degraded", "True", "HelmReleaseFailed"))
    assert "Secret" in found.condition("Ready").message
    assert "hunter2" in str((await apps.release()).status)
    assert "hunter2" not in str(found.to_dict())
    events = await apps.lab.client.list(EVENT, apps.lab.namespace)
    assert not [event for event in events if "hunter2" in str(event.data)]


async def test_values_from_a_config_map_are_rolled_out(apps: Apps) -> None:
    await apps.start()
    await apps.lab.create(CONFIG_MAP.new("vals", data={"values.yaml": "replicas: 1"}))
    await apps.create(values={"source": "configMapRef", "configMapRef": {"name": "vals", "key": "values.yaml"}})
    await apps.until(READY)
    before = (await apps.release()).get("status", "history", 0, "configDigest")
    await apps.lab.patch(CONFIG_MAP, "vals", {"data": {"values.yaml": "replicas: 2"}})
    await apps.lab.until(HELM_RELEASE, "shop", rolled_out_since(before))
    await apps.until(READY)
