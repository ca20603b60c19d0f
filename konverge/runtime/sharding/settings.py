"""The settings of sharding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from konverge.errors import UsageError
from konverge.runtime.election.settings import ElectionSettings

__all__ = ["MODES", "ShardingMode", "ShardingSettings"]

ShardingMode = Literal["off", "leader", "hash", "ordinal", "coordinator"]
MODES: Final = ("off", "leader", "hash", "ordinal", "coordinator")
_RING = re.compile(r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingSettings:
    """How replicas share the objects. The times are a member's Lease times.

    Errors: UsageError for a ring whose name is not valid for a Lease or an annotation, and unless lease > renew > 1.2 times retry.

    >>> ShardingSettings(mode="hash").lease_seconds
    15.0
    """

    mode: ShardingMode = "off"
    """off: this process has every object. leader: the elected one. hash: each replica its own.
    ordinal: by crc32(uid) % replicas. coordinator: as the elected one assigns them; a replica caches its own objects only."""
    ring: str = ""
    """The name that the replicas have in common; empty: the manager's. Up to 50 characters."""
    namespace: str = ""
    """The namespace of the members' Leases; empty: the pod's own, or the kubeconfig's."""
    lease_seconds: float = 15.0
    """Seconds without a renewal after which a member counts as expired; after twice as many, its objects go to others."""
    renew_seconds: float = 10.0
    """Seconds without a successful renewal after which a member stops to write."""
    retry_seconds: float = 5.0
    """Seconds between two renewals."""
    join_seconds: float = 3.0
    """Seconds that a new member waits for further members, so that a rolling update moves objects once; five times as long at most."""

    def __post_init__(self) -> None:
        """Refuse a ring without a usable name, and times that would declare a member dead too early."""
        if self.mode not in MODES:
            raise UsageError(f"sharding: mode {self.mode!r}: use one of {', '.join(MODES)}")
        if self.ring:
            self.ring_of(self.ring)
        ElectionSettings(
            lease_seconds=self.lease_seconds, renew_seconds=self.renew_seconds, retry_seconds=self.retry_seconds
        )  # refuses the times
        if not 0 <= self.join_seconds < self.lease_seconds:
            raise UsageError(
                f"sharding: join_seconds={self.join_seconds:g}: use less than lease_seconds={self.lease_seconds:g}"
            )

    @property
    def enabled(self) -> bool:
        """Whether objects are shared among replicas."""
        return self.mode not in ("off", "leader")

    def ring_of(self, manager: str) -> str:
        """Return the name of the ring; raises UsageError if it is not valid in the name of a Lease and of an annotation.

        >>> ShardingSettings().ring_of("shop")
        'shop'
        """
        name = self.ring or manager
        if not _RING.fullmatch(name):
            raise UsageError(
                f"sharding: no ring can be named {name[:60]!r}: set sharding.ring to up to 50 lower case letters, digits, dashes and dots"
            )
        return name
