"""Families of objects, which sharding keeps on one replica. Pure."""

from __future__ import annotations

from konverge.objects import Metadata

__all__ = ["family_of"]


def family_of(metadata: Metadata) -> str:
    """Return the uid of the controller that owns an object, else the object's own: one level up, since an object names no other ancestor.

    >>> family_of(Metadata(name="web", uid="7f3a"))
    '7f3a'
    """
    controller = metadata.controller
    return metadata.uid if controller is None else controller.uid
