"""Keys of objects.

Guarantees: a `Key` names one object in one cluster and is hashable.
"""

from __future__ import annotations

from typing import Any

import msgspec

from konverge.kinds import Kind

__all__ = ["Key"]


class Key(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One object: cluster ("" is the manager's own), kind, namespace ("" if cluster-scoped), name.

    Immutable and hashable; two keys are equal if all four are. Their order is undefined. A manager keeps many keys and looks
    them up often, so the garbage collector does not track them, and each computes its hash once.

    >>> from konverge.kinds import kind
    >>> str(Key("", kind("batch/v1", "CronJob"), "web", "nightly"))
    'CronJob web/nightly'
    """

    cluster: str
    kind: Kind[Any]
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.kind} {where}" + (f" in {self.cluster}" if self.cluster else "")

    @property
    def path(self) -> str:
        """`namespace/name`, or only the name if cluster-scoped."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
