"""CustomResourceDefinitions: names accepted, established, served; and how one goes, with all its objects.

Promises: what apiextensions-apiserver's controllers do (`pkg/controller/{status,establish,finalizer}`): acceptedNames, the conditions
NamesAccepted,
Established and Terminating, storedVersions; the objects are served from the moment of `Established`. A definition under deletion refuses
new
objects, deletes those that are there, waits for their finalizers, and then goes. An object of a kind that is served no more is not
reachable.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver import schemas
from konverge.testing.apiserver.controllers.hands import Hands
from konverge.testing.apiserver.controllers.worker import Worker
from konverge.testing.apiserver.registry.core import Data, Registry
from konverge.testing.apiserver.registry.deleting import CRD_CLEANUP
from konverge.testing.apiserver.storage import Changed, Entry, Event

__all__ = ["DefinitionController", "DEFINITIONS"]

DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")


class DefinitionController:
    """Follows every commit of a definition, and of the objects of one that is being deleted."""

    name = "crd-controller"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._hands = Hands(registry, self.name)
        self._served: dict[str, Any] = {}
        self._ending: dict[tuple[str, str], str] = {}
        self.worker: Worker[str] = Worker(self.name, self._work)

    def observe(self, event: Event) -> None:
        """Note one commit."""
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
        others = [one.object() for one in self._registry.store.list(DEFINITIONS) if one.name != name]
        status = judged(data, others, self._registry.now())
        if status != data.get("status"):
            self._write(entry, {**data, "status": status})
        established = any(one["type"] == "Established" and one["status"] == "True" for one in status["conditions"])
        if established and self._served.get(name) != data["spec"]:
            self._served[name] = data["spec"]
            self._registry.add([schemas.crd_resource(data)])

    async def _end(self, entry: Entry, data: Data) -> None:
        resource_id = (data["spec"]["group"], data["spec"]["names"]["plural"])
        self._ending[resource_id] = entry.name
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
        kept = [one for one in data["metadata"]["finalizers"] if one != CRD_CLEANUP]
        metadata = {**data["metadata"], "finalizers": kept}
        if not kept:
            del metadata["finalizers"]
        try:
            if kept:
                self._registry.store.update(DEFINITIONS, entry, {**data, "metadata": metadata})
            else:
                self._registry.store.delete(DEFINITIONS, entry, {**data, "metadata": metadata})
        except Changed:
            self.worker.add(entry.name)

    def _write(self, entry: Entry, data: Data) -> None:
        try:
            self._registry.store.update(DEFINITIONS, entry, data)
        except Changed:
            pass
        self.worker.add(entry.name)


def _told_ending(data: Data, now: str) -> Data | None:
    """Return the definition with the condition Terminating, None where it has it."""
    conditions = (data.get("status") or {}).get("conditions") or []
    if any(one["type"] == "Terminating" and one["status"] == "True" for one in conditions):
        return None
    ending = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    rest = [one for one in conditions if one["type"] != "Terminating"]
    return {**data, "status": {**(data.get("status") or {}), "conditions": [*rest, ending]}}


def judged(data: Data, others: list[Data], now: str) -> Data:
    """Return the status of a definition among the others."""
    status = data.get("status") or {}
    names, conflicts = dict(data["spec"]["names"]), _conflicts(data, others)
    before = {one["type"]: one for one in status.get("conditions") or ()}
    accepted = (
        ("NamesAccepted", "False", conflicts[0], conflicts[1])
        if conflicts
        else ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    )
    was = before.get("Established", {}).get("status") == "True"
    established = (
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
        if was or not conflicts
        else ("Established", "False", "NotAccepted", "not all names are accepted")
    )
    kept = {kind: one for kind, one in before.items() if kind not in ("NamesAccepted", "Established")}
    stored = list(status.get("storedVersions") or ())
    storage = next((one["name"] for one in data["spec"]["versions"] if one.get("storage")), None)
    if storage is not None and storage not in stored:
        stored.append(storage)
    return {
        "conditions": [_condition(before, *accepted, now), _condition(before, *established, now), *kept.values()],
        "acceptedNames": names if not conflicts else status.get("acceptedNames") or {"kind": "", "plural": ""},
        "storedVersions": stored,
    }


def _condition(before: dict[str, Data], type_: str, status: str, reason: str, message: str, now: str) -> Data:
    old = before.get(type_, {})
    same = old.get("status") == status
    moment = old.get("lastTransitionTime", now) if same else now
    return {"type": type_, "status": status, "lastTransitionTime": moment, "reason": reason, "message": message}


def _conflicts(data: Data, others: list[Data]) -> tuple[str, str] | None:
    """Return reason and message of the first name that another definition of the group has."""
    spec, taken = data["spec"], set[str]()
    kinds = set[str]()
    for other in others:
        if other["spec"]["group"] != spec["group"]:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        taken |= {one for one in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if one}
        kinds |= {one for one in (names.get("kind"), names.get("listKind")) if one}
    names = spec["names"]
    for field, reason in (("plural", "PluralConflict"), ("singular", "SingularConflict")):
        if names.get(field) in taken:
            return reason, f'"{names[field]}" is already in use'
    for short in names.get("shortNames") or ():
        if short in taken:
            return "ShortNamesConflict", f'"{short}" is already in use'
    for field, reason in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if names.get(field) in kinds:
            return reason, f'"{names[field]}" is already in use'
    return None
