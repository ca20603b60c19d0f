"""The operator's own records of the instances of pools and claims, and the indexes over them.

A member of a pool is a UID in the pool's status. The instance of a Nextcloud is the instance in the Nextcloud's status. Tenants write
neither. Labels, annotations and spec.claimRef of an instance prove nothing: every writer of an instance writes them too.

Guarantees: each lookup is a lookup in an index and costs the same for any number of pools, members and Nextclouds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.allowance import allowed, allows
from konverge.reconcilers.pools.words import PoolsCondition, PoolsLabel

if TYPE_CHECKING:
    from konverge.crds.pools_v1alpha1 import AllowedNamespaces
    from konverge.runtime import Reader

__all__ = [
    "BY_UID",
    "HOME",
    "MEMBER",
    "RECORDED",
    "SERVED",
    "SERVES",
    "TEMPLATED",
    "PoolMembership",
    "by_uid",
    "home",
    "is_confirmed",
    "keepers_of",
    "members",
    "pool_of_member",
    "recorded",
    "served",
    "serves",
    "templated",
]

BY_UID: Final = "uid"
"""Instances by their UID."""
MEMBER: Final = "member"
"""Pools by the members in their status."""
HOME: Final = "home"
"""Pools by their name and the namespace of their instances, "" for the namespace of the settings."""
SERVES: Final = "serves"
"""Pools by the namespaces that they serve."""
TEMPLATED: Final = "template-labels"
"""Pools by each label of their instances."""
RECORDED: Final = "recorded-instance"
"""Nextclouds by the instance in their status."""
SERVED: Final = "served-by"
"""Nextclouds with an instance, by the pool of that instance."""

_ALL: Final = "*"
_SELECTOR: Final = "~"


def by_uid(instance: Object) -> tuple[str, ...]:
    """Return the values of the index BY_UID."""
    return (instance.metadata.uid,)


def members(pool: Object) -> tuple[str, ...]:
    """Return the values of the index MEMBER: the namespace that the spec names, "" for none, and the UID."""
    namespace = pool.get("spec", "instanceNamespace", default="") or ""
    return tuple([f"{namespace}/{uid}" for uid in pool.get("status", "members", default=()) or ()])


def home(pool: Object) -> tuple[str, ...]:
    """Return the values of the index HOME."""
    return (f"{pool.name}/{pool.get('spec', 'instanceNamespace', default='') or ''}",)


def serves(pool: Object) -> tuple[str, ...]:
    """Return the values of the index SERVES: a selector has to be evaluated for each namespace."""
    rule = allowed(pool.get("spec", "allowedNamespaces", default=None))
    if rule is None:
        return ()
    if rule.from_ == "All":
        return (f"{pool.name}/{_ALL}",)
    if rule.from_ == "Selector":
        return (f"{pool.name}/{_SELECTOR}",)
    return tuple(f"{pool.name}/={namespace}" for namespace in rule.names or ())


def templated(pool: Object) -> tuple[str, ...]:
    """Return the values of the index TEMPLATED."""
    labels = pool.get("spec", "template", "metadata", "labels", default={}) or {}
    own = {PoolsLabel.POOL: pool.name, PoolsLabel.ASSIGNED: PoolsLabel.FALSE}
    return tuple(f"{name}={value}" for name, value in {**labels, **own}.items())


def recorded(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index RECORDED: UIDs, and the paths of instances whose UID the status does not have."""
    values: list[str] = []
    for field in ("instanceRef", "nominatedInstance"):
        stored = nextcloud.get("status", field, default=None) or {}
        if stored.get("name"):
            values.append(str(stored.get("uid") or f"{stored.get('namespace', '')}/{stored['name']}"))
    return tuple(values)


def served(nextcloud: Object) -> tuple[str, ...]:
    """Return the values of the index SERVED."""
    pool = nextcloud.get("status", "pool", default="")
    assigned = nextcloud.find_condition(PoolsCondition.INSTANCE_ASSIGNED)
    has_instance = assigned is not None and assigned.is_true and not nextcloud.metadata.deleting
    return (str(pool),) if pool and has_instance else ()


def keepers_of(instance: Metadata, nextclouds: Reader[Any]) -> list[Metadata]:
    """Return the Nextclouds whose status has an instance."""
    return [
        *nextclouds.metadata_by_index(RECORDED, instance.uid),
        *nextclouds.metadata_by_index(RECORDED, f"{instance.namespace}/{instance.name}"),
    ]


def is_confirmed(instance: Metadata, claim_uid: str, nextclouds: Reader[Any]) -> bool:
    """Whether the Nextcloud of a claim has the instance in its status, so that the claim is the operator's."""
    return any(nextcloud.uid == claim_uid for nextcloud in keepers_of(instance, nextclouds))


def pool_of_member(instance: Metadata, pools: Reader[Any], default_namespace: str = "") -> str:
    """Return the name of the pool that has an instance in its record, "" if there is none.

    Without `default_namespace` a member of a pool that names no namespace counts wherever it is.
    """
    keepers = pools.metadata_by_index(MEMBER, f"{instance.namespace}/{instance.uid}")
    if not keepers and default_namespace in ("", instance.namespace):
        keepers = pools.metadata_by_index(MEMBER, f"/{instance.uid}")
    return keepers[0].name if keepers else ""


class PoolMembership:
    """The pools of instances, and the namespaces that they serve, as the caches show them at one moment."""

    def __init__(self, pools: Reader[Any], namespaces: Reader[Any], default_namespace: str = "") -> None:
        self._pools = pools
        self._namespaces = namespaces
        self._default = default_namespace
        self._rules: dict[str, AllowedNamespaces | None] = {}
        self._admissions: dict[tuple[str, str], bool] = {}

    def pool_of(self, instance: Metadata) -> str:
        """Return the name of the pool that has the instance in its record, "" if there is none."""
        return pool_of_member(instance, self._pools, self._default)

    def serves(self, instance: Metadata, namespace: str) -> bool:
        """Whether a Nextcloud of the namespace may take the instance from its pool."""
        pool = self.pool_of(instance)
        return bool(pool) and self.admits(pool, namespace)

    def admits(self, pool: str, namespace: str) -> bool:
        """Whether a pool serves a namespace."""
        admitted = self._admissions.get((pool, namespace))
        if admitted is None:
            admitted = self._admissions[pool, namespace] = self._decide(pool, namespace)
        return admitted

    def pools_with(self, pairs: Iterable[str]) -> frozenset[str]:
        """Return the names of the pools whose instances have all of these labels."""
        matches = [{pool.name for pool in self._pools.metadata_by_index(TEMPLATED, pair)} for pair in pairs]
        return frozenset(set.intersection(*matches)) if matches else frozenset()

    def labels_of(self, namespace: str) -> dict[str, str] | None:
        """Return the labels of a namespace, None if it is not in the cache."""
        stored = self._namespaces.metadata("", namespace)
        return None if stored is None else dict(stored.labels or {})

    def _decide(self, pool: str, namespace: str) -> bool:
        index = self._pools.metadata_by_index
        if index(SERVES, f"{pool}/{_ALL}") or index(SERVES, f"{pool}/={namespace}"):
            return True
        if not index(SERVES, f"{pool}/{_SELECTOR}"):
            return False
        if pool not in self._rules:
            stored = self._pools.find("", pool)
            self._rules[pool] = None if stored is None else allowed(stored.get("spec", "allowedNamespaces"))
        return allows(self._rules[pool], namespace, self.labels_of(namespace))
