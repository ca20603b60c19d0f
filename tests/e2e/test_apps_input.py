"""Rights, webhooks and objects of an older CRD on a real API server; tests/scenarios/apps has bad input in memory."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from apps.older import RAW, READY, SETTINGS, said, spec, without_rules

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Invalid
from konverge.reconcilers.apps import Settings, install, rules
from konverge.reconcilers.apps.kinds import HELM_RELEASE, SECRET
from konverge.runtime import ManagerSettings
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.clients import ClientFor
from konverge_testing.flux import HelmController, flux_crds

pytestmark = pytest.mark.control_plane


@pytest_asyncio.fixture
async def older(lab: Lab) -> AsyncIterator[Lab]:
    """A lab whose cluster has an older CRD, the family, and Flux below it."""
    await install_crds(lab.client, [*flux_crds(), without_rules(crd(ApplicationInstance)), crd(Operation)])
    try:
        await lab.start(lambda manager: install(manager, SETTINGS), name="konverge", crds=False)
        async with HelmController(lab.config, namespace=lab.namespace):
            yield lab
    finally:
        await install_crds(lab.client, [crd(ApplicationInstance)])


async def test_spec_admitted_by_an_older_crd_is_reported_fixable_and_deletable(older: Lab) -> None:
    long = "a" * 64
    bare = {"appRef": {"catalogId": "shop"}, "mode": "managed"}
    await older.create(RAW.new(long, spec=spec(older.namespace)))
    await older.create(RAW.new("bare", spec=bare))
    blocked = await older.until(RAW, long, said("Blocked", "True", "ValidationFailed"))
    assert (
        "metadata.name has 64 characters; Flux writes it into labels, which take 63"
        in blocked.condition("Ready").message
    )
    assert await older.find(HELM_RELEASE, long) is None
    await older.until(RAW, "bare", said("Blocked", "True", "ValidationFailed"))
    await install_crds(older.client, [crd(ApplicationInstance)])
    with pytest.raises(Invalid, match="has at most 63 characters, because Flux writes it into labels"):
        await older.create(RAW.new("b" * 64, spec=spec(older.namespace)))
    await older.patch(RAW, "bare", {"spec": {"mode": "placeholder"}})
    await older.until(RAW, "bare", said("Ready", "True", "Placeholder"))
    await older.patch(RAW, long, {"spec": {"chart": {"version": "1.1.0"}}})
    await older.until(RAW, long, said("Blocked", "True", "ValidationFailed"))
    await older.delete(RAW, long)
    await older.until_gone(RAW, long)


async def test_the_api_server_asks_the_webhook_about_what_its_schema_cannot_see(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    settings = Settings(check_at_admission=True, service_account="tenant")
    await lab.start(lambda manager: install(manager, settings), name="konverge")
    inline = {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}
    with pytest.raises(Invalid, match=r"spec\.values\.inline\.env\[0\]\.value look like secrets") as refused:
        await lab.create(RAW.new("shop", spec=spec(lab.namespace, values={"source": "inline", "inline": inline})))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(Invalid, match=r"spec\.serviceAccountName root is not allowed; choose tenant"):
        await lab.create(RAW.new("shop", spec=spec(lab.namespace, serviceAccountName="root")))
    await lab.create(RAW.new("shop", spec=spec(lab.namespace)))
    release = await lab.until(HELM_RELEASE, "shop", lambda _: True)
    assert release.spec["serviceAccountName"] == "tenant"


async def test_exactly_the_declared_rights_suffice(
    lab: Lab, control_plane: ControlPlane, client_for: ClientFor
) -> None:
    await install_crds(lab.client, [*flux_crds(), crd(ApplicationInstance), crd(Operation)])
    account = await client_for("operator", rules=[rule.to_dict() for rule in rules()])
    async with HelmController(lab.config, namespace=lab.namespace):
        await lab.start(
            lambda manager: install(manager, SETTINGS),
            name="konverge",
            crds=False,
            config=account.config,
            settings=ManagerSettings(namespace=lab.namespace, strict=True),
        )
        values = {"source": "secretRef", "secretRef": {"name": "vals", "key": "values.yaml"}}
        await lab.create(SECRET.new("vals", stringData={"values.yaml": "replicas: 1"}))
        await lab.create(RAW.new("shop", spec=spec(lab.namespace, values=values)))
        await lab.until(RAW, "shop", READY)
        await lab.patch(SECRET, "vals", {"stringData": {"values.yaml": "replicas: 2"}})
        await lab.settled()
        await lab.patch(HELM_RELEASE, "shop", {"spec": {"suspend": True}})
        await lab.until(RAW, "shop", said("Suspended", "True", "ManuallySuspended"))
        await lab.delete(RAW, "shop")
        await lab.until_gone(RAW, "shop")
