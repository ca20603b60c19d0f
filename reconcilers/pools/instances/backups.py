"""Backups of the managed database: CloudNativePG writes them to a bucket, on a schedule. Pure.

The backups of the files are in file_backups.py. BackupsReady reports both, and never keeps an instance from being ready.

Source: docs/reference/cloudnativepg.md#backups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.conditions import Condition
from konverge.crds.pools_v1alpha1 import InstanceSettings, NextcloudInstance, PostgresBackupS3
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.instances.names import cluster_name
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import BackupReason, Cnpg
from konverge.reconcilers.pools.words import StepReason
from konverge.runtime import back_reference

__all__ = ["SCHEDULED_BACKUP", "backup_section", "backup_state", "backup_target", "schedule_of", "schedule_spec"]

SCHEDULED_BACKUP: Final[Kind[Object]] = kind(
    "postgresql.cnpg.io/v1", "ScheduledBackup", namespaced=True, plural="scheduledbackups"
)


def backup_target(spec: InstanceSettings) -> PostgresBackupS3 | None:
    """Return the destination of the backups of a managed database; None if no backups are requested, or bucket or keys are missing."""
    database = spec.database
    backup = database.postgres.backup if database is not None and database.managed and database.postgres else None
    if backup is None or not backup.enabled or backup.s3 is None:
        return None
    return backup.s3 if backup.s3.bucket and backup.s3.credentials_secret else None


def backup_section(target: PostgresBackupS3 | None, folder: str) -> Mapping[str, Any]:
    """Return `spec.backup` of the Cluster, as a part of its spec.

    The folder has the UID of the instance: a later instance of the same name, of another tenant, must not find the backups of the former
    tenant.
    """
    if target is None:
        return {}
    keys = {
        "accessKeyId": {"name": target.credentials_secret, "key": "AWS_ACCESS_KEY_ID"},
        "secretAccessKey": {"name": target.credentials_secret, "key": "AWS_SECRET_ACCESS_KEY"},
    }
    store: dict[str, Any] = {"destinationPath": f"s3://{target.bucket}/{folder}", "s3Credentials": keys}
    if target.endpoint:
        store["endpointURL"] = target.endpoint if "://" in target.endpoint else f"https://{target.endpoint}"
    return {"backup": {"barmanObjectStore": store}}


def schedule_spec(cluster: str, schedule: str) -> dict[str, Any]:
    """Return the spec of a ScheduledBackup: six fields, the first is seconds. Its Backups are deleted with the Cluster.

    >>> schedule_spec("nc-db", "0 0 2 * * *")["cluster"]
    {'name': 'nc-db'}
    """
    return {
        "schedule": schedule,
        "cluster": {"name": cluster},
        "backupOwnerReference": "cluster",
        "method": "barmanObjectStore",
    }


def schedule_of(instance: NextcloudInstance, settings: MaterialSettings) -> Object:
    """Return the ScheduledBackup of an instance's database."""
    name = cluster_name(instance.name)
    labels, annotations = back_reference(instance)
    spec = schedule_spec(name, settings.database_backup_schedule)
    return SCHEDULED_BACKUP.new(name, instance.namespace, labels=labels, annotations=annotations, spec=spec)


def backup_state(spec: InstanceSettings, cluster: Object | None) -> StepState:
    """Return the state of the backups of the database; `cluster` is the managed Cluster."""
    postgres = spec.database.postgres if spec.database else None
    if postgres is None or postgres.backup is None or not postgres.backup.enabled:
        return StepState(ready=True, reason=StepReason.NOT_WANTED)
    if backup_target(spec) is None:
        message = "name bucket and credentialsSecret in database.postgres.backup.s3 of a managed database"
        return StepState(ready=False, reason=BackupReason.INCOMPLETE, message=message)
    for type_ in (Cnpg.ARCHIVING, Cnpg.LAST_BACKUP):
        condition = _condition(cluster, type_)
        if condition is not None and condition.is_false:
            return StepState(ready=False, reason=BackupReason.FAILING, message=f"{type_}: {condition.message}")
    return StepState(ready=True, reason=BackupReason.SCHEDULED)


def _condition(cluster: Object | None, type_: str) -> Condition | None:
    conditions = None if cluster is None else cluster.get("status", "conditions")
    for entry in conditions if isinstance(conditions, list) else ():
        if isinstance(entry, dict) and entry.get("type") == type_:
            return Condition.lenient(entry)
    return None
