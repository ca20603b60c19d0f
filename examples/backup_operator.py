"""Nightly copies of volumes."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

import konverge as kv

CRON_JOB = kv.kind("batch/v1", "CronJob")
SECRET = kv.kind("v1", "Secret")


class BackupSpec(kv.Model):
    schedule: str
    keep_copies: Annotated[int, Field(ge=1)] = 7


class BackupStatus(kv.Status):
    cron_job: str | None = None


@kv.resource(
    "example.com/v1", short_names=("bk",), conditions=("Ready",), columns=(kv.Column("Schedule", ".spec.schedule"),)
)
class Backup(kv.CustomResource[BackupSpec, BackupStatus]):
    """Nightly copies of a volume."""


class BackupReconciler:
    async def reconcile(self, backup: Backup, ctx: kv.Context[Backup]) -> kv.Outcome:
        if ctx.cache(SECRET).find(backup.namespace, "target") is None:
            ctx.status.set_condition("Ready", False, "SecretMissing", "create a Secret named target with the key url")
            return kv.Done()  # the watch on Secrets enqueues it
        job = await ctx.own(
            cron_job(backup)
        )  # server-side apply with owner reference; not sent if nothing would change
        ctx.status.draft.cron_job = job.name
        ctx.status.set_condition("Ready", True, "Scheduled", f"copies are made by {job.name}")
        return kv.Done()


def cron_job(backup: Backup) -> kv.Object:
    url = {"name": "TARGET", "valueFrom": {"secretKeyRef": {"name": "target", "key": "url"}}}
    copy = {"name": "copy", "image": "example.com/copy:1", "args": [f"--keep={backup.spec.keep_copies}"], "env": [url]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [copy]}}
    spec = {"schedule": backup.spec.schedule, "jobTemplate": {"spec": {"template": pod}}}
    return CRON_JOB.new(backup.name, backup.namespace, spec=spec)


def backups_using(secret: kv.Metadata, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Backup).keys(namespace=secret.namespace) if secret.name == "target" else ()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Backup)
        .owns(CRON_JOB)
        .watches(SECRET, to=backups_using, metadata_only=True)
        .reconciled_by(BackupReconciler())
    )


if __name__ == "__main__":
    kv.run(build, name="backup-operator")  # kubeconfig or in-cluster; signals, logs, metrics, health
