"""Records that another writer wiped or edited while pods use the amounts: no status field and no annotation releases used amounts."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from quota.lab import CPU, POD, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim, ResourcePoolStatus
from konverge.quantities import Quantity
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab

QUOTA = "capsule-pool-p"
HARD = 4

Edit = Callable[[Quotas], Awaitable[None]]


class NothingInUseIsGranted:
    """Granted and used amounts, summed over the namespaces, stay within the pool: read from the ResourceQuotas only."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(self) -> None:
        total = 0
        for entry in self._lab.server.store.list(("", "resourcequotas")):
            quota = entry.object()
            status = quota.get("status") or {}
            total += max(_cores(quota["spec"].get("hard")), _cores(status.get("hard")), _cores(status.get("used")), 0)
        assert total <= Quantity.of(HARD).billionths, f"{total / 10**9:g} cores are granted or in use"


def _cores(amounts: dict[str, Any] | None) -> int:
    return Quantity.parse((amounts or {}).get(CPU, 0)).billionths


def wire_name(field: str) -> str:
    first, *more = field.split("_")
    return first + "".join(word.capitalize() for word in more)


FIELDS = [wire_name(field) for field in ResourcePoolStatus.model_fields]


def pool_status(**fields: Any) -> Edit:
    """Edit fields of the pool's status; None removes a field."""

    async def edit(here: Quotas) -> None:
        status = {name: value(here) if callable(value) else value for name, value in fields.items()}
        await here.lab.client.patch(ResourcePool, "p", patch={"status": status}, style="merge", subresource="status")

    return edit


async def wiped_pool(here: Quotas) -> None:
    await here.lab.client.patch(ResourcePool, "p", patch={"status": None}, style="merge", subresource="status")


async def wiped_claims(here: Quotas) -> None:
    for claim in (await here.lab.client.list(ResourcePoolClaim)).items:
        await here.lab.client.patch(
            ResourcePoolClaim, claim.name, claim.namespace, patch={"status": None}, style="merge", subresource="status"
        )


async def wiped_everywhere(here: Quotas) -> None:
    await wiped_pool(here)
    await wiped_claims(here)


def quota_annotation(name: str, value: str | None = None) -> Edit:
    async def edit(here: Quotas) -> None:
        patch = {"metadata": {"annotations": {f"konverge.dev/quota-{name}": value}}}
        for where in ("a", "b"):
            await here.lab.client.patch(RESOURCE_QUOTA, QUOTA, here.ns(where), patch=patch, style="merge")

    return edit


def lists(*names: str) -> Callable[[Quotas], Any]:
    """Return a forged list of claims: each of 4 cores in b."""

    def forged(here: Quotas) -> dict[str, Any]:
        store = here.lab.server.store
        entries = []
        for name in names:
            stored = store.get(("capsule.clastix.io", "resourcepoolclaims"), here.ns("b"), name)
            assert stored is not None
            uid = stored.object()["metadata"]["uid"]
            entries.append({"name": name, "namespace": here.ns("b"), "uid": uid, "claims": {CPU: "4"}})
        return {here.ns("b"): entries}

    return forged


async def bound_says_the_waiting_claim(here: Quotas) -> None:
    pool = await here.get(ResourcePool, "", "p")
    status = {
        "pool": {"name": "p", "uid": pool.uid},
        "condition": {
            "type": "Bound",
            "status": "True",
            "reason": "Succeeded",
            "message": "Claimed resources",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        },
    }
    await here.lab.client.patch(
        ResourcePoolClaim, "waits", here.ns("b"), patch={"status": status}, style="merge", subresource="status"
    )


def zero(here: Quotas) -> Any:
    return {here.ns("a"): {CPU: "0"}}


EDITS: dict[str, Edit] = {
    **{f"{name} wiped": pool_status(**{name: None}) for name in FIELDS},
    "whole status wiped": wiped_pool,
    "statuses of claims wiped": wiped_claims,
    "all statuses wiped": wiped_everywhere,
    "releasing set to 0": pool_status(releasing=zero),
    "releasing set to nothing": pool_status(releasing={}),
    "claims and claimCount wiped": pool_status(claims=None, claimCount=0),
    "claims, claimCount and releasing wiped": pool_status(claims=None, claimCount=0, releasing=None),
    "waiting claim listed": pool_status(claims=lists("waits"), claimCount=1),
    "waiting claim listed, releasing wiped": pool_status(claims=lists("waits"), claimCount=1, releasing=None),
    "waiting claim says Bound": bound_says_the_waiting_claim,
    "nothing used": pool_status(allocation={"hard": {CPU: "4"}, "used": {CPU: "0"}, "available": {CPU: "4"}}),
    "hard of the status raised": pool_status(
        allocation={"hard": {CPU: "99"}, "used": {CPU: "0"}, "available": {CPU: "99"}}
    ),
    "annotation claims wiped": quota_annotation("claims"),
    "annotation defaults wiped": quota_annotation("defaults"),
    "annotation defaults raised": quota_annotation("defaults", '{"requests.cpu":"4"}'),
    "annotation releasing wiped": quota_annotation("releasing"),
    "annotation releasing set to 0": quota_annotation("releasing", '{"requests.cpu":"0"}'),
    "annotation releasing not JSON": quota_annotation("releasing", "{"),
}


