"""The mode of a Nextcloud, and what keeps it from its instance. Pure.

The modes in their order: the instance that it names, an idle instance of a pool, a new instance with the defaults of a profile, a new bare
instance. None falls back to another: a named object that is missing blocks.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from konverge.crds.pools_v1alpha1 import NextcloudSpec
from konverge.objects import Object
from konverge.reconcilers.pools.members import is_taken
from konverge.reconcilers.pools.words import InstanceReason, PoolsLabel

__all__ = ["Hindrance", "ClaimMode", "check_named", "exhausted", "mode_of"]


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


def check_named(path: str, instance: Object | None) -> Hindrance | None:
    """Return why the named instance cannot be bound, None if it can; one that the Nextcloud already has is not looked at."""
    if instance is None:
        return Hindrance(
            InstanceReason.INSTANCE_NOT_FOUND, f"there is no NextcloudInstance {path}; create it, or name another one"
        )
    if is_taken(instance):
        tenant = instance.metadata.label(PoolsLabel.TENANT) or "another tenant"
        return Hindrance(
            InstanceReason.INSTANCE_TAKEN, f"NextcloudInstance {path} belongs to {tenant}; name another one"
        )
    if instance.metadata.deleting:
        return Hindrance(
            InstanceReason.INSTANCE_NOT_FOUND, f"NextcloudInstance {path} is being deleted; name another one"
        )
    return None


def exhausted(selector: str, ready: int, idle: int, ahead: int) -> Hindrance:
    """Return why no instance of a pool can be taken.

    >>> exhausted("tier=small", 0, 2, 0).message
    'no idle instance is left with the labels tier=small: 0 are ready, 2 are being made; 0 older Nextclouds come first'
    """
    return Hindrance(
        InstanceReason.POOL_EXHAUSTED,
        f"no idle instance is left with the labels {selector}: {ready} are ready, {idle - ready} are being made; "
        f"{ahead} older Nextclouds come first",
    )
