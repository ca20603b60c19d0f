"""The object of an engine: its labels and owner, how it is found again, created once, edited once and stopped.

Its place (namespace and name) is derived from the UID of the Operation and from the settings. No status, label or annotation changes it, so
a forged `status.engineRef` reaches no other object.

An object in another namespace has no owner reference, because the garbage collector would delete it
(docs/reference/runtime.md#owner-references); labels and annotations link it to its Operation, whose finalizer deletes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from konverge.crds.ops_v1alpha1 import EngineRef, Operation
from konverge.errors import NotFound
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    DeleteChild,
    Edit,
    ObjectKey,
    PatchChild,
    Rendered,
    Target,
)
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.words import OpAnnotation, OpLabel
from konverge.reconcilers.apps.render import label_value
from konverge.reconcilers.apps.words import Label
from konverge.runtime.apply.owners import controller_reference

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = [
    "edited_by",
    "find_child",
    "find_in_list",
    "is_of",
    "own_ref",
    "ref_to",
    "send_edit",
    "stop_child",
    "to_create",
]

R = TypeVar("R", bound=Resource)


def ref_to(rendered: Rendered | Edit) -> EngineRef:
    """Return the reference to the object that will be created or edited."""
    if isinstance(rendered, Edit):
        return EngineRef(
            api_version=rendered.kind.api_version,
            kind=rendered.kind.kind,
            name=rendered.name,
            namespace=rendered.namespace,
        )
    object_ = rendered.object
    return EngineRef(
        api_version=object_.api_version, kind=object_.kind_name, name=object_.name, namespace=object_.namespace or None
    )


def own_ref(kind: Kind[Object], place: ObjectKey, reported: EngineRef | None) -> EngineRef:
    """Return the reference to the object of an Operation, at the place that is derived from the Operation's UID.

    From the reported reference only the UID (the object was created) and the generation count: another writer may have changed the status.
    """
    return EngineRef(
        api_version=kind.api_version,
        kind=kind.kind,
        name=place.name,
        namespace=place.namespace or None,
        uid=None if reported is None else reported.uid,
        generation=None if reported is None else reported.generation,
    )


def _digest(operation: Operation) -> str:
    """Return the digest of the part of the spec that cannot be changed once the Operation has started."""
    spec = operation.spec
    fixed = [spec.target_ref.name, spec.type, spec.engine, spec.parameters]
    text = json.dumps(fixed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def to_create(operation: Operation, rendered: Rendered, target: Target, cluster_id: str) -> Object:
    """Return the object as it is created: with labels, annotations, and the owner that the garbage collector honours."""
    data = rendered.object.to_dict()
    metadata = data["metadata"]
    labels = {
        OpLabel.OPERATION: operation.metadata.uid,
        Label.MANAGED_BY: Label.CONTROL_PLANE,
        Label.APPLICATION_INSTANCE: label_value(target.name),
    }
    if cluster_id:
        labels[Label.CLUSTER_ID] = label_value(cluster_id)
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        OpAnnotation.OPERATION_NAME: f"{operation.namespace}/{operation.name}",
        OpAnnotation.SPEC_DIGEST: _digest(operation),
    }
    if rendered.owned and rendered.object.namespace == operation.namespace:
        metadata["ownerReferences"] = [controller_reference(VIEW, operation.metadata)]
    return Object(data)


def is_of(child: Object, operation: Operation) -> bool:
    """Tell whether the object at an Operation's place was created for it: the label has its UID, the annotation the digest of its spec.

    Both are claims that prove nothing elsewhere. An object that an earlier release created has no digest.
    """
    digest = child.metadata.annotation(OpAnnotation.SPEC_DIGEST)
    return child.metadata.label(OpLabel.OPERATION) == operation.metadata.uid and digest in ("", _digest(operation))


def edited_by(instance: Object, operation: Operation) -> bool:
    """Tell whether this Operation's edit is the last edit of the object."""
    return instance.metadata.annotation(OpAnnotation.LAST_OPERATION) == operation.metadata.uid


async def find_child(
    kind: Kind[Object], ref: EngineRef, operation: Operation, ctx: Context[Operation], *, live: bool = False
) -> Object | None:
    """Return the object of the reference; an object that the cache lacks is read live, since its label may have been removed.

    `live`: the cache is out of date, so it is not read.
    """
    namespace = ref.namespace or ""
    stored = None if live else ctx.cache(kind).find(namespace, ref.name)
    if stored is None or not _same(stored, ref, operation):
        stored = await ctx.live(kind).find(namespace, ref.name)
    return stored if stored is not None and _same(stored, ref, operation) else None


async def find_in_list(what: Kind[R] | type[R], namespace: str, name: str, ctx: Context[Operation]) -> R | None:
    """Return the stored object without the right to get it: a watch needs the right to list, and a list is as fresh as a get."""
    listed = await ctx.client.list(what, namespace, fields=f"metadata.name={name}")
    return next(iter(listed.items), None)


def _same(stored: Object, ref: EngineRef, operation: Operation) -> bool:
    return stored.metadata.uid == ref.uid or is_of(stored, operation)


async def send_edit(operation: Operation, edit: Edit, stored: Object, ctx: Context[Operation]) -> Object:
    """Send the edit together with the UID of its Operation; Conflict if the object changed since it was read."""
    note = {"annotations": {OpAnnotation.LAST_OPERATION: operation.metadata.uid}}
    return await ctx.patch(edit.kind, expect=stored, patch={**edit.patch, "metadata": note})


def _contains(stored: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(_contains(stored.get(key), value) for key, value in wanted.items())
    return bool(stored == wanted)


async def stop_child(action: CancelAction, child: Object, ctx: Context[Operation]) -> Object | None:
    """Carry out the action that stops the object; returns the object afterwards, None if it does not exist any more."""
    kind, metadata = kind_of(child), child.metadata
    if isinstance(action, DeleteChild):
        if metadata.deleting:
            return child
        await ctx.delete(kind, metadata.name, metadata.namespace, uid=metadata.uid)
        return await ctx.live(kind).find(metadata.namespace, metadata.name)
    if not isinstance(action, PatchChild) or _contains(child.to_dict(), action.patch):
        return child
    patch = {**action.patch, "metadata": {**(action.patch.get("metadata") or {}), "uid": metadata.uid}}
    try:
        return await ctx.patch(kind, metadata.name, metadata.namespace, patch=patch)
    except NotFound:
        return None
