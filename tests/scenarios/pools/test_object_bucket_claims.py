"""Buckets by ObjectBucketClaims: a claim, its Secret and ConfigMap, its deletion by the provisioner, and instances with such buckets.

In the tests of single steps an object of another kind replaces the instance.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, cast

import pytest
import yaml
from pools.bucket_provisioner import BucketProvisioner
from pools.materials import FULL, NAME, Materials

import konverge as kv
from konverge.charts import own_chart
from konverge.crds import crd_stub
from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.reconcilers.pools.buckets import BucketFailure, BucketReady, BucketRequest, ClaimedBuckets
from konverge.reconcilers.pools.buckets.object_bucket_claim import OBJECT_BUCKET_CLAIM
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.kinds import CONFIG_MAP, SECRET
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.lab import install_crds

FINALIZER: Final = "objectbucket.io/finalizer"


class OwnerStatus(kv.Status):
    bucket: str | None = None


class OwnerSpec(kv.Model):
    present: bool = True


@kv.resource("example.com/v1", conditions=("BucketReady",))
class Owner(kv.CustomResource[OwnerSpec, OwnerStatus]):
    """An object with a bucket, for as long as the bucket is wanted."""


class Keeper:
    async def reconcile(self, owner: Owner, ctx: kv.Context[Owner]) -> kv.Outcome:
        provider = ClaimedBuckets("ceph-bucket")
        instances = cast("kv.Context[NextcloudInstance]", ctx)  # the provider uses no field of the model
        wanted = BucketRequest(
            name=f"{owner.name}-1f2e",
            owner=owner.metadata.uid,
            namespace=owner.namespace,
            object_name=f"{owner.name}-s3",
        )
        try:
            found: Any = await (provider.ensure if owner.spec.present else provider.remove)(wanted, instances)
        except BucketFailure as failure:
            ctx.status.set_condition("BucketReady", False, failure.reason, str(failure))
            return kv.RequeueAfter(timedelta(seconds=30))
        if isinstance(found, BucketReady):
            ctx.status.draft.bucket = f"{found.endpoint}/{found.bucket} {found.credentials_secret}"
            ctx.status.set_condition("BucketReady", True, "Ready", "it is there")
        elif found is None:
            ctx.status.set_condition("BucketReady", False, "Gone", "it is deleted")
        else:
            ctx.status.set_condition("BucketReady", False, found.reason, found.message)
        return kv.RequeueAfter(timedelta(seconds=5))


def build(manager: kv.Manager) -> None:
    claims = kv.Rule("objectbucket.io", ("objectbucketclaims",), ("get", "create", "patch", "delete"))
    results = kv.Rule("", ("configmaps", "secrets"), ("get",))
    manager.add(kv.Controller.of(Owner).needs(claims, results).reconciled_by(Keeper()))


async def started(lab: Lab) -> None:
    await install_crds(lab.client, [crd_stub(OBJECT_BUCKET_CLAIM)])
    await lab.start(build)


async def reported(lab: Lab, expected: str) -> Owner:
    """Wait until the reason or the message of the condition has this text."""

    def matches(owner: Owner) -> bool:
        found = owner.find_condition("BucketReady")
        return found is not None and (found.reason == expected or expected in found.message)

    return await lab.until(Owner, "nc-a", matches)


async def bound(lab: Lab) -> None:
    """Play the provisioner: the claim is Bound, and Secret and ConfigMap follow."""
    claim = await lab.client.get(OBJECT_BUCKET_CLAIM, "nc-a-s3", lab.namespace)
    patch: dict[str, Any] = {"metadata": {"finalizers": [FINALIZER]}}
    await lab.client.patch(OBJECT_BUCKET_CLAIM, claim.name, lab.namespace, patch=patch, style="merge")
    patch = {"status": {"phase": "Bound"}}
    await lab.client.patch(
        OBJECT_BUCKET_CLAIM, claim.name, lab.namespace, patch=patch, style="merge", subresource="status"
    )


async def test_bucket_is_ready_once_claim_is_bound_and_both_objects_exist(lab: Lab) -> None:
    await started(lab)
    await lab.create(Owner.new("nc-a", spec=OwnerSpec()))
    owner = await reported(lab, "BucketProvisioning")
    claim = await lab.client.get(OBJECT_BUCKET_CLAIM, "nc-a-s3", lab.namespace)
    assert claim.get("spec") == {"bucketName": "nc-a-1f2e", "storageClassName": "ceph-bucket"}
    assert claim.metadata.owner_references == ()  # or the garbage collector would delete data
    await bound(lab)
    await reported(lab, "its Secret does not exist")
    await lab.create(SECRET.new("nc-a-s3", lab.namespace, data={"AWS_ACCESS_KEY_ID": "YQ=="}))
    await reported(lab, "its ConfigMap does not exist")
    data = {"BUCKET_NAME": "nc-a-1f2e", "BUCKET_HOST": "rgw.test", "BUCKET_PORT": "80", "BUCKET_REGION": ""}
    await lab.create(CONFIG_MAP.new("nc-a-s3", lab.namespace, data=data))
    owner = await lab.until(Owner, "nc-a", kv.is_true("BucketReady"))
    assert owner.status.bucket == "http://rgw.test/nc-a-1f2e nc-a-s3"


async def test_a_removal_waits_until_the_provisioner_has_deleted_the_bucket(lab: Lab) -> None:
    await started(lab)
    await lab.create(Owner.new("nc-a", spec=OwnerSpec()))
    await reported(lab, "BucketProvisioning")
    await bound(lab)
    await lab.client.patch(Owner, "nc-a", lab.namespace, patch={"spec": {"present": False}}, style="merge")
    await reported(lab, "BucketEmptying")
    patch: dict[str, Any] = {"metadata": {"finalizers": None}}
    await lab.client.patch(OBJECT_BUCKET_CLAIM, "nc-a-s3", lab.namespace, patch=patch, style="merge")
    await reported(lab, "Gone")


async def test_claim_of_another_owner_is_neither_used_nor_deleted(lab: Lab) -> None:
    await started(lab)
    claim = OBJECT_BUCKET_CLAIM.new("nc-a-s3", lab.namespace, spec={"bucketName": "theirs"})
    await lab.create(claim)
    await lab.create(Owner.new("nc-a", spec=OwnerSpec()))
    await reported(lab, "BucketTaken")
    await lab.client.patch(Owner, "nc-a", lab.namespace, patch={"spec": {"present": False}}, style="merge")
    await lab.until(Owner, "nc-a", lambda one: one.status.observed_generation == 2)
    stored = await lab.client.get(OBJECT_BUCKET_CLAIM, "nc-a-s3", lab.namespace)
    assert (stored.get("spec"), stored.metadata.deleting) == ({"bucketName": "theirs"}, False)


async def test_a_cluster_without_a_provisioner_is_reported(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Owner.new("nc-a", spec=OwnerSpec()))
    owner = await reported(lab, "ObjectBucketClaimNotServed")
    assert "install a provisioner" in owner.condition("BucketReady").message


# --- instances ---------------------------------------------------------------------------------------------------------------

CLAIMED: Final = MaterialSettings(bucket_provider="objectbucketclaim", bucket_storage_class="ceph-bucket")
BACKUP: Final = {"data": {"enabled": True, "bucket": "safe", "credentialsSecret": "s3-keys"}}


async def with_claims(lab: Lab) -> tuple[Materials, BucketProvisioner]:
    here = Materials(lab)
    here.settings = CLAIMED
    await install_crds(lab.client, [crd_stub(OBJECT_BUCKET_CLAIM)])
    provisioner = await lab.enter(BucketProvisioner(lab.config, namespace=lab.namespace))
    return await here.start(), provisioner


async def claims(lab: Lab) -> list[str]:
    return [one.name for one in await lab.client.list(OBJECT_BUCKET_CLAIM, lab.namespace)]


@pytest.mark.scenario(foreign=False, quick=12)
async def test_instance_gets_its_bucket_by_a_claim_and_returns_it_at_deletion(lab: Lab) -> None:
    lab.may_differ(None, _forget, why="the name of a bucket has the UID, passwords are random, and Flux tells its past")
    here, provisioner = await with_claims(lab)
    await here.create(s3={"enabled": True}, backups=BACKUP)
    instance = await here.phase("Ready")
    applied = instance.status.applied_s3_config
    assert applied is not None
    assert (applied.auto_created, applied.endpoint, applied.region) == (True, "http://rgw.test:8080", "eu")
    assert provisioner.buckets == {applied.bucket}
    s3 = (await lab.get(HELM_RELEASE, NAME)).spec["values"]["nextcloud"]["objectStore"]["s3"]
    assert (s3["bucket"], s3["host"], s3["port"], s3["ssl"]) == (applied.bucket, "rgw.test", "8080", False)
    assert s3["existingSecret"] == f"{NAME}-s3"
    await here.deleted()
    assert await claims(lab) == []
    assert provisioner.buckets == set()
    assert not here.s3.log, "S3 itself has no part in it"


def _forget(data: dict[str, Any]) -> None:
    for name in ("annotations", "labels"):
        data["metadata"].pop(name, None)
    for name in ("data", "status"):
        data.pop(name, None)
    if data["kind"] in ("HelmRelease", "ObjectBucketClaim", "CronJob"):
        data.pop("spec", None)


async def test_a_retained_instance_keeps_its_claim_and_so_its_bucket(lab: Lab) -> None:
    here, provisioner = await with_claims(lab)
    await here.create(claimed=True, policy="Retain", s3={"enabled": True})
    await here.phase("Ready")
    await here.released()
    await here.phase("Released")
    await here.deleted()
    assert await claims(lab) == [f"{NAME}-s3"]
    assert len(provisioner.buckets) == 1


async def test_files_of_a_claimed_bucket_are_copied_with_the_claims_keys(lab: Lab) -> None:
    here, _ = await with_claims(lab)
    await here.create(s3=FULL["s3"], backups=BACKUP)
    await here.phase("Ready")
    job = await lab.get(CRON_JOB, f"{NAME}-files")
    (container,) = job.spec["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    named = {one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "valueFrom" in one}
    assert named["RCLONE_CONFIG_FILES_ACCESS_KEY_ID"] == f"{NAME}-s3"
    assert named["RCLONE_CONFIG_BACKUP_ACCESS_KEY_ID"] == "s3-keys"


async def test_chart_rules_allow_every_request_of_an_instance_with_a_claim(lab: Lab) -> None:
    used: set[tuple[str, str, str]] = set()

    def note(_: Call, about: About, __: Response) -> None:
        if about.user_agent.startswith("konverge") and about.resource:
            part = f"/{about.subresource}" if about.subresource else ""
            used.add((about.group, about.resource + part, about.verb))

    lab.server.on_call.append(note)
    here, _ = await with_claims(lab)
    await here.create(s3={"enabled": True}, backups=BACKUP)
    await here.phase("Ready")
    await here.deleted()
    files = own_chart()
    allowed = {
        (group, resource, verb)
        for name in ("rules.yaml", "rules-namespaces.yaml", "rules-objectbucketclaims.yaml")
        for rule in yaml.safe_load(files[f"files/pools/{name}"])["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert ("objectbucket.io", "objectbucketclaims", "delete") in used
    assert ("", "configmaps", "get") in used
    assert used - allowed == set()
