"""The conditions of an ApplicationInstance are true with another URL of the source, a stopped Flux, and users who suspend and edit."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from apps.lab import QUICK, says

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers import apps
from konverge.reconcilers.apps.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY
from konverge.reconcilers.apps.words import Annotation
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.faults.rules import Delay, Match, Refuse, Rule
from konverge_testing.flux import HelmController, World, flux_crds

HELM = {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"}
OCI = {**HELM, "sourceType": "oci", "url": "oci://charts.example.com"}
STUCK_SOON = QUICK.model_copy(update={"stuck_after": timedelta(seconds=5)})
READY = says("Ready", "True", "HelmReleaseReady")
WARNED = says("Ready", "True", "HelmReleaseReadyWithWarnings")
FEW = 16
"""Plans of each scenario in quick mode: the lives are long. `make lab` runs all plans."""
Test = Callable[[ApplicationInstance], bool]


def applied(url: str) -> Test:
    return lambda found: found.status.last_applied_chart is not None and found.status.last_applied_chart.url == url


def lies(found: ApplicationInstance) -> str:
    """Invariants of every version of the status."""
    if says("Stalled", "True")(found) and says("Reconciling", "True")(found):
        return "Stalled and Reconciling are both True"
    chart, last = found.spec.chart, found.status.last_applied_chart
    current = found.status.observed_generation == found.generation
    if (
        current
        and READY(found)
        and (last is None or chart is None or (last.url, last.version) != (chart.url, chart.version))
    ):
        return f"Ready=True for {chart}, and {last} was applied last"
    return ""


class Shop:
    """One instance in a lab, with Flux below it that can be frozen."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.world = lab, World()

    async def adopt(self, theirs: dict[str, Any], *tests: Test) -> ApplicationInstance:
        """An instance that adopts an existing release."""
        await install_crds(self.lab.client, flux_crds())
        await self.lab.create(HELM_RELEASE.new("shop", spec=theirs))
        await self.start(HELM, annotations={"apps.vworkspace.io/adopt": "true"}, until=tests)
        return await self.until(*tests)

    async def start(
        self, chart: dict[str, Any], *, annotations: dict[str, str] | None = None, until: tuple[Test, ...] = (READY,)
    ) -> None:
        self.lab.may_differ(
            None, forget_history, why="what Flux reports of the past of a release depends on the faults"
        )
        await install_crds(self.lab.client, flux_crds())
        await self.thaw()
        await self.lab.start(lambda manager: apps.install(manager, STUCK_SOON))
        spec = {
            "appRef": {"catalogId": "shop"},
            "chart": chart,
            "release": {"name": "shop", "namespace": self.lab.namespace},
            "values": {"source": "inline", "inline": {"replicas": 1}},
        }
        metadata = {"name": "shop", "annotations": annotations or {}}
        await self.lab.create(ApplicationInstance.decode({"metadata": metadata, "spec": spec}))
        await self.until(*until)

    async def thaw(self) -> None:
        """Flux runs, until it is frozen or the lab ends."""
        self._flux = AsyncExitStack()
        await self._flux.enter_async_context(
            HelmController(self.lab.config, world=self.world, namespace=self.lab.namespace, random=self.lab.rng())
        )
        await self.lab.enter(self._flux)

    @contextmanager
    def dead(self, url: str) -> Iterator[None]:
        """Inside the context the URL is unreachable; afterwards it is reachable, so that Flux becomes idle."""
        self.world.unreachable.add(url)
        try:
            yield
        finally:
            self.world.unreachable.discard(url)

    async def freeze(self) -> None:
        await self._flux.aclose()

    async def change(self, **chart: Any) -> None:
        await self.lab.patch(ApplicationInstance, "shop", {"spec": {"chart": chart}})

    async def release(self, **spec: Any) -> None:
        """Another client edits the HelmRelease."""
        await self.lab.patch(HELM_RELEASE, "shop", {"spec": spec})

    async def annotate(self, **requests: str) -> None:
        """Another client requests a reconcile, as `flux reconcile` does."""
        annotations = {f"reconcile.fluxcd.io/{name}": text for name, text in requests.items()}
        await self.lab.patch(HELM_RELEASE, "shop", {"metadata": {"annotations": annotations}})

    async def until(self, *tests: Test) -> ApplicationInstance:
        def all_hold(found: ApplicationInstance) -> bool:
            assert not lies(found), lies(found)
            return found.status.observed_generation == found.generation and all(test(found) for test in tests)

        return await self.lab.until(ApplicationInstance, "shop", all_hold)


