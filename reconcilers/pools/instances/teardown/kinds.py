"""Kinds that only the deletion of an instance reads and deletes."""

from __future__ import annotations

from typing import Final

from konverge.kinds import Kind, kind
from konverge.objects import Object

__all__ = ["NAMESPACE", "VOLUME_CLAIM"]

NAMESPACE: Final[Kind[Object]] = kind("v1", "Namespace", namespaced=False, plural="namespaces")
VOLUME_CLAIM: Final[Kind[Object]] = kind(
    "v1", "PersistentVolumeClaim", namespaced=True, plural="persistentvolumeclaims"
)
