"""The client of the built-in controllers: the verbs of clients without routing and authorization, under the controller's own user."""

from __future__ import annotations

from typing import Any

import msgspec

from konverge_testing.apiserver.registry.core import Data, Registry
from konverge_testing.apiserver.registry.creating import create
from konverge_testing.apiserver.registry.deleting import Deletion, delete
from konverge_testing.apiserver.registry.patching import patch
from konverge_testing.apiserver.registry.pipeline import conform
from konverge_testing.apiserver.registry.request import RequestInfo, ResourceRequest, WriteOptions
from konverge_testing.apiserver.requests import Call, Query, User
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.statuses import StatusError

__all__ = ["ControllerClient"]

_MERGE = "application/merge-patch+json"


class ControllerClient:
    """Writes as `kube-controller-manager` would, for one controller."""

    def __init__(self, registry: Registry, controller: str) -> None:
        self.registry = registry
        self._user = User(f"system:serviceaccount:kube-system:{controller}", ("system:masters", "system:authenticated"))

    def _request(
        self, verb: str, resource: Resource, namespace: str, name: str, subresource: str = "", body: bytes = b""
    ) -> ResourceRequest:
        version = resource.storage
        method = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}[verb]
        headers = {
            "user-agent": "kube-controller-manager",
            "content-type": _MERGE if verb == "patch" else "application/json",
        }
        call = Call(method, "", Query(()), headers, body, self._user)
        place = RequestInfo(verb, "", resource.group, version.name, resource.plural, namespace, name, subresource)
        return ResourceRequest(call, place, resource, version, self._user, WriteOptions(validation="Ignore"))

    async def create(self, resource: Resource, data: Data) -> None:
        """Create an object; does nothing if it exists."""
        request = self._request("create", resource, data["metadata"].get("namespace", ""), "")
        conform(request, data)
        try:
            await create(self.registry, request, data)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    async def delete(self, resource: Resource, namespace: str, name: str, *, policy: str = "", uid: str = "") -> None:
        """Delete an object; does nothing if the object was deleted or replaced."""
        request = self._request("delete", resource, namespace, name)
        try:
            entry = self.registry.store.get(resource.id, namespace, name)
            await delete(self.registry, request, entry, Deletion(policy=policy, uid=uid))
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def merge(
        self, resource: Resource, namespace: str, name: str, document: dict[str, Any], *, subresource: str = ""
    ) -> None:
        """Merge-patch an object; does nothing if the object was deleted."""
        body = msgspec.json.encode(document)
        try:
            await patch(self.registry, self._request("patch", resource, namespace, name, subresource, body))
        except StatusError as error:
            if error.code != 404:
                raise
