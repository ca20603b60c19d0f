"""Backups of the files: a CronJob copies the bucket of the instance into a folder of another bucket with rclone. Pure.

A copy adds and replaces objects and deletes none, so files that are lost in the instance stay in the backup. A bucket with versions
keeps replaced objects, too. The keys of both buckets reach the Job from their Secrets, as variables.

Source: https://rclone.org/s3/ (RCLONE_CONFIG_<remote>_<option>), https://rclone.org/commands/rclone_copy/.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from konverge.clock import from_rfc3339
from konverge.crds.pools_v1alpha1 import AppliedS3Config, DataBackup, InstanceSettings, NextcloudInstance
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.instances.access import keys_secret, uses_path_style
from konverge.reconcilers.pools.instances.names import bucket_name, copy_name
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import BackupReason
from konverge.reconcilers.pools.words import StepReason

__all__ = ["CRON_JOB", "copy_job", "copy_spec", "copy_state", "copy_target"]

CRON_JOB: Final[Kind[Object]] = kind("batch/v1", "CronJob", namespaced=True, plural="cronjobs")

_NOBODY: Final = 65534
_DAY: Final = 86_400
_KEYS: Final = (("ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"), ("SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"))


def copy_target(spec: InstanceSettings) -> DataBackup | None:
    """Return the destination of the copies of the files; None if no copy is requested, or the spec lacks something that a copy needs."""
    data = spec.backups.data if spec.backups else None
    if data is None or not data.enabled or spec.s3 is None or not spec.s3.enabled:
        return None
    return data if data.bucket and data.credentials_secret else None


def _remote(
    name: str, endpoint: str | None, region: str | None, secret: str, *, path_style: bool
) -> list[dict[str, Any]]:
    """Return the variables that describe an S3 server to rclone; without an endpoint it is AWS."""
    url = endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}"
    plain = {
        "TYPE": "s3",
        "PROVIDER": "Other" if url else "AWS",
        "ENDPOINT": url,
        "REGION": region,
        "FORCE_PATH_STYLE": str(path_style).lower(),
        "NO_CHECK_BUCKET": "true",  # the bucket exists; without this rclone tries to create it
    }
    prefix = f"RCLONE_CONFIG_{name}_"
    # Kubernetes replaces $(NAME) by the value of another variable, which may be a key; $$ is a literal dollar sign.
    variables: list[dict[str, Any]] = [
        {"name": prefix + option, "value": value.replace("$", "$$")} for option, value in plain.items() if value
    ]
    for option, key in _KEYS:
        variables.append({"name": prefix + option, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return variables


def copy_spec(
    source: AppliedS3Config,
    source_secret: str,
    target: DataBackup,
    folder: str,
    settings: MaterialSettings,
    *,
    path_style: bool,
) -> dict[str, Any]:
    """Return the spec of the CronJob; `path_style` is the source's.

    Its pod meets the restricted Pod Security level and has no rights on the API server.
    """
    assert target.credentials_secret, "checked by copy_target"
    variables = [
        *_remote("FILES", source.endpoint, source.region, source_secret, path_style=path_style),
        *_remote(
            "BACKUP",
            target.endpoint or settings.s3_endpoint,
            target.region or settings.s3_region,
            target.credentials_secret,
            path_style=settings.s3_path_style,
        ),
    ]
    container = {
        "name": "copy",
        "image": settings.file_backup_image,
        "args": [
            "copy",
            f"FILES:{source.bucket}",
            f"BACKUP:{target.bucket}/{folder}",
            "--fast-list",
            "--stats-one-line",
        ],
        "env": variables,
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {
        "schedule": target.schedule or settings.file_backup_schedule,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 3600,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 2,
        "jobTemplate": {
            "spec": {"backoffLimit": 2, "activeDeadlineSeconds": _DAY, "template": {"spec": pod}},
        },
    }


def copy_job(
    instance: NextcloudInstance, source: AppliedS3Config, target: DataBackup, settings: MaterialSettings
) -> Object:
    """Return the CronJob that copies the files of an instance."""
    keys = keys_secret(instance.name, instance.spec, source, settings)
    folder, style = bucket_name(instance.name, instance.uid), uses_path_style(instance.spec, settings)
    spec = copy_spec(source, keys, target, folder, settings, path_style=style)
    return CRON_JOB.new(copy_name(instance.name), instance.namespace, spec=spec)


def copy_state(spec: InstanceSettings, job: Object | None) -> StepState:
    """Return the state of the copies; `job` is the CronJob, None before it exists."""
    data = spec.backups.data if spec.backups else None
    if data is None or not data.enabled:
        return StepState(ready=True, reason=StepReason.NOT_WANTED)
    if spec.s3 is None or not spec.s3.enabled:
        message = "the files are in a volume, and only those in a bucket are copied: enable s3, or use an Operation"
        return StepState(ready=False, reason=BackupReason.INCOMPLETE, message=message)
    if copy_target(spec) is None:
        message = "name bucket and credentialsSecret in backups.data"
        return StepState(ready=False, reason=BackupReason.INCOMPLETE, message=message)
    if job is not None and _last_failed(job):
        message = f"the last copy of the files did not succeed: see the Jobs of CronJob {job.name}"
        return StepState(ready=False, reason=BackupReason.FAILING, message=message)
    return StepState(ready=True, reason=BackupReason.SCHEDULED)


def _last_failed(job: Object) -> bool:
    """Tell whether the last scheduled Job has ended without a success: the status has no field for it."""
    began, succeeded = _time(job, "lastScheduleTime"), _time(job, "lastSuccessfulTime")
    if began is None or job.get("status", "active"):
        return False
    return succeeded is None or succeeded < began


def _time(job: Object, field: str) -> datetime | None:
    text = job.get("status", field)
    try:
        return from_rfc3339(text) if isinstance(text, str) else None
    except ValueError:
        return None