def forget_history(data: dict[str, Any]) -> None:
    """Remove what differs from run to run below us: Flux's history of a release, and annotations with uids, times and generations.

    A recreated instance has generation 1.
    """
    if data["kind"] == "HelmRelease":
        for name in ("applied-source", "applied-chart-digest", "last-applied-generation"):
            (data["metadata"].get("annotations") or {}).pop(f"vworkspace.io/{name}", None)
        (data["metadata"].get("annotations") or {}).pop("reconcile.fluxcd.io/requestedAt", None)
    if data["kind"] in ("HelmRelease", "HelmChart", "HelmRepository", "OCIRepository") and "status" in data:
        standing = [{"type": one["type"], "status": one["status"]} for one in data["status"].get("conditions", ())]
        data["status"] = {"conditions": standing}


@pytest.mark.scenario(quick=FEW)
async def test_new_helm_repository_url_is_reported_only_after_flux_fetched_from_it(lab: Lab) -> None:
    lab.skip_plans(
        "applicationinstances*: recreate by hand *",
        why="an instance that is made anew beside the steps has an older URL, and no chart that was applied before",
    )
    shop, url = Shop(lab), HELM["url"]
    await shop.start(HELM)
    with shop.dead("https://dead.example.com"):
        await shop.change(url="https://dead.example.com")
        dead = await shop.until(says("Ready", "False", "ChartUnreachable"))
        assert applied(url)(dead)
    await shop.change(url="https://other.example.com")
    await shop.until(WARNED, applied(url))
    await shop.change(version="1.1.0")
    await shop.until(READY, applied("https://other.example.com"))
    shop.world.mirrors["https://mirror.example.com"] = "https://other.example.com"
    await shop.change(url="https://mirror.example.com")
    await shop.until(READY, applied("https://mirror.example.com"))


def ready_message(text: str) -> Test:
    return lambda found: text in next((entry.message for entry in found.conditions if entry.type == "Ready"), "")


@pytest.mark.lab_on("memory")
async def test_former_content_under_a_new_url_is_ready_with_a_warning(lab: Lab) -> None:
    shop, url = Shop(lab), "https://other.example.com"
    await shop.start(HELM)
    await shop.change(url=url)
    await shop.until(WARNED, ready_message(f"what runs is from {HELM['url']}"), applied(HELM["url"]))
    chart = f"{lab.namespace}-shop"
    await lab.delete(HELM_CHART, chart)
    await shop.annotate(requestedAt="1")
    await shop.until(WARNED, ready_message("has not deployed it"), applied(HELM["url"]))
    await shop.annotate(requestedAt="2", forceAt="2")
    await shop.until(READY, applied(url))


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize(
    ("chart", "change"),
    [
        (HELM, {"url": "https://other.example.com", "version": "1.1.0"}),
        (HELM, {"sourceType": "oci", "url": "oci://other.example.com"}),
        (OCI, {"url": "oci://other.example.com"}),
        (OCI, {"url": "https://other.example.com", "sourceType": "helm"}),
    ],
    ids=["helm, with a version", "helm to oci", "oci", "oci to helm"],
)
async def test_new_content_of_a_new_url_is_ready_without_a_warning(
    lab: Lab, chart: dict[str, Any], change: dict[str, Any]
) -> None:
    shop = Shop(lab)
    await shop.start(chart)
    await shop.change(**change)
    await shop.until(READY, applied(change["url"]))


@pytest.mark.lab_on("memory")
async def test_a_url_that_is_changed_back_is_ready_without_a_warning(lab: Lab) -> None:
    shop = Shop(lab)
    await shop.start(HELM)
    await shop.change(url="https://other.example.com")
    await shop.until(WARNED)
    await shop.change(url=HELM["url"])
    await shop.until(READY, applied(HELM["url"]))


