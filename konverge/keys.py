"""Keys of objects, and the order of resource versions.

Guarantees: a `Key` names one object in one cluster and is hashable. `compare_versions` follows
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5504-comparable-resource-version (stable in Kubernetes
1.35): two versions of one resource compare as numbers; anything else is "unknown", and callers fail open.

Caveats: versions of different resources must never be compared, and nothing here can detect that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from konverge.kinds import Kind

__all__ = ["Key", "compare_versions", "reached"]


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


def _number(version: str) -> bool:
    return version.isascii() and version.isdigit() and (version == "0" or version[0] != "0")


def compare_versions(left: str, right: str) -> int | None:
    """Order two resource versions of one resource: negative, 0, positive; None if they cannot be compared.

    >>> compare_versions("9", "10"), compare_versions("10", "10"), compare_versions("a", "10")
    (-1, 0, None)
    """
    if not (_number(left) and _number(right)):
        return None
    a, b = (len(left), left), (len(right), right)
    return (a > b) - (a < b)


def reached(seen: str, wanted: str) -> bool | None:
    """Whether a cache at version `seen` shows a write of version `wanted`; None if they cannot be compared."""
    order = compare_versions(seen, wanted)
    return None if order is None else order >= 0
