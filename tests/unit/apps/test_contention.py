"""Several instances of the same Helm release: which instance keeps it, the conditions of the others, and a HelmRelease that must yield."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from konverge.clock import rfc3339
from konverge.informers import Cached, Change
from konverge.objects import Metadata, Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.apps import ApplicationInstanceReconciler, Settings
from konverge.reconcilers.apps.contention import (
    VIEW,
    Contender,
    Standing,
    affects_rivals,
    helm_release_of,
    keeper,
    rivals_of,
)

RECONCILER = ApplicationInstanceReconciler(Settings())


def rival(make: Any, name: str = "other", *, ago: float = 0, applied: bool = False, **spec: Any) -> Object:
    """Another instance with the release name `shop`, created `ago` seconds before the time of the tests."""
    data = make.instance(name=name).to_dict()
    for part, fields in spec.items():
        data["spec"][part] = {**data["spec"][part], **fields} if isinstance(fields, dict) else fields
    data["spec"] = {part: fields for part, fields in data["spec"].items() if fields is not None}
    data["metadata"] |= {"uid": f"{name}-uid", "creationTimestamp": rfc3339(make.now - timedelta(seconds=ago))}
    if applied:
        data["status"] = {"helmReleaseRef": {"name": name, "namespace": "team"}}
    return Object(data)


def this(make: Any, *, ago: float = 0, applied: bool = False) -> Object:
    return rival(make, "shop", ago=ago, applied=applied)


def owned_by(make: Any, name: str) -> Object:
    owner = {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "name": name,
        "uid": f"{name}-uid",
        "controller": True,
    }
    data = make.release(owner=owner, spec={"releaseName": "shop"}).to_dict()
    data["metadata"] |= {"name": name, "uid": f"{name}-release-uid"}
    return Object(data)


# --- the order -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param((Standing.ASKS, "2030-01-01", "z"), (Standing.ASKS, "2030-01-02", "a"), id="the elder"),
        pytest.param((Standing.ASKS, "2030-01-01", "a"), (Standing.ASKS, "2030-01-01", "b"), id="of one age: the first name"),
        pytest.param((Standing.OWNS, "2030-01-02", "b"), (Standing.ASKS, "2030-01-01", "a"), id="an owner, though younger"),
        pytest.param((Standing.OWNS, "2030-01-02", "b"), (Standing.APPLIED, "2030-01-01", "a"), id="an owner before one that was"),
        pytest.param((Standing.APPLIED, "2030-01-02", "b"), (Standing.ASKS, "2030-01-01", "a"), id="one that was applied"),
        pytest.param((Standing.OWNS, "2030-01-01", "b"), (Standing.OWNS, "2030-01-02", "a"), id="of two owners the elder"),
    ],
)  # fmt: skip
def test_one_instance_keeps_the_release_whatever_the_order_of_the_list(first: Any, second: Any) -> None:
    made = ((*first, "1"), (*second, "2"), (Standing.ASKS, "2040", "y", "3"))
    contenders = [Contender(*one) for one in made]
    assert {keeper(order).uid for order in itertools.permutations(contenders)} == {"1"}


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"release": {"name": "shop"}}, ("web/shop",)),
        ({"mode": "managed", "release": {"name": "shop"}}, ("web/shop",)),
        ({"mode": "placeholder", "release": {"name": "shop"}}, ()),
        ({}, ()),
        ({"release": "mangled"}, ()),
        ({"release": {"name": 7}}, ()),
    ],
    ids=str,
)
def test_a_managed_instance_is_indexed_by_the_helm_release_that_it_names(spec: Any, values: Any) -> None:
    assert helm_release_of(VIEW.new("a", "web", spec=spec)) == values


# --- reconcile -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rivals",
    [
        pytest.param(lambda make: [rival(make, ago=60)], id="an elder that asks"),
        pytest.param(lambda make: [rival(make, ago=-60), owned_by(make, "other")], id="a younger that owns the HelmRelease"),
        pytest.param(lambda make: [rival(make, ago=-60, applied=True)], id="a younger that was applied"),
        pytest.param(lambda make: [rival(make, ago=60, chart=None), owned_by(make, "other")], id="an invalid elder that owns the HelmRelease"),
    ],
)  # fmt: skip
async def test_instance_with_a_foreign_helm_release_is_blocked_before_any_apply(
    make: Any, context: Any, rivals: Any
) -> None:
    ctx = context(this(make), *rivals(make))
    outcome = await RECONCILER.reconcile(make.instance(), ctx)
    assert outcome == RequeueAfter(Settings().refused_retry)
    assert ctx.calls == ["carry out"]
    assert ctx.says()["Blocked"] == "True/PolicyDenied"
    assert ctx.says()["Ready"] == "False/PolicyDenied"
    assert "the Helm release shop of this namespace belongs to ApplicationInstance other" in ctx.message("Blocked")


@pytest.mark.parametrize(
    "rivals",
    [
        pytest.param(lambda make: [rival(make, ago=-60)], id="a younger one"),
        pytest.param(lambda make: [rival(make, ago=60, release={"name": "other"})], id="another release name"),
        pytest.param(lambda make: [rival(make, ago=60, chart=None)], id="an elder that is invalid"),
        pytest.param(lambda make: [rival(make, ago=60, chart={"version": "^1"})], id="an elder that does not decode"),
        pytest.param(lambda make: [rival(make, ago=60, serviceAccountName="root")], id="an elder that is denied"),
        pytest.param(lambda make: [rival(make, ago=60, mode="placeholder", chart=None, values=None)], id="a placeholder"),
    ],
)  # fmt: skip
async def test_an_instance_that_keeps_its_release_is_applied(make: Any, context: Any, rivals: Any) -> None:
    ctx = context(this(make), *rivals(make))
    await RECONCILER.reconcile(make.instance(), ctx)
    assert "apply HelmRepository/shop, HelmRelease/shop" in ctx.calls


async def test_older_instance_reads_its_helm_release_owner_live_before_first_apply(make: Any, context: Any) -> None:
    ctx = context(this(make, ago=60), rival(make))
    ctx.stored = {**ctx.objects, ("HelmRelease", "other"): owned_by(make, "other")}  # the cache does not show it yet
    await RECONCILER.reconcile(make.instance(), ctx)
    assert ctx.calls == ["list HelmRelease", "carry out"]
    assert ctx.says()["Blocked"] == "True/PolicyDenied"


async def test_at_rest_the_owner_of_the_release_reads_nothing_live(make: Any, context: Any) -> None:
    ctx = context(this(make, ago=60), rival(make), owned_by(make, "shop"))
    await RECONCILER.reconcile(make.instance(), ctx)
    assert "list HelmRelease" not in ctx.calls


async def test_with_two_owners_the_younger_helm_release_is_deleted_without_an_uninstall(
    make: Any, context: Any
) -> None:
    ctx = context(this(make), rival(make, ago=60), owned_by(make, "shop"), owned_by(make, "other"))
    await RECONCILER.reconcile(make.instance(), ctx)
    assert ctx.calls == ["list HelmRelease", "patch HelmRelease/shop", "delete HelmRelease/shop at 8", "carry out"]
    assert ctx.objects["HelmRelease", "shop"].spec["suspend"] is True
    assert not ctx.objects["HelmRelease", "other"].metadata.deleting
    assert ctx.plan.draft.helm_release_ref is None
    assert ctx.says()["Blocked"] == "True/PolicyDenied"


async def test_a_conflict_while_giving_up_a_helm_release_requeues_the_instance(make: Any, context: Any) -> None:
    ctx = context(this(make), rival(make, ago=60), owned_by(make, "shop"), owned_by(make, "other"))
    ctx.before_write = lambda what: ctx.touch("HelmRelease", "shop", suspend=False) if what == "delete" else None
    assert await RECONCILER.reconcile(make.instance(), ctx) == RequeueAfter(1)
    assert not ctx.objects["HelmRelease", "shop"].metadata.deleting


# --- finalize --------------------------------------------------------------------------------------------------------------------


async def test_deleting_the_younger_of_two_owners_uninstalls_nothing(make: Any, context: Any) -> None:
    ctx = context(this(make), rival(make, ago=60), owned_by(make, "shop"), owned_by(make, "other"))
    await RECONCILER.finalize(make.instance(), ctx)
    assert [call for call in ctx.calls if call.startswith(("patch", "delete"))] == [
        "patch HelmRelease/shop",
        "delete HelmRelease/shop at 8",
    ]
    assert ctx.objects["HelmRelease", "shop"].spec["suspend"] is True
    assert "without an uninstall" in ctx.message("Deleting")


async def test_release_deleted_without_an_uninstall_is_not_resumed_while_waiting_for_flux(
    make: Any, context: Any
) -> None:
    """After a resume Flux would uninstall the workload of the other instance."""
    ctx = context(this(make), rival(make, ago=60), owned_by(make, "shop"), owned_by(make, "other"))
    await RECONCILER.finalize(make.instance(), ctx)
    assert ctx.objects["HelmRelease", "shop"].metadata.deleting
    before = len(ctx.calls)
    assert isinstance(await RECONCILER.finalize(make.instance(), ctx), RequeueAfter)
    assert [call for call in ctx.calls[before:] if call.startswith(("patch", "delete"))] == []
    assert ctx.objects["HelmRelease", "shop"].spec["suspend"] is True
    assert "without an uninstall" in ctx.message("Deleting")


async def test_deleting_a_blocked_instance_touches_nothing(make: Any, context: Any) -> None:
    ctx = context(this(make), rival(make, ago=60), owned_by(make, "other"))
    assert await RECONCILER.finalize(make.instance(), ctx) == Done()
    assert not [call for call in ctx.calls if call.startswith(("patch", "delete"))]


async def test_deleting_the_instance_that_keeps_the_release_uninstalls_it(make: Any, context: Any) -> None:
    ctx = context(this(make, ago=60), rival(make), owned_by(make, "shop"))
    await RECONCILER.finalize(make.instance(), ctx)
    assert [call for call in ctx.calls if call.startswith(("patch", "delete"))] == ["delete HelmRelease/shop at 7"]


# --- who is enqueued -------------------------------------------------------------------------------------------------------------


class Caches:
    """The index over instances that the map function reads."""

    def __init__(self, *instances: Object) -> None:
        self._instances = instances

    def __call__(self, what: Any) -> Caches:
        return self

    def metadata_by_index(self, index: str, value: str) -> Iterable[Metadata]:
        return [one.metadata for one in self._instances if value in helm_release_of(one)]


def test_deleting_an_instance_enqueues_those_that_name_its_release(make: Any) -> None:
    caches: Any = Caches(this(make), rival(make), rival(make, "elsewhere", release={"name": "another"}))
    assert [key.path for key in rivals_of(rival(make, "gone"), caches)] == ["team/shop", "team/other"]
    assert [key.path for key in rivals_of(this(make), caches)] == ["team/other"]


def cached(instance: Object, generation: int = 1) -> Cached:
    data = instance.to_dict()
    data["metadata"]["generation"] = generation
    return Cached(msgspec.convert(data["metadata"], Metadata), msgspec.json.encode(data))


def test_rivals_are_enqueued_only_by_deletion_release_rename_and_first_apply(make: Any) -> None:
    before, bumped, applied = cached(this(make)), cached(this(make), 2), cached(this(make, applied=True))
    other = cached(rival(make, "shop", mode="placeholder", chart=None, values=None), 2)
    changes = [(before, None), (before, other), (before, applied), (before, bumped), (applied, applied), (None, before)]
    assert [affects_rivals(Change("team", "shop", old, new)) for old, new in changes] == [True] * 3 + [False] * 3
