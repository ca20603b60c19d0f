"""A provisioner of ObjectBucketClaims below the lab, like Rook: a claim gets a bucket, a Secret and a ConfigMap; all three end with it."""

from __future__ import annotations

import base64
from collections.abc import Coroutine, Mapping
from typing import Any, ClassVar, Final

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets.object_bucket_claim import OBJECT_BUCKET_CLAIM
from konverge_testing.standin import Json, StandIn

_FINALIZER: Final = "objectbucket.io/finalizer"


class BucketProvisioner(StandIn):
    """Plays the provisioner until its `async with` ends; `buckets` has the existing buckets."""

    NAME: ClassVar[str] = "bucket-provisioner"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = {"ObjectBucketClaim": OBJECT_BUCKET_CLAIM}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.buckets: set[str] = set()

    def story(self, made: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of a claim."""
        return self._provision(made)

    async def _provision(self, made: Json) -> None:
        held = await self.write(made, lambda one: one["metadata"].update(finalizers=[_FINALIZER]))
        if held is None:
            return
        await self.sleep(3)
        bucket = made["spec"]["bucketName"]
        self.buckets.add(bucket)
        await self.write(made, lambda one: one.update(status={"phase": "Bound"}), "status")
        await self.sleep(1)
        keys = {"AWS_ACCESS_KEY_ID": "ours", "AWS_SECRET_ACCESS_KEY": "hunter2"}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
        await self.create(_of(made, "Secret", {"data": encoded}))
        await self.sleep(1)
        where = {"BUCKET_NAME": bucket, "BUCKET_HOST": "rgw.test", "BUCKET_PORT": "8080", "BUCKET_REGION": "eu"}
        await self.create(_of(made, "ConfigMap", {"data": where}))
        await self.until(lambda: _is_ending(self.present(made)))
        await self.sleep(5)
        self.buckets.discard(bucket)
        await self.write(made, lambda one: one["metadata"].pop("finalizers", None))


def _is_ending(present: Json | None) -> bool:
    return present is None or "deletionTimestamp" in present["metadata"]


def _of(claim: Json, kind: str, more: Json) -> Json:
    metadata = claim["metadata"]
    owner = {
        "apiVersion": "objectbucket.io/v1alpha1",
        "kind": "ObjectBucketClaim",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    placed = {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": kind, "metadata": placed, **more}
