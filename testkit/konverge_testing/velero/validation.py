"""Velero's reasons for FailedValidation, in its words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from konverge_testing.standin import Json

__all__ = ["backup_errors", "restore_errors", "ttl_seconds"]

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def ttl_seconds(text: str) -> float:
    """Return the seconds of a Go duration.

    >>> ttl_seconds("1h30m")
    5400.0
    """
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def _named(objects: Iterable[Json], name: str) -> Json | None:
    return next((item for item in objects if item["metadata"]["name"] == name), None)


def backup_errors(spec: Mapping[str, Any], locations: Iterable[Json]) -> list[str]:
    """Return why a Backup is refused."""
    errors = []
    name = spec["storageLocation"]
    location = _named(locations, name)
    if location is None:
        errors.append(
            f"an existing backup storage location was not specified at backup creation time and the default {name} was not found. "
            f'Error: BackupStorageLocation.velero.io "{name}" not found'
        )
    elif location["spec"].get("accessMode") == "ReadOnly":
        errors.append(f"backup can't be created because backup storage location {name} is currently in read-only mode")
    elif (location.get("status") or {}).get("phase") == "Unavailable":
        errors.append(f"backup can't be created because BackupStorageLocation {name} is in Unavailable status.")
    both = sorted({*(spec.get("includedResources") or ())} & {*(spec.get("excludedResources") or ())} - {"*"})
    errors += [
        f"Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: {name}"
        for name in both
    ]
    if spec.get("labelSelector") and spec.get("orLabelSelectors"):
        errors.append("encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified")
    return errors


def restore_errors(spec: Mapping[str, Any], backups: Iterable[Json], locations: Iterable[Json]) -> list[str]:
    """Return why a Restore is refused. An unfinished Backup is not a reason."""
    name = spec.get("backupName")
    if bool(name) == bool(spec.get("scheduleName")):
        return ["Either a backup or schedule must be specified as a source for the restore, but not both"]
    policy = spec.get("existingResourcePolicy")
    if policy not in (None, "", "none", "update"):
        return [f"Invalid ExistingResourcePolicy: {policy}"]
    backup = _named(backups, str(name))
    if backup is None:
        return [f'Error retrieving backup: can\'t find backup velero/{name}: Backup.velero.io "{name}" not found']
    location = _named(locations, backup["spec"].get("storageLocation", "default"))
    if location is None:
        return [f'Error retrieving backup: BackupStorageLocation.velero.io "{name}" not found']
    if (location.get("status") or {}).get("phase") == "Unavailable":
        return [f"The BSL {location['metadata']['name']} is unavailable, cannot retrieve the backup"]
    return []
