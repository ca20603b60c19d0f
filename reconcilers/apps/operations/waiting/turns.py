"""The Lease of a tenant's namespace: which Operations hold their targets, written by compare-and-swap.

A list of Operations, even a live list, cannot order two starts that race. So before anything is created, every Operation adds itself to the
Lease of its namespace, in a replace with the resourceVersion that it read: of two racing writes, one conflicts and then reads the other's
name.

The Leases are in the operator's own namespace, and no tenant writes there: a hold can be neither stolen nor blocked by hand, and the entry
proves that the operator itself let the Operation start. One Lease for each namespace, and not for each target: their number does not grow
with the objects that a tenant creates and deletes (docs/adr/0025-turns-are-in-leases-of-the-operators-namespace.md).

Nothing is written when an Operation ends: the next holder drops the holders that have ended. A holder that wrote the Lease and not its own
status (a crash in between) is dropped after `UNCONFIRMED`, which is longer than a reconcile can take.

Guarantees: pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec

from konverge.clock import from_rfc3339
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.waiting.conflicts import Contestant, conflicting
from konverge.reconcilers.apps.operations.words import LEASE_SUFFIX, OpAnnotation

__all__ = ["LEASE", "UNCONFIRMED", "Holder", "holders_of", "lease_name", "with_holders"]

LEASE: Final = kind("coordination.k8s.io/v1", "Lease", namespaced=True, plural="leases")

UNCONFIRMED: Final = timedelta(minutes=5)
"""How long a holder counts whose status does not report a start."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST_BYTES: Final = 200_000
"""Bytes of the entries at most; the API server admits 256 KiB in the annotations of an object."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An Operation that holds its target."""

    uid: str
    name: str
    target: str
    type: str
    exclusive: bool
    since: str

    def excludes(self, mine: Contestant, target: str) -> bool:
        """Tell whether the two must not run at once."""
        return (
            self.uid != mine.uid
            and self.target == target
            and conflicting(self.type, mine.type, exclusive=self.exclusive or mine.exclusive)
        )


def lease_name(namespace: str) -> str:
    """Return the name of a namespace's Lease.

    >>> lease_name("web")
    'web.operations.ops.vworkspace.io'
    """
    return f"{namespace}.{LEASE_SUFFIX}"


def holders_of(lease: Object | None) -> tuple[Holder, ...]:
    """Read the holders. Entries that cannot be read do not count: Operations that started block by their status as well.

    >>> holders_of(None)
    ()
    """
    text = "" if lease is None else lease.metadata.annotation(OpAnnotation.HOLDERS)
    try:
        entries = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    holders = map(_holder, entries if isinstance(entries, list) else ())
    return tuple(holder for holder in holders if holder is not None)


def _holder(entry: Any) -> Holder | None:
    try:
        holder = msgspec.convert(entry, Holder)
        from_rfc3339(holder.since)
    except ValueError:  # msgspec's ValidationError is one
        return None
    return holder if _NAME.fullmatch(holder.name) else None


def with_holders(lease: Object | None, holders: Iterable[Holder], *, name: str, namespace: str) -> Object | None:
    """Return the Lease to store: a new Lease, or the read Lease with these holders and its resourceVersion.

    None if one object is too small for the holders.
    """
    kept = tuple(holders)
    text = json.dumps([asdict(holder) for holder in kept], separators=(",", ":"))
    if len(text) > _MOST_BYTES:
        return None
    if lease is None:
        data = LEASE.new(name, namespace, annotations={OpAnnotation.HOLDERS: text}).to_dict()
    else:
        data = lease.to_dict()
        data["metadata"].setdefault("annotations", {})[OpAnnotation.HOLDERS] = text
    data["spec"] = {**data.get("spec", {}), "holderIdentity": kept[-1].name if kept else ""}
    return Object(data)
