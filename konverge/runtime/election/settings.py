"""The settings of leader election."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from konverge.errors import UsageError

__all__ = ["LONGEST", "ElectionSettings"]

LONGEST: Final = 2**31 - 1
"""The greatest number in a Lease: its fields have 32 bits."""
_JITTER = 1.2
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_IDENTITY = 200
"""Characters of an identity before its random part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """How a replica becomes the leader. The times are client-go's defaults.

    Errors: UsageError for a name that no Lease or namespace can have, and unless lease > renew > 1.2 times retry (client-go's rule).

    >>> ElectionSettings(enabled=True).lease_seconds
    15.0
    """

    enabled: bool = False
    """Whether replicas elect a leader; without it this process always writes."""
    name: str = ""
    """The name of the Lease; empty: the manager's. Replicas with one name elect one leader."""
    namespace: str = ""
    """The namespace of the Lease; empty: the pod's own, or the kubeconfig's namespace."""
    identity: str = ""
    """The name of this replica in the Lease; empty: the host's name. A random part is added, so that two replicas never share one."""
    lease_seconds: float = 15.0
    """Seconds without a renewal after which another replica takes the lease."""
    renew_seconds: float = 10.0
    """Seconds without a successful renewal after which the leader stops to write."""
    retry_seconds: float = 2.0
    """Seconds between two renewals of the leader, and between two reads of a standby."""

    def __post_init__(self) -> None:
        """Refuse names that the API server refuses, and times that would let two replicas write at once."""
        if self.name:
            self.lease_of(self.name)
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise UsageError(f"election: namespace {_cut(self.namespace)}: it is no name of a namespace")
        if len(self.identity) > _IDENTITY or not self.identity.isprintable():
            raise UsageError(
                f"election: identity {_cut(self.identity)}: write at most {_IDENTITY} printable characters"
            )
        if not math.isfinite(self.lease_seconds) or self.lease_seconds > LONGEST:
            raise UsageError(
                f"election: lease_seconds={self.lease_seconds:g}: a Lease lasts for at most {LONGEST} seconds"
            )
        if not self.lease_seconds > self.renew_seconds > _JITTER * self.retry_seconds > 0:
            raise UsageError(
                f"election: lease_seconds={self.lease_seconds:g}, renew_seconds={self.renew_seconds:g}, "
                f"retry_seconds={self.retry_seconds:g}: the lease has to be longer than the time to renew it, and that longer than "
                f"{_JITTER:g} times the time between two tries"
            )
        if self.lease_seconds < 1:
            raise UsageError(f"election: lease_seconds={self.lease_seconds:g}: a Lease counts in whole seconds, from 1")

    def lease_of(self, manager: str) -> str:
        """Return the name of the Lease of a manager; raises UsageError if no Lease can have it.

        >>> ElectionSettings().lease_of("shop")
        'shop'
        """
        name = self.name or manager
        if len(name) > 253 or not _NAME.fullmatch(name):
            raise UsageError(
                f"election: no Lease can be named {_cut(name)}: set election.name to lower case letters, digits, dashes and dots"
            )
        return name


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
