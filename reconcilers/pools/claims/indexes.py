"""Indexes of instances and Nextclouds, and which Nextclouds a change of another object concerns. They are computed once for each event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.pools_v1alpha1 import Nextcloud
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.claims.pairing import (
    WaitingClaim,
    assignments,
    beginnings_of,
    label_pair,
    labels_of,
    selector_key,
    selectors_of,
)
from konverge.reconcilers.pools.kinds import INSTANCE, NAMESPACE, NEXTCLOUD, POOL
from konverge.reconcilers.pools.members import is_idle
from konverge.reconcilers.pools.records import PoolMembership, is_confirmed, keepers_of, members, pool_of_member
from konverge.reconcilers.pools.words import InstancePhase, InstanceReason, PoolsCondition, PoolsLabel

if TYPE_CHECKING:
    from konverge.runtime import Caches, Reader

__all__ = [
    "BEGINNINGS",
    "BY_CLAIM",
    "IDLE",
    "LIVES_IN",
    "NAMED",
    "PROFILED",
    "READY_IDLE",
    "WAITING",
    "beginnings",
    "by_claim",
    "claims_of_instance",
    "claims_of_namespace",
    "claims_of_pool",
    "claims_of_profile",
    "competitors",
    "idle",
    "labels_changed",
    "leaves_the_line",
    "lives_in",
    "named",
    "opens_pool",
    "others_in_line",
    "profiled",
    "ready_idle",
    "waiting",
]

BY_CLAIM: Final = "claim-uid"
"""Instances by the UID of their claim."""
READY_IDLE: Final = "ready-idle"
"""Instances that can be handed out, by each of their labels."""
IDLE: Final = "idle"
"""Instances that can be handed out once they are ready, by each of their labels."""
WAITING: Final = "waiting"
"""Nextclouds that wait for an instance of a pool, by their selector."""
BEGINNINGS: Final = "waiting-beginnings"
"""The same Nextclouds, by each shorter selector that is a prefix of their selector, and by the empty selector."""
NAMED: Final = "names-instance"
"""Nextclouds without an instance, by the namespace ("" for the default of the settings) and name of the instance that they name."""
LIVES_IN: Final = "waits-in-namespace"
"""Nextclouds that wait for an instance, by their namespace."""
PROFILED: Final = "waits-for-profile"
"""Nextclouds without an instance, by their profile."""

_OUT_OF_LINE: Final = (InstanceReason.PROFILE_NOT_FOUND, InstanceReason.INVALID, InstanceReason.FIELDS_REFUSED)
"""Such a Nextcloud waits for something else, and does not hold up others."""


def by_claim(instance: Object) -> tuple[str, ...]:
    """Return the values of the index BY_CLAIM."""
    uid = instance.get("spec", "claimRef", "uid", default="") or instance.metadata.label(PoolsLabel.CLAIM_UID)
    return (str(uid),) if uid else ()


def _pairs(instance: Object) -> tuple[str, ...]:
    return tuple(label_pair(name, value) for name, value in (instance.metadata.labels or {}).items())


def ready_idle(instance: Object) -> tuple[str, ...]:
    """Return the values of the index READY_IDLE."""
    ready = is_idle(instance) and instance.get("status", "phase", default="") == InstancePhase.READY
    return _pairs(instance) if ready else ()


def idle(instance: Object) -> tuple[str, ...]:
    """Return the values of the index IDLE."""
    return _pairs(instance) if is_idle(instance) else ()


def _wants(nextcloud: Object) -> bool:
    return not nextcloud.metadata.deleting and not nextcloud.get("status", "instanceRef", "name", default="")


def waiting(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index WAITING."""
    labels = nextcloud.get("spec", "poolSelector", "matchLabels", default={}) or {}
    if not _wants(nextcloud) or not labels or nextcloud.get("spec", "instanceRef", default=None):
        return ()
    condition = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
    if condition is not None and condition.reason in _OUT_OF_LINE:
        return ()
    return (selector_key(labels),)


