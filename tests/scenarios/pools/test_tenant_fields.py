"""A tenant that writes a Nextcloud reaches neither the rights of Flux nor Secrets and credentials of others."""

import asyncio
from typing import Any

import pytest
from pools.family import Family
from pools.lab import Clouds
from pools.materials import CLAIM, NAME, Materials
from structlog.testing import capture_logs

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge.objects import Object
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import INSTANCE, SECRET, VOLUME_CLAIM
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolsLabel
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge_testing import Lab

FREE = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, "tier": "small"}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "everything"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
}
TAKEOVER: dict[str, Any] = {"helm": {"version": "9.2.4", "values": {"extraManifests": [BINDING]}}}
PLAIN: dict[str, Any] = {"database": None, "redis": None, "s3": None, "persistence": None}
MODES: dict[str, dict[str, Any]] = {
    "pool": {"tier": "small"},
    "reference": {"tier": None, "instanceRef": {"name": "one"}},
    "profile": {"tier": None, "profile": "base"},
    "bare": {"tier": None},
}


@pytest.mark.parametrize("mode", MODES)
async def test_refused_field_takes_and_creates_no_instance(clouds: Clouds, mode: str) -> None:
    here = await clouds.start()
    await here.profile(version="33.0.1")
    await here.member("one", FREE)
    await here.claim(**MODES[mode], **TAKEOVER)
    refused = await here.says("main", "False", "FieldsRefused")

    assert "only the administrators set this" in refused.condition("InstanceAssigned").message
    [instance] = await here.instances()
    assert "claimRef" not in instance.spec
    await here.patch(Nextcloud, "main", {"spec": {"helm": None}})
    await here.says("main", "True", "")


