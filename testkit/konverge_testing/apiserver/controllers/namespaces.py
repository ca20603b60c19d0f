"""Namespaces: the setup of new namespaces, and the deletion.

Guarantees: a namespace under deletion is emptied resource by resource, its conditions report what remains, and it is removed when nothing
remains and `spec.finalizers` is empty (k8s.io/kubernetes `pkg/controller/namespace/deletion`). A new namespace gets the ServiceAccount
`default`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from konverge_testing.apiserver.controllers.client import ControllerClient
from konverge_testing.apiserver.controllers.worker import Worker
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.finalizing import finalize
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.storage import Changed, Entry, Event

__all__ = ["NamespaceController"]

_NAMESPACES: Final = ("", "namespaces")
_ACCOUNTS: Final = ("", "serviceaccounts")


class NamespaceController:
    """Follows every commit; empties namespaces under deletion."""

    name = "namespace-controller"

    def __init__(self, registry: Registry, *, accounts: bool = True) -> None:
        self._registry = registry
        self._hands = ControllerClient(registry, self.name)
        self._accounts = accounts
        self._ending: set[str] = set()
        self.worker: Worker[str] = Worker(self.name, self._work)

    def observe(self, event: Event) -> None:
        """Handle one commit."""
        entry = event.entry
        if entry.resource == _NAMESPACES:
            if event.type == "DELETED":
                self._ending.discard(entry.name)
            else:
                self.worker.add(entry.name)
        elif entry.namespace in self._ending or (event.type == "DELETED" and entry.resource == _ACCOUNTS):
            self.worker.add(entry.namespace)

    async def _work(self, name: str) -> None:
        entry = self._registry.store.get(_NAMESPACES, "", name)
        if entry is None:
            return
        data = entry.object()
        if not data["metadata"].get("deletionTimestamp"):
            await self._create_account(name)
            return
        self._ending.add(name)
        if "kubernetes" not in ((data.get("spec") or {}).get("finalizers") or ()):
            return
        remaining, finalizers = await self._delete_contents(name)
        if remaining:
            self._write_conditions(entry, data, remaining, finalizers)
            return
        kept = [one for one in data["spec"]["finalizers"] if one != "kubernetes"]
        finalize(self._registry, entry, kept)

    async def _create_account(self, name: str) -> None:
        resource = self._registry.find(*_ACCOUNTS)
        if self._accounts and resource is not None and self._registry.store.get(_ACCOUNTS, name, "default") is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
            await self._hands.create(resource, account)

    async def _delete_contents(self, name: str) -> tuple[Counter[Resource], Counter[str]]:
        """Delete everything in a namespace; returns the remaining objects, by resource and by finalizer."""
        remaining: Counter[Resource] = Counter()
        finalizers: Counter[str] = Counter()
        for resource in self._registry.resources:
            if not resource.namespaced or not resource.stored or resource.alias is not None:
                continue
            for entry in self._registry.store.list(resource.id, name):
                if b'"deletionTimestamp"' not in entry.raw:
                    await self._hands.delete(resource, name, entry.name, policy="Background", uid=entry.uid)
            for entry in self._registry.store.list(resource.id, name):
                remaining[resource] += 1
                finalizers.update(entry.metadata().get("finalizers") or ())
        return remaining, finalizers

    def _write_conditions(
        self, entry: Entry, data: Data, remaining: Counter[Resource], finalizers: Counter[str]
    ) -> None:
        now = self._registry.now()
        content = ", ".join(
            f"{resource.qualified if resource.group else resource.plural + '.'} has {count} resource instances"
            for resource, count in sorted(remaining.items(), key=lambda one: one[0].qualified)
        )
        waits = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        wanted = [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
                now,
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
                now,
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
                now,
            ),
            _condition(
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {content}",
                now,
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                *(
                    ("True", "SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {waits}")
                    if waits
                    else ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
                ),
                now,
            ),
        ]
        before = {one["type"]: one for one in (data.get("status") or {}).get("conditions") or ()}
        for one in wanted:
            old = before.get(one["type"])
            if old is not None and old["status"] == one["status"]:
                one["lastTransitionTime"] = old["lastTransitionTime"]
        if list(before.values()) == wanted:
            return
        status = {**(data.get("status") or {}), "phase": "Terminating", "conditions": wanted}
        try:
            self._registry.store.update(_NAMESPACES, entry, {**data, "status": status})
        except Changed:
            self.worker.add(entry.name)


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> Data:
    return {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