def beginnings(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index BEGINNINGS."""
    return tuple(beginning for selector in waiting(nextcloud) for beginning in ("", *beginnings_of(selector)))


def named(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index NAMED."""
    ref = nextcloud.get("spec", "instanceRef", default={}) or {}
    return (f"{ref.get('namespace') or ''}/{ref['name']}",) if ref.get("name") and _wants(nextcloud) else ()


def profiled(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index PROFILED."""
    name = nextcloud.get("spec", "profile", default="")
    return (str(name),) if name and _wants(nextcloud) else ()


def lives_in(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index LIVES_IN."""
    return (nextcloud.namespace,) if waiting(nextcloud) or named(nextcloud) else ()


def competitors(
    instances: Iterable[Metadata], nextclouds: Reader[Any], taken: Reader[Any], *, exclude: str = ""
) -> list[WaitingClaim]:
    """Return the Nextclouds that wait for one of these instances and have no instance, except the Nextcloud of the UID `exclude`.

    While no Nextcloud waits, no instance is examined.
    """

    def has_instance(uid: str) -> bool:
        # Anybody can write the UID into an instance: the claim counts only if its Nextcloud has that instance in its status.
        return any(is_confirmed(instance, uid, nextclouds) for instance in taken.metadata_by_index(BY_CLAIM, uid))

    def begins(selector: str) -> bool:
        return bool(nextclouds.metadata_by_index(BEGINNINGS, selector))

    if not begins(""):
        return []
    return [
        WaitingClaim.of(nextcloud, selector)
        for selector in selectors_of(instances, begins)
        for nextcloud in nextclouds.metadata_by_index(WAITING, selector)
        if nextcloud.uid != exclude and not has_instance(nextcloud.uid)
    ]


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(Nextcloud), namespace, name)


def _keys(nextclouds: Iterable[Metadata]) -> list[Key]:
    return [_key(nextcloud.namespace, nextcloud.name) for nextcloud in nextclouds]


def _next_in_line(labels: dict[str, str], caches: Caches) -> list[Key]:
    """Return the Nextclouds that are next to take an instance with one of these labels.

    An instance that is not a member of a pool serves no namespace, so no Nextcloud takes it.
    """
    instances, membership = caches(INSTANCE), PoolMembership(caches(POOL), caches(NAMESPACE))
    ready = {
        instance.uid: instance
        for name, value in labels.items()
        for instance in instances.metadata_by_index(READY_IDLE, label_pair(name, value))
    }
    line = competitors(ready.values(), caches(NEXTCLOUD), instances)
    return [_key(claim.namespace, claim.name) for claim, _ in assignments(line, ready.values(), membership.serves)]


def claims_of_instance(instance: Object, caches: Caches, *, default_namespace: str) -> Iterable[Key]:
    """Map an instance to the Nextcloud that has it, to the Nextclouds that name it, and to the Nextclouds that are next to take it.

    spec.claimRef is not read: its writer could enqueue any Nextcloud.
    """
    nextclouds = caches(NEXTCLOUD)
    keys = _keys(keepers_of(instance.metadata, nextclouds))
    paths = [f"{instance.namespace}/{instance.name}"]
    if instance.namespace == default_namespace:
        paths.append(f"/{instance.name}")
    for path in paths:
        keys += _keys(nextclouds.metadata_by_index(NAMED, path))
    if ready_idle(instance) and pool_of_member(instance.metadata, caches(POOL)):
        keys += _next_in_line(labels_of(instance.metadata), caches)
    return keys


def claims_of_pool(pool: Object, caches: Caches) -> Iterable[Key]:
    """Map a pool to the Nextclouds that are next to take one of its instances."""
    return _next_in_line({PoolsLabel.POOL: pool.name}, caches)


def opens_pool(change: Change) -> bool:
    """Accept changes of a pool's members or of the namespaces that it serves."""
    return change.new is not None and (change.old is None or _service(change.old) != _service(change.new))


def _service(cached: Cached) -> tuple[tuple[str, ...], Any]:
    pool = cached.decode(POOL)
    return members(pool), pool.get("spec", "allowedNamespaces", default=None)


def claims_of_namespace(namespace: Metadata, caches: Caches) -> Iterable[Key]:
    """Map a namespace to its Nextclouds that wait for an instance."""
    return _keys(caches(NEXTCLOUD).metadata_by_index(LIVES_IN, namespace.name))


def labels_changed(change: Change) -> bool:
    """Accept changes of the labels of an object."""
    if change.old is None or change.new is None:
        return change.new is not None
    return change.old.metadata.labels != change.new.metadata.labels


def claims_of_profile(profile: Object, caches: Caches) -> Iterable[Key]:
    """Map a profile to the Nextclouds that name it and have no instance yet."""
    return _keys(caches(NEXTCLOUD).metadata_by_index(PROFILED, profile.name))


def others_in_line(nextcloud: Object, caches: Caches) -> Iterable[Key]:
    """Map a Nextcloud that waits, or waited, to the Nextclouds that are next."""
    labels = nextcloud.get("spec", "poolSelector", "matchLabels", default={}) or {}
    return [
        key
        for key in _next_in_line(dict(labels), caches)
        if (key.namespace, key.name) != (nextcloud.namespace, nextcloud.name)
    ]


def leaves_the_line(change: Change) -> bool:
    """Accept changes that end a Nextcloud's wait for the instances that it waited for."""
    old = _line(change.old)
    return bool(old) and old != _line(change.new)


def _line(cached: Cached | None) -> tuple[str, ...]:
    return () if cached is None else waiting(cached.decode(NEXTCLOUD))
