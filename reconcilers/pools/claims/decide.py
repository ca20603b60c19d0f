"""The mode of a Nextcloud, and the reason why it has no instance. Pure.

The modes in their order: the instance that it names, an idle instance of a pool, a new instance with the defaults of a profile, a new bare
instance. None falls back to another: a named object that is missing blocks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from konverge.crds.pools_v1alpha1 import NextcloudSpec
from konverge.objects import Object
from konverge.reconcilers.pools.members import is_taken
from konverge.reconcilers.pools.words import InstanceReason

__all__ = [
    "ClaimMode",
    "Hindrance",
    "check_named",
    "creation_not_allowed",
    "exhausted",
    "mode_of",
    "not_allowed",
    "unusable",
]


class ClaimMode(enum.Enum):
    """How a Nextcloud gets its instance."""

    REFERENCE = "reference"
    POOL = "pool"
    PROFILE = "profile"
    VANILLA = "vanilla"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why a Nextcloud has no instance yet: reason and message of InstanceAssigned=False."""

    reason: str
    message: str


def mode_of(spec: NextcloudSpec) -> ClaimMode:
    """Return the mode; an empty selector counts as none.

    >>> mode_of(NextcloudSpec(profile="small")), mode_of(NextcloudSpec())
    (<ClaimMode.PROFILE: 'profile'>, <ClaimMode.VANILLA: 'vanilla'>)
    """
    if spec.instance_ref is not None:
        return ClaimMode.REFERENCE
    if spec.pool_selector is not None and spec.pool_selector.match_labels:
        return ClaimMode.POOL
    return ClaimMode.VANILLA if spec.profile is None else ClaimMode.PROFILE


def check_named(path: str, instance: Object, namespace: str) -> Hindrance | None:
    """Return why an instance that the namespace may use cannot be bound, None if it can.

    The message does not identify the tenant that has the instance.
    """
    if is_taken(instance):
        message = f"NextcloudInstance {path} belongs to another Nextcloud; name another instance"
        return Hindrance(InstanceReason.INSTANCE_TAKEN, message)
    if instance.metadata.deleting:
        return unusable(path, namespace)
    return None


def unusable(path: str, namespace: str) -> Hindrance:
    """Return that the namespace has no instance of this name: the same for an absent instance and for an instance that it may not use."""
    return Hindrance(
        InstanceReason.INSTANCE_NOT_FOUND,
        f"there is no NextcloudInstance {path} that Nextclouds of the namespace {namespace} may take; create it, "
        "or have its owner add the namespace to its spec.allowedNamespaces",
    )


def not_allowed(selector: str, namespace: str) -> Hindrance:
    """Return that no pool with these labels serves the namespace."""
    return Hindrance(
        InstanceReason.POOL_NOT_ALLOWED,
        f"no NextcloudPool with the labels {selector} serves the namespace {namespace}; "
        "an administrator adds it to spec.allowedNamespaces of the pool",
    )


def creation_not_allowed(namespace: str) -> Hindrance:
    """Return that the namespace may have no instance without a pool."""
    return Hindrance(
        InstanceReason.CREATION_NOT_ALLOWED,
        f"Nextclouds of the namespace {namespace} get instances only from a pool: set poolSelector, "
        "or have an administrator add the namespace to the setting pools.namespaces_without_pool",
    )


def exhausted(selector: str, ready: int, idle: int) -> Hindrance:
    """Return why no instance of a pool can be taken; how many other Nextclouds wait is not the tenant's business.

    >>> exhausted("tier=small", 0, 2).message
    'no idle instance is left with the labels tier=small: 0 are ready, 2 are being made; older Nextclouds come first'
    """
    return Hindrance(
        InstanceReason.POOL_EXHAUSTED,
        f"no idle instance is left with the labels {selector}: {ready} are ready, {idle - ready} are being made; "
        "older Nextclouds come first",
    )
