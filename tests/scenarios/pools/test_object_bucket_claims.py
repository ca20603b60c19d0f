"""Buckets by ObjectBucketClaims: a claim, its Secret and ConfigMap, and its deletion by the provisioner. A ConfigMap stands for the owner."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import konverge as kv
from konverge.crds import crd_stub
from konverge.reconcilers.pools.buckets import BucketFailure, BucketReady, BucketRequest, ClaimedBuckets
from konverge.reconcilers.pools.buckets.object_bucket_claim import CONFIG_MAP, OBJECT_BUCKET_CLAIM, SECRET
from konverge.testing import Lab
from konverge.testing.lab import install_crds

FINALIZER: Final = "objectbucket.io/finalizer"


class OwnerStatus(kv.Status):
    bucket: str | None = None


class OwnerSpec(kv.Model):
    present: bool = True


@kv.resource("example.com/v1", conditions=("BucketReady",))
class Owner(kv.CustomResource[OwnerSpec, OwnerStatus]):
    """An object that has a bucket, as long as it is to be present."""


class Keeper:
    async def reconcile(self, owner: Owner, ctx: kv.Context[Owner]) -> kv.Outcome:
        provider = ClaimedBuckets("ceph-bucket")
        wanted = BucketRequest(
            name=f"{owner.name}-1f2e",
            owner=owner.metadata.uid,
            namespace=owner.namespace,
            object_name=f"{owner.name}-s3",
        )
        try:
            found: Any = await (provider.ensure if owner.spec.present else provider.remove)(wanted, ctx)
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
    manager.add(kv.Controller.of(Owner).reconciled_by(Keeper()))


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


async def test_a_bucket_is_ready_once_the_claim_is_bound_and_both_of_its_objects_exist(lab: Lab) -> None:
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


async def test_a_claim_that_was_not_made_for_the_owner_is_neither_used_nor_deleted(lab: Lab) -> None:
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
