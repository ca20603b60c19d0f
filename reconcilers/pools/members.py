"""An instance as pools and claims see it. Pure.

Caveats: nothing here proves that an instance is a member of a pool; `konverge.reconcilers.pools.records` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.clock import from_rfc3339
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.words import InstancePhase, PoolsAnnotation, PoolsCondition, PoolsLabel

__all__ = [
    "PROVISIONED",
    "Member",
    "MemberViews",
    "corrected_marks",
    "has_marks_of_a_claim",
    "is_claimed",
    "is_idle",
    "is_taken",
    "member_of",
]

PROVISIONED = (InstancePhase.READY, InstancePhase.DEGRADED)
"""The phases of an instance that has been ready at some time."""


_FOREIGN_LABELS: Final = (PoolsLabel.TENANT, PoolsLabel.NEXTCLOUD, PoolsLabel.CLAIM_UID)
"""Labels that only an instance with a claim has."""
_FOREIGN_ANNOTATIONS: Final = (
    PoolsAnnotation.RELEASED,
    PoolsAnnotation.ORPHANED_SINCE,
    PoolsAnnotation.SPEC_BEFORE,
    PoolsAnnotation.REPLACED,
    PoolsAnnotation.PROFILE_DEFAULTS,
)
"""Annotations that only an instance with a claim has."""
_NOTHING: Final[Mapping[str, Any]] = {}


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
    claim: str = ""
    """The UID in spec.claimRef, "" without a claim."""
    source: Metadata | None = field(default=None, compare=False, repr=False)
    """The metadata of the instance that it was read from."""
    corrections: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The patch that sets its labels and annotations back; {} if they are right, or if it has a claim or is being deleted."""
    spread: float = field(init=False, compare=False, repr=False)
    """A number from 0 to 1, derived from the UID: instances that were created together do not expire together."""

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.uid.encode()).digest()
        object.__setattr__(self, "spread", int.from_bytes(digest[:4], "big") / 2**32)

    @property
    def metadata(self) -> Metadata:
        """The metadata that identifies this version of the instance, for guarded writes."""
        if self.source is not None:
            return self.source
        return Metadata(name=self.name, namespace=self.namespace, uid=self.uid, resource_version=self.version)

    @property
    def ready(self) -> bool:
        """Whether it can be handed out."""
        return not self.taken and not self.deleting and self.phase == InstancePhase.READY

    @property
    def provisioned(self) -> bool:
        """Whether it has been ready at some time."""
        return self.phase in PROVISIONED

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
    return is_claimed(instance) or has_marks_of_a_claim(instance.metadata)


def has_marks_of_a_claim(metadata: Metadata) -> bool:
    """Whether labels or annotations of an instance show a present or former claim."""
    return bool(
        metadata.label(PoolsLabel.CLAIM_UID)
        or metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.TRUE
        or metadata.annotation(PoolsAnnotation.RELEASED)
    )


def is_idle(instance: Object) -> bool:
    """Whether an instance is a member of a pool that can be taken as soon as it is ready."""
    metadata = instance.metadata
    return not metadata.deleting and metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.FALSE and not is_taken(instance)


def member_of(instance: Object, now: datetime, namespace: str = "", pool: str = "") -> Member:
    """Return the view of an instance of a pool, given the namespace of the pool's instances ("" is any) and the name of the pool."""
    metadata: Metadata = instance.metadata
    claim = str(instance.get("spec", "claimRef", "uid", default=""))
    correct = bool(claim) or metadata.deleting or not pool
    return Member(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created or now,
        phase=str(instance.get("status", "phase", default="") or ""),
        taken=bool(claim),
        deleting=metadata.deleting,
        misplaced=namespace not in ("", metadata.namespace),
        stamp=metadata.annotation(PoolsAnnotation.PROFILE_DIGEST),
        unready_since=_unready_since(instance),
        claim=claim,
        source=metadata,
        corrections=_NOTHING if correct else corrected_marks(metadata, pool) or _NOTHING,
    )


class MemberViews:
    """The views of the instances of one pool: an instance is decoded once for each version.

    Guarantees: the views equal `member_of` of the instances that were given (`tests/property/test_pool_views.py`). Instances that are not
    given again are forgotten. A known version costs no call of Python code.
    """

    def __init__(self) -> None:
        self._views: dict[str, Member] = {}
        self._home = ("", "")

    def settle(self, pool: str, namespace: str) -> None:
        """Set the name of the pool and the namespace of its instances; views of a former namespace are dropped."""
        if self._home != (pool, namespace):
            self._home, self._views = (pool, namespace), {}

    def of_cached(
        self, instances: Iterable[Metadata], find: Callable[[str, str], Object | None], now: datetime
    ) -> list[Member]:
        """Return the views of cached instances, each once and in this order; `find` decodes an instance."""
        by_uid = {metadata.uid: metadata for metadata in instances}
        known = self._views
        changed = [
            metadata
            for uid, metadata in by_uid.items()
            if (view := known.get(uid)) is None or view.version != metadata.resource_version
        ]
        for metadata in changed:
            known.pop(metadata.uid, None)
            instance = find(metadata.namespace, metadata.name)
            if instance is not None:
                # The cache's own metadata, so that a view holds no second copy of it.
                known[metadata.uid] = replace(self._view(instance, now), source=metadata)
        self._views = {uid: known[uid] for uid in by_uid if uid in known}
        return list(self._views.values())

    def of_listed(self, instances: Iterable[Object], now: datetime) -> list[Member]:
        """Return the views of instances as the API server has them; the version of a cached instance is not decoded again."""
        views = []
        for instance in instances:
            metadata = instance.data.get("metadata") or {}
            view = self._views.get(metadata.get("uid", ""))
            if view is None or view.version != metadata.get("resourceVersion"):
                view = self._view(instance, now)
            views.append(view)
        return views

    def _view(self, instance: Object, now: datetime) -> Member:
        pool, namespace = self._home
        return member_of(instance, now, namespace, pool)


def corrected_marks(instance: Metadata, pool: str) -> dict[str, Any]:
    """Return the patch of the metadata of a member without a claim that sets its labels and annotations back; {} if they are right."""
    right = {PoolsLabel.POOL: pool, PoolsLabel.ASSIGNED: PoolsLabel.FALSE}
    labels: dict[str, str | None] = {name: value for name, value in right.items() if instance.label(name) != value}
    labels |= dict.fromkeys(name for name in _FOREIGN_LABELS if name in (instance.labels or {}))
    annotations = dict.fromkeys(name for name in _FOREIGN_ANNOTATIONS if name in (instance.annotations or {}))
    return {**({"labels": labels} if labels else {}), **({"annotations": annotations} if annotations else {})}


def _unready_since(instance: Object) -> datetime | None:
    """Return the last transition of the condition Ready; None if it is True, missing, or has no readable time."""
    ready = instance.find_condition(PoolsCondition.READY)
    if ready is None or ready.is_true:
        return None
    try:
        return from_rfc3339(ready.last_transition_time or "")
    except ValueError:
        return None
