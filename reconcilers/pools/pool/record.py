"""Which instances are the members of a pool, by the record in its status. Pure.

Guarantees: an instance is a member only if its UID is in the record, or if it carries the nonce of a creation that the record has, or if an
administrator requests the adoption of the instances with the pool's label. A member stays in the record until a complete list lacks it, or
until the Nextcloud that took it has it in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from konverge.reconcilers.pools.members import Member, has_marks_of_a_claim
from konverge.reconcilers.pools.nonces import has_nonce
from konverge.reconcilers.pools.words import PoolsLabel

__all__ = ["Census", "MemberRecord", "take_census"]


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

    members: tuple[Member, ...]
    uids: tuple[str, ...]
    """The UIDs for the record."""
    look_alikes: int
    """How many instances in the namespace have the label of the pool and are not members."""
    unseen: bool
    """Whether a recorded UID is missing among the instances."""


def take_census(
    record: MemberRecord, instances: Iterable[Member], served: Callable[[Member], bool], *, complete: bool
) -> Census:
    """Return the members among instances; `complete`: a recorded instance that is missing among them does not exist.

    `served` is True for an instance that is in the status of its claim's Nextcloud: such an instance has left the pool. A recorded member
    without a claim costs no call of Python code: the record in the status lists each member, so each reconcile compares each member.
    """
    known, seen, look_alikes = set(record.uids), set[str](), 0
    members: list[Member] = []
    for instance in instances:
        if instance.uid in seen:
            continue
        seen.add(instance.uid)
        if instance.uid not in known and not _is_new(instance, record):
            look_alikes += _looks_alike(instance, record)
        elif not (instance.taken and served(instance)):
            members.append(instance)
    uids = {member.uid for member in members}
    kept = [uid for uid in record.uids if uid in uids or (uid not in seen and not complete)]
    new = [member.uid for member in members if member.uid not in known]
    return Census(tuple(members), (*kept, *new), look_alikes, bool(known - seen))


def _is_new(instance: Member, record: MemberRecord) -> bool:
    """Whether an instance becomes a member: by its nonce, or by adoption unless it counts as taken only by its labels."""
    metadata = instance.metadata
    if metadata.namespace != record.namespace:
        return False
    if has_nonce(metadata, record.digests.get(metadata.name)):
        return True
    labelled = record.adopts and metadata.label(PoolsLabel.POOL) == record.pool
    return labelled and (instance.taken or not has_marks_of_a_claim(metadata))


def _looks_alike(instance: Member, record: MemberRecord) -> bool:
    metadata = instance.metadata
    labelled = metadata.namespace == record.namespace and metadata.label(PoolsLabel.POOL) == record.pool
    return labelled and not instance.taken and not instance.deleting
