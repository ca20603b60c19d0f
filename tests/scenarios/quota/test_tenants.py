"""A tenant that writes only ResourcePoolClaims in its own namespace: what it can forge there, and what its messages show."""

import asyncio
from typing import Any

import pytest
from quota.lab import CPU, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import NotFound
from konverge.reconcilers.quota import Settings
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab

VICTIM, ATTACKER, OUTSIDER = "victim", "attacker", "outsider"
SECRET = "payroll"  # a name that only the victim knows


async def beside_a_victim(lab: Lab, **pool: Any) -> tuple[Quotas, dict[str, Any]]:
    """Return the lab of a pool whose victim holds 3 of 4 cores, and the victim's objects."""
    here = await Quotas(lab).start(VICTIM, ATTACKER)
    await here.namespace(OUTSIDER, tenant="other")
    await here.pool(defaultsZero=True, **pool)
    await here.claim(VICTIM, SECRET, cpu=3)
    await here.bound(VICTIM, SECRET)
    await here.grants(VICTIM, {CPU: 3})
    await lab.settled()
    return here, await of_the_victim(here)


async def of_the_victim(here: Quotas) -> dict[str, Any]:
    """Return the claim, the ResourceQuota and the list entry of the victim."""
    claim = await here.get(ResourcePoolClaim, VICTIM, SECRET)
    quota = await here.get(RESOURCE_QUOTA, VICTIM, "capsule-pool-p")
    pool = await here.get(ResourcePool, "", "p")
    return {
        "claim": claim.to_dict(),
        "quota": quota.to_dict(),
        "entries": [entry.wire() for entry in pool.status.claims[here.ns(VICTIM)]],
    }


async def forge(here: Quotas, victim: dict[str, Any], pool: ResourcePool, where: str, what: str) -> str:
    """Create a claim with a forged field; returns its name."""
    reference = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "ResourcePool", "name": "p", "uid": pool.uid}
    entry = victim["claim"]
    status = {
        "pool": {"name": "p", "uid": pool.uid},
        "condition": {
            "type": "Bound",
            "status": "True",
            "reason": "Succeeded",
            "message": "Claimed resources",
            "lastTransitionTime": "2000-01-01T00:00:00Z",
        },
    }
    metadata: dict[str, Any] = {"name": f"forged-{what.replace(' ', '-')}"}
    body: dict[str, Any] = {"spec": {"pool": "p", "claim": {CPU: 2}}, "metadata": metadata}
    match what:
        case "status":
            body["status"] = status
        case "queue":
            body["spec"].pop("pool")
            body["status"] = {"queue": {"name": "p", "uid": pool.uid}, "pool": {"name": "p", "uid": pool.uid}}
        case "creation time":
            metadata["creationTimestamp"] = "2000-01-01T00:00:00Z"
        case "uid of the victim":
            metadata["uid"] = entry["metadata"]["uid"]
        case "name of the victim":
            metadata["name"] = SECRET
        case "owner references":
            metadata["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        case "owner reference to the victim":
            about = {"apiVersion": reference["apiVersion"], "kind": "ResourcePoolClaim", "name": SECRET}
            metadata["ownerReferences"] = [{**about, "uid": entry["metadata"]["uid"]}]
        case "finalizer of pools":
            metadata["finalizers"] = ["controller.projectcapsule.dev/finalize"]
        case "labels":
            metadata["labels"] = {"projectcapsule.dev/pool": "p", "shard.konverge.dev/quota": "x"}
        case "annotations":
            metadata["annotations"] = {"projectcapsule.dev/release": "true", "projectcapsule.dev/claims": SECRET}
    metadata["namespace"] = here.ns(where)
    await here.lab.client.create(ResourcePoolClaim.decode(body))
    return str(metadata["name"])


FORGED = [
    "nothing",
    "status",
    "queue",
    "creation time",
    "uid of the victim",
    "name of the victim",
    "owner references",
    "finalizer of pools",
    "labels",
    "annotations",
]


@pytest.mark.parametrize("where", [ATTACKER, OUTSIDER])
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
async def test_forged_claims_take_nothing_from_a_victim_and_name_nothing_of_it(
    lab: Lab, where: str, ordered: bool
) -> None:
    here, before = await beside_a_victim(lab, **({"orderedQueue": True} if ordered else {}))
    pool = await here.get(ResourcePool, "", "p")
    names = [await forge(here, before, pool, where, what) for what in FORGED]
    await lab.settled()
    assert await of_the_victim(here) == before
    for name in names:
        claim = await here.get(ResourcePoolClaim, where, name)
        assert claim.status.condition is not None, name
        assert not (claim.status.condition.type == "Bound" and claim.status.condition.is_true), name
        texts = [claim.status.condition.message, *(note for _, _, note in await here.events(where, name))]
        assert all(here.ns(VICTIM) not in text for text in texts), texts
        assert name == SECRET or all(SECRET not in text for text in texts), texts
    await here.spent({CPU: 3})


async def test_claim_owned_across_namespaces_is_collected_without_its_owner(lab: Lab) -> None:
    """The garbage collector deletes an object whose owner is in another namespace; the owner stays."""
    here, before = await beside_a_victim(lab)
    pool = await here.get(ResourcePool, "", "p")
    name = await forge(here, before, pool, ATTACKER, "owner reference to the victim")
    async with asyncio.timeout(60):
        with pytest.raises(NotFound):
            while True:
                await here.get(ResourcePoolClaim, ATTACKER, name)
                await asyncio.sleep(0.1)
    await lab.settled()
    assert await of_the_victim(here) == before


async def test_claims_beyond_a_tenants_part_of_the_list_leave_room_for_others(lab: Lab) -> None:
    here = await Quotas(lab).start(VICTIM, ATTACKER, settings=Settings(max_claims=20, namespace_share=0.2))
    await here.pool(hard={CPU: 1000}, defaultsZero=True)
    for number in range(12):
        await here.claim(ATTACKER, f"claim-{number}", cpu=1)
    await here.says(ATTACKER, "claim-9", "TooManyClaims", "leaves the rest of its list to others")
    await here.claim(VICTIM, SECRET, cpu=1)
    await here.bound(VICTIM, SECRET)
