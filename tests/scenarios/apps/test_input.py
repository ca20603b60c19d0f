"""Bad input and missing kinds: a condition names the remedy, no crash, no effect on the neighbours."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from apps.older import RAW, READY, SETTINGS, said, spec, without_rules

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.reconcilers.apps import Settings, install
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY
from konverge_testing import Lab, install_crds
from konverge_testing.flux import HelmController, flux_crds


@pytest_asyncio.fixture
async def older(lab: Lab) -> AsyncIterator[Lab]:
    """A lab whose cluster has an older CRD, the family, and Flux below it."""
    await install_crds(lab.client, [*flux_crds(), without_rules(crd(ApplicationInstance)), crd(Operation)])
    await lab.start(lambda manager: install(manager, SETTINGS), name="konverge", crds=False)
    async with HelmController(lab.config, namespace=lab.namespace):
        yield lab


def nested(levels: int) -> dict[str, Any]:
    """Return nested maps with so many levels."""
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"a": found}
    return found


BAD: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "a range as version",
        {"chart": {"sourceType": "helm", "url": "https://c.example.com", "name": "shop", "version": "^1"}},
        ".spec.chart.version",
    ),
    ("no chart", {"chart": None}, "spec.chart is missing"),
    (
        "a forbidden namespace",
        {"release": {"name": "shop", "namespace": "kube-system"}},
        "it must be the instance's own namespace",
    ),
    (
        "secrets inline",
        {"values": {"source": "inline", "inline": {"db": {"password": "hunter2"}}}},
        "spec.values.inline.db.password",
    ),
    (
        "two sources of values",
        {"values": {"source": "inline", "inline": {}, "secretRef": {"name": "a", "key": "b"}}},
        "spec.values.secretRef",
    ),
    ("an unknown mode", {"mode": "both"}, ".spec.mode"),
    ("values of 101 levels", {"values": {"source": "inline", "inline": nested(101)}}, "more than 100 levels"),
    ("values of 190 levels", {"values": {"source": "inline", "inline": nested(190)}}, "more than 100 levels"),
    (
        "an OCI registry as Helm repository",
        {"chart": {"sourceType": "helm", "url": "oci://c.example.com", "name": "shop", "version": "1.0.0"}},
        "sourceType oci",
    ),
)


@pytest.mark.parametrize(("what", "parts", "says"), BAD, ids=[case[0] for case in BAD])
async def test_bad_input_is_reported_and_the_neighbour_is_fine(
    older: Lab, what: str, parts: dict[str, Any], says: str
) -> None:
    await older.create(RAW.new("bad", spec=spec(older.namespace, **parts)))
    await older.create(RAW.new("good", spec=spec(older.namespace)))
    await older.until(RAW, "good", READY)
    bad = await older.until(RAW, "bad", said("Blocked", "True", "ValidationFailed"))
    assert bad.condition("Ready").reason == "ValidationFailed"
    assert says in bad.condition("Blocked").message
    assert "hunter2" not in str(bad.status)
    assert await older.find(HELM_RELEASE, "bad") is None
    await older.delete(RAW, "bad")
    await older.until_gone(RAW, "bad")


async def test_an_invalid_change_leaves_the_running_release_alone(older: Lab) -> None:
    await older.create(RAW.new("shop", spec=spec(older.namespace)))
    await older.until(RAW, "shop", READY)
    await older.settled()  # Flux writes its observedGeneration after Ready
    before = await older.get(HELM_RELEASE, "shop")
    await older.patch(RAW, "shop", {"spec": {"chart": {"version": "latest"}}})
    await older.until(RAW, "shop", said("Blocked", "True", "ValidationFailed"))
    await older.settled()
    after = await older.get(HELM_RELEASE, "shop")
    assert after.metadata.resource_version == before.metadata.resource_version
    await older.patch(RAW, "shop", {"spec": {"chart": {"version": "1.1.0"}}})
    await older.until(RAW, "shop", READY)


async def test_a_release_is_not_renamed_even_under_an_older_crd(older: Lab) -> None:
    await older.create(RAW.new("shop", spec=spec(older.namespace)))
    await older.until(RAW, "shop", READY)
    await older.patch(RAW, "shop", {"spec": {"release": {"name": "renamed"}}})
    refused = await older.until(RAW, "shop", said("Blocked", "True", "ValidationFailed"))
    assert "spec.release.name cannot change" in refused.condition("Blocked").message
    assert (await older.get(HELM_RELEASE, "shop")).spec["releaseName"] == "shop"


async def test_an_instance_with_a_release_does_not_become_a_placeholder(older: Lab) -> None:
    await older.create(RAW.new("shop", spec=spec(older.namespace)))
    await older.until(RAW, "shop", READY)
    nothing = {"mode": "placeholder", "chart": None, "release": None, "values": None}
    await older.patch(RAW, "shop", {"spec": nothing})
    await older.until(RAW, "shop", said("Blocked", "True", "ValidationFailed"))
    assert await older.find(HELM_RELEASE, "shop") is not None


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [], "observedGeneration": 99},
        {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "Unknown",
                    "reason": "Mangled",
                    "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }
            ]
        },
        {"lastAppliedChart": None, "helmReleaseRef": None},
    ],
    ids=["no conditions", "another Ready", "no chart"],
)
async def test_a_mangled_status_of_the_instance_is_written_anew(older: Lab, status: dict[str, Any]) -> None:
    await older.create(RAW.new("shop", spec=spec(older.namespace)))
    await older.until(RAW, "shop", READY)
    await older.settled()
    await older.patch(RAW, "shop", {"status": status}, subresource="status")
    await older.until(
        RAW, "shop", lambda found: READY(found) and found.get("status", "lastAppliedChart", "version") == "1.0.0"
    )


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": None},
        {"history": "nothing"},
        {"lastAttemptedGeneration": "soon", "history": [7]},
        {"observedGeneration": 12345},
    ],
    ids=str,
)
async def test_a_mangled_status_of_the_release_does_not_crash_the_reconcile(older: Lab, status: dict[str, Any]) -> None:
    await older.create(RAW.new("shop", spec=spec(older.namespace)))
    await older.until(RAW, "shop", READY)
    await older.settled()
    await older.patch(HELM_RELEASE, "shop", {"status": status}, subresource="status")
    await older.settled()
    report = older.manager.report().of("applicationinstance")
    assert report.ready
    assert report.last_error == ""
    found = await older.get(RAW, "shop")
    assert found.condition("Ready").status in ("True", "False")


async def test_policies_deny_and_say_what_is_allowed(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    settings = Settings(url_allow_list=("https://charts.example.com",))
    await lab.start(lambda manager: install(manager, settings), name="konverge")
    chart = {"sourceType": "helm", "url": "https://elsewhere.example.com", "name": "shop", "version": "1.0.0"}
    await lab.create(RAW.new("shop", spec=spec(lab.namespace, chart=chart)))
    denied = await lab.until(RAW, "shop", said("Blocked", "True", "PolicyDenied"))
    assert "https://charts.example.com" in denied.condition("Blocked").message
    assert await lab.find(HELM_REPOSITORY, "shop") is None


async def test_the_managed_by_gate_ignores_other_instances(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    await lab.start(lambda manager: install(manager, Settings(require_managed_by=True)), name="konverge")
    labels = {"app.vworkspace.io/managed-by": "control-plane"}
    await lab.create(RAW.new("other", spec=spec(lab.namespace)))
    await lab.create(RAW.new("ours", labels=labels, spec=spec(lab.namespace)))
    await lab.until(HELM_RELEASE, "ours", lambda _: True)
    await lab.settled()
    other = await lab.get(RAW, "other")
    assert (other.metadata.finalizers, other.status.get("conditions")) == ((), None)


async def test_the_namespace_gate_opens_with_its_label(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    await lab.start(lambda manager: install(manager, Settings(require_namespace_label=True)), name="konverge")
    await lab.create(RAW.new("shop", spec=spec(lab.namespace)))
    await lab.until(RAW, "shop", said("Blocked", "True", "PolicyDenied"))
    namespaces = kind("v1", "Namespace", namespaced=False, plural="namespaces")
    patch = {"metadata": {"labels": {"managed-by": "vworkspace"}}}
    await lab.client.patch(namespaces, lab.namespace, patch=patch, style="merge")
    await lab.until(RAW, "shop", said("Blocked", "False", "Unblocked"))


async def test_without_fluxs_crds_instances_are_blocked_until_they_appear(lab: Lab) -> None:
    await lab.start(lambda manager: install(manager, SETTINGS), name="konverge")
    await lab.create(RAW.new("shop", spec=spec(lab.namespace)))
    placeholder = {"mode": "placeholder", "appRef": {"catalogId": "cluster"}}
    await lab.create(RAW.new("placeholder", spec=placeholder))
    blocked = await lab.until(RAW, "shop", said("Blocked", "True", "MissingDependencies"))
    assert blocked.condition("Ready").reason == "MissingDependencies"
    assert "install Flux" in blocked.condition("Blocked").message
    await lab.until(RAW, "placeholder", said("Ready", "True", "Placeholder"))
    assert lab.manager.report().of("applicationinstance").ready
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace):
        await lab.until(RAW, "shop", READY)
        await lab.delete(RAW, "shop")
        await lab.until_gone(RAW, "shop")


async def test_an_instance_can_be_deleted_where_flux_never_was(lab: Lab) -> None:
    await lab.start(lambda manager: install(manager, SETTINGS), name="konverge")
    await lab.create(RAW.new("shop", spec=spec(lab.namespace)))
    await lab.until(RAW, "shop", said("Blocked", "True", "MissingDependencies"))
    await lab.delete(RAW, "shop")
    await lab.until_gone(RAW, "shop")
