"""`Objects`: the read interface of storage for modules whose decisions depend on other objects (rights, quota, webhooks, owners)."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Objects"]


class Objects(Protocol):
    """Stored objects as fresh plain data. `resource` is (group, plural), such as ("apps", "deployments") or ("", "pods")."""

    def get(self, resource: tuple[str, str], namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; `namespace` is "" for a cluster-scoped object."""

    def list(self, resource: tuple[str, str], namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a namespace, or (None) all of them."""

    def changed(self, resource: tuple[str, str]) -> int:
        """Return the version of the last change to any object of a resource, or 0 if there was none."""
