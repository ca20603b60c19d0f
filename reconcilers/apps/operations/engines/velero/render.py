"""Backups and Restores as Operations need them.

Both are in the namespace of the Velero server, which watches no other. Their name contains the Operation's UID, because all tenants and the
object store share names, and a second Backup of a name fails in the object store (docs/reference/velero.md#names).

Neither is owned by its Operation, even if Velero is installed in the Operation's namespace: a Backup outlives its Operation.

A Restore only takes a Backup that an Operation of its own namespace created, of that namespace only, and restores it in place. The UID,
which the Backup records, identifies the namespace: a later namespace of the same name may belong to another tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations.engines.engine import (
    EngineBlocked,
    EngineRequest,
    ObjectKey,
    ObjectRef,
    Refused,
    Rendered,
)
from konverge.reconcilers.apps.operations.engines.typed_parameters import read_parameters
from konverge.reconcilers.apps.operations.engines.velero.guarded import excluded_resources, refused_entries
from konverge.reconcilers.apps.operations.engines.velero.kinds import (
    BACKUP,
    BACKUP_STORAGE_LOCATION,
    RESTORE,
    VOLUME_SNAPSHOT_CLASS,
)
from konverge.reconcilers.apps.operations.engines.velero.parameters import BackupParameters, RestoreParameters
from konverge.reconcilers.apps.operations.words import BlockedReason, FailedReason, OpAnnotation

__all__ = ["backup_needs", "render_backup", "render_restore", "restore_needs", "velero_place"]

_CSI_CLASS: Final = "velero.io/csi-volumesnapshot-class_"
"""An annotation of a Backup, with the driver appended: the VolumeSnapshotClass for its volumes."""

_UNFINISHED: Final = frozenset(
    {
        *("", "New", "Queued", "ReadyToStart", "InProgress", "WaitingForPluginOperations", "Finalizing"),
        *("WaitingForPluginOperationsPartiallyFailed", "FinalizingPartiallyFailed"),
    }
)


def velero_place(request: EngineRequest) -> ObjectKey:
    """Return namespace and name of the Backup or Restore of an Operation."""
    return ObjectKey(request.settings.velero_namespace, f"op-{request.uid}")


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value, in the API's order."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value not in (None, ())
    }


def _location(request: EngineRequest, name: str) -> ObjectRef:
    return ObjectRef(BACKUP_STORAGE_LOCATION, request.settings.velero_namespace, name)


def _namespace(request: EngineRequest) -> ObjectRef:
    return ObjectRef(NAMESPACE, "", request.target.namespace, live=True)


def _namespace_uid(request: EngineRequest) -> str:
    """Return the UID of the target's namespace, "" if it was not read."""
    namespace = request.related.find(_namespace(request)) or {}
    return str(namespace.get("metadata", {}).get("uid") or "")


def _snapshot_class(name: str) -> ObjectRef:
    return ObjectRef(VOLUME_SNAPSHOT_CLASS, "", name)


def _unusable(request: EngineRequest, name: str, *, written: bool) -> EngineBlocked | None:
    """Return why a location cannot be used now. Velero would refuse the object for good instead of waiting."""
    location = request.related.find(_location(request, name))
    if location is None:
        message = f"BackupStorageLocation {request.settings.velero_namespace}/{name} does not exist; create it"
    elif not _is_open_to(request.operation.namespace, location):
        remedy = "name another one in parameters.storageLocation" if written else "restore a Backup of another location"
        message = f"BackupStorageLocation {name} is not for this namespace; {remedy}"
    elif written and location.get("spec", {}).get("accessMode") == "ReadOnly":
        message = f"BackupStorageLocation {name} is read-only; name another one in parameters.storageLocation"
    elif location.get("status", {}).get("phase") != "Available":
        message = f"BackupStorageLocation {name} is not Available; its status says why"
    else:
        return None
    return EngineBlocked(BlockedReason.DEPENDENCY_MISSING, message)


def _is_open_to(namespace: str, location: Mapping[str, Any]) -> bool:
    """Tell whether a location is for Operations of a namespace: for all namespaces, unless its owner names some in an annotation."""
    annotations = location.get("metadata", {}).get("annotations") or {}
    names = annotations.get(OpAnnotation.ALLOWED_NAMESPACES)
    return names is None or namespace in {name.strip() for name in str(names).split(",")}


