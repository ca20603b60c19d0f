"""`metadata_only`: objects as meta.k8s.io/v1 PartialObjectMetadata."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["metadata_only"]

Data = dict[str, Any]

_GENERATION: Final = "deprecated.daemonset.template.generation"


def internal(metadata: Data) -> Data:
    """Return metadata in the server's internal form: the template generation of a DaemonSet is a field and not an annotation."""
    annotations = metadata.get("annotations")
    if not annotations or _GENERATION not in annotations:
        return metadata
    kept = {name: value for name, value in annotations.items() if name != _GENERATION}
    metadata = {**metadata, "annotations": kept}
    if not kept:
        del metadata["annotations"]
    return metadata


def metadata_only(data: Data) -> Data:
    """Return the PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": internal(data["metadata"])}
