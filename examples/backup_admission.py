"""Webhooks for the backups of backup_operator.py: one completes what is written, one refuses what must not be (docs/guide/admission.md)."""

import backup_operator
from backup_operator import Backup

import konverge as kv

NAMESPACE = kv.kind("v1", "Namespace", namespaced=False)


def complete(request: kv.AdmissionRequest[Backup]) -> kv.Allow:
    backup = request.object
    if len(backup.spec.schedule.split()) == 1:  # "nightly" is easier to remember than five fields
        backup.spec.schedule = {"nightly": "0 3 * * *", "weekly": "0 3 * * 0"}.get(
            backup.spec.schedule, backup.spec.schedule
        )
    return kv.Allow(backup, labels={"example.com/asked-by": request.user.name.replace(":", ".")})


async def check(request: kv.AdmissionRequest[Backup]) -> kv.Allow | kv.Deny:
    copies = request.object.spec.keep_copies
    namespace = request.cache(NAMESPACE).find("", request.namespace)
    most = int(namespace.metadata.label("example.com/most-copies", "31")) if namespace else 31
    if copies > most:
        return kv.Deny(
            f"{request.namespace} may keep {most} copies", code=422, fields={"spec.keepCopies": f"is {copies}"}
        )
    return kv.Allow(warnings=("a single copy is no backup",) if copies == 1 else ())


COMPLETE = kv.Webhook.mutating(Backup).ignoring_failures().handled_by(complete)
CHECK = kv.Webhook.validating(Backup).reads(NAMESPACE).within(5).handled_by(check)


def build(manager: kv.Manager) -> None:
    backup_operator.build(manager)
    manager.add(COMPLETE)
    manager.add(CHECK)


if __name__ == "__main__":
    kv.run(build, name="backup-operator")
