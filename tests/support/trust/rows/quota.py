"""Attacks by ResourcePoolClaims: the quota of other namespaces."""

from collections.abc import Sequence
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import ATTACKER, VICTIM

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Forbidden, Invalid
from konverge.kinds import kind

QUOTA: Final = kind("v1", "ResourceQuota", namespaced=True, plural="resourcequotas")


async def claim(here: Scene, name: str = "evil", /, *, cpu: Any = "1", **more: Any) -> None:
    """Create a claim as a tenant."""
    metadata = {"name": name, **more.pop("metadata", {})}
    spec = {"pool": "shared", "claim": {"requests.cpu": cpu}, **more}
    await here.mallory.create(ResourcePoolClaim, {"metadata": metadata, "spec": spec})


async def granted(here: Scene, namespace: str = ATTACKER) -> dict[str, Any]:
    found = await here.admin.get(QUOTA, "capsule-pool-shared", namespace)
    return dict(found.spec.get("hard") or {})


async def too_much(here: Scene) -> Sequence[str]:
    for number, cpu in enumerate(("7", "1e24", "999E", 10**18)):
        await claim(here, f"evil-{number}", cpu=cpu)
    await here.rest()
    hard = await granted(here)
    return [] if hard.get("requests.cpu", "0") in ("0", 0) else [f"the attacker was granted {hard}"]


async def negative(here: Scene) -> None:
    await claim(here, cpu="-5")


async def everything_left(here: Scene) -> Sequence[str]:
    """The rest of the pool is the attacker's to claim; the victim keeps what it has."""
    await claim(here, cpu="6")
    await here.rest()
    hard = await granted(here, VICTIM)
    return [] if hard.get("requests.cpu") == "2" else [f"the victim has {hard}"]


async def other_pool(here: Scene) -> Sequence[str]:
    spec = {
        "quota": {"hard": {"requests.cpu": "4"}},
        "selectors": [{"matchLabels": {"kubernetes.io/metadata.name": VICTIM}}],
    }
    await here.admin.create(ResourcePool.decode({"metadata": {"name": "vip"}, "spec": spec}))
    await here.rest(30)
    here.judge.rebase()
    await claim(here, pool="vip")
    await here.rest()
    found = await here.admin.get(ResourcePool, "vip")
    leaks = [] if ATTACKER not in found.status.claims else ["a pool that does not select the attacker serves it"]
    findings = [*leaks, *here.judge.findings()]
    await here.admin.delete(ResourcePool, "vip")
    await here.rest()
    here.judge.rebase()
    return findings


async def same_name(here: Scene) -> None:
    victim = await here.admin.get(ResourcePoolClaim, "main", VICTIM)
    reference = {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "ResourcePoolClaim",
        "name": "main",
        "uid": victim.metadata.uid,
        "controller": True,
    }
    labels = {"projectcapsule.dev/pool": "shared", "capsule.clastix.io/tenant": VICTIM}
    annotations = {"projectcapsule.dev/release": "true"}
    await claim(here, "main", metadata={"labels": labels, "annotations": annotations, "ownerReferences": [reference]})
    await here.rest()
    await here.mallory.delete_all(ResourcePoolClaim)


async def write_status(here: Scene) -> None:
    await claim(here)
    await here.mallory.patch(ResourcePoolClaim, "evil", {"status": {"pool": {"name": "shared"}}}, subresource="status")


async def forged_status(here: Scene) -> Sequence[str]:
    pool = await here.admin.get(ResourcePool, "shared")
    await claim(here, cpu="7")
    await here.rest()
    bound = {
        "type": "Bound",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    status = {"pool": {"name": "shared", "uid": pool.metadata.uid}, "condition": bound}
    await here.landlord.patch(ResourcePoolClaim, "evil", {"status": status}, subresource="status")
    await here.rest()
    hard = await granted(here)
    return [] if hard.get("requests.cpu", "0") in ("0", 0) else [f"the attacker was granted {hard}"]


async def forged_quota(here: Scene) -> Sequence[str]:
    """A ResourceQuota of the pool that its holder edits is put back."""
    await claim(here)
    await here.rest()
    await here.landlord.patch(QUOTA, "capsule-pool-shared", {"spec": {"hard": {"requests.cpu": "100"}}})
    await here.rest()
    hard = await granted(here)
    return [] if hard.get("requests.cpu") == "1" else [f"the attacker has {hard}"]


async def many(here: Scene) -> None:
    for number in range(120):
        await claim(here, f"evil-{number:03}", cpu="1m")
    await here.rest()
    await here.mallory.delete_all(ResourcePoolClaim)


async def long_names(here: Scene) -> None:
    resources = {f"requests.example.com/{'x' * 40}{number}": "1" for number in range(200)}
    spec = {"pool": "shared", "claim": resources}
    await here.mallory.create(ResourcePoolClaim, {"metadata": {"name": "e" * 253}, "spec": spec})


async def widen(here: Scene) -> None:
    await claim(here)
    await here.rest()
    await here.mallory.patch(ResourcePoolClaim, "evil", {"spec": {"claim": {"requests.cpu": "6"}}})


ATTACKS: Final = (
    Attack("claims ask for more than the pool has", ("ResourcePoolClaim spec.claim",), too_much),
    Attack("a claim asks for a negative amount", ("ResourcePoolClaim spec.claim",), negative, Invalid),
    Attack("a claim takes all that is left", ("ResourcePoolClaim spec.claim",), everything_left),
    Attack("an allocated claim is widened", ("ResourcePoolClaim spec.claim",), widen, Invalid),
    Attack("a claim names a pool that does not serve it", ("ResourcePoolClaim spec.pool",), other_pool),
    Attack(
        "a claim has the name labels and owner of the victims claim",
        (
            "ResourcePoolClaim metadata.name",
            "ResourcePoolClaim metadata.labels",
            "ResourcePoolClaim metadata.annotations",
            "ResourcePoolClaim metadata.ownerReferences",
        ),
        same_name,
    ),
    Attack("a tenant writes the status of a claim of a quota", ("ResourcePoolClaim status",), write_status, Forbidden),
    Attack("a forged status says that a claim is bound", ("ResourcePoolClaim status",), forged_status),
    Attack("the holder edits its ResourceQuota", ("ResourceQuota",), forged_quota),
    Attack("many claims come and go", ("ResourcePoolClaim metadata.name",), many),
    Attack("a claim names many resources", ("ResourcePoolClaim spec.claim",), long_names),
)
