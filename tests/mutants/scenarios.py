"""Small operators, each with a story, that the lab explores on mutated copies of the tree; see `tests/mutants/catalogue.py`.

Promises: the unmutated tree passes every plan of every story here. A story says in its own words what it expects where the lab cannot know it: that a
child has the right owner, that nobody else's object is touched. The stories are ordinary lab scenarios; nothing in them knows of mutants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, Final

from pydantic import Field

import konverge as kv
from konverge.crds import crd
from konverge.errors import NotOurs, OwnershipError
from konverge.keys import compare_versions
from konverge.runtime.predicates import generation_changed
from konverge.testing.lab import Lab
from konverge.testing.lab.lab import install_crds

__all__ = ["SCENARIOS"]

CONFIG: Final = kv.kind("v1", "ConfigMap")
SECRET: Final = kv.kind("v1", "Secret")
_CONFIGS: Final = ("", "configmaps")
_FILLERS: Final = 6
"""Commits that keep what a story made earlier out of the reach of plans in which a server lags a few versions."""


# --- words of the stories --------------------------------------------------------------------------------------------------------


async def seen(lab: Lab, what: Any, name: str, test: Callable[[Any], bool], longest: float = 30.0) -> Any:
    """Wait for a state as `Lab.until` does, looking ever more seldom: a plan may hold things up for minutes."""
    pause, waited = 0.05, 0.0
    while waited < (longest if lab.patience == 1 else 4000.0):
        found = await lab.find(what, name)
        if found is not None and test(found):
            return found
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(pause * 1.5, 5.0)
    raise AssertionError(
        f"{name}: waited {waited:.0f} s for {getattr(test, '__qualname__', test)}, it is {await lab.find(what, name)!r}"
    )


async def gone(lab: Lab, what: Any, name: str) -> None:
    """Wait until an object is gone."""
    pause, waited = 0.05, 0.0
    while await lab.find(what, name) is not None:
        assert waited < (30.0 if lab.patience == 1 else 4000.0), f"{name} was not gone after {waited:.0f} s"
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(pause * 1.5, 5.0)


def config(name: str, namespace: str = "", **data: str) -> kv.Object:
    return CONFIG.new(name, namespace, data=data)


def data_of(lab: Lab, name: str) -> dict[str, str] | None:
    """Return the data of a stored ConfigMap, as of this very moment."""
    entry = lab.server.store.get(_CONFIGS, lab.namespace, name)
    return None if entry is None else entry.object().get("data", {})


def stored(lab: Lab, plural: str, name: str) -> dict[str, Any] | None:
    entry = lab.server.store.get(("example.com", plural), lab.namespace, name)
    return None if entry is None else entry.object()


def check_owner(child: Any, kind: str, name: str) -> None:
    """Expect exactly one owner, the one that controls."""
    owners = [(one.kind, one.name, one.controller) for one in child.metadata.owner_references]
    assert owners == [(kind, name, True)], f"{child.name} has the owners {owners}"


def meddled_with(lab: Lab) -> bool:
    """Whether somebody else has orders to write in this run: then a finalizer may be gone that a story waits for."""
    plan = getattr(lab.gate, "plan", None)
    return plan is not None and bool(plan.foreign)


async def fill(lab: Lab) -> None:
    """Make what happened so far older than any view of a server that lags."""
    for number in range(_FILLERS):
        await lab.create(SECRET.new(f"filler-{number}"))


class OwnWrites:
    """What a reconciler has written itself, to find a pass that is shown less than that; see the barrier's promise and its limit."""

    def __init__(self) -> None:
        self._written: dict[tuple[Any, str], tuple[str, str, float]] = {}

    def note(self, ctx: kv.Context[Any], child: Any) -> None:
        place = (ctx.key, child.name)
        before = self._written.get(place)
        if before is None or before[:2] != (child.metadata.uid, child.metadata.resource_version):
            self._written[place] = (
                child.metadata.uid,
                child.metadata.resource_version,
                asyncio.get_running_loop().time(),
            )

    async def check(self, ctx: kv.Context[Any], namespace: str, name: str) -> None:
        written = self._written.get((ctx.key, name))
        if written is None or asyncio.get_running_loop().time() - written[2] > 9:
            return
        uid, version, _ = written
        metadata = ctx.cache(CONFIG).metadata(namespace, name)
        if metadata is not None and (compare_versions(metadata.resource_version, version) or 0) >= 0:
            return
        live = await ctx.live(CONFIG).find(namespace, name)
        assert live is None or live.metadata.uid != uid, (
            f"a pass of {ctx.key} is shown less of {name} than it wrote itself"
        )


