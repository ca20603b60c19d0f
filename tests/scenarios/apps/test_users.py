"""ApplicationInstance and its users: edits by hand, suspension, foreign objects; no write at rest, one Event per transition."""

from apps.lab import EVENT, OCI_CHART, READY, SECRET_VALUES, Apps, says

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers.apps.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

# --- people --------------------------------------------------------------------------------------------------------------------


async def test_a_release_that_is_deleted_by_hand_comes_back(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    uid = (await apps.release()).metadata.uid
    await apps.lab.delete(HELM_RELEASE, "shop")
    await apps.lab.until(HELM_RELEASE, "shop", lambda release: release.metadata.uid != uid)
    await apps.until(READY)


async def test_a_field_of_ours_that_was_edited_is_held_and_shown(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.edit_release({"interval": "1m"})
    held = await apps.until(says("Degraded", "True", "Drifted"))
    assert ".spec.interval (owned by lab-user)" in held.condition("Degraded").message
    assert "HelmRelease shop" in held.condition("Degraded").message
    await apps.lab.settled()
    release = await apps.release()
    assert release.spec["interval"] == "1m"
    await apps.until(READY, says("Degraded", "True", "Drifted"))
    await apps.edit_release({"interval": "5m"})
    await apps.until(READY, says("Degraded", "False", "Recovered"))


async def test_while_a_field_is_held_a_new_version_is_not_called_ready(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.edit_release({"interval": "1m"})
    await apps.until(says("Degraded", "True", "Drifted"))
    await apps.change(chart={"version": "1.1.0"})
    await apps.until(says("Ready", "False", "Upgrading"), says("Degraded", "True", "Drifted"))
    assert (await apps.release()).spec["chart"]["spec"]["version"] == "1.0.0"
    await apps.edit_release({"interval": "5m"})
    await apps.until(READY)
    assert (await apps.release()).spec["chart"]["spec"]["version"] == "1.1.0"


async def test_a_field_that_is_not_ours_is_left_alone(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.edit_release({"maxHistory": 3, "values": {"theirs": True}})
    await apps.until(READY)
    await apps.change(chart={"version": "1.1.0"})
    await apps.until(READY, says("Degraded", "False"))
    release = await apps.release()
    assert release.spec["maxHistory"] == 3
    assert release.spec["values"] == {"replicas": 1, "theirs": True}


async def test_a_change_made_while_suspended_waits_for_the_resume(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.edit_release({"suspend": True})
    await apps.until(says("Suspended", "True"), READY)
    await apps.change(chart={"version": "1.1.0"})
    await apps.until(says("Suspended", "True"), says("Ready", "Unknown", "Reconciling"))
    await apps.lab.settled()
    await apps.edit_release({"suspend": False})
    await apps.until(READY, says("Suspended", "False", "Active"))
    assert apps.world.installed[f"{apps.lab.namespace}/shop"] == "1.1.0"


async def test_a_foreign_release_of_that_name_is_refused_until_it_is_adopted(apps: Apps) -> None:
    await apps.start()
    chart = {"spec": {"chart": "other", "sourceRef": {"kind": "HelmRepository", "name": "other"}}}
    await apps.lab.create(HELM_RELEASE.new("shop", spec={"interval": "9m", "chart": chart}))
    await apps.create()
    refused = await apps.until(says("Blocked", "True", "PolicyDenied"), says("Ready", "False", "PolicyDenied"))
    assert "HelmRelease shop exists" in refused.condition("Blocked").message
    assert (await apps.release()).spec["interval"] == "9m"
    await apps.lab.delete(ApplicationInstance, "shop")
    await apps.lab.until_gone(ApplicationInstance, "shop")
    assert (await apps.release()).spec["interval"] == "9m"


# --- at rest ---------------------------------------------------------------------------------------------------------------------


async def test_at_rest_ten_resyncs_write_nothing(apps: Apps) -> None:
    await apps.start()
    await apps.secret("replicas: 1")
    await apps.create("plain")
    await apps.create("secret", values=SECRET_VALUES, release={"name": "secret"})
    await apps.create("oci", chart=OCI_CHART, release={"name": "oci"})
    await apps.create("placeholder", mode="placeholder", chart=None, release=None, values=None)
    await apps.create("broken", chart={"version": "1.2.0"}, release={"name": "broken"})
    for name in ("plain", "secret", "oci"):
        await apps.until(READY, name=name)
    await apps.until(says("Stalled", "True"), name="broken")
    await apps.lab.settled(quiet=1.5)
    before = await _versions(apps)
    runner = apps.lab.manager.runner("applicationinstance")
    earlier = {record.reconcile_id for record in runner.history.recent()}
    for _ in range(10):
        runner.resync_now()
        await apps.lab.settled(quiet=0.1)
    assert await _versions(apps) == before
    since = [record for record in runner.history.recent() if record.reconcile_id not in earlier]
    assert since
    assert [record.writes for record in since if record.writes] == []


async def _versions(apps: Apps) -> dict[str, str]:
    kinds = (ApplicationInstance, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, HELM_CHART, EVENT)
    return {
        f"{type(found).__name__} {getattr(found, 'kind_name', '')} {found.name}": found.metadata.resource_version
        for what in kinds
        for found in await apps.lab.client.list(what, apps.lab.namespace)
    }


async def test_each_transition_is_one_event(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.change(chart={"version": "1.2.0"})
    await apps.until(says("Stalled", "True"))
    await apps.change(chart={"version": "1.3.0"})
    await apps.until(READY)
    await apps.lab.settled(quiet=1.0)
    events = await apps.lab.client.list(EVENT, apps.lab.namespace, fields="regarding.kind=ApplicationInstance")
    degraded = [event for event in events if event.data["action"] == "Degraded"]
    assert sorted((event.data["reason"], event.data["type"]) for event in degraded) == [
        ("HelmReleaseFailed", "Warning"),
        ("Recovered", "Normal"),
    ]
