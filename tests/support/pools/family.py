"""A lab that runs the whole family: pools, claims and instances, with simulated Flux, CloudNativePG and S3."""

import base64
from collections.abc import Iterator
from random import Random
from typing import Any

from pools.lab import Clouds, OneTenant, forget_names, forget_uids
from pools.materials import FULL, Materials

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudPool
from konverge.reconcilers.pools.installation import claim_controller, orphan_controller, pool_controller
from konverge.reconcilers.pools.instances.install import instance_controller
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import INSTANCE, SECRET, VOLUME_CLAIM
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY
from konverge.runtime import Manager
from konverge_testing import Lab

_OWNER = "konverge.dev/owner-uid"
_RELEASE = "app.kubernetes.io/instance"


class DataKept:
    """The safety predicate about data, computed only from the stored objects.

    For as long as an instance is not deleted, and for ever if it was claimed with Retain, its bucket, its Cluster with the Secret, its
    generated Secrets and the volumes of its release stay, and no Secret changes its content.
    The objects of users are `UsersKept`'s.
    """

    def __init__(self, here: Materials) -> None:
        self._lab = here.lab
        self._s3 = here.s3
        self._found: dict[str, dict[tuple[str, str], str]] = {}
        self._retained: set[str] = set()

    def __call__(self) -> None:
        present = {(kind, one["metadata"]["name"]): one for kind, one in self._stored()}
        instances = [entry.object() for entry in self._lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances"))]
        live: dict[str, dict[str, Any]] = {}
        for one in instances:
            uid, spec = one["metadata"]["uid"], one.get("spec") or {}
            if spec.get("reclaimPolicy") == "Retain" and spec.get("claimRef"):
                self._retained.add(uid)
            if "deletionTimestamp" not in one["metadata"]:
                live[uid] = one
        for uid in [uid for uid in self._found if uid not in live and uid not in self._retained]:
            del self._found[uid]
        for uid, found in self._found.items():
            for (kind, name), content in found.items():
                there = present.get((kind, name))
                assert there is not None, f"{kind} {name} of an instance that keeps it is gone"
                assert _content(kind, there) == content, f"{kind} {name} of the instance {uid} was replaced or changed"
        for uid, one in live.items():
            self._found.setdefault(uid, {}).update(
                {at: _content(at[0], there) for at, there in present.items() if _is_of(one, at, there)}
            )

    def _stored(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for kind, where in (
            ("Secret", ("", "secrets")),
            ("Cluster", ("postgresql.cnpg.io", "clusters")),
            ("Volume", ("", "persistentvolumeclaims")),
        ):
            for entry in self._lab.server.store.list(where):
                yield kind, entry.object()
        for name in self._s3.buckets:
            yield "Bucket", {"metadata": {"name": name, "uid": name}}


def _content(kind: str, found: dict[str, Any]) -> str:
    return str(found.get("data")) if kind == "Secret" else str(found["metadata"]["uid"])


def _is_of(instance: dict[str, Any], at: tuple[str, str], found: dict[str, Any]) -> bool:
    kind, name = at
    labels = found["metadata"].get("labels") or {}
    if kind == "Bucket":
        return bool(name == ((instance.get("status") or {}).get("appliedS3Config") or {}).get("bucket"))
    if kind == "Volume":
        return bool(labels.get(_RELEASE) == instance["metadata"]["name"])
    return bool(labels.get(_OWNER) == instance["metadata"]["uid"] or name == f"{instance['metadata']['name']}-db-app")


class Family(Clouds):
    """The kit: all controllers of the family on one server."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.below = Materials(lab)
        self._played = False

    def build(self, manager: Manager) -> None:
        """Add all controllers, with a connection to the S3 server in memory."""
        metrics = PoolMetrics.within(manager.metrics)
        manager.add(pool_controller(self.settings, metrics, Random(7)))
        manager.add(claim_controller(self.settings, metrics))
        manager.add(orphan_controller(self.settings))
        manager.add(
            instance_controller(self.below.settings, buckets=self.below.buckets, s3=self.below.s3, rng=Random(5))
        )

    async def run(self) -> None:
        """Run the daemon; the first time also play the operators below."""
        if not self._played:
            self._played = True
            await self.below.prepare()
        await super().run()

    async def full_pool(self, *, replicas: int = 1, policy: str = "Delete", **spec: Any) -> None:
        """Create a pool of instances with all parts."""
        await self.pool(replicas=replicas, template={**FULL, **spec}, lifecycle={"reclaimPolicy": policy})

    async def ready(self, name: str = "main") -> str:
        """Wait until a Nextcloud runs; returns the name of its instance."""

        def runs(found: Nextcloud) -> bool:
            return found.status.instance_ref is not None and found.status.phase == "Ready"

        found = await self.lab.until(Nextcloud, name, runs, timeout=7200)
        assert found.status.instance_ref is not None
        return found.status.instance_ref.name

    async def fill(self, instance: str, versions: int = 1_500) -> str:
        """Put files of a tenant into bucket and volume of an instance; returns the name of the bucket."""
        await self.below.volume(f"{instance}-data", app_kubernetes_io__instance=instance)
        found = await self.lab.get(INSTANCE, instance)
        bucket = str(found.status["appliedS3Config"]["bucket"])
        self.below.s3.fill(bucket, versions)
        return bucket

    async def parts(self, instance: str) -> set[str]:
        """Return the objects of an instance, as kind and name with `*` for the instance's name."""
        return {one.replace(instance, "*") for one in await self.below.left() if f"/{instance}" in one}

    async def password(self, instance: str) -> str:
        """Return the administrator's password."""
        found = await self.lab.get(SECRET, f"{instance}-admin")
        return base64.b64decode(found.get("data", "password")).decode()


def whole_family(lab: Lab) -> Family:
    """Return the kit with both predicates, ignoring the differences between any two runs."""
    here = Family(lab)
    lab.always += [OneTenant(lab), DataKept(here.below)]
    random = "the names of instances are random, and so are those of all that is theirs"
    for kind in (INSTANCE, SECRET, CNPG_CLUSTER, VOLUME_CLAIM, HELM_RELEASE, HELM_REPOSITORY, HELM_CHART):
        lab.may_differ(kind, why=random)
    lab.may_differ(NextcloudPool, "status.recentCreations", forget_uids, why=random)
    lab.may_differ(Nextcloud, "status.instanceRef", "status.url", "status.helmRelease", forget_names, why=random)
    return here
