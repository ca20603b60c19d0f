"""Whether an object belongs to an instance. Pure."""

from __future__ import annotations

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.objects import Object
from konverge.words import Label

__all__ = ["controls", "is_ours", "is_younger"]


def is_younger(instance: NextcloudInstance, stored: Object) -> bool:
    """Tell whether an object was created after the instance: the API server sets both times, and no writer can change them."""
    began, created = instance.metadata.created, stored.metadata.created
    return began is None or created is None or created >= began


def is_ours(instance: NextcloudInstance, stored: Object) -> bool:
    """Tell whether an object was created for this very instance: its label names the UID, and it is not older than the instance."""
    return stored.metadata.label(Label.OWNER_UID) == instance.uid and is_younger(instance, stored)


def controls(instance: NextcloudInstance, stored: Object) -> bool:
    """Tell whether an object has the controller reference of the instance."""
    owner = stored.metadata.controller
    return owner is not None and owner.uid == instance.uid
