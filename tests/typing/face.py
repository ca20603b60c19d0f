"""The public face as type checkers infer it. Never run: `make lint` checks it."""

from __future__ import annotations

from typing import assert_type

import backup_operator
from backup_operator import Backup, BackupSpec, BackupStatus

import konverge as kv

SECRET = kv.kind("v1", "Secret")


async def face(backup: Backup, ctx: kv.Context[Backup], caches: kv.Caches, manager: kv.Manager) -> None:
    assert_type(backup.spec, BackupSpec)
    assert_type(backup.status, BackupStatus)
    assert_type(backup.namespace, str)
    assert_type(backup.condition("Ready"), kv.Condition)
    assert_type(backup.find_condition("Ready"), kv.Condition | None)

    assert_type(ctx.object, Backup)
    assert_type(ctx.status.draft, BackupStatus)
    assert_type(ctx.status.draft.cron_job, str | None)

    assert_type(ctx.cache(SECRET).find("web", "target"), kv.Object | None)
    assert_type(ctx.cache(Backup).list("web"), list[Backup])
    assert_type(caches(Backup).keys(namespace="web"), list[kv.Key])
    assert_type(await ctx.live(SECRET).get("web", "target"), kv.Object)

    assert_type(await ctx.own(SECRET.new("target")), kv.Object)
    assert_type(await ctx.own(Backup.new("other", spec=BackupSpec(schedule="0 3 * * *"))), Backup)
    assert_type(await ctx.execute(kv.Plan(draft=BackupStatus())), kv.Outcome)
    assert_type(await ctx.delete(SECRET, "target", "web"), bool)

    target = await ctx.live(SECRET).get("web", "target")
    assert_type(await ctx.patch(SECRET, expect=target, patch={"data": {}}), kv.Object)
    assert_type(await ctx.patch(Backup, expect=backup.metadata, patch={"spec": {}}), Backup)
    assert_type(await ctx.patch(SECRET, "target", "web", patch={"data": {}}), kv.Object)
    assert_type(await ctx.delete(SECRET, expect=target), bool)
    assert_type(await ctx.client.find(Backup, "nightly", "web"), Backup | None)
    assert_type(await ctx.client.get_or_create(SECRET.new("target", "web")), kv.Object)

    assert_type(await manager.client.get(Backup, "nightly", "web"), Backup)
    assert_type(await manager.client.get(SECRET, "target", "web"), kv.Object)


def check(request: kv.AdmissionRequest[Backup]) -> kv.Allow | kv.Deny:
    assert_type(request.object, Backup)
    assert_type(request.old, Backup | None)
    assert_type(request.cache(SECRET).find("web", "target"), kv.Object | None)
    return kv.Allow() if request.object.spec.schedule else kv.Deny("a schedule is needed")


async def slow_check(request: kv.AdmissionRequest[Backup]) -> kv.Deny:
    return kv.Deny((await request.live(SECRET).get("web", "target")).name)


def webhooks(manager: kv.Manager) -> None:
    assert_type(kv.Webhook.validating(Backup), kv.Webhook[Backup])
    assert_type(kv.Webhook.mutating(SECRET).on("CREATE").named("first"), kv.Webhook[kv.Object])
    manager.add(kv.Webhook.validating(Backup).handled_by(check))
    manager.add(kv.Webhook.validating(Backup).named("slowly").handled_by(slow_check))
    kv.Webhook.validating(SECRET).handled_by(check)  # type: ignore[arg-type]  # a handler for another kind
    kv.Webhook.validating(Backup).on("PATCH")  # type: ignore[arg-type]  # no such operation


class Untyped:
    async def reconcile(self, object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.status.draft["phase"] = "Ready"
        return kv.Done()


assert_type(kv.Controller.of(SECRET).reconciled_by(Untyped()), kv.Controller[kv.Object])
assert_type(kv.Controller.of(Backup), kv.Controller[Backup])
assert_type(kv.Controller.of(SECRET, drop=["data"]), kv.Controller[kv.Object])
assert_type(kv.Controller.of_metadata(Backup), kv.Controller[kv.MetadataObject])
kv.Controller.of_metadata(Backup).reconciled_by(backup_operator.BackupReconciler())  # type: ignore[arg-type]  # it reads a spec


def paused(metadata: kv.Metadata, caches: kv.Caches) -> str:
    return "" if caches(SECRET).find(metadata.namespace, "target") else "there is no target"


def created(change: kv.Change) -> bool:
    return change.old is None


CONTROLLED = kv.Controller.of(Backup).pausable(paused, observing=True).when(created)
assert_type(CONTROLLED.retries(delay=lambda key, failures: 5.0 * failures), kv.Controller[Backup])
assert_type(CONTROLLED.retries(limiter=kv.ItemExponential), kv.Controller[Backup])
assert_type(CONTROLLED.prioritized(lambda metadata, reason: len(metadata.labels or {})), kv.Controller[Backup])
backup_operator.build(kv.Manager("backup-operator"))