# --- a child, and a Secret that it waits for -------------------------------------------------------------------------------------


class BackupSpec(kv.Model):
    schedule: str
    keep: Annotated[int, Field(ge=1)] = 7


class BackupStatus(kv.Status):
    job: str | None = None


@kv.resource("example.com/v1", conditions=("Ready", "Accepted"))
class Backup(kv.CustomResource[BackupSpec, BackupStatus]):
    """A copy that is made by a job, which is a ConfigMap here."""


class BackupReconciler:
    def __init__(self) -> None:
        self.own = OwnWrites()

    async def reconcile(self, backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
        await self.own.check(ctx, backup.namespace, f"job-{backup.name}")
        if ctx.status.find("Accepted") is None:
            ctx.status.mark("Accepted", True, "Accepted", "seen for the first time")
        if ctx.cache(SECRET).find(backup.namespace, "target") is None:
            ctx.status.mark("Ready", False, "SecretMissing", "create a Secret named target")
            return kv.Done()
        job = await ctx.own(config(f"job-{backup.name}", schedule=backup.spec.schedule, keep=str(backup.spec.keep)))
        self.own.note(ctx, job)
        ctx.status.draft.job = job.name
        ctx.status.mark("Ready", True, "Scheduled", f"copies are made by {job.name}")
        return kv.Done()


def backups_using(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Backup).keys(namespace=secret.namespace) if secret.name == "target" else ()


def build_backup(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Backup)
        .owns(CONFIG)
        .watches(SECRET, to=backups_using, metadata_only=True)
        .reconciled_by(BackupReconciler())
    )


async def backup(lab: Lab) -> None:
    """A Backup waits for its Secret, gets its job, is edited, loses the Secret, and gets it back."""

    def truthful() -> None:
        found = stored(lab, "backups", "nightly")
        status = (found or {}).get("status", {})
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
        if found is not None and ready and status.get("observedGeneration") == found["metadata"]["generation"]:
            job = data_of(lab, "job-nightly")
            if job is not None and job.get("schedule") in {"3", "4"}:  # else somebody edits it
                assert job["schedule"] == found["spec"]["schedule"], (
                    "the status says that this generation is done, and it is not"
                )

    lab.always.append(truthful)
    lab.masks.append(
        "status.conditions.observedGeneration"
    )  # Accepted is marked once, for whatever generation that was
    await lab.start(build_backup)
    await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="3")))
    await seen(lab, Backup, "nightly", kv.is_false("Ready"))
    await lab.create(SECRET.new("target"))
    before = await seen(lab, Backup, "nightly", kv.is_true("Ready"))
    check_owner(await lab.get(CONFIG, "job-nightly"), "Backup", "nightly")
    await asyncio.sleep(2)
    await lab.patch(Backup, "nightly", {"spec": {"schedule": "4"}})
    after = await seen(lab, Backup, "nightly", kv.is_true("Ready"))
    await seen(lab, CONFIG, "job-nightly", lambda job: job.data["data"]["schedule"] == "4")
    assert after.status.observed_generation == after.metadata.generation
    moved = [one.find_condition("Ready").last_transition_time for one in (before, after)]
    assert lab.patience > 1 or moved[0] == moved[1], "a condition that kept its status has another transition time"
    await lab.patch(CONFIG, "job-nightly", {"data": {"schedule": "5"}})
    await seen(lab, CONFIG, "job-nightly", lambda job: job.data["data"]["schedule"] == "4")
    await lab.delete(SECRET, "target")
    await seen(lab, Backup, "nightly", kv.is_false("Ready"))
    await lab.create(SECRET.new("target"))
    await seen(lab, Backup, "nightly", kv.is_true("Ready"))


