"""`ForeignWriter`: writes of other users of the cluster, people with kubectl or other controllers, as plans name them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from konverge.client import Client
from konverge.errors import ApiError, NotFound
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.apiserver.registry import Registry
from konverge_testing.apiserver.resources import Resource
from konverge_testing.lab.plans import Foreign

__all__ = ["ForeignWriter"]

_CRD = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions")
_NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")
_KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences")


class ForeignWriter:
    """Writes under a name of its own. Does nothing if the object no longer exists."""

    def __init__(self, client: Client, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._removed: dict[str, Object] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def act(self, foreign: Foreign) -> set[str]:
        """Carry out one write; returns the objects that it concerns, as the injector names them."""
        resource = self._find(foreign.resource)
        if resource is None:
            return set()
        what = _kind(resource)
        where = f"{foreign.resource} {foreign.namespace}/{foreign.name}".rstrip("/ ")
        touched = {where if foreign.namespace else f"{foreign.resource} {foreign.name}"}
        try:
            match foreign.do:
                case "delete":
                    await self._client.delete(what, foreign.name, foreign.namespace)
                case "recreate":
                    await self._recreate(what, foreign)
                case "edit" | "take":
                    await self._edit(what, foreign)
                case "unfinalize":
                    none: dict[str, Any] = {"metadata": {"finalizers": None}}
                    await self._client.patch(what, foreign.name, foreign.namespace, patch=none, style="merge")
                case "terminate":
                    await self._client.delete(_NAMESPACE, foreign.namespace)
                case "remove-crd":
                    touched |= await self._remove_definition(resource, foreign)
        except ApiError:
            pass  # a refused foreign write has no further effect
        return touched

    async def put_back(self) -> None:
        """Wait until the CRDs that were removed are back."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _find(self, qualified: str) -> Resource | None:
        plural, _, group = qualified.partition(".")
        return self._registry.find(group, plural)

    async def _recreate(self, what: Kind[Any], foreign: Foreign) -> None:
        data = (await self._client.get(what, foreign.name, foreign.namespace)).to_dict()
        await self._remove(what, foreign)
        metadata = {key: value for key, value in data["metadata"].items() if key in _KEPT}
        again = {key: value for key, value in data.items() if key != "status"} | {"metadata": metadata}
        applier = _applier(data["metadata"].get("managedFields") or ())
        if applier:  # as a tool that restores what it deployed: a mere copy would belong to the foreign writer
            await self._client.apply(what, again, manager=applier, force=True)
        else:
            await self._client.create(what.decode(again))

    async def _remove(self, what: Kind[Any], foreign: Foreign) -> None:
        """Delete an object and wait for its end, whatever finalizers it has: the next create must not meet a terminating object.

        The process under test may add its finalizer between the patch and the delete. The API server refuses finalizers that are added
        after the delete, so the second round is the last.
        """
        no_finalizers: dict[str, Any] = {"metadata": {"finalizers": None}}
        uid = ""
        try:
            while True:
                current = await self._client.get(what, foreign.name, foreign.namespace)
                if uid and current.metadata.uid != uid:
                    return  # the process under test created the object again
                uid = current.metadata.uid
                if current.metadata.finalizers:
                    await self._client.patch(what, foreign.name, foreign.namespace, patch=no_finalizers, style="merge")
                await self._client.delete(what, foreign.name, foreign.namespace)
        except NotFound:
            pass

    async def _edit(self, what: Kind[Any], foreign: Foreign) -> None:
        document: Any = foreign.value
        for step in reversed(foreign.path):
            document = {step: document}
        if foreign.do == "edit":
            await self._client.patch(what, foreign.name, foreign.namespace, patch=document, style="merge")
            return
        intent = what.new(foreign.name, foreign.namespace).to_dict() | document
        intent["metadata"] = {"name": foreign.name, **({"namespace": foreign.namespace} if foreign.namespace else {})}
        await self._client.apply(what, intent, force=True)

    async def _remove_definition(self, resource: Resource, foreign: Foreign) -> set[str]:
        name = f"{resource.plural}.{resource.group}"
        found = await self._client.get(_CRD, name)
        self._removed[name] = found
        touched = {
            f"{name} {entry.namespace}/{entry.name}" if entry.namespace else f"{name} {entry.name}"
            for entry in self._registry.store.list(resource.id)
        }
        await self._client.delete(_CRD, name)

        async def later() -> None:
            await asyncio.sleep(foreign.back_after)
            await self._restore(name)

        task = asyncio.get_running_loop().create_task(later())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return touched

    async def _restore(self, name: str) -> None:
        while True:
            try:
                await self._client.get(_CRD, name)
            except NotFound:
                break
            await asyncio.sleep(1.0)
        data = self._removed.pop(name).to_dict()
        metadata = {key: value for key, value in data["metadata"].items() if key in _KEPT}
        await self._client.create(
            _CRD.decode({key: data[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata})
        )


def _kind(resource: Resource) -> Kind[Any]:
    return kind(
        resource.api_version(resource.storage.name),
        resource.kind,
        namespaced=resource.namespaced,
        plural=resource.plural,
    )


def _applier(owners: Iterable[Mapping[str, Any]]) -> str:
    """Return the field manager that applied an object; "" if no apply wrote it, so that no manager's apply restores the whole object."""
    owners = [one for one in owners if not one.get("subresource")]
    if any(one["operation"] == "Update" and one.get("fieldsV1", {}).keys() - {"f:metadata"} for one in owners):
        return ""
    return next((str(one["manager"]) for one in owners if one["operation"] == "Apply"), "")
