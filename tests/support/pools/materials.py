"""A lab that runs the controller of instances, with simulated Flux, CloudNativePG and S3."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from pools.crd_cases import KINDS
from pools.memory_s3 import MemoryS3

from konverge.crds import crd
from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets import BucketProvider, S3Buckets
from konverge.reconcilers.pools.instances import MaterialSettings
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.instances.install import instance_controller
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.kinds import NAMESPACE, SECRET, VOLUME_CLAIM
from konverge.reconcilers.pools.namespaces import EVERYWHERE
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE
from konverge.runtime import Manager
from konverge_testing import Lab, install_crds
from konverge_testing.cnpg import CnpgOperator, CnpgWorld, cnpg_crds
from konverge_testing.flux import HelmController, World, flux_crds

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
NAME = "nc-happy-sun-a1b2c3"
CLAIM = {"namespace": "tenant-acme", "name": "main", "uid": "uid-of-claim"}
FULL: dict[str, Any] = {
    "version": "33.0.1",
    "database": {"type": "postgresql", "managed": True, "deleteOnCleanup": True},
    "redis": {"enabled": True},
    "s3": {"enabled": True, "credentialsSecret": "s3-keys", "endpoint": "https://s3.test"},
    "persistence": {"enabled": True, "size": "1Gi"},
    "helm": {"version": "6.6.10"},
}
"""A spec with everything that an instance can have."""


class OnlyOurs:
    """The safety predicate: a bucket exists only if the status announced its creation; buckets of others are never deleted."""

    def __init__(self, lab: Lab, s3: MemoryS3, kept: tuple[tuple[str, str, str], ...] = ()) -> None:
        self._lab = lab
        self._s3 = s3
        self._kept = kept
        self._recorded: set[str] = set()
        self._seen: set[str] = set()

    def __call__(self) -> None:
        store = self._lab.server.store
        for entry in store.list(("k8s.bnerd.com", "nextcloudinstances")):
            applied = (entry.object().get("status") or {}).get("appliedS3Config") or {}
            if applied.get("autoCreated"):
                self._recorded.add(applied["bucket"])
        ours = {name for name, bucket in self._s3.buckets.items() if bucket.account == "ours"}
        assert ours - {"users", "theirs"} <= self._recorded, (
            f"{ours - self._recorded} was created before the status said so"
        )
        assert set(self._s3.deleted_buckets) <= self._recorded, f"{self._s3.deleted_buckets}: not ours to delete"
        for group, plural, name in self._kept:
            if name in {entry.object()["metadata"]["name"] for entry in store.list((group, plural))}:
                self._seen.add(name)
            else:
                assert name not in self._seen, f"{plural} {name} was deleted"


class UsersKept:
    """The safety predicate about objects that users created beside instances: bucket, volume, Cluster, Secrets and namespaces stay as they
    are.

    Names of such objects begin with `theirs`. The namespace of the instances counts too, unless a label marks it as owned by an instance.
    """

    def __init__(self, lab: Lab, s3: MemoryS3) -> None:
        self._lab = lab
        self._s3 = s3
        self._seen: dict[tuple[str, str], str] = {}

    def __call__(self) -> None:
        present: dict[tuple[str, str], str] = {}
        for group, plural in _USERS_KINDS:
            for entry in self._lab.server.store.list((group, plural)):
                metadata = entry.object()["metadata"]
                theirs = metadata["name"].startswith("theirs") or metadata["name"] == "s3-keys"
                home = plural == "namespaces" and metadata["name"] == self._lab.namespace
                owned = "k8s.bnerd.com/instance" in (metadata.get("labels") or {})
                if home and owned:
                    self._seen.clear()  # the instance owns it now, with its content
                if (theirs or home) and not owned and "deletionTimestamp" not in metadata:
                    present[plural, metadata["name"]] = metadata["uid"]
        present |= {
            ("buckets", name): str(len(bucket.versions))
            for name, bucket in self._s3.buckets.items()
            if name.startswith("theirs")
        }
        for key, content in self._seen.items():
            assert present.get(key) == content, f"{key[0]} {key[1]} of a user was deleted or changed"
        self._seen |= present


_USERS_KINDS = (
    ("", "secrets"),
    ("", "persistentvolumeclaims"),
    ("", "namespaces"),
    ("postgresql.cnpg.io", "clusters"),
)


class TakenDownInOrder:
    """The safety predicate about a deletion that keeps nothing: no step begins while an object of an earlier step exists.

    The steps: release, copies of the files, bucket, database, generated Secrets, volumes.
    """

    def __init__(self, lab: Lab, s3: MemoryS3) -> None:
        self._lab = lab
        self._s3 = s3
        self._at_first: dict[str, set[tuple[int, str]]] = {}
        self.steps: dict[str, set[int]] = {}
        """The steps that had objects when a deletion began, by the name of the instance."""

    def __call__(self) -> None:
        for entry in self._lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances")):
            instance = entry.object()
            if "deletionTimestamp" not in instance["metadata"]:
                continue
            left = self._parts(instance)
            begun = self._at_first.setdefault(instance["metadata"]["uid"], left) - left
            self.steps.setdefault(instance["metadata"]["name"], {step for step, _ in left})
            early = [name for step, name in sorted(begun) if any(other < step for other, _ in left)]
            assert not early, f"{', '.join(early)} went before {', '.join(name for _, name in sorted(left))}"

    def _parts(self, instance: dict[str, Any]) -> set[tuple[int, str]]:
        name = instance["metadata"]["name"]
        bucket = ((instance.get("status") or {}).get("appliedS3Config") or {}).get("bucket")
        parts = {(2, f"bucket {bucket}")} if bucket in self._s3.buckets else set[tuple[int, str]]()
        for step, group, plural, names in (
            (0, "helm.toolkit.fluxcd.io", "helmreleases", (name,)),
            (1, "batch", "cronjobs", (f"{name}-files",)),
            (3, "postgresql.cnpg.io", "clusters", (f"{name}-db",)),
            (4, "", "secrets", (f"{name}-admin", f"{name}-redis")),
            (5, "", "persistentvolumeclaims", (f"{name}-data",)),
        ):
            stored = {entry.object()["metadata"]["name"] for entry in self._lab.server.store.list((group, plural))}
            parts |= {(step, f"{plural} {one}") for one in names if one in stored}
        return parts


class Materials:
    """A lab that materialises instances."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.s3 = MemoryS3()
        self.buckets: BucketProvider = S3Buckets(self.s3, Random(3))
        self.databases = CnpgWorld()
        self.flux = World()
        self.settings = MaterialSettings()
        self.namespaces = EVERYWHERE

    async def start(self, without: Sequence[type[Any]] = (), *, databases: bool = True) -> Materials:
        """Install the definitions, play the operators below, and run the controller."""
        await self.prepare(without, databases=databases)
        await self.lab.start(self.build, name="konverge")
        return self

    async def prepare(self, without: Sequence[type[Any]] = (), *, databases: bool = True) -> None:
        """Install the definitions, play the operators below, and create the keys of S3; with `databases` also play CloudNativePG."""
        ours = [crd(one) for one in KINDS if one not in without]
        await install_crds(self.lab.client, [*ours, *flux_crds(), *cnpg_crds()])
        if databases:
            where = self.lab.namespace
            await self.lab.enter(CnpgOperator(self.lab.config, namespace=where, world=self.databases, random=Random(1)))
        await self.lab.enter(HelmController(self.lab.config, namespace=self.lab.namespace, world=self.flux))
        self.lab.always.append(UsersKept(self.lab, self.s3))
        keys = {"AWS_ACCESS_KEY_ID": "ours", "AWS_SECRET_ACCESS_KEY": "hunter2"}
        await self.secret("s3-keys", keys)

    async def users_objects(self) -> None:
        """Create what users have beside the instances: in their own namespace, in the instances' namespace, and on the same S3 account."""
        lab = self.lab
        self.s3.fill("theirs", 3)
        await self.volume("theirs-data", app_kubernetes_io__instance="theirs")
        await lab.create(
            CNPG_CLUSTER.new("theirs-db", lab.namespace, spec={"instances": 1, "storage": {"size": "1Gi"}})
        )
        await self.secret("theirs-admin", {"password": "hunter2"})
        await lab.client.create(NAMESPACE.new("theirs"))

    def build(self, manager: Manager) -> None:
        """Add the controller, with its own connection to the server in memory."""
        # With claims the settings choose the provider: S3 is not used.
        buckets = None if self.settings.bucket_provider == "objectbucketclaim" else self.buckets
        manager.add(
            instance_controller(self.settings, buckets=buckets, s3=self.s3, rng=Random(5), namespaces=self.namespaces)
        )

    async def secret(self, name: str, data: dict[str, str], *, tenant: str = "") -> None:
        """Create a Secret as a user does; its label lets the Nextclouds of a namespace use it."""
        plain = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        labels = {PoolsLabel.TENANT: tenant} if tenant else None
        await self.lab.create(SECRET.new(name, self.lab.namespace, labels=labels, data=plain))

    async def create(
        self, *, claimed: bool = False, policy: str = "", labels: Mapping[str, str] | None = None, **spec: Any
    ) -> NextcloudInstance:
        """Create the instance."""
        given: dict[str, Any] = {**FULL, **spec}
        given = {key: value for key, value in given.items() if value is not None}
        if claimed:
            given["claimRef"] = CLAIM
        if policy:
            given["reclaimPolicy"] = policy
        marks = {"k8s.bnerd.com/assigned": "true"} if claimed else dict(labels or {})
        return await self.lab.create(
            NextcloudInstance.decode({"metadata": {"name": NAME, "labels": marks}, "spec": given})
        )

    async def until(self, test: Callable[[NextcloudInstance], bool], seconds: float = 3600) -> NextcloudInstance:
        """Wait for the instance."""
        return await self.lab.until(NextcloudInstance, NAME, test, timeout=seconds)

    async def phase(self, phase: str) -> NextcloudInstance:
        """Wait for a phase."""
        return await self.until(lambda one: one.status.phase == phase)

    async def reason(self, type_: str, reason: str) -> NextcloudInstance:
        """Wait for the reason of a condition."""

        def has(one: NextcloudInstance) -> bool:
            found = one.find_condition(type_)
            return found is not None and found.reason == reason

        return await self.until(has)

    async def released(self) -> None:
        """Mark the instance as its Nextcloud does when it is deleted."""
        patch = {"metadata": {"annotations": {PoolsAnnotation.RELEASED: CLAIM["uid"]}}}
        await self.lab.client.patch(NextcloudInstance, NAME, self.lab.namespace, patch=patch, style="merge")

    async def deleted(self, seconds: float = 3600) -> None:
        """Delete the instance and wait for the end of the deletion."""
        await self.lab.delete(NextcloudInstance, NAME)
        await self.lab.until_gone(NextcloudInstance, NAME, timeout=seconds)

    async def left(self) -> set[str]:
        """Return the objects beside the instance and the users' objects, as kind and name."""
        kinds = (SECRET, CNPG_CLUSTER, SCHEDULED_BACKUP, HELM_RELEASE, VOLUME_CLAIM, CRON_JOB)
        found: set[str] = set()
        for one in kinds:
            found |= {f"{one.kind}/{item.name}" for item in await self.lab.client.list(one, self.lab.namespace)}
        found |= {f"Bucket/{name}" for name in self.s3.buckets}
        return {one for one in found if "/theirs" not in one}

    async def volume(self, name: str, **labels: str) -> Object:
        """Create a volume claim like a chart's leftover."""
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        found = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
        return await self.lab.create(VOLUME_CLAIM.new(name, self.lab.namespace, labels=found, spec=spec))

    async def own_namespace(self) -> None:
        """Give the namespace the label of the instance."""
        patch = {"metadata": {"labels": {"k8s.bnerd.com/instance": NAME}}}
        await self.lab.client.patch(NAMESPACE, self.lab.namespace, patch=patch, style="merge")