# --- a finalizer, and an effect that nothing else cleans up ----------------------------------------------------------------------


class BucketSpec(kv.Model):
    size: int = 1


@kv.resource("example.com/v1", conditions=("Ready",))
class Bucket(kv.CustomResource[BucketSpec, kv.Status]):
    """A bucket in a cloud, which is a ConfigMap without an owner here."""


class BucketReconciler:
    async def reconcile(self, bucket: Bucket, ctx: kv.Context[Bucket]) -> kv.Outcome:
        await ctx.apply(config(f"cloud-{bucket.name}", bucket.namespace, size=str(bucket.spec.size)), force=True)
        ctx.status.mark("Ready", True, "Made", "it is in the cloud")
        return kv.Done()

    async def finalize(self, bucket: Bucket, ctx: kv.Context[Bucket]) -> kv.Outcome:
        found = await ctx.live(CONFIG).find(bucket.namespace, f"cloud-{bucket.name}")
        if found is None:
            return kv.Done()
        now = ctx.now().timestamp()
        until = float((found.metadata.annotations or {}).get("until", "0"))
        if not until:  # a cloud takes its time: it is asked, and says when it will be done
            note = {"metadata": {"annotations": {"until": str(now + 5)}}}
            await ctx.patch(CONFIG, found.name, bucket.namespace, patch=note)
            return kv.RequeueAfter(5)
        if now < until:
            return kv.RequeueAfter(until - now)
        await ctx.delete(CONFIG, found.name, bucket.namespace, uid=found.metadata.uid)
        return kv.RequeueAfter(1)


def buckets_in_cloud(cloud: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    return [key for key in caches(Bucket).keys(cloud.namespace) if cloud.name == f"cloud-{key.name}"]


def build_bucket(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Bucket)
        .finalizer("example.com/bucket")
        .watches(CONFIG, to=buckets_in_cloud)
        .when(generation_changed)
        .reconciled_by(BucketReconciler())
    )


async def bucket(lab: Lab) -> None:
    """A bucket is made, changed, deleted, and made again under its name."""

    def cleaned_up() -> None:
        if data_of(lab, "cloud-photos") is not None and not meddled_with(lab):
            assert stored(lab, "buckets", "photos") is not None, "the bucket is gone, and it is still in the cloud"

    lab.always.append(cleaned_up)
    lab.masks.append("metadata.annotations")  # a bucket whose finalizer somebody removed leaves the note behind
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
        await lab.delete(Bucket, "photos")  # somebody made it anew
        await gone(lab, Bucket, "photos")
    await lab.create(Bucket.new("photos", spec=BucketSpec(size=3)))
    await seen(lab, Bucket, "photos", kv.is_true("Ready"))
    await seen(lab, CONFIG, "cloud-photos", lambda cloud: cloud.data["data"]["size"] == "3")


async def guarded(lab: Lab) -> None:
    """Somebody else holds the bucket too, for a while: their finalizer is theirs to remove."""
    await lab.start(build_bucket)
    made = Bucket.new("photos", lab.namespace, spec=BucketSpec()).to_dict()
    made["metadata"]["finalizers"] = ["example.com/guard"]
    await lab.create(kv.kind("example.com/v1", "Bucket").decode(made))
    guard = {"path": "/metadata/finalizers/0", "value": "example.com/guard"}
    try:
        found = await seen(lab, Bucket, "photos", kv.is_true("Ready"))
        held = list(found.metadata.finalizers)
        assert meddled_with(lab) or held == ["example.com/guard", "example.com/bucket"], f"it is held by {held}"
    finally:
        with suppress(kv.ApiError):  # somebody was quicker
            await lab.client.patch(
                Bucket,
                "photos",
                lab.namespace,
                patch=[{"op": "test", **guard}, {"op": "remove", **guard}],
                style="json",
            )