def backup_needs(request: EngineRequest) -> tuple[ObjectRef, ...]:
    """Return the namespace, the location, and the snapshot class if one is named."""
    parameters = read_parameters(BackupParameters, request.parameters)
    if isinstance(parameters, Refused):
        return ()
    named = parameters.snapshot_class
    needed = (_namespace(request), _location(request, parameters.storage_location))
    return (*needed, _snapshot_class(named)) if named else needed


def render_backup(request: EngineRequest) -> Rendered | Refused | EngineBlocked:
    """Return a Backup of the target's namespace."""
    parameters = read_parameters(BackupParameters, request.parameters)
    if isinstance(parameters, Refused):
        return parameters
    unusable = _unusable(request, parameters.storage_location, written=True)
    if unusable is not None:
        return unusable
    uid = _namespace_uid(request)
    if not uid:
        return _without_namespace(request)
    annotations = {OpAnnotation.NAMESPACE_UID: uid}
    if parameters.snapshot_class is not None:
        snapshot_class = request.related.find(_snapshot_class(parameters.snapshot_class))
        if snapshot_class is None:
            message = f"VolumeSnapshotClass {parameters.snapshot_class} does not exist; create it"
            return EngineBlocked(BlockedReason.MISSING_VOLUME_SNAPSHOT_CLASS, message)
        annotations[f"{_CSI_CLASS}{snapshot_class.get('driver', '')}"] = parameters.snapshot_class
    spec = _given(
        includedNamespaces=(request.target.namespace,),
        includedResources=parameters.included_resources,
        excludedResources=parameters.excluded_resources,
        storageLocation=parameters.storage_location,
        ttl=parameters.keep,
        snapshotVolumes=parameters.snapshot_volumes,
        snapshotMoveData=parameters.snapshot_move_data,
        defaultVolumesToFsBackup=parameters.default_volumes_to_fs_backup,
        csiSnapshotTimeout=parameters.csi_snapshot_timeout,
        itemOperationTimeout=parameters.item_operation_timeout,
    )
    place = velero_place(request)
    backup = BACKUP.new(place.name, place.namespace, annotations=annotations, spec=spec)
    return Rendered(backup, {"backupName": backup.name}, owned=False)


def _backup(request: EngineRequest, parameters: RestoreParameters) -> ObjectRef:
    return ObjectRef(BACKUP, request.settings.velero_namespace, parameters.backup_name)


def restore_needs(request: EngineRequest) -> tuple[ObjectRef, ...]:
    """Return the Backup, the namespace and, as soon as the Backup is known, its location."""
    parameters = read_parameters(RestoreParameters, request.parameters)
    if isinstance(parameters, Refused):
        return ()
    backup, namespace = _backup(request, parameters), _namespace(request)
    stored = request.related.find(backup)
    if stored is None or not _is_ours(request, stored):
        return backup, namespace
    return backup, namespace, _location(request, stored.get("spec", {}).get("storageLocation") or "default")


def _is_ours(request: EngineRequest, backup: Mapping[str, Any]) -> bool:
    """Tell whether an Operation of this namespace created the Backup, and of this namespace only. Only this operator writes there."""
    annotations = backup.get("metadata", {}).get("annotations") or {}
    namespace, _, _ = str(annotations.get(OpAnnotation.OPERATION_NAME, "")).partition("/")
    spec = backup.get("spec", {})
    included = list(spec.get("includedNamespaces") or ())
    return namespace == request.operation.namespace and included == [request.target.namespace]


def _of_another_life(request: EngineRequest, name: str, backup: Mapping[str, Any]) -> Refused | EngineBlocked | None:
    """Return why the Backup is not of this namespace, although the names are equal: the name may have another tenant now."""
    uid, namespace = _namespace_uid(request), request.target.namespace
    if not uid:
        return _without_namespace(request)
    recorded = (backup.get("metadata", {}).get("annotations") or {}).get(OpAnnotation.NAMESPACE_UID)
    if recorded == uid:
        return None
    what = (
        f"holds another namespace {namespace}, which was deleted or is of another cluster"
        if recorded
        else "does not record the UID of its namespace"
    )
    return Refused(
        f"parameters.backupName: Backup {name} {what}; if it belongs to the present one, an administrator annotates the Backup with "
        f"{OpAnnotation.NAMESPACE_UID}={uid}, and another Operation restores it"
    )