async def test_refused_claim_does_not_hold_up_a_younger_one(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.member("one", FREE)
    await here.claim("refused", **TAKEOVER)
    await here.says("refused", "False", "FieldsRefused")
    await here.claim("younger")
    await here.says("younger", "True", "Assigned")


@pytest.mark.parametrize("mode", MODES)
async def test_refused_edit_leaves_the_instance_as_it_was(clouds: Clouds, mode: str) -> None:
    here = await clouds.start()
    await here.profile(version="33.0.1")
    await here.member("one", FREE)
    await here.claim(**MODES[mode], replicas=2)
    served = await here.assigned()
    assert served.status.instance_ref is not None
    name = served.status.instance_ref.name
    await here.lab.settled()
    before = (await here.lab.get(INSTANCE, name)).spec
    await here.patch(Nextcloud, "main", {"spec": {**TAKEOVER, "replicas": 3}})

    def refused(found: Nextcloud) -> bool:
        ready = found.find_condition("Ready")
        return ready is not None and ready.reason == "FieldsRefused"

    shown = await here.lab.until(Nextcloud, "main", refused)
    assert "keeps its former spec: helm.version and helm.values" in shown.condition("Ready").message
    assert shown.condition("InstanceAssigned").is_true
    await here.lab.settled()
    assert (await here.lab.get(INSTANCE, name)).spec == before
    await here.patch(Nextcloud, "main", {"spec": {"helm": None}})
    await here.lab.until(NextcloudInstance, name, lambda one: one.spec.replicas == 3)
    await here.lab.until(Nextcloud, "main", lambda one: one.condition("Ready").is_true)


@pytest.mark.parametrize("place", ["template", "profile", "settings"])
async def test_chart_of_a_tenant_is_opened_by_the_administrators(clouds: Clouds, place: str) -> None:
    opened: dict[str, Any] = {"tenantHelm": True, "serviceAccountName": "installer"}
    materials = MaterialSettings(service_account="installer", tenant_helm=True) if place == "settings" else None
    here = await clouds.start(settings=PoolSettings(instances=materials or MaterialSettings()))
    await here.profile(**(opened if place == "profile" else {}))
    await here.pool(
        replicas=1, profileRef={"name": "base"}, template=opened if place == "template" else {"replicas": 1}
    )
    await here.filled()
    await here.claim(helm={"values": {"a": 1}})
    served = await here.assigned()
    assert served.status.instance_ref is not None
    await here.lab.until(NextcloudInstance, served.status.instance_ref.name, lambda one: one.spec.helm is not None)


async def test_profile_that_a_tenant_names_does_not_open_the_chart(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(tenantHelm=True, serviceAccountName="installer")
    await here.claim(tier=None, profile="base", **TAKEOVER)
    await here.says("main", "False", "FieldsRefused")
    await here.patch(Nextcloud, "main", {"spec": {"helm": None}})
    await here.says("main", "True", "Created")
    [instance] = await here.instances()
    assert (instance.spec.get("tenantHelm"), instance.spec["serviceAccountName"]) == (None, "installer")


async def test_pool_is_as_closed_as_its_own_template(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool("open", replicas=1, template={"tenantHelm": True, "serviceAccountName": "installer"})
    await here.pool("closed", replicas=1)
    await here.filled("open")
    await here.filled("closed")
    await here.claim("refused", tier="closed", **TAKEOVER)
    await here.claim("allowed", tier="open", **TAKEOVER)
    await here.says("refused", "False", "FieldsRefused")
    await here.says("allowed", "True", "Assigned")


async def release(here: Materials) -> Object:
    return await here.lab.client.get(HELM_RELEASE, NAME, here.lab.namespace)


@pytest.mark.parametrize(
    ("settings", "spec", "account"),
    [
        ({}, {}, None),
        ({"service_account": "installer"}, {}, "installer"),
        ({"service_account": "installer", "allowed_service_accounts": ("own",)}, {"serviceAccountName": "own"}, "own"),
    ],
)
async def test_release_acts_with_the_service_account(
    lab: Lab, settings: dict[str, Any], spec: dict[str, Any], account: str | None
) -> None:
    here = Materials(lab)
    here.settings = MaterialSettings(**settings)
    with capture_logs() as logs:
        await here.start()
        await here.create(**{**PLAIN, **spec})
        await here.phase("Ready")
    assert (await release(here)).spec.get("serviceAccountName") == account
    warned = [entry for entry in logs if "installed with the rights of Flux" in entry["event"]]
    assert len(warned) == (0 if settings else 1)


async def test_service_account_that_is_not_allowed_applies_no_release(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.create(**{**PLAIN, "serviceAccountName": "admin"})
    instance = await here.reason("ReleaseReady", "ServiceAccountNotAllowed")
    assert "pools.instances.allowed_service_accounts" in instance.condition("ReleaseReady").message
    assert f"HelmRelease/{NAME}" not in await here.left()


TENANT = CLAIM["namespace"]
ENDPOINT = "https://s3.attacker.example.com"
GREEDY: dict[str, Any] = {
    **PLAIN,
    "s3": {"enabled": True, "endpoint": ENDPOINT, "credentialsSecret": "victims-keys"},
    "tenantFields": ["s3.endpoint", "s3.credentialsSecret"],
}
VICTIM = {"AWS_ACCESS_KEY_ID": "victim", "AWS_SECRET_ACCESS_KEY": "hunter2"}


@pytest.mark.parametrize("tenant", ["", "tenant-victim"])
async def test_secret_of_another_tenant_is_never_used(lab: Lab, tenant: str) -> None:
    here = await Materials(lab).start()
    await here.secret("victims-keys", VICTIM, tenant=tenant)
    await here.create(claimed=True, **GREEDY)
    instance = await here.reason("SecretsReady", "SecretNotGranted")
    message = instance.condition("SecretsReady").message
    assert f"with the label k8s.bnerd.com/tenant={TENANT}" in message
    assert "victim" not in message.replace("victims-keys", "")
    await here.released()
    await here.deleted()
    assert here.s3.accounts == set()
    assert not await lab.client.list(HELM_RELEASE, lab.namespace)


async def test_missing_secret_and_secret_of_another_tenant_have_the_same_message(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.create(claimed=True, **GREEDY)
    missing = (await here.reason("SecretsReady", "SecretNotGranted")).condition("SecretsReady").message
    await here.secret("victims-keys", VICTIM)
    await asyncio.sleep(120)
    assert (await here.lab.get(NextcloudInstance, NAME)).condition("SecretsReady").message == missing


async def test_secret_that_names_the_tenant_is_used(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.secret("victims-keys", VICTIM, tenant=TENANT)
    await here.create(claimed=True, **GREEDY)
    instance = await here.phase("Ready")
    assert here.s3.accounts == {(ENDPOINT, "victim")}
    assert instance.status.applied_s3_config is not None
    assert instance.status.applied_s3_config.named_by_tenant is True


async def test_deletion_sends_no_ungranted_keys_of_copies(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.secret("granted", VICTIM, tenant=TENANT)
    data = {"enabled": True, "bucket": "safe", "endpoint": ENDPOINT, "credentialsSecret": "granted"}
    fields = ["backups.data.endpoint", "backups.data.credentialsSecret"]
    await here.create(
        claimed=True,
        **{
            **PLAIN,
            "s3": {"enabled": True, "credentialsSecret": "s3-keys", "endpoint": "https://s3.test"},
            "backups": {"data": {**data, "deleteOnCleanup": True}},
            "tenantFields": fields,
        },
    )
    await here.phase("Ready")
    await lab.client.delete(SECRET, "granted", lab.namespace)
    await here.secret("granted", {**VICTIM, "AWS_ACCESS_KEY_ID": "another"})
    await here.released()
    await lab.delete(NextcloudInstance, NAME)
    await here.reason("Ready", "BucketCredentialsRefused")
    assert {account for account in here.s3.accounts if account[0] == ENDPOINT} == set()


async def test_administrator_keys_are_not_sent_to_a_tenants_server(lab: Lab) -> None:
    here = await Materials(lab).start()
    await here.secret("own", VICTIM, tenant=TENANT)
    own = {"enabled": True, "endpoint": ENDPOINT, "credentialsSecret": "own"}
    await here.create(claimed=True, **{**GREEDY, "s3": own})
    await here.phase("Ready")
    values = (await release(here)).spec["values"]
    # The tenant removes its fields: the fields of the pool return, and the bucket does not move.
    theirs = {"enabled": True, "endpoint": None, "credentialsSecret": "s3-keys"}
    await lab.patch(NextcloudInstance, NAME, {"spec": {"s3": theirs, "tenantFields": None}})
    await here.reason("BucketReady", "BucketEndpointRefused")
    assert (await release(here)).spec["values"] == values, "the release does not get the other keys"
    await here.released()
    await lab.delete(NextcloudInstance, NAME)
    await here.until(lambda one: one.status.phase == "Deleting" and one.condition("Ready").reason.startswith("Bucket"))
    assert here.s3.accounts == {(ENDPOINT, "victim")}


async def test_relabelled_older_object_is_neither_used_nor_deleted(lab: Lab) -> None:
    here = await Materials(lab).start()
    cluster = {"instances": 1, "storage": {"size": "1Gi"}}
    await lab.create(CNPG_CLUSTER.new(f"{NAME}-db", lab.namespace, spec=cluster))
    await here.volume("older", app_kubernetes_io__instance=NAME)
    await asyncio.sleep(60)
    await here.create(s3=None)
    instance = await here.reason("DatabaseReady", "DatabaseTaken")
    labels = {"metadata": {"labels": {"konverge.dev/owner-uid": instance.uid}}}
    await lab.patch(CNPG_CLUSTER, f"{NAME}-db", labels)
    await asyncio.sleep(120)
    assert (await lab.get(NextcloudInstance, NAME)).condition("DatabaseReady").reason == "DatabaseTaken"
    await lab.patch(NextcloudInstance, NAME, {"spec": {"database": None}})
    await here.phase("Ready")
    await here.volume("younger", app_kubernetes_io__instance=NAME)
    await here.deleted()
    assert not (await lab.client.get(CNPG_CLUSTER, f"{NAME}-db", lab.namespace)).metadata.deleting
    assert {one.name for one in await lab.client.list(VOLUME_CLAIM, lab.namespace) if not one.metadata.deleting} == {
        "older"
    }


async def test_whole_family_keeps_keys_and_rights_from_a_tenant(lab: Lab) -> None:
    here = Family(lab)
    await here.run()
    await here.full_pool()
    await here.filled()
    await here.claim(s3={"endpoint": ENDPOINT})
    refused = await here.says("main", "False", "FieldsRefused")
    assert "s3.endpoint: name a Secret of your own" in refused.condition("InstanceAssigned").message
    await here.patch(Nextcloud, "main", {"spec": {"s3": {"credentialsSecret": "s3-keys"}}})
    await here.assigned()

    def ungranted(found: Nextcloud) -> bool:
        said = found.find_condition("SecretsReady")
        return said is not None and said.reason == "SecretNotGranted"

    await lab.until(Nextcloud, "main", ungranted)
    assert (ENDPOINT, "ours") not in here.below.s3.accounts