# --- several objects with several children ---------------------------------------------------------------------------------------


class SiteSpec(kv.Model):
    pages: list[str]
    theme: str = "plain"


class SiteStatus(kv.Status):
    pages: int | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Site(kv.CustomResource[SiteSpec, SiteStatus]):
    """Pages, each a ConfigMap."""


class SiteReconciler:
    def __init__(self) -> None:
        self.busy: set[kv.Key] = set()

    async def reconcile(self, site: Site, ctx: kv.Context[Site]) -> kv.Outcome:
        assert ctx.key not in self.busy, f"two passes of {ctx.key} at a time"
        self.busy.add(ctx.key)
        try:
            await asyncio.sleep(0.2)
            applied = await ctx.children(
                config(f"{site.name}-{page}", theme=site.spec.theme) for page in site.spec.pages
            )
        except NotOurs as error:
            ctx.status.mark("Ready", False, "NotOurs", str(error))
            return kv.RequeueAfter(60)
        finally:
            self.busy.discard(ctx.key)
        ctx.status.draft.pages = len(applied.keys)
        ctx.status.mark("Ready", True, "Published", "all pages are there")
        return kv.Done()


def build_site(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Site).owns(CONFIG).with_(concurrency=2).reconciled_by(SiteReconciler()))


def published(pages: int) -> Callable[[Any], bool]:
    ready = kv.is_true("Ready")
    return lambda site: ready(site) and site.status.pages == pages


async def sites(lab: Lab) -> None:
    """Two sites; one gets and loses pages while it is worked on, a page becomes somebody else's, one site is deleted."""
    await lab.start(build_site)
    await lab.create(Site.new("blog", spec=SiteSpec(pages=["a", "b"])))
    await lab.create(Site.new("shop", spec=SiteSpec(pages=["a"])))
    await asyncio.sleep(0.1)  # its first pass is under way
    await lab.patch(Site, "blog", {"spec": {"pages": ["a", "b", "c"]}})
    await seen(lab, Site, "blog", published(3))
    await seen(lab, Site, "shop", published(1))
    check_owner(await lab.get(CONFIG, "blog-b"), "Site", "blog")
    await lab.patch(Site, "blog", {"spec": {"theme": "dark"}})
    await asyncio.sleep(0.1)
    await lab.patch(Site, "blog", {"spec": {"pages": ["a", "c"]}})
    await gone(lab, CONFIG, "blog-b")
    await seen(lab, CONFIG, "blog-c", lambda page: page.data["data"]["theme"] == "dark")
    await lab.patch(Site, "shop", {"spec": {"pages": []}})
    await gone(lab, CONFIG, "shop-a")
    await seen(lab, Site, "shop", published(0))
    await lab.delete(Site, "shop")
    await seen(lab, Site, "blog", published(2))


async def takeover(lab: Lab) -> None:
    """Somebody puts an object of their own in the place of a page, and the site lets it go: it must stay as they made it."""
    await lab.start(build_site)
    await lab.create(Site.new("blog", spec=SiteSpec(pages=["a", "b"])))
    await seen(lab, Site, "blog", published(2))
    await lab.delete(CONFIG, "blog-b")
    try:
        await lab.create(config("blog-b", mine="yes"))
    except kv.ApiError:  # the site was quicker
        await lab.delete(CONFIG, "blog-b")
        await lab.create(config("blog-b", mine="yes"))
    await fill(lab)
    await lab.patch(Site, "blog", {"spec": {"pages": ["a"]}})
    await seen(lab, Site, "blog", published(1))
    assert data_of(lab, "blog-b") == {"mine": "yes"}, f"somebody's own object was touched: {data_of(lab, 'blog-b')}"


