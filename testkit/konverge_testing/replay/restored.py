"""The recorded state of a cluster in a lab: what a test of `konverge replay --as-test` works with.

Guarantees: objects keep their names, namespaces, labels, finalizers and status. Owner references name the uids of the restored objects.
Timestamps move by the time between the record and the lab. The status of the operator's kind is applied by the operator's field manager.

Caveats: a kind that neither the server nor the build defines gets a definition without a schema. An owner reference to an object that is
not in the record is left out, or the garbage collector would delete the object. creationTimestamp is the lab's. Everything but that
status belongs to the test's field manager, so a field that the operator no longer applies stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import yaml

from konverge.client import Client
from konverge.clock import from_rfc3339, rfc3339, rfc3339_micro, wall_clock
from konverge.crds import crd_manifests
from konverge.errors import AlreadyExists, NotFound
from konverge.keys import Key
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.runtime import Manager, ManagerSettings
from konverge.runtime.observability.record import ReconcileRecord
from konverge_testing.lab.definitions import is_served, models_of
from konverge_testing.lab.lab import Lab, install_crds

__all__ = ["SERVERS", "Restored"]

SERVERS: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""The metadata that the API server sets."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MOVING: Final = frozenset({"lastTransitionTime", "observedGeneration", "resourceVersion", "uid"})
"""Fields that are equal in no two runs."""


class Restored:
    """The objects of a record in a lab, and the operator over them."""

    def __init__(
        self, lab: Lab, build: Callable[[Manager], None], *, operator: str, namespace: str | None, began: str
    ) -> None:
        self._lab = lab
        self._build = build
        self._operator = operator
        self._namespace = namespace
        self._later = wall_clock() - from_rfc3339(began)
        self._uids: dict[str, str] = {}
        self._own_kinds: set[tuple[str, str]] = set()

    @classmethod
    async def begin(
        cls,
        lab: Lab,
        build: Callable[[Manager], None],
        *,
        operator: str,
        namespace: str | None,
        began: str,
        kinds: Mapping[tuple[str, str], tuple[str, bool]],
    ) -> Self:
        """Install the definitions of the kinds: API version and kind, with plural and whether it is namespaced.

        `operator` is the field manager of the record, `namespace` the only namespace that it watches (None: all), `began` the moment of
        the first restored state.
        """
        restored = cls(lab, build, operator=operator, namespace=namespace, began=began)
        declared = Manager(operator)
        build(declared)
        await install_crds(lab.client, crd_manifests(models_of(declared, ())))
        restored._own_kinds = {(spec.kind.api_version, spec.kind.kind) for spec in declared.controllers}
        foreign = defaultdict[tuple[str, str, bool], list[tuple[str, str]]](list)
        for (api_version, name), (plural, namespaced) in kinds.items():
            if not await is_served(kind(api_version, name), lab.client, None):
                foreign[api_version.rpartition("/")[0], plural, namespaced].append((api_version, name))
        await install_crds(lab.client, [_definition(*place, versions) for place, versions in foreign.items()])
        return restored

    @property
    def _client(self) -> Client:
        return self._lab.client

    async def start(self) -> None:
        """Start the operator, and wait until it has nothing to do."""
        settings = ManagerSettings(namespace=self._namespace, strict=True)
        await self._lab.start(self._build, name=self._operator, settings=settings)
        await self._lab.settled()

    async def create(self, documents: str) -> None:
        """Create the objects of a YAML text, owners before their dependents."""
        left = [document for document in yaml.safe_load_all(documents) if document]
        for namespace in sorted({document["metadata"].get("namespace", "") for document in left} - {""}):
            await self._lab.namespace_also(namespace)
        while left:
            waiting = {document["metadata"].get("uid") for document in left}
            ready = [document for document in left if not waiting & {each["uid"] for each in _owners(document)}]
            for document in ready or left:
                await self._create(document)
            left = [document for document in left if ready and document not in ready]
        await self._rest()

    async def _create(self, document: dict[str, Any]) -> None:
        recorded, what = document["metadata"], kind(document["apiVersion"], document["kind"])
        owners = [each for each in _owners(document) if each["uid"] in self._uids]
        body = self._placed({name: part for name, part in document.items() if name != "status"})
        body["metadata"] = {name: part for name, part in body["metadata"].items() if name not in SERVERS}
        if "ownerReferences" in body["metadata"]:
            body["metadata"]["ownerReferences"] = self._placed(owners)
        try:
            stored = await self._client.create(Object(body))
        except AlreadyExists:  # a namespace, or what the server's controllers create in it
            name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
            stored = await self._client.patch(what, name, namespace, patch=body, style="merge")
        self._uids[recorded.get("uid", "")] = stored.metadata.uid
        if document.get("status"):
            await self._set_status(what, stored, self._placed(document["status"]))
        if recorded.get("deletionTimestamp"):
            await self._client.delete(what, stored.name, stored.namespace)

    async def _set_status(self, what: Kind[Object], stored: Object, status: dict[str, Any]) -> None:
        if (what.api_version, what.kind) not in self._own_kinds:
            await self._patch(what, stored.namespace, stored.name, {"status": status}, "status")
            return
        metadata = {"name": stored.name, **({"namespace": stored.namespace} if stored.namespace else {})}
        body = {"apiVersion": what.api_version, "kind": what.kind, "metadata": metadata, "status": status}
        await self._client.apply(what, body, manager=self._operator, force=True, subresource="status")

    async def patch(
        self, api_version: str, kind_: str, namespace: str, name: str, patch: dict[str, Any], *, subresource: str = ""
    ) -> None:
        """Merge-patch an object as another writer did, and wait until the operator has nothing to do."""
        await self._patch(kind(api_version, kind_), namespace, name, self._placed(patch), subresource)
        await self._rest()

    async def _patch(
        self, what: Kind[Object], namespace: str, name: str, patch: dict[str, Any], subresource: str
    ) -> None:
        try:
            await self._client.patch(what, name, namespace, patch=patch, style="merge", subresource=subresource)
        except NotFound:
            if not subresource:
                raise
            await self._client.patch(
                what, name, namespace, patch=patch, style="merge"
            )  # a kind without the subresource

    async def delete(self, api_version: str, kind_: str, namespace: str, name: str) -> None:
        """Delete an object as another writer did, and wait until the operator has nothing to do."""
        await self._client.delete(kind(api_version, kind_), name, namespace)
        await self._rest()

    async def _rest(self) -> None:
        if self._lab.managers:
            await self._lab.settled()

    # --- how it ended --------------------------------------------------------------------------------------------------------

    def _history(self, controller: str, namespace: str, name: str) -> tuple[ReconcileRecord, ...]:
        runner = self._lab.manager.runner(controller)
        return runner.history.of(Key("", runner.spec.kind, namespace, name))

    def outcomes(self, controller: str, namespace: str, name: str) -> set[str]:
        """Return how the last five reconciles of an object ended: names of outcomes and of errors."""
        return {record.outcome for record in self._history(controller, namespace, name)}

    def writes(self, controller: str, namespace: str, name: str) -> set[str]:
        """Return the writes of the last five reconciles of an object, in words."""
        return {write for record in self._history(controller, namespace, name) for write in record.writes}

    async def holds(self, documents: str) -> bool:
        """Return whether the stored objects have all fields of these documents, apart from times, generations and uids."""
        for document in yaml.safe_load_all(documents):
            metadata = document["metadata"]
            try:
                stored = await self._client.get(
                    kind(document["apiVersion"], document["kind"]), metadata["name"], metadata.get("namespace", "")
                )
            except NotFound:
                return False
            if not _contains(stored.data, self._placed(document)):
                return False
        return True

    def _placed(self, value: Any) -> Any:
        """Return a recorded value with the uids and the time of the lab."""
        if isinstance(value, str):
            if (match := _TIME.fullmatch(value)) is not None:
                return (rfc3339_micro if match[1] else rfc3339)(from_rfc3339(value) + self._later)
            return self._uids.get(value, value)
        if isinstance(value, dict):
            return {name: self._placed(member) for name, member in value.items()}
        return [self._placed(member) for member in value] if isinstance(value, list) else value


def _owners(document: dict[str, Any]) -> list[dict[str, Any]]:
    owners: list[dict[str, Any]] = document["metadata"].get("ownerReferences") or []
    return owners


def _contains(stored: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(stored, dict) and all(
            _contains(stored.get(name), member) for name, member in part.items() if name not in _MOVING
        )
    if isinstance(part, list):
        return isinstance(stored, list) and all(any(_contains(item, wanted) for item in stored) for wanted in part)
    return bool(stored == part)


def _definition(group: str, plural: str, namespaced: bool, versions: list[tuple[str, str]]) -> dict[str, Any]:
    """Return a definition without a schema."""
    name = versions[0][1]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": name, "listKind": f"{name}List", "plural": plural, "singular": name.lower()},
            "versions": [
                {
                    "name": api_version.rpartition("/")[2],
                    "served": True,
                    "storage": number == 0,
                    "schema": schema,
                    "subresources": {"status": {}},
                }
                for number, (api_version, _) in enumerate(versions)
            ],
        },
    }
