"""Storage in use is protected: a claim or volume under deletion stays while it is in use, and is removed afterwards.

Admission adds the finalizers; this controller removes them. A claim is in use by a pod that was bound to a node and names it (or has it for
an ephemeral volume, unless it is shut down), a volume while it is bound, a class of volume attributes while a claim or a volume names it.
Source: k8s.io/kubernetes `pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.controllers.client import ControllerClient
from konverge_testing.apiserver.controllers.worker import Worker
from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.storage import Event

__all__ = ["ProtectionController", "uses_claim", "uses_class"]

_PODS: Final = ("", "pods")
_CLAIMS: Final = ("", "persistentvolumeclaims")
_VOLUMES: Final = ("", "persistentvolumes")
_CLASSES: Final = ("storage.k8s.io", "volumeattributesclasses")
_FINALIZERS: Final = {
    _CLAIMS: "kubernetes.io/pvc-protection",
    _VOLUMES: "kubernetes.io/pv-protection",
    _CLASSES: "kubernetes.io/vac-protection",
}

_Key = tuple[tuple[str, str], str, str]


def uses_claim(pod: Data, claim: Data) -> bool:
    """Tell whether a pod uses a claim, so that the claim stays."""
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if not spec.get("nodeName"):
        return False
    name = claim["metadata"]["name"]
    shut_down = bool(metadata.get("deletionTimestamp")) and metadata.get("deletionGracePeriodSeconds") == 0
    for volume in spec.get("volumes") or ():
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == name:
            return True
        made_for = f"{metadata['name']}-{volume['name']}"
        if "ephemeral" in volume and made_for == name and not shut_down and _is_controlled_by(claim, pod):
            return True
    return False


def uses_class(volume: Data, name: str) -> bool:
    """Tell whether a claim or a volume uses a class of volume attributes, so that the class stays."""
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    wanted = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    return name in (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), wanted)


def _is_controlled_by(claim: Data, pod: Data) -> bool:
    owners: list[dict[str, Any]] = claim["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner.get("uid") == pod["metadata"]["uid"] for owner in owners)


class ProtectionController:
    """Follows claims and volumes under deletion, and the pods that may use them."""

    name = "pvc-protection-controller"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._hands = ControllerClient(registry, self.name)
        self._held: set[_Key] = set()
        self.worker: Worker[_Key] = Worker(self.name, self._work)

    def observe(self, event: Event) -> None:
        """Handle one commit."""
        entry = event.entry
        if entry.resource in _FINALIZERS:
            key = (entry.resource, entry.namespace, entry.name)
            if event.type == "DELETED":
                self._held.discard(key)
            elif b'"deletionTimestamp"' in entry.raw:
                self.worker.add(key)
            if entry.resource != _CLASSES:
                for held in self._held:
                    if held[0] == _CLASSES:
                        self.worker.add(held)
        elif entry.resource == _PODS and event.type != "ADDED":
            for key in self._held:
                if key[1] == entry.namespace:
                    self.worker.add(key)

    async def _work(self, key: _Key) -> None:
        resource, namespace, name = key
        entry = self._registry.store.get(resource, namespace, name)
        if entry is None:
            return
        metadata = (found := entry.object())["metadata"]
        finalizers, own = metadata.get("finalizers") or [], _FINALIZERS[resource]
        if not metadata.get("deletionTimestamp") or own not in finalizers:
            return
        if self._in_use(resource, found):
            self._held.add(key)
            return
        self._held.discard(key)
        kind = self._registry.find(*resource)
        assert kind is not None
        left = [one for one in finalizers if one != own]
        document = {"uid": entry.uid, "resourceVersion": metadata["resourceVersion"], "finalizers": left or None}
        await self._hands.merge(kind, namespace, name, {"metadata": document})

    def _in_use(self, resource: tuple[str, str], found: Data) -> bool:
        if resource == _VOLUMES:
            return bool((found.get("status") or {}).get("phase") == "Bound")
        if resource == _CLASSES:
            name, store = found["metadata"]["name"], self._registry.store
            return any(uses_class(one.object(), name) for kind in (_CLAIMS, _VOLUMES) for one in store.list(kind))
        pods = self._registry.store.list(_PODS, found["metadata"]["namespace"])
        return any(uses_claim(pod.object(), found) for pod in pods)