# --- fields that are left to others ----------------------------------------------------------------------------------------------


class PanelSpec(kv.Model):
    color: str
    parts: list[str] = Field(default_factory=list)


@kv.resource("example.com/v1", conditions=("Ready",))
class Panel(kv.CustomResource[PanelSpec, kv.Status]):
    """A panel whose color somebody may choose by hand."""


class PanelReconciler:
    async def reconcile(self, panel: Panel, ctx: kv.Context[Panel]) -> kv.Outcome:
        parts = [kv.Child(config(f"{panel.name}-{part}", part=part)) for part in panel.spec.parts]
        front = kv.Child(config(f"{panel.name}-front", color=panel.spec.color), on_conflict=kv.HOLD, adopt=True)
        applied = await ctx.children([*parts, front])
        if applied.held:
            ctx.status.mark("Ready", False, "Held", "somebody else chose the color")
        else:
            ctx.status.mark("Ready", True, "Painted", f"it is {panel.spec.color}")
        return kv.Done()


def build_panel(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Panel).owns(CONFIG).reconciled_by(PanelReconciler()))


async def hold(lab: Lab) -> None:
    """Somebody takes the color of a panel; the panel waits, keeps its parts meanwhile, and goes on when it is given back."""
    person = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wall-front", "namespace": lab.namespace}}
    await lab.create(config("wall-front"))
    await lab.start(build_panel)
    await lab.create(Panel.new("wall", spec=PanelSpec(color="red", parts=["knob"])))
    await seen(lab, Panel, "wall", kv.is_true("Ready"))
    await lab.client.apply(CONFIG, person | {"data": {"color": "blue"}}, manager="person", force=True)
    if not meddled_with(lab):  # a panel that is made anew has a front that nobody took
        await seen(lab, Panel, "wall", kv.is_false("Ready"))
    await lab.patch(Panel, "wall", {"spec": {"color": "green", "parts": []}})
    await asyncio.sleep(5)
    if lab.patience == 1:
        assert data_of(lab, "wall-front") == {"color": "blue"}, "a field that is somebody else's was taken"
        assert data_of(lab, "wall-knob") is not None, "a part was removed while the panel waits"
    await lab.client.apply(CONFIG, person, manager="person", force=True)
    await seen(lab, Panel, "wall", kv.is_true("Ready"))
    await gone(lab, CONFIG, "wall-knob")
    await seen(lab, CONFIG, "wall-front", lambda front: front.data["data"] == {"color": "green"})


# --- times, and news at the wrong moment -----------------------------------------------------------------------------------------


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
    """Work that looks at things which nothing tells of."""


class ErrandReconciler:
    async def reconcile(self, errand: Errand, ctx: kv.Context[Errand]) -> kv.Outcome:
        spec = errand.spec
        if spec.tool and await ctx.live(SECRET).find(errand.namespace, spec.tool) is None:
            raise kv.RetryAfter(20, f"there is no {spec.tool}")
        if spec.badge:
            try:
                await ctx.apply(SECRET.new(spec.badge, errand.namespace, stringData={"by": errand.name}))
            except kv.FieldsHeld:
                ctx.status.mark("Ready", False, "Held", "the badge is somebody else's")
                return kv.RequeueAfter(600)
        ctx.status.draft.word = await ctx.live(SECRET).find(errand.namespace, "word") is not None
        ctx.status.draft.pings = sum(
            1 for key in ctx.cache(CONFIG).keys(errand.namespace) if key.name.startswith("ping")
        )
        ctx.status.draft.step = spec.step
        ctx.status.mark("Ready", True, "Done", "nothing is left to do")
        return kv.RequeueAfter(600)


def all_errands(ping: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Errand).keys(ping.namespace)


def build_errand(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Errand)
        .watches(CONFIG, to=all_errands, metadata_only=True)
        .with_(resync=300)
        .reconciled_by(ErrandReconciler())
    )


