"""The parameters of Backups and Restores."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from konverge.reconcilers.apps.operations.engines.typed_parameters import EngineParameters, GoDuration, ObjectName

__all__ = ["BackupParameters", "RestoreParameters"]

Resources = tuple[Annotated[str, Field(min_length=1, max_length=253)], ...]
"""Resources as `deployments.apps` or `*`."""


class _Selection(EngineParameters):
    """The resources that a Backup or Restore takes, and how its end is judged."""

    included_resources: Resources = ()
    excluded_resources: Resources = ()
    item_operation_timeout: GoDuration | None = None
    tolerate_partial_failure: bool = False
    """Take PartiallyFailed for a success, with the number of errors among the outputs."""

    @model_validator(mode="after")
    def _separate(self) -> Self:
        both = sorted({*self.included_resources} & {*self.excluded_resources})
        if both:
            raise ValueError(f"{', '.join(both)}: remove it from includedResources or from excludedResources")
        return self


class BackupParameters(_Selection):
    """Parameters of a Backup."""

    retention: GoDuration | None = None
    ttl: GoDuration | None = None
    """Another name of `retention`."""
    storage_location: ObjectName = "default"
    snapshot_class_name: ObjectName | None = None
    """A VolumeSnapshotClass for the volumes of its driver."""
    csi_snapshot_class_name: ObjectName | None = None
    """Another name of `snapshotClassName`."""
    snapshot_volumes: bool | None = None
    snapshot_move_data: bool | None = None
    default_volumes_to_fs_backup: bool | None = None
    csi_snapshot_timeout: GoDuration | None = None

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if self.retention and self.ttl and self.retention != self.ttl:
            raise ValueError("retention and ttl name the same thing; write one of them")
        if self.snapshot_class_name and self.csi_snapshot_class_name not in (None, self.snapshot_class_name):
            raise ValueError("snapshotClassName and csiSnapshotClassName name the same thing; write one of them")
        return self

    @property
    def keep(self) -> str | None:
        """How long the Backup is kept."""
        return self.retention or self.ttl

    @property
    def snapshot_class(self) -> str | None:
        """The VolumeSnapshotClass."""
        return self.snapshot_class_name or self.csi_snapshot_class_name


class RestoreParameters(_Selection):
    """Parameters of a Restore."""

    backup_name: ObjectName
    """The Velero Backup, as in the outputs of the Operation that created it."""
    namespace_mapping: dict[str, str] = Field(default_factory=dict)
    # camelCase of the library would be restorePvs
    restore_pvs: Annotated[bool | None, Field(alias="restorePVs")] = None
    existing_resource_policy: Literal["none", "update"] | None = None
