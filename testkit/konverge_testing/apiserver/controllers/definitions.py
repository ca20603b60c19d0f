"""CustomResourceDefinitions: names accepted, established, served; and the deletion of a definition with all its objects.

Guarantees: the behaviour of apiextensions-apiserver's controllers (`pkg/controller/{status,establish,finalizer}`): acceptedNames, the
conditions NamesAccepted, Established and Terminating, storedVersions; the objects are served from the moment of `Established`. A definition
under deletion refuses new objects, deletes the existing objects, waits for their finalizers, and is then removed, at the earliest
`END_SECONDS` after its deletion. Objects of a kind that is no longer served are unreachable. A watch from a version before the definition
had its current form is expired.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.controllers.client import ControllerClient
from konverge_testing.apiserver.controllers.worker import Worker
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.deleting import CRD_CLEANUP
from konverge_testing.apiserver.storage import Changed, Entry, Event

__all__ = ["DEFINITIONS", "END_SECONDS", "DefinitionController"]

DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
END_SECONDS: Final = 0.1
"""Seconds that a deleted definition without objects lives: kube-apiserver takes 0.05 to 0.1 s, and clients such as kube-rs' examples begin
to watch it after the response to the DELETE and wait for the end."""
_TICK: Final = 0.001
_IN_PROGRESS: Final = "InstanceDeletionInProgress"


class DefinitionController:
    """Follows every commit of a definition, and of the objects of a definition under deletion."""

    name = "crd-controller"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._hands = ControllerClient(registry, self.name)
        self._served: dict[str, Any] = {}
        self._ending: dict[tuple[str, str], str] = {}
        self._earliest: dict[str, float] = {}
        self._decoded: dict[str, tuple[Entry, Data]] = {}
        self.worker: Worker[str] = Worker(self.name, self._work)

    def observe(self, event: Event) -> None:
        """Handle one commit."""
        entry = event.entry
        if entry.resource != DEFINITIONS:
            if event.type == "DELETED" and entry.resource in self._ending:
                self.worker.add(self._ending[entry.resource])
            return
        if event.type == "DELETED":
            data = entry.object()
            resource = (data["spec"]["group"], data["spec"]["names"]["plural"])
            self._served.pop(entry.name, None)
            self._ending.pop(resource, None)
            self._earliest.pop(entry.name, None)
            self._decoded.pop(entry.name, None)
            self._registry.ending.discard(resource)
            self._registry.remove(resource)
            for other in self._registry.store.list(DEFINITIONS):
                self.worker.add(other.name)
            return
        self.worker.add(entry.name)

    async def _work(self, name: str) -> None:
        entry = self._registry.store.get(DEFINITIONS, "", name)
        if entry is None:
            return
        data = entry.object()
        if data["metadata"].get("deletionTimestamp"):
            await self._end(entry, data)
            return
        others = self._registry.store.list(DEFINITIONS)
        status = judged(data, [self._read(other) for other in others if other.name != name], self._registry.now())
        if status != data.get("status"):
            self._write(entry, {**data, "status": status})
        established = any(one["type"] == "Established" and one["status"] == "True" for one in status["conditions"])
        if established and self._served.get(name) != data["spec"]:
            self._served[name] = data["spec"]
            resource = schemas.crd_resource(data)
            # The real handler creates a new watch cache for each form of a definition, where a watch from an older version is expired.
            self._registry.store.begin(resource.id)
            self._registry.add([resource])

    def _read(self, entry: Entry) -> Data:
        """Decode each version of a definition once: each change of a definition reads all others. The result is not to be changed."""
        decoded, data = self._decoded.get(entry.name, (None, {}))
        if decoded is not entry:
            data = entry.object()
            self._decoded[entry.name] = (entry, data)
        return data

    async def _end(self, entry: Entry, data: Data) -> None:
        resource_id = (data["spec"]["group"], data["spec"]["names"]["plural"])
        self._ending[resource_id] = entry.name
        self._registry.ending.add(resource_id)
        if CRD_CLEANUP not in (data["metadata"].get("finalizers") or ()):
            return
        told = _told_ending(data, self._registry.now())
        if told is not None:
            self._write(entry, told)
            return
        resource = self._registry.find(*resource_id)
        if resource is not None:
            for one in self._registry.store.list(resource_id):
                if b'"deletionTimestamp"' not in one.raw:
                    await self._hands.delete(resource, one.namespace, one.name, policy="Background", uid=one.uid)
        if self._registry.store.list(resource_id):
            return
        now = asyncio.get_running_loop().time()
        left = self._earliest.setdefault(entry.name, now + END_SECONDS) - now
        if left > _TICK:
            self.worker.add_after(entry.name, left)
            return
        kept = [one for one in data["metadata"]["finalizers"] if one != CRD_CLEANUP]
        try:
            if kept:
                data = {**data, "metadata": {**data["metadata"], "finalizers": kept}}
                self._registry.store.update(DEFINITIONS, entry, data)
            else:  # the event shows the last stored state, finalizers included
                self._registry.store.delete(DEFINITIONS, entry)
        except Changed:
            self.worker.add(entry.name)

    def _write(self, entry: Entry, data: Data) -> None:
        try:
            self._registry.store.update(DEFINITIONS, entry, data)
        except Changed:
            pass
        self.worker.add(entry.name)


def _told_ending(data: Data, now: str) -> Data | None:
    """Return the definition with the condition that its objects are being deleted, or None if it already has the condition."""
    conditions = (data.get("status") or {}).get("conditions") or []
    if any(one["type"] == "Terminating" and one["reason"] == _IN_PROGRESS for one in conditions):
        return None
    ending = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": _IN_PROGRESS,
        "message": "CustomResource deletion is in progress",
    }
    rest = [one for one in conditions if one["type"] != "Terminating"]
    return {**data, "status": {**(data.get("status") or {}), "conditions": [*rest, ending]}}


def judged(data: Data, others: list[Data], now: str) -> Data:
    """Return the status of a definition, which depends on the other definitions."""
    status = data.get("status") or {}
    accepted, judgements = schemas.crd_names_accepted(data, others)
    before = {one["type"]: one for one in status.get("conditions") or ()}
    conditions = [_condition(before, one, now) for one in judgements]
    told = {one["type"] for one in conditions}
    stored = list(status.get("storedVersions") or ())
    storage = next((one["name"] for one in data["spec"]["versions"] if one.get("storage")), None)
    if storage is not None and storage not in stored:
        stored.append(storage)
    return {
        "conditions": [*conditions, *(one for kind, one in before.items() if kind not in told)],
        "acceptedNames": accepted,
        "storedVersions": stored,
    }


def _condition(before: dict[str, Data], judgement: Data, now: str) -> Data:
    old = before.get(judgement["type"], {})
    moment = old.get("lastTransitionTime", now) if old.get("status") == judgement["status"] else now
    return {**judgement, "lastTransitionTime": moment}
