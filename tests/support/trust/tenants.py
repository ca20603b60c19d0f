"""Tenants: users with exactly the rights of the chart's role `konverge-edit` in one namespace, and their requests.

Guarantees: the role is read from the files of the chart, so a kind that the chart gives to tenants is part of every attack.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from konverge.client import Client
from konverge.client.requests import APPLY, MERGE
from konverge.crds.catalogue import own_resources
from konverge.crds.resource import CustomResource
from konverge.kinds import Kind, kind_of
from konverge.objects import Object

EDIT: Final = "konverge-edit"
_FILES: Final = Path(__file__).parents[3] / "charts" / "konverge" / "files"
_GROUP: Final = "rbac.authorization.k8s.io"


def edit_rules() -> list[dict[str, Any]]:
    """Return the rules of the chart's role for tenants, with all families switched on."""
    documents = [yaml.safe_load(path.read_text()) for path in sorted(_FILES.glob("*/users.yaml"))]
    return [rule for document in documents for rule in document["edit"]]


def tenant_models() -> Iterator[type[CustomResource[Any, Any]]]:
    """Yield the models of the kinds that the role for tenants may create."""
    given = {
        (group, plural)
        for rule in edit_rules()
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    for model in own_resources():
        kind: Kind[Any] = kind_of(model)
        if (kind.group, str(kind.plural)) in given:
            yield model


def bindings(user: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the role for tenants and the bindings that give it, and Kubernetes' own role `edit`, to a user in a namespace."""
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{EDIT}-{user}"},
        "rules": edit_rules(),
    }
    for role in (f"{EDIT}-{user}", "edit"):
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{user}-{role}", "namespace": namespace},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        }


def path_of(kind: Kind[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object or a collection."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return "".join([root, place, f"/{kind.plural}", *(f"/{part}" for part in (name, subresource) if part)])


class Tenant:
    """A user of one namespace. Its calls are raw, so that no client-side check runs before the API server's."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def place(self, kind: Kind[Any], namespace: str | None) -> str:
        """Return the namespace of a call."""
        if kind.namespaced is False:
            return ""
        return self.namespace if namespace is None else namespace

    async def create(self, kind: Kind[Any] | type[Any], body: dict[str, Any], namespace: str | None = None) -> Object:
        """Create an object from its metadata and its other parts."""
        what: Kind[Any] = kind_of(kind)
        whole = {"apiVersion": what.api_version, "kind": what.kind, **body}
        return await self._object("POST", path_of(what, self.place(what, namespace)), whole)

    async def patch(
        self,
        kind: Kind[Any] | type[Any],
        name: str,
        body: dict[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """Merge a patch into an object."""
        what: Kind[Any] = kind_of(kind)
        path = path_of(what, self.place(what, namespace), name, subresource)
        return await self._object("PATCH", path, body, content_type=MERGE)

    async def apply(
        self, kind: Kind[Any] | type[Any], name: str, body: dict[str, Any], manager: str = "konverge"
    ) -> Object:
        """Apply an object by force in the name of a field manager: by default the daemon's."""
        what: Kind[Any] = kind_of(kind)
        metadata = {**body.get("metadata", {}), "name": name}
        whole = {"apiVersion": what.api_version, "kind": what.kind, **body, "metadata": metadata}
        path = path_of(what, self.place(what, None), name)
        query = {"fieldManager": manager, "force": "true"}
        return await self._object("PATCH", path, whole, content_type=APPLY, params=query)

    async def get(self, kind: Kind[Any] | type[Any], name: str, namespace: str | None = None) -> Object:
        """Read an object."""
        what: Kind[Any] = kind_of(kind)
        return await self._object("GET", path_of(what, self.place(what, namespace), name))

    async def delete(self, kind: Kind[Any] | type[Any], name: str, namespace: str | None = None) -> None:
        """Delete an object."""
        what: Kind[Any] = kind_of(kind)
        await self.client.raw("DELETE", path_of(what, self.place(what, namespace), name))

    async def delete_all(self, kind: Kind[Any] | type[Any], namespace: str | None = None) -> None:
        """Delete the collection of a kind."""
        what: Kind[Any] = kind_of(kind)
        await self.client.raw("DELETE", path_of(what, self.place(what, namespace)))

    async def _object(self, method: str, path: str, body: dict[str, Any] | None = None, **more: Any) -> Object:
        from konverge.client import decode_object

        return Object(decode_object(await self.client.raw(method, path, body=body, **more)))


def kinds_of(models: Iterable[type[Any]]) -> tuple[Kind[Any], ...]:
    """Return the kinds of models."""
    return tuple(kind_of(model) for model in models)
