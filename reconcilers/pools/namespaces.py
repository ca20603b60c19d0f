"""The namespaces for the family's instances. Pure.

Guarantees: Secrets, volume claims, databases, releases, CronJobs and namespaces are read and written in these namespaces only, so the
rights on these objects are needed in these namespaces only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["EVERYWHERE", "InstanceNamespaces"]

EVERY_NAMESPACE: Final = "*"


class InstanceNamespaces(msgspec.Struct, frozen=True):
    """The names of the namespaces, or `*` for all of them.

    >>> InstanceNamespaces(("clouds", "shop")).allow("web")
    False
    >>> InstanceNamespaces(("clouds", "*")).allow("web")
    True
    """

    names: tuple[str, ...]

    @property
    def every(self) -> bool:
        """Whether instances may be in every namespace."""
        return EVERY_NAMESPACE in self.names

    @property
    def listed(self) -> tuple[str, ...]:
        """The names for rights that are given by namespace; empty if instances may be in every namespace."""
        return () if self.every else self.names

    def allow(self, namespace: str) -> bool:
        """Tell whether instances may be in a namespace."""
        return self.every or namespace in self.names

    def refusal(self, namespace: str) -> str:
        """Return why a namespace is refused and the remedy, "" if instances may be in the namespace."""
        if self.allow(namespace):
            return ""
        return (
            f"instances in the namespace {namespace} need the setting pools.namespaces (families.pools.namespaces of the chart): "
            f"add {namespace} to it, which also gives the daemon its rights in this namespace"
        )

    @classmethod
    def of(cls, first: str, others: Iterable[str]) -> InstanceNamespaces:
        """Return the namespace of new instances and these others, each once."""
        return cls(tuple(dict.fromkeys((first, *others))))


EVERYWHERE: Final = InstanceNamespaces((EVERY_NAMESPACE,))
