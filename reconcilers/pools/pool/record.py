"""Which instances are the members of a pool, by the record in its status. Pure.

Guarantees: an instance is a member only if its UID is in the record, or if it carries the nonce of a creation that the record has, or if an
administrator requests the adoption of the instances with the pool's label. A member stays in the record until a complete list lacks it, or
until the Nextcloud that took it has it in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.members import is_claimed, is_taken
from konverge.reconcilers.pools.nonces import has_nonce
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

__all__ = ["Census", "MemberRecord", "corrected_marks", "take_census"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """The record in the status of a pool."""

    pool: str
    namespace: str
    """The namespace of its instances."""
    uids: tuple[str, ...] = ()
    digests: Mapping[str, str]
    """The digest of the nonce of each recent creation, by the name of the instance."""
    adopts: bool = False
    """Whether an administrator requests the adoption of the instances with the pool's label."""


@dataclass(frozen=True, slots=True)
class Census:
    """The members of a pool among some instances."""

    members: tuple[Object, ...]
    uids: tuple[str, ...]
    """The UIDs for the record."""
    look_alikes: int
    """How many instances in the namespace have the label of the pool and are not members."""
    unseen: bool
    """Whether a recorded UID is missing among the instances."""


def take_census(
    record: MemberRecord, instances: Iterable[Object], served: Callable[[Object], bool], *, complete: bool
) -> Census:
    """Return the members among instances; `complete`: a recorded instance that is missing among them does not exist.

    `served` is True for an instance that is in the status of its claim's Nextcloud: such an instance has left the pool.
    """
    known, seen, look_alikes = set(record.uids), set[str](), 0
    members: list[Object] = []
    for instance in instances:
        metadata = instance.metadata
        if metadata.uid in seen:
            continue
        seen.add(metadata.uid)
        if metadata.uid not in known and not _is_new(instance, record):
            look_alikes += _looks_alike(instance, record)
        elif not (is_claimed(instance) and served(instance)):
            members.append(instance)
    uids = {member.metadata.uid for member in members}
    kept = [uid for uid in record.uids if uid in uids or (uid not in seen and not complete)]
    new = [member.metadata.uid for member in members if member.metadata.uid not in known]
    return Census(tuple(members), (*kept, *new), look_alikes, bool(known - seen))


def _is_new(instance: Object, record: MemberRecord) -> bool:
    """Whether an instance becomes a member: by its nonce, or by adoption unless it counts as taken only by its labels."""
    metadata = instance.metadata
    if metadata.namespace != record.namespace:
        return False
    if has_nonce(metadata, record.digests.get(metadata.name)):
        return True
    labelled = record.adopts and metadata.label(PoolsLabel.POOL) == record.pool
    return labelled and (is_claimed(instance) or not is_taken(instance))


def _looks_alike(instance: Object, record: MemberRecord) -> bool:
    metadata = instance.metadata
    labelled = metadata.namespace == record.namespace and metadata.label(PoolsLabel.POOL) == record.pool
    return labelled and not is_claimed(instance) and not metadata.deleting


def corrected_marks(instance: Metadata, pool: str) -> dict[str, Any]:
    """Return the patch of the metadata of a member without a claim that sets its labels and annotations back; {} if they are right."""
    right = {PoolsLabel.POOL: pool, PoolsLabel.ASSIGNED: PoolsLabel.FALSE}
    labels: dict[str, str | None] = {name: value for name, value in right.items() if instance.label(name) != value}
    labels |= dict.fromkeys(name for name in _FOREIGN_LABELS if name in (instance.labels or {}))
    annotations = dict.fromkeys(name for name in _FOREIGN_ANNOTATIONS if name in (instance.annotations or {}))
    return {**({"labels": labels} if labels else {}), **({"annotations": annotations} if annotations else {})}
