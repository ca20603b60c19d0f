"""The record of an election in the spec of a Lease, in client-go's form: `kubectl get lease` and a Go replica understand it. Pure.

Source: https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/client-go/tools/leaderelection/resourcelock/leaselock.go
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from konverge.clock import rfc3339_micro
from konverge.kinds import kind
from konverge.runtime.election.settings import LONGEST

__all__ = ["LEASE", "LeaseRecord"]

LEASE: Final = kind("coordination.k8s.io/v1", "Lease", plural="leases", namespaced=True)
_RELEASED: Final = 1
"""The duration that a holder writes when it releases the lease; also client-go's."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """Who holds the lease, and for how long from the moment of the last change.

    >>> LeaseRecord.of({"holderIdentity": "a", "leaseDurationSeconds": 15}).holder
    'a'
    """

    holder: str = ""
    duration: int = 0
    """Seconds."""
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0

    @classmethod
    def of(cls, spec: Any) -> LeaseRecord:
        """Read a record; members that are absent, of another type or out of range count as empty."""
        fields = spec if isinstance(spec, dict) else {}
        return cls(
            holder=_text(fields.get("holderIdentity")),
            duration=_number(fields.get("leaseDurationSeconds")),
            acquired=_text(fields.get("acquireTime")),
            renewed=_text(fields.get("renewTime")),
            transitions=_number(fields.get("leaseTransitions")),
        )

    def to_spec(self) -> dict[str, Any]:
        """Return the spec of the Lease."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }

    @property
    def released(self) -> bool:
        """Whether a holder gave the lease back. An empty holder with a longer duration was written by hand."""
        return not self.holder and self.duration <= _RELEASED

    def taken(self, identity: str, seconds: float, now: datetime) -> LeaseRecord:
        """Return the record of a candidate that takes the lease over."""
        moment = rfc3339_micro(now)
        transitions = self.transitions + 1 if self.transitions < LONGEST else 1
        return LeaseRecord(identity, math.ceil(seconds), moment, moment, transitions)

    def renewed_at(self, now: datetime) -> LeaseRecord:
        """Return the record of a renewal."""
        return replace(self, renewed=rfc3339_micro(now))

    def given_back(self, now: datetime) -> LeaseRecord:
        """Return the record of a release."""
        moment = rfc3339_micro(now)
        return LeaseRecord("", _RELEASED, moment, moment, self.transitions)

    def same_term(self, other: LeaseRecord) -> bool:
        """Return whether both records were written in one term of one holder."""
        return (self.holder, self.acquired, self.transitions) == (other.holder, other.acquired, other.transitions)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONGEST else 0
