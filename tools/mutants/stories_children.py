"""Stories of children: a child that waits for a Secret, many children, adopted children, fields that are left to other managers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import Field
from story_words import (
    CONFIG,
    SECRET,
    OwnWrites,
    check_owner,
    config,
    data_of,
    fill,
    gone,
    meddled_with,
    seen,
    stored,
)

import konverge as kv
from konverge.errors import NotOurs
from konverge_testing.lab import Lab

# --- a child, and a Secret that it waits for -------------------------------------------------------------------------------------


class BackupSpec(kv.Model):
    schedule: str
    keep: Annotated[int, Field(ge=1)] = 7


class BackupStatus(kv.Status):
    job: str | None = None


@kv.resource("example.com/v1", conditions=("Ready", "Accepted"))
class Backup(kv.CustomResource[BackupSpec, BackupStatus]):
    """A copy that a job creates; the job is a ConfigMap here."""


class BackupReconciler:
    def __init__(self) -> None:
        self.own = OwnWrites()

    async def reconcile(self, backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
        await self.own.check(ctx, backup.namespace, f"job-{backup.name}")
        if ctx.status.find("Accepted") is None:
            ctx.status.set_condition("Accepted", True, "Accepted", "seen for the first time")
        if ctx.cache(SECRET).find(backup.namespace, "target") is None:
            ctx.status.set_condition("Ready", False, "SecretMissing", "create a Secret named target")
            return kv.Done()
        job = await ctx.own(config(f"job-{backup.name}", schedule=backup.spec.schedule, keep=str(backup.spec.keep)))
        self.own.note(ctx, job)
        ctx.status.draft.job = job.name
        ctx.status.set_condition("Ready", True, "Scheduled", f"copies are made by {job.name}")
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
        result = stored(lab, "backups", "nightly")
        status = (result or {}).get("status", {})
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", ())
        )
        if result is not None and ready and status.get("observedGeneration") == result["metadata"]["generation"]:
            job = data_of(lab, "job-nightly")
            if job is not None and job.get("schedule") in {"3", "4"}:  # else another client edits it
                assert job["schedule"] == result["spec"]["schedule"], (
                    "the status says that this generation is done, and it is not"
                )

    lab.always.append(truthful)
    once = "Accepted is set once, for the generation of that time"
    lab.may_differ(None, "status.conditions.observedGeneration", why=once)
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
    moved = [item.find_condition("Ready").last_transition_time for item in (before, after)]
    assert lab.patience > 1 or moved[0] == moved[1], "a condition that kept its status has another transition time"
    await lab.patch(CONFIG, "job-nightly", {"data": {"schedule": "5"}})
    await seen(lab, CONFIG, "job-nightly", lambda job: job.data["data"]["schedule"] == "4")
    await lab.delete(SECRET, "target")
    await seen(lab, Backup, "nightly", kv.is_false("Ready"))
    await lab.create(SECRET.new("target"))
    await seen(lab, Backup, "nightly", kv.is_true("Ready"))


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
            applied = await ctx.apply_children(
                config(f"{site.name}-{page}", theme=site.spec.theme) for page in site.spec.pages
            )
        except NotOurs as error:
            ctx.status.set_condition("Ready", False, "NotOurs", str(error))
            return kv.RequeueAfter(60)
        finally:
            self.busy.discard(ctx.key)
        ctx.status.draft.pages = len(applied.keys)
        ctx.status.set_condition("Ready", True, "Published", "all pages are there")
        return kv.Done()


def build_site(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Site).owns(CONFIG).with_(concurrency=2).reconciled_by(SiteReconciler()))


def published(pages: int) -> Callable[[Any], bool]:
    ready = kv.is_true("Ready")
    return lambda site: ready(site) and site.status.pages == pages


async def sites(lab: Lab) -> None:
    """Two sites; one gets and loses pages during a reconcile, a page gets another owner, one site is deleted."""
    await lab.start(build_site)
    await lab.create(Site.new("blog", spec=SiteSpec(pages=["a", "b"])))
    await lab.create(Site.new("shop", spec=SiteSpec(pages=["a"])))
    await asyncio.sleep(0.1)  # its first reconcile is running
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
    """A user replaces a page by an object of their own, and the site drops the page: the object must stay as the user created it."""
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
    """A panel whose color a user may choose by hand."""


class PanelReconciler:
    async def reconcile(self, panel: Panel, ctx: kv.Context[Panel]) -> kv.Outcome:
        parts = [kv.Child(config(f"{panel.name}-{part}", part=part)) for part in panel.spec.parts]
        front = kv.Child(config(f"{panel.name}-front", color=panel.spec.color), on_conflict=kv.HOLD, adopt=True)
        applied = await ctx.apply_children([*parts, front])
        if applied.held:
            ctx.status.set_condition("Ready", False, "Held", "somebody else chose the color")
        else:
            ctx.status.set_condition("Ready", True, "Painted", f"it is {panel.spec.color}")
        return kv.Done()


def build_panel(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Panel).owns(CONFIG).reconciled_by(PanelReconciler()))


async def hold(lab: Lab) -> None:
    """Another manager takes the color of a panel; the panel waits, keeps its parts, and continues when the color is given back."""
    person = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wall-front", "namespace": lab.namespace}}
    await lab.create(config("wall-front"))
    await lab.start(build_panel)
    await lab.create(Panel.new("wall", spec=PanelSpec(color="red", parts=["knob"])))
    await seen(lab, Panel, "wall", kv.is_true("Ready"))
    await lab.client.apply(CONFIG, person | {"data": {"color": "blue"}}, manager="person", force=True)
    if not meddled_with(lab):  # the front of a recreated panel has no other manager
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
