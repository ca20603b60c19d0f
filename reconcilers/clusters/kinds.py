"""The kinds that the agent writes and reads, as thin views: a job is applied as it was sent, whatever this version's models know."""

from __future__ import annotations

from typing import Final

from konverge.kinds import kind

__all__ = ["APPLICATION_INSTANCE", "APPLIED", "BACKUP", "OPERATION", "SECRET"]

APPLICATION_INSTANCE: Final = kind(
    "apps.vworkspace.io/v1alpha1", "ApplicationInstance", namespaced=True, plural="applicationinstances"
)
OPERATION: Final = kind("ops.vworkspace.io/v1alpha1", "Operation", namespaced=True, plural="operations")
SECRET: Final = kind("v1", "Secret", namespaced=True, plural="secrets")
BACKUP: Final = kind("velero.io/v1", "Backup", namespaced=True, plural="backups")
APPLIED: Final = (APPLICATION_INSTANCE, OPERATION)
"""The kinds of the objects that a job may write."""