def at_step(step: int, pings: int) -> Callable[[Any], bool]:
    ready = kv.is_true("Ready")
    return lambda errand: ready(errand) and (errand.status.step, errand.status.pings) == (step, pings)


async def errands(lab: Lab) -> None:
    """Two errands: one waits for a tool that nothing tells of, one is changed while it rests, and is then done anew."""
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
    """Something that nobody caches is somebody else's, and is tried again when its time has come."""
    person = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "badge", "namespace": lab.namespace}}
    await lab.client.apply(SECRET, person | {"stringData": {"by": "me"}, "type": "Opaque"}, manager="person")
    await lab.start(build_errand)
    await lab.create(Errand.new("walk", spec=ErrandSpec(badge="badge")))
    await seen(lab, Errand, "walk", kv.is_false("Ready"))
    await lab.client.apply(SECRET, person | {"type": "Opaque"}, manager="person")
    await seen(lab, Errand, "walk", kv.is_true("Ready"), longest=100)


# --- what must not be touched ----------------------------------------------------------------------------------------------------


class MirrorSpec(kv.Model):
    target: str
    space: str = ""


@kv.resource("example.com/v1", conditions=("Ready",))
class Mirror(kv.CustomResource[MirrorSpec, kv.Status]):
    """A copy of a Secret's name, wherever one asks for it."""


class MirrorReconciler:
    async def reconcile(self, mirror: Mirror, ctx: kv.Context[Mirror]) -> kv.Outcome:
        if ctx.cache(SECRET).find(mirror.namespace, "key") is None:
            ctx.status.mark("Ready", False, "SecretMissing", "create a Secret named key")
            return kv.Done()
        try:
            await ctx.own(config(mirror.spec.target, mirror.spec.space, of="key"))
        except OwnershipError:
            ctx.status.mark("Ready", False, "Elsewhere", "a child cannot live in another namespace")
        except NotOurs:
            ctx.status.mark("Ready", False, "Taken", "the name is somebody else's")
        else:
            ctx.status.mark("Ready", True, "Copied", "it is there")
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
    return lambda one: one.find_condition("Ready") is not None and one.find_condition("Ready").reason == reason


async def strangers(lab: Lab) -> None:
    """The Secret is there from the start, and so is somebody's object; one child is wanted in another namespace."""

    def knows_the_secret() -> None:
        for name in ("near", "far", "thief"):
            found = stored(lab, "mirrors", name) or {}
            reasons = [one["reason"] for one in found.get("status", {}).get("conditions", ())]
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


# --- a kind that comes and goes --------------------------------------------------------------------------------------------------


class GadgetSpec(kv.Model):
    size: int = 1


@kv.resource("example.com/v1")
class Gadget(kv.CustomResource[GadgetSpec, kv.Status]):
    """Something to be counted."""


class ShelfStatus(kv.Status):
    gadgets: int | None = None


@kv.resource("example.com/v1", conditions=("Ready",), plural="shelves")
class Shelf(kv.CustomResource[GadgetSpec, ShelfStatus]):
    """It says how many gadgets there are."""


class ShelfReconciler:
    async def reconcile(self, shelf: Shelf, ctx: kv.Context[Shelf]) -> kv.Outcome:
        ctx.status.draft.gadgets = len(ctx.cache(Gadget).keys(shelf.namespace))
        ctx.status.mark("Ready", True, "Counted", "done")
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


def _story(told: Callable[[Lab], Awaitable[None]]) -> Callable[[Lab], Awaitable[None]]:
    """Take a refusal for what it is where somebody else meddles: the story cannot go on as it expected."""

    @wraps(told)
    async def story(lab: Lab) -> None:
        try:
            await told(lab)
        except kv.ApiError as error:
            if meddled_with(lab):
                raise AssertionError(f"the story was refused: {error}") from error
            raise

    return story


SCENARIOS: Final = {
    one.__name__: _story(one)
    for one in (backup, bucket, guarded, sites, takeover, hold, errands, badge, strangers, shelf)
}
