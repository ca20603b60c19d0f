"""The life of an instance under the lab's faults: `pytest --lab=quick` ends the process between any two writes, and more.

After each write: a bucket exists only if the status announced its creation, and no object of others is deleted: each run has a bucket, a
volume, a Cluster, Secrets and namespaces of users.
"""

from typing import Any

import pytest
from pools.materials import NAME, Materials, OnlyOurs

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.reconcilers.pools.buckets.failures import failure_of
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import SECRET
from konverge_testing import Lab


def forget(data: dict[str, Any]) -> None:
    """Remove times, passwords, and annotations with UIDs and versions: these differ from run to run."""
    for name in ("applied-intent-hash", "applied-source", "last-applied-generation"):
        (data["metadata"].get("annotations") or {}).pop(f"vworkspace.io/{name}", None)
    (data["metadata"].get("labels") or {}).pop("konverge.dev/owner-uid", None)
    if data["kind"] == "Secret":
        data.pop("data", None)
    if data["kind"] == "HelmRelease":
        data["spec"]["values"].get("nextcloud", {}).pop("objectStore", None)
    if "status" in data:
        data["status"] = {"phase": data["status"].get("phase")} if data["kind"] == "NextcloudInstance" else {}


async def started(lab: Lab, *kept: tuple[str, str, str]) -> Materials:
    lab.may_differ(None, forget, why="passwords are random, the name of a bucket has the UID, and Flux tells its past")
    here = Materials(lab)
    here.databases.seconds = 20
    lab.always.append(OnlyOurs(lab, here.s3, (*kept, ("", "secrets", "s3-keys"))))
    lab.skip_plans("the namespace is deleted *", why="it takes the Secrets of users")
    lab.skip_plans("the CRD of clusters* goes *", why="the databases go with it, and the stand-in keeps their Secrets")
    lab.skip_plans("clusters*: delete by hand *", why="a database that is gone is reported, and not made anew")
    await here.start()
    await here.users_objects()
    return here


@pytest.mark.scenario(quick=12)
async def test_instance_is_created_despite_late_s3_and_deleted_despite_s3_failure(lab: Lab) -> None:
    lab.skip_plans(
        "nextcloudinstances*: recreate by hand *",
        why="a new instance does not take Secrets and database of one whose finalizer was removed",
    )
    lab.skip_plans(
        "nextcloudinstances*: unfinalize by hand *",
        why="the finalizer deletes Secrets and database: without the finalizer nothing deletes them",
    )
    here = await started(lab)
    here.s3.fail(failure_of("CreateBucket", "SlowDown", 503), "CreateBucket", times=6)
    await here.create()
    await here.phase("Ready")
    here.s3.fill(here.s3.made[0], 1_500)
    here.s3.fail(failure_of("DeleteObjects", "SlowDown", 503), "DeleteObjects", times=6)
    await here.deleted()
    assert await here.left() == {"Secret/s3-keys"}
    assert not here.s3.made


@pytest.mark.scenario(quick=12)
async def test_a_retained_instance_keeps_its_data(lab: Lab) -> None:
    lab.skip_plans(
        "nextcloudinstances*: recreate by hand *", why="a new instance does not take the data of a retained one"
    )
    lab.skip_plans(f"secrets lab/{NAME}-*: delete by hand *", why="the instance is gone by then, and makes none anew")
    for kept in (CNPG_CLUSTER, SECRET):
        lab.may_outlive_owner(kept, why="the policy Retain keeps the data of a deleted instance")
    here = await started(lab)
    await here.create(claimed=True, policy="Retain")
    await here.phase("Ready")
    await here.released()
    await here.phase("Released")
    await here.deleted()
    assert await here.left() >= {f"Cluster/{NAME}-db", f"Secret/{NAME}-admin"}
    assert here.s3.made
    assert not here.s3.deleted_buckets
    assert await lab.find(NextcloudInstance, NAME) is None
