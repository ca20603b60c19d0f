"""An instance as pools and claims see it. Pure.

Caveats: nothing here proves that an instance is a member of a pool; `konverge.reconcilers.pools.records` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.words import InstancePhase, PoolsAnnotation, PoolsCondition, PoolsLabel

__all__ = ["Member", "is_claimed", "is_idle", "is_taken", "member_of"]

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
    """Whether it has a claim. Labels do not count: users write them too."""
    deleting: bool = False
    misplaced: bool = False
    """Whether it is now outside the namespace of the pool's instances."""
    stamp: str = ""
    """The digest of the profile that it was created with, "" if it was not stamped."""
    unready_since: datetime | None = None
    """The last transition of its condition Ready, if that is not True."""

    @property
    def metadata(self) -> Metadata:
        """The metadata that identifies this version of the instance, for guarded writes."""
        return Metadata(name=self.name, namespace=self.namespace, uid=self.uid, resource_version=self.version)

    @property
    def ready(self) -> bool:
        """Whether it can be handed out."""
        return not self.taken and not self.deleting and self.phase == InstancePhase.READY

    @property
    def provisioned(self) -> bool:
        """Whether it has been ready at some time."""
        return self.phase in _PROVISIONED

    @property
    def waits_since(self) -> datetime | None:
        """Since when it has not been ready: since it lost readiness, or since its creation if it never was ready; None if it is ready."""
        if self.phase == InstancePhase.READY:
            return None
        return self.unready_since or self.created if self.provisioned else self.created

    def failed(self, now: datetime, deadline: timedelta) -> bool:
        """Whether it failed, or has not been ready for the deadline."""
        if self.phase == InstancePhase.FAILED:
            return True
        return self.waits_since is not None and now - self.waits_since >= deadline


def is_claimed(instance: Object) -> bool:
    """Whether an instance has a claim, which is never removed."""
    return bool(instance.get("spec", "claimRef", "uid", default=""))


def is_taken(instance: Object) -> bool:
    """Tell whether an instance has a claim, or ever had a claim: each sign is enough."""
    metadata = instance.metadata
    return bool(
        is_claimed(instance)
        or metadata.label(PoolsLabel.CLAIM_UID)
        or metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.TRUE
        or metadata.annotation(PoolsAnnotation.RELEASED)
    )


def is_idle(instance: Object) -> bool:
    """Whether an instance is a member of a pool that can be taken as soon as it is ready."""
    metadata = instance.metadata
    return not metadata.deleting and metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.FALSE and not is_taken(instance)


def member_of(instance: Object, now: datetime, namespace: str = "") -> Member:
    """Return the view of an instance of a pool, given the namespace of the pool's instances; "" is any."""
    metadata: Metadata = instance.metadata
    return Member(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created or now,
        phase=str(instance.get("status", "phase", default="") or ""),
        taken=is_claimed(instance),
        deleting=metadata.deleting,
        misplaced=namespace not in ("", metadata.namespace),
        stamp=metadata.annotation(PoolsAnnotation.PROFILE_DIGEST),
        unready_since=_unready_since(instance),
    )


def _unready_since(instance: Object) -> datetime | None:
    """Return the last transition of the condition Ready; None if it is True, missing, or has no readable time."""
    ready = instance.find_condition(PoolsCondition.READY)
    if ready is None or ready.is_true:
        return None
    try:
        return from_rfc3339(ready.last_transition_time or "")
    except ValueError:
        return None
