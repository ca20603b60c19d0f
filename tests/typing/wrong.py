"""Wrong programs. Never run: `make lint` checks that mypy and strict pyright report exactly these errors.

Each line with a mistake ends in a comment that names the error of each checker; `tools/type_errors.py` compares.
"""

# pyright: strict
# ruff: noqa: B018, RUF100

from __future__ import annotations

from collections.abc import Iterable

from backup_operator import CRON_JOB, SECRET, Backup, BackupReconciler, BackupSpec, BackupStatus

import konverge as kv

# --- a controller ----------------------------------------------------------------------------------------------------------------


class OfSecrets:
    async def reconcile(self, secret: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return kv.Done()


class WithTheContextOfAnother:
    async def reconcile(self, backup: Backup, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return kv.Done()


class WithoutOutcome:
    async def reconcile(self, backup: Backup, ctx: kv.Context[Backup]) -> None:
        return None


class WithoutContext:
    async def reconcile(self, backup: Backup) -> kv.Outcome:
        return kv.Done()


class Misspelt:
    async def reconcil(self, backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
        return kv.Done()


def backups_of(secret: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    return ()


def names_of(secret: kv.Metadata, caches: kv.Caches) -> Iterable[str]:
    return ()


BACKUPS = kv.Controller.of(Backup)

kv.Controller.of(BackupSpec)  # error: mypy[type-var] pyright[reportArgumentType]
kv.Controller.of(SECRET).reconciled_by(BackupReconciler())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(OfSecrets())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(WithTheContextOfAnother())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(WithoutOutcome())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(WithoutContext())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(Misspelt())  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.reconciled_by(BackupReconciler)  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.with_(concurency=3)  # error: mypy[call-arg] pyright[reportCallIssue]
BACKUPS.with_(concurrency="3")  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.owns("CronJob")  # error: mypy[arg-type] pyright[reportArgumentType]
BACKUPS.watches(  # error: mypy[call-overload] pyright[reportCallIssue]
    SECRET,
    to=backups_of,
    metadata_only=True,  # error: pyright[reportArgumentType]
)
BACKUPS.watches(  # error: mypy[call-overload] pyright[reportCallIssue]
    SECRET,
    to=names_of,  # error: pyright[reportArgumentType]
    metadata_only=True,
)
kv.kind("v1")  # error: mypy[call-overload] pyright[reportCallIssue]

# --- a reconcile -----------------------------------------------------------------------------------------------------------------


async def reconcile(backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
    backup.spec.schedul  # error: mypy[attr-defined] pyright[reportAttributeAccessIssue,reportUnknownMemberType]
    backup.spec.keep_copies = "3"  # error: mypy[assignment] pyright[reportAttributeAccessIssue]
    ctx.status.draft.cronjob = "x"  # error: mypy[attr-defined] pyright[reportAttributeAccessIssue]
    ctx.status.draft.cron_job = 3  # error: mypy[assignment] pyright[reportAttributeAccessIssue]
    ctx.status.set_condition("Ready", "True", "Scheduled")  # error: mypy[arg-type] pyright[reportArgumentType]
    ctx.status.set_condition("Ready", True)  # error: mypy[call-arg] pyright[reportCallIssue]
    job = ctx.own(CRON_JOB.new("nightly"))
    job.name  # error: mypy[attr-defined] pyright[reportAttributeAccessIssue,reportUnknownMemberType]
    await ctx.own(CRON_JOB.new("nightly"), on_conflict="TAKE")  # error: mypy[arg-type] pyright[reportArgumentType]
    await ctx.own(SECRET)  # error: mypy[type-var] pyright[reportArgumentType]
    await ctx.execute(kv.Done())  # error: mypy[arg-type] pyright[reportArgumentType]
    await ctx.patch(SECRET, "a", patch={}, subresource=1)  # error: mypy[call-overload] pyright[reportArgumentType]
    await ctx.patch(SECRET, patch={})  # error: mypy[call-overload] pyright[reportCallIssue]
    await ctx.patch(SECRET, "a", expect=backup, patch={})  # error: mypy[call-overload] pyright[reportCallIssue]
    await ctx.patch(SECRET, expect="a", patch={})  # error: mypy[call-overload] pyright[reportArgumentType]
    await ctx.delete(SECRET)  # error: mypy[call-overload] pyright[reportCallIssue]
    await ctx.client.create(SECRET)  # error: mypy[type-var] pyright[reportArgumentType]
    found = ctx.cache(SECRET).find("web", "target")
    found.name  # error: mypy[union-attr] pyright[reportOptionalMemberAccess]
    kv.RequeueAfter("30 s")  # error: mypy[arg-type] pyright[reportArgumentType]
    return True  # error: mypy[return-value] pyright[reportReturnType]


# --- models ----------------------------------------------------------------------------------------------------------------------

BackupSpec(schedul="0 3 * * *")  # error: mypy[call-arg] pyright[reportCallIssue]
BackupSpec(schedule="0 3 * * *", keep_copies="3")  # error: mypy[arg-type] pyright[reportArgumentType]
Backup.new("nightly", spec=BackupStatus())  # error: mypy[arg-type] pyright[reportArgumentType]
Backup.new("nightly", spc=BackupSpec(schedule=""))  # error: mypy[call-arg] pyright[reportCallIssue]

# --- a webhook -------------------------------------------------------------------------------------------------------------------


def check(request: kv.AdmissionRequest[Backup]) -> kv.Allow | kv.Deny:
    request.object.spec.schedul  # error: mypy[attr-defined] pyright[reportAttributeAccessIssue,reportUnknownMemberType]
    return kv.Allow()


def says_nothing(request: kv.AdmissionRequest[Backup]) -> None:
    return None


kv.Webhook.validating(SECRET).handled_by(check)  # error: mypy[arg-type] pyright[reportArgumentType]
kv.Webhook.mutating(Backup).handled_by(says_nothing)  # error: mypy[arg-type] pyright[reportArgumentType]
kv.Webhook.validating(Backup).on("PATCH")  # error: mypy[arg-type] pyright[reportArgumentType]
kv.Webhook.validating(Backup).within("10")  # error: mypy[arg-type] pyright[reportArgumentType]
kv.Manager("shop").add(BackupReconciler())  # error: mypy[arg-type] pyright[reportArgumentType]