async def in_release(here: Quotas) -> None:
    """In a: pods use 3 cores of a claim of 4 that was deleted."""
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await here.until(ResourcePool, "", "p", lambda pool: pool.status.releasing)


async def allocated(here: Quotas) -> None:
    """In a: pods use 3 cores of a claim of 4."""
    await here.bound("a", "c")


WHILE_DOWN = (
    "releasing wiped",
    "whole status wiped",
    "all statuses wiped",
    "waiting claim listed",
    "annotation releasing wiped",
)
CASES = [(edit, True) for edit in EDITS] + [(edit, False) for edit in WHILE_DOWN]


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("state", [in_release, allocated], ids=lambda state: state.__name__)
@pytest.mark.parametrize(
    ("edit", "running"), CASES, ids=[f"{edit}{'' if running else ' while it was down'}" for edit, running in CASES]
)
async def test_no_edit_of_one_record_grants_what_pods_use(
    lab: Lab, edit: str, state: Callable[[Quotas], Awaitable[None]], running: bool
) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=HARD)
    await here.grants("a", {CPU: HARD})
    await here.pod("a", "runs", "3")
    await here.claim("b", "waits", cpu=HARD)
    await here.says("b", "waits", "PoolExhausted")
    await state(here)
    await lab.settled()
    lab.always.append(NothingInUseIsGranted(lab))
    if not running:
        await lab.stop()
    await EDITS[edit](here)
    if not running:
        await here.start()
    await lab.settled()
    await here.says("b", "waits", "PoolExhausted")
    if state is allocated:
        await here.bound("a", "c")
        await here.spent({CPU: HARD})
        await here.delete("a", "c")
    else:
        await here.spent({CPU: 3})
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")
    await here.grants("a", {CPU: 0})
    await lab.settled()
    pool = await here.spent({CPU: HARD})
    assert (pool.status.releasing, pool.condition("Exhausted").reason) == ({}, "NoExhaustions")
    assert "konverge.dev/quota-releasing" not in (await here.get(RESOURCE_QUOTA, "a", QUOTA)).metadata.annotations


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it was down"])
async def test_a_backup_without_statuses_gives_away_nothing_that_pods_use(lab: Lab, running: bool) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=HARD)
    await here.grants("a", {CPU: HARD})
    await here.pod("a", "runs", "3")
    await here.claim("b", "waits", cpu=HARD)
    await in_release(here)
    await lab.settled()
    await lab.stop()
    saved = [await here.get(RESOURCE_QUOTA, where, QUOTA) for where in ("a", "b")]
    claim, pool = await here.get(ResourcePoolClaim, "b", "waits"), await here.get(ResourcePool, "", "p")
    await here.delete("b", "waits")
    await lab.client.patch(ResourcePool, "p", patch={"metadata": {"finalizers": None}}, style="merge")
    await lab.client.delete(ResourcePool, "p")
    await lab.settled()
    lab.always.append(NothingInUseIsGranted(lab))
    if running:
        await here.start()
    for quota in saved:  # a restore keeps names, labels and annotations, and drops owners, uids and statuses
        metadata = quota.metadata
        await lab.client.create(
            RESOURCE_QUOTA.new(
                metadata.name,
                metadata.namespace,
                labels=dict(metadata.labels or {}),
                annotations=dict(metadata.annotations or {}),
                spec=quota.get("spec"),
            )
        )
    await lab.client.create(ResourcePool.decode({"metadata": {"name": "p"}, "spec": pool.to_dict()["spec"]}))
    data = {"metadata": {"name": "waits", "namespace": claim.namespace}, "spec": claim.to_dict()["spec"]}
    await lab.client.create(ResourcePoolClaim.decode(data))
    if not running:
        await here.start()
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")
    await here.spent({CPU: HARD})