def _without_namespace(request: EngineRequest) -> EngineBlocked:
    return EngineBlocked(BlockedReason.DEPENDENCY_MISSING, f"the namespace {request.target.namespace} does not exist")


def _refused(request: EngineRequest, parameters: RestoreParameters) -> Refused | None:
    """Return why these parameters can never work."""
    namespace = request.target.namespace
    if any((source, to) != (namespace, namespace) for source, to in parameters.namespace_mapping.items()):
        return Refused(
            f"parameters.namespaceMapping: an Operation restores the namespace {namespace} into itself; to copy it into another one, "
            "create a Restore of Velero as an administrator"
        )
    refused = refused_entries(parameters.included_resources, request.settings.restorable_rights)
    if refused:
        return Refused(
            f"parameters.includedResources: {', '.join(refused)} cannot be restored by an Operation; leave it out, or have an "
            "administrator restore it with Velero"
        )
    return None


def _unusable_backup(
    request: EngineRequest, parameters: RestoreParameters, backup: Mapping[str, Any] | None
) -> Refused | EngineBlocked | None:
    """Return why the Backup cannot be restored. Velero itself starts a Restore of an unfinished one."""
    name = parameters.backup_name
    if backup is None:
        return EngineBlocked(
            BlockedReason.DEPENDENCY_MISSING,
            f"there is no Backup {name}; name one from the outputs of another Operation",
        )
    if not _is_ours(request, backup):
        return Refused(
            f"parameters.backupName: Backup {name} was not made by an Operation of namespace {request.operation.namespace}; "
            "name one from the outputs of such an Operation"
        )
    other = _of_another_life(request, name, backup)
    if other is not None:
        return other
    phase = str(backup.get("status", {}).get("phase") or "")
    if phase in _UNFINISHED:
        return EngineBlocked(
            BlockedReason.DEPENDENCY_MISSING, f"Backup {name} is not completed yet ({phase or 'not begun'})"
        )
    if phase == "Completed" or (phase == "PartiallyFailed" and parameters.tolerate_partial_failure):
        return None
    hint = "; set toleratePartialFailure to restore it anyway" if phase == "PartiallyFailed" else ""
    return Refused(f"parameters.backupName: Backup {name} is {phase}{hint}", FailedReason.PRECONDITION_FAILED)


def render_restore(request: EngineRequest) -> Rendered | Refused | EngineBlocked:
    """Return a Restore of a Backup of the target's namespace into that namespace."""
    parameters = read_parameters(RestoreParameters, request.parameters)
    if isinstance(parameters, Refused):
        return parameters
    refused = _refused(request, parameters)
    if refused is not None:
        return refused
    backup = request.related.find(_backup(request, parameters))
    unusable = _unusable_backup(request, parameters, backup)
    if unusable is not None:
        return unusable
    assert backup is not None
    location = backup.get("spec", {}).get("storageLocation") or "default"
    unreadable = _unusable(request, location, written=False)
    if unreadable is not None:
        return unreadable
    spec = _given(
        backupName=parameters.backup_name,
        includedNamespaces=(request.target.namespace,),
        includedResources=parameters.included_resources,
        excludedResources=excluded_resources(
            parameters.included_resources, parameters.excluded_resources, request.settings.restorable_rights
        ),
        restorePVs=parameters.restore_pvs,
        includeClusterResources=False if parameters.restore_pvs is False else None,
        existingResourcePolicy=parameters.existing_resource_policy,
        itemOperationTimeout=parameters.item_operation_timeout,
    )
    place = velero_place(request)
    restore = RESTORE.new(place.name, place.namespace, spec=spec)
    return Rendered(restore, {"restoreName": restore.name, "backupName": parameters.backup_name}, owned=False)