@pytest.mark.lab_on("memory")
async def test_recreated_helm_repository_does_not_get_its_predecessors_status(lab: Lab) -> None:
    shop = Shop(lab)
    await install_crds(lab.client, flux_crds())
    await lab.enter(HelmController(lab.config, world=shop.world, namespace=lab.namespace, random=lab.rng()))
    await lab.create(HELM_REPOSITORY.new("shop", spec={"url": HELM["url"]}))
    await lab.until(HELM_REPOSITORY, "shop", lambda one: bool(one.get("status", "artifact")))
    resource = "helmrepositories.source.toolkit.fluxcd.io"
    lab.server.faults.add(Rule(Match(verbs=("update",), resources=(resource,)), Delay(5), count=1))
    with shop.dead("https://dead.example.com"):
        await lab.patch(HELM_REPOSITORY, "shop", {"spec": {"url": "https://dead.example.com"}})
        await asyncio.sleep(1)  # its write is on the way
        await lab.patch(HELM_REPOSITORY, "shop", {"metadata": {"finalizers": None}})
        await lab.delete(HELM_REPOSITORY, "shop")
        await lab.create(HELM_REPOSITORY.new("shop", spec={"url": "https://dead.example.com"}))
        new = await lab.until(HELM_REPOSITORY, "shop", lambda one: bool(one.conditions), timeout=60)
        assert new.get("status", "artifact") is None


@pytest.mark.lab_on("memory")
async def test_the_record_of_a_rollout_is_written_again_after_a_conflict(lab: Lab) -> None:
    shop = Shop(lab)
    await shop.start(HELM)
    patches = Match(verbs=("patch",), resources=("helmreleases.helm.toolkit.fluxcd.io",), user_agent="lab *")
    refusal = Rule(patches, Refuse(409), count=1)
    lab.server.faults.add(refusal)
    shop.world.mirrors["https://mirror.example.com"] = HELM["url"]  # the same chart: no event of the release follows
    await shop.change(url="https://mirror.example.com")
    changed = await shop.until(READY, applied("https://mirror.example.com"))
    assert [hit.about.apply for hit in refusal.hits] == [False]
    generation = str(changed.generation)
    await lab.until(
        HELM_RELEASE, "shop", lambda one: one.metadata.annotation(Annotation.APPLIED_GENERATION) == generation
    )


async def test_new_registry_is_reported_only_after_flux_deployed_from_it(lab: Lab) -> None:
    shop, url = Shop(lab), OCI["url"]
    await shop.start(OCI)
    with shop.dead("oci://dead.example.com"):
        await shop.change(url="oci://dead.example.com")
        dead = await shop.until(says("Ready", "False", "ChartUnreachable"))
        assert applied(url)(dead)
    shop.world.mirrors["oci://mirror.example.com/shop"] = "oci://charts.example.com/shop"
    await shop.change(url="oci://mirror.example.com")
    await shop.until(READY, applied("oci://mirror.example.com"))
    history = (await lab.get(HELM_RELEASE, "shop")).get("status", "history")
    assert len(history) == 1, "the same content is not installed again"
    await shop.change(url="oci://other.example.com")
    await shop.until(READY, applied("oci://other.example.com"))
    release = await lab.get(HELM_RELEASE, "shop")
    assert release.get("status", "history", 0, "ociDigest") != history[0]["ociDigest"]


@pytest.mark.scenario(foreign=False, quick=FEW)
async def test_upgrade_that_flux_ignores_is_stalled_until_flux_is_back(lab: Lab) -> None:
    shop = Shop(lab)
    await shop.start(HELM)
    await shop.freeze()
    await shop.change(version="1.1.0")
    await shop.until(says("Ready", "False", "Upgrading"), says("Stalled", "True", "ProgressDeadlineExceeded"))
    await shop.thaw()
    await shop.until(READY, lambda found: found.find_condition("Stalled") is None)


@pytest.mark.scenario(foreign=False, quick=FEW)
async def test_ready_follows_the_running_release_while_users_suspend_and_edit_it(lab: Lab) -> None:
    shop = Shop(lab)
    await shop.start(HELM)
    await shop.release(suspend=True)
    await shop.until(READY, says("Suspended", "True"))
    await shop.change(version="1.1.0")
    await shop.until(says("Ready", "Unknown", "Reconciling"), says("Suspended", "True"))
    await shop.change(version="1.0.0")
    await shop.until(READY, says("Suspended", "True"))
    await shop.release(suspend=False)
    await shop.until(READY, says("Suspended", "False"))
    await shop.release(interval="1m")
    await shop.until(READY, says("Degraded", "True", "Drifted"))
    await shop.change(version="1.1.0")
    held = await shop.until(says("Ready", "False", "Upgrading"), says("Reconciling", "False"))
    assert "version 1.1.0 is held" in held.condition("Ready").message
    assert "rolled out" not in held.condition("Ready").message
    await shop.release(interval="5m")
    await shop.until(READY, says("Degraded", "False"))


