"""Stories of slow work: a finalizer with an effect outside, and events at the wrong moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from story_words import (
    CONFIG,
    SECRET,
    config,
    data_of,
    gone,
    meddled_with,
    seen,
    stored,
)

import konverge as kv
from konverge.runtime.builder.predicates import generation_changed
from konverge_testing.lab import Lab

# --- a finalizer, and an effect that nothing else cleans up ----------------------------------------------------------------------


class BucketSpec(kv.Model):
    size: int = 1


@kv.resource("example.com/v1", conditions=("Ready",))
class Bucket(kv.CustomResource[BucketSpec, kv.Status]):
    """A bucket in a cloud, which is a ConfigMap without an owner here."""


class BucketReconciler:
    async def reconcile(self, bucket: Bucket, ctx: kv.Context[Bucket]) -> kv.Outcome:
        await ctx.apply(config(f"cloud-{bucket.name}", bucket.namespace, size=str(bucket.spec.size)), force=True)
        ctx.status.set_condition("Ready", True, "Made", "it is in the cloud")
        return kv.Done()

    async def finalize(self, bucket: Bucket, ctx: kv.Context[Bucket]) -> kv.Outcome:
        result = await ctx.live(CONFIG).find(bucket.namespace, f"cloud-{bucket.name}")
        if result is None:
            return kv.Done()
        now = ctx.now().timestamp()
        until = float((result.metadata.annotations or {}).get("until", "0"))
        if not until:  # a cloud is slow: the response to the deletion has its end
            note = {"metadata": {"annotations": {"until": str(now + 5)}}}
            await ctx.patch(CONFIG, result.name, bucket.namespace, patch=note)
            return kv.RequeueAfter(5)
        if now < until:
            return kv.RequeueAfter(until - now)
        await ctx.delete(CONFIG, result.name, bucket.namespace, uid=result.metadata.uid)
        return kv.RequeueAfter(1)


def buckets_in_cloud(cloud: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    return [key for key in caches(Bucket).keys(cloud.namespace) if cloud.name == f"cloud-{key.name}"]


def build_bucket(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Bucket)
        .finalizer("example.com/bucket")
        .watches(CONFIG, to=buckets_in_cloud)
        .needs(kv.Rule("", ("configmaps",), ("create", "patch", "delete")))
        .when(generation_changed)
        .reconciled_by(BucketReconciler())
    )


async def bucket(lab: Lab) -> None:
    """A bucket is created, changed, deleted, and recreated under its name."""

    def cleaned_up() -> None:
        if data_of(lab, "cloud-photos") is not None and not meddled_with(lab):
            assert stored(lab, "buckets", "photos") is not None, "the bucket is gone, and it is still in the cloud"

    lab.always.append(cleaned_up)
    why = "a bucket whose finalizer another client removed leaves the annotation behind"
    lab.may_differ(None, "metadata.annotations", why=why)
    await lab.start(build_bucket)
    await lab.create(Bucket.new("photos", spec=BucketSpec()))
    await seen(lab, Bucket, "photos", kv.is_true("Ready"))
    await lab.patch(Bucket, "photos", {"spec": {"size": 2}})
    await seen(lab, CONFIG, "cloud-photos", lambda cloud: cloud.data["data"]["size"] == "2")
    await lab.delete(Bucket, "photos")
    try:
        await gone(lab, Bucket, "photos")
    except AssertionError:
        if not meddled_with(lab):
            raise
        await lab.delete(Bucket, "photos")  # another client recreated it
        await gone(lab, Bucket, "photos")
    await lab.create(Bucket.new("photos", spec=BucketSpec(size=3)))
    await seen(lab, Bucket, "photos", kv.is_true("Ready"))
    await seen(lab, CONFIG, "cloud-photos", lambda cloud: cloud.data["data"]["size"] == "3")


async def guarded(lab: Lab) -> None:
    """Another controller holds the bucket too, for a while: only that controller removes its finalizer."""
    await lab.start(build_bucket)
    manifest = Bucket.new("photos", lab.namespace, spec=BucketSpec()).to_dict()
    manifest["metadata"]["finalizers"] = ["example.com/guard"]
    await lab.create(kv.kind("example.com/v1", "Bucket").decode(manifest))
    guard = {"path": "/metadata/finalizers/0", "value": "example.com/guard"}
    try:
        result = await seen(lab, Bucket, "photos", kv.is_true("Ready"))
        held = list(result.metadata.finalizers)
        assert meddled_with(lab) or held == ["example.com/guard", "example.com/bucket"], f"it is held by {held}"
    finally:
        with suppress(kv.ApiError):  # another client was quicker
            await lab.client.patch(
                Bucket,
                "photos",
                lab.namespace,
                patch=[{"op": "test", **guard}, {"op": "remove", **guard}],
                style="json",
            )


# --- times, and events at the wrong moment ---------------------------------------------------------------------------------------


class ErrandSpec(kv.Model):
    tool: str = ""
    badge: str = ""
    step: int = 1


class ErrandStatus(kv.Status):
    step: int | None = None
    pings: int | None = None
    word: bool | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Errand(kv.CustomResource[ErrandSpec, ErrandStatus]):
    """Work that depends on objects without events."""


class ErrandReconciler:
    async def reconcile(self, errand: Errand, ctx: kv.Context[Errand]) -> kv.Outcome:
        spec = errand.spec
        if spec.tool and await ctx.live(SECRET).find(errand.namespace, spec.tool) is None:
            raise kv.RetryAfter(20, f"there is no {spec.tool}")
        if spec.badge:
            try:
                await ctx.apply(SECRET.new(spec.badge, errand.namespace, stringData={"by": errand.name}))
            except kv.FieldsHeld:
                ctx.status.set_condition("Ready", False, "Held", "the badge is somebody else's")
                return kv.RequeueAfter(600)
        ctx.status.draft.word = await ctx.live(SECRET).find(errand.namespace, "word") is not None
        ctx.status.draft.pings = sum(
            1 for key in ctx.cache(CONFIG).keys(errand.namespace) if key.name.startswith("ping")
        )
        ctx.status.draft.step = spec.step
        ctx.status.set_condition("Ready", True, "Done", "nothing is left to do")
        return kv.RequeueAfter(600)


def all_errands(ping: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Errand).keys(ping.namespace)


def build_errand(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Errand)
        .watches(CONFIG, to=all_errands, metadata_only=True)
        .needs(kv.Rule("", ("secrets",), ("get", "create", "patch")))
        .with_(resync=300)
        .reconciled_by(ErrandReconciler())
    )


def at_step(step: int, pings: int) -> Callable[[Any], bool]:
    ready = kv.is_true("Ready")
    return lambda errand: ready(errand) and (errand.status.step, errand.status.pings) == (step, pings)


async def errands(lab: Lab) -> None:
    """Two errands: the first waits for a tool without events, the second is changed while it rests, and is then done again."""
    await lab.start(build_errand)
    await lab.create(Errand.new("rest", spec=ErrandSpec()))
    await seen(lab, Errand, "rest", at_step(1, 0))
    await lab.create(Errand.new("fetch", spec=ErrandSpec(tool="hammer")))
    await asyncio.sleep(5)
    await lab.create(SECRET.new("hammer"))
    await seen(lab, Errand, "fetch", at_step(1, 0), longest=60)
    await lab.patch(Errand, "rest", {"spec": {"step": 2}})
    await lab.create(config("ping-1"))
    await seen(lab, Errand, "rest", at_step(2, 1))
    await lab.create(SECRET.new("word"))
    await seen(lab, Errand, "rest", lambda errand: errand.status.word, longest=400)
    await lab.patch(Errand, "rest", {"spec": {"step": 3}})
    await seen(lab, Errand, "rest", at_step(3, 1))
    await lab.delete(Errand, "rest")
    await lab.create(Errand.new("rest", spec=ErrandSpec(step=4)))
    await lab.create(config("ping-2"))
    await seen(lab, Errand, "rest", at_step(4, 2))


async def badge(lab: Lab) -> None:
    """An object outside every cache belongs to another owner, and is retried after its delay."""
    person = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "badge", "namespace": lab.namespace}}
    await lab.client.apply(SECRET, person | {"stringData": {"by": "me"}, "type": "Opaque"}, manager="person")
    await lab.start(build_errand)
    await lab.create(Errand.new("walk", spec=ErrandSpec(badge="badge")))
    await seen(lab, Errand, "walk", kv.is_false("Ready"))
    await lab.client.apply(SECRET, person | {"type": "Opaque"}, manager="person")
    await seen(lab, Errand, "walk", kv.is_true("Ready"), longest=100)


# --- an object that is reconciled as often as it changes --------------------------------------------------------------------------


class TallySpec(kv.Model):
    marks: int = 1


class TallyStatus(kv.Status):
    marks: int | None = None


@kv.resource("example.com/v1", conditions=("Ready",), plural="tallies")
class Tally(kv.CustomResource[TallySpec, TallyStatus]):
    """Its status repeats its spec, and only its own changes enqueue it."""


class TallyReconciler:
    def __init__(self) -> None:
        self.reconciles = 0

    async def reconcile(self, tally: Tally, ctx: kv.Context[Tally]) -> kv.Outcome:
        self.reconciles += 1
        ctx.status.draft.marks = tally.spec.marks
        ctx.status.set_condition("Ready", True, "Counted", f"{tally.spec.marks} marks")
        return kv.Done()


def _counted(marks: int) -> Callable[[Tally], bool]:
    return lambda tally: tally.status.marks == marks


async def placid(lab: Lab) -> None:
    """Each change of the spec is one reconcile, if nothing disturbs the run: none is for the controller's own status."""
    reconciler = TallyReconciler()
    await lab.start(lambda manager: manager.add(kv.Controller.of(Tally).reconciled_by(reconciler)))
    for marks in (1, 2, 3):
        if marks == 1:
            await lab.create(Tally.new("year", spec=TallySpec()))
        else:
            await lab.patch(Tally, "year", {"spec": {"marks": marks}})
        await seen(lab, Tally, "year", _counted(marks))
        await asyncio.sleep(2)
        if lab.patience == 1:
            assert reconciler.reconciles == marks, f"{marks} changes came to {reconciler.reconciles} reconciles"
