"""Stories of what is not ours: objects that must not be touched, and a kind that is installed and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from story_words import (
    CONFIG,
    SECRET,
    config,
    data_of,
    fill,
    seen,
    stored,
)

import konverge as kv
from konverge.crds import crd
from konverge.errors import NotOurs, OwnershipError
from konverge_testing.lab import Lab
from konverge_testing.lab.lab import install_crds

# --- what must not be touched ----------------------------------------------------------------------------------------------------


class MirrorSpec(kv.Model):
    target: str
    space: str = ""


@kv.resource("example.com/v1", conditions=("Ready",))
class Mirror(kv.CustomResource[MirrorSpec, kv.Status]):
    """A copy of a Secret's name, in a namespace of the user's choice."""


class MirrorReconciler:
    async def reconcile(self, mirror: Mirror, ctx: kv.Context[Mirror]) -> kv.Outcome:
        if ctx.cache(SECRET).find(mirror.namespace, "key") is None:
            ctx.status.set_condition("Ready", False, "SecretMissing", "create a Secret named key")
            return kv.Done()
        try:
            await ctx.own(config(mirror.spec.target, mirror.spec.space, of="key"))
        except OwnershipError:
            ctx.status.set_condition("Ready", False, "Elsewhere", "a child cannot live in another namespace")
        except NotOurs:
            ctx.status.set_condition("Ready", False, "Taken", "the name is somebody else's")
        else:
            ctx.status.set_condition("Ready", True, "Copied", "it is there")
        return kv.Done()


def all_mirrors(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Mirror).keys(secret.namespace) if secret.name == "key" else ()


def build_mirror(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Mirror)
        .owns(CONFIG)
        .watches(SECRET, to=all_mirrors, metadata_only=True)
        .reconciled_by(MirrorReconciler())
    )


def because(reason: str) -> Callable[[Any], bool]:
    return lambda item: item.find_condition("Ready") is not None and item.find_condition("Ready").reason == reason


async def strangers(lab: Lab) -> None:
    """The Secret and a foreign object exist from the start; one child is wanted in another namespace."""

    def knows_the_secret() -> None:
        for name in ("near", "far", "thief"):
            result = stored(lab, "mirrors", name) or {}
            reasons = [condition["reason"] for condition in result.get("status", {}).get("conditions", ())]
            assert "SecretMissing" not in reasons, f"{name} does not see a Secret that was always there"

    lab.always.append(knows_the_secret)
    await lab.namespace_also("other")
    await lab.create(SECRET.new("key"))
    await lab.create(config("taken", mine="yes"))
    await fill(lab)
    await lab.start(build_mirror, wait=False)
    await lab.create(Mirror.new("near", spec=MirrorSpec(target="copy")))
    await lab.create(Mirror.new("far", spec=MirrorSpec(target="copy", space="other")))
    await lab.create(Mirror.new("thief", spec=MirrorSpec(target="taken")))
    await seen(lab, Mirror, "near", because("Copied"))
    await seen(lab, Mirror, "far", because("Elsewhere"))
    await seen(lab, Mirror, "thief", because("Taken"))
    if lab.patience == 1:
        assert data_of(lab, "taken") == {"mine": "yes"}, "somebody's own object was touched"


# --- a kind that is installed and removed ----------------------------------------------------------------------------------------


class GadgetSpec(kv.Model):
    size: int = 1


@kv.resource("example.com/v1")
class Gadget(kv.CustomResource[GadgetSpec, kv.Status]):
    """An object that is counted."""


class ShelfStatus(kv.Status):
    gadgets: int | None = None


@kv.resource("example.com/v1", conditions=("Ready",), plural="shelves")
class Shelf(kv.CustomResource[GadgetSpec, ShelfStatus]):
    """Reports the number of gadgets."""


class ShelfReconciler:
    async def reconcile(self, shelf: Shelf, ctx: kv.Context[Shelf]) -> kv.Outcome:
        ctx.status.draft.gadgets = len(ctx.cache(Gadget).keys(shelf.namespace))
        ctx.status.set_condition("Ready", True, "Counted", "done")
        return kv.Done()


def all_shelves(gadget: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Shelf).keys(gadget.namespace)


def build_shelf(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Shelf)
        .watches(Gadget, to=all_shelves, metadata_only=True, optional=True)
        .reconciled_by(ShelfReconciler())
    )


async def shelf(lab: Lab) -> None:
    """Gadgets are counted until their kind is removed, and then there are none."""
    crds = kv.kind(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions"
    )
    await install_crds(lab.client, [crd(Gadget)])
    await lab.create(Gadget.new("a", spec=GadgetSpec()))
    await lab.create(Gadget.new("b", spec=GadgetSpec()))
    await lab.start(build_shelf)
    await lab.create(Shelf.new("wall", spec=GadgetSpec()))
    await seen(lab, Shelf, "wall", lambda shelf: shelf.status.gadgets == 2)
    await lab.client.delete(crds, "gadgets.example.com")
    await seen(lab, Shelf, "wall", lambda shelf: shelf.status.gadgets == 0, longest=100)


# --- a child whose values the server writes in another way -------------------------------------------------------------------------


QUOTA: Final = kv.kind("v1", "ResourceQuota")


@kv.resource("example.com/v1", conditions=("Ready",))
class Budget(kv.CustomResource[GadgetSpec, kv.Status]):
    """Owns a quota whose amounts the server returns in their shortest form."""


class BudgetReconciler:
    async def reconcile(self, budget: Budget, ctx: kv.Context[Budget]) -> kv.Outcome:
        await ctx.own(
            QUOTA.new(
                budget.name, budget.namespace, spec={"hard": {"count/secrets": "1000m", "count/configmaps": "500000m"}}
            )
        )
        ctx.status.set_condition("Ready", True, "Granted", "")
        return kv.Done()


def build_budget(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Budget).owns(QUOTA).reconciled_by(BudgetReconciler()))


async def budget(lab: Lab) -> None:
    """A quota is created, requested again in vain, and restored after a user raised it."""
    await lab.start(build_budget)
    await lab.create(Budget.new("year", spec=GadgetSpec()))
    await seen(lab, Budget, "year", kv.is_true("Ready"))
    await lab.patch(Budget, "year", {"metadata": {"labels": {"asked": "again"}}})
    await asyncio.sleep(2)
    await lab.patch(QUOTA, "year", {"spec": {"hard": {"count/secrets": "7"}}})
    await seen(lab, QUOTA, "year", lambda quota: quota.spec["hard"]["count/secrets"] == "1")