CHART = {"spec": {"chart": "shop", "version": "0.9.0", "sourceRef": {"kind": "HelmRepository", "name": "theirs"}}}


@pytest.mark.parametrize(
    ("theirs", "advice"),
    [
        ({"releaseName": "old"}, "give the instance spec.release.name old"),
        ({"targetNamespace": "other", "releaseName": "shop"}, "create the instance in the namespace other"),
        ({"chart": {"spec": {**CHART["spec"], "chart": "store"}}}, "give the instance spec.chart.name store"),
        ({"chart": None, "chartRef": {"kind": "OCIRepository", "name": "shop"}}, "remove spec.chartRef from it first"),
    ],
    ids=["another release name", "another namespace", "another chart", "another kind of source"],
)
async def test_a_release_that_flux_would_uninstall_is_not_adopted(
    lab: Lab, theirs: dict[str, Any], advice: str
) -> None:
    spec = {key: value for key, value in {"interval": "9m", "chart": CHART, **theirs}.items() if value is not None}
    refused = await Shop(lab).adopt(spec, says("Blocked", "True", "PolicyDenied"))
    assert advice in refused.condition("Blocked").message
    release = await lab.get(HELM_RELEASE, "shop")
    assert (release.spec["interval"], release.metadata.controller) == ("9m", None)


async def test_adopt_takes_over_a_release_whose_values_differ_and_holds_later_edits(lab: Lab) -> None:
    shop = Shop(lab)
    spec = {"interval": "9m", "chart": CHART, "values": {"replicas": 7, "theirs": True}}
    await shop.adopt(spec, READY)
    release = await lab.get(HELM_RELEASE, "shop")
    assert release.spec["values"] == {"replicas": 1, "theirs": True}
    assert release.spec["chart"]["spec"]["version"] == "1.0.0"
    assert release.metadata.controller is not None
    await shop.release(values={"replicas": 7})
    held = await shop.until(says("Degraded", "True", "Drifted"))
    assert ".spec.values.replicas (owned by lab-user)" in held.condition("Degraded").message


LEFT_OVER = {
    "helmReleaseRef": {"name": "shop", "namespace": "lab"},
    "lastAppliedChart": {"sourceType": "helm", "url": HELM["url"], "name": "shop", "version": "0.9.0"},
    "conditions": [
        {
            "type": type_,
            "status": "True",
            "reason": "LeftOver",
            "message": "by another operator",
            "lastTransitionTime": "2029-01-01T00:00:00Z",
        }
        for type_ in ("Degraded", "Suspended", "Stalled", "Theirs")
    ],
}


@pytest.mark.parametrize("when", ["before it is first seen", "while it rests"])
async def test_helm_status_that_another_manager_left_on_a_placeholder_is_cleared(lab: Lab, when: str) -> None:
    spec = {"mode": "placeholder", "appRef": {"catalogId": "shop"}}
    await install_crds(lab.client, [*flux_crds(), crd(ApplicationInstance)])
    placeholder = says("Ready", "True", "Placeholder")
    if when == "while it rests":
        await lab.start(lambda manager: apps.install(manager, STUCK_SOON))
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    if when == "while it rests":
        before = await lab.until(ApplicationInstance, "shop", placeholder)
        theirs = [*before.to_dict()["status"]["conditions"], *LEFT_OVER["conditions"]]
        await lab.patch(
            ApplicationInstance, "shop", {"status": {**LEFT_OVER, "conditions": theirs}}, subresource="status"
        )
    else:
        await lab.patch(ApplicationInstance, "shop", {"status": LEFT_OVER}, subresource="status")
        await lab.start(lambda manager: apps.install(manager, STUCK_SOON))

    def cleared(found: ApplicationInstance) -> bool:
        types = {condition.type for condition in found.conditions}
        status = found.status
        return placeholder(found) and not (types & {"Degraded", "Suspended", "Stalled"} or status.helm_release_ref)

    found = await lab.until(ApplicationInstance, "shop", cleared)
    assert found.status.last_applied_chart is None
    assert found.find_condition("Theirs") is not None, "a type that is not ours stays its writer's"
    await lab.settled()
    version = (await lab.get(ApplicationInstance, "shop")).metadata.resource_version
    lab.manager.runner("applicationinstance").resync_now()
    await lab.settled()
    assert (await lab.get(ApplicationInstance, "shop")).metadata.resource_version == version
