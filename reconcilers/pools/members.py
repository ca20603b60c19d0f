"""An instance as pools and claims see it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.words import InstancePhase, PoolsAnnotation, PoolsLabel

__all__ = ["Member", "is_idle", "is_taken", "member_of"]

_PROVISIONED = (InstancePhase.READY, InstancePhase.DEGRADED)


@dataclass(frozen=True, slots=True)
class Member:
    """An instance of a pool."""

    name: str
    namespace: str
    uid: str
    version: str
    created: datetime
    phase: str = ""
    taken: bool = False
    deleting: bool = False
    stamp: str = ""
    """The digest of the profile that it was created with, "" if it was not stamped."""

    @property
    def ready(self) -> bool:
        """Whether it can be handed out."""
        return not self.taken and not self.deleting and self.phase == InstancePhase.READY

    @property
    def provisioned(self) -> bool:
        """Whether it has been ready at some time."""
        return self.phase in _PROVISIONED

    def failed(self, now: datetime, deadline: timedelta) -> bool:
        """Whether it failed, or is not ready after the deadline."""
        if self.phase == InstancePhase.FAILED:
            return True
        return not self.provisioned and now - self.created >= deadline


def is_taken(instance: Object) -> bool:
    """Whether an instance has a claim, or ever had one: each sign alone suffices."""
    metadata = instance.metadata
    return bool(
        instance.get("spec", "claimRef", "uid", default="")
        or metadata.label(PoolsLabel.CLAIM_UID)
        or metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.TRUE
        or metadata.annotation(PoolsAnnotation.RELEASED)
    )


def is_idle(instance: Object) -> bool:
    """Whether an instance is a member of a pool that can be taken as soon as it is ready."""
    metadata = instance.metadata
    return not metadata.deleting and metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.FALSE and not is_taken(instance)


def member_of(instance: Object, now: datetime) -> Member:
    """Return the view of an instance."""
    metadata: Metadata = instance.metadata
    return Member(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created or now,
        phase=str(instance.get("status", "phase", default="") or ""),
        taken=is_taken(instance),
        deleting=metadata.deleting,
        stamp=metadata.annotation(PoolsAnnotation.PROFILE_DIGEST),
    )
