"""The settings of leader election."""

from __future__ import annotations

from dataclasses import dataclass

from konverge.errors import UsageError

__all__ = ["ElectionSettings"]

_JITTER = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """How a replica becomes the leader. The times are client-go's defaults.

    Errors: UsageError unless lease > renew > 1.2 times retry, which client-go demands too.

    >>> ElectionSettings(enabled=True).lease_seconds
    15.0
    """

    enabled: bool = False
    """Whether replicas elect a leader; without it this process always writes."""
    name: str = ""
    """The name of the Lease; empty: the manager's. Replicas with one name elect one leader."""
    namespace: str = ""
    """The namespace of the Lease; empty: the pod's own, or the one that the kubeconfig names."""
    identity: str = ""
    """How this replica is called in the Lease; empty: the host's name. A random part is added, so that two replicas never share one."""
    lease_seconds: float = 15.0
    """Seconds without a renewal after which another replica takes the lease."""
    renew_seconds: float = 10.0
    """Seconds without a successful renewal after which the leader stops to write."""
    retry_seconds: float = 2.0
    """Seconds between two renewals of the leader, and between two looks of a standby."""

    def __post_init__(self) -> None:
        """Refuse times with which two replicas could write at once."""
        if not self.lease_seconds > self.renew_seconds > _JITTER * self.retry_seconds > 0:
            raise UsageError(
                f"election: lease_seconds={self.lease_seconds:g}, renew_seconds={self.renew_seconds:g}, "
                f"retry_seconds={self.retry_seconds:g}: the lease has to be longer than the time to renew it, and that longer than "
                f"{_JITTER:g} times the time between two tries"
            )
        if self.lease_seconds < 1:
            raise UsageError(f"election: lease_seconds={self.lease_seconds:g}: a Lease counts in whole seconds, from 1")
