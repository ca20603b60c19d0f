"""A context without a server: objects in a dict, and a list of the reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog
from apps.made import NOW, OWNER

from konverge.client.guarded import expected_version, guarded_patch, object_changed
from konverge.clock import rfc3339
from konverge.errors import Conflict, NotFound
from konverge.keys import Key
from konverge.kinds import Kind, kind_of
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.contention import BY_HELM_RELEASE, helm_release_of
from konverge.runtime import Applied, Child, Held, Plan


class FakeReader:
    def __init__(self, world: FakeContext, kind: str) -> None:
        self._world, self._kind = world, kind

    def find(self, namespace: str, name: str) -> Object | None:
        found = self._world.objects.get((self._kind, name))
        return None if found is None else Object(found.to_dict())

    def metadata(self, namespace: str, name: str) -> Metadata | None:
        found = self.find(namespace, name)
        return None if found is None else found.metadata

    def by_index(self, index: str, value: str) -> list[Object]:
        assert (self._kind, index) == ("ApplicationInstance", BY_HELM_RELEASE)
        found = [Object(one.to_dict()) for (kind, _), one in self._world.objects.items() if kind == self._kind]
        return [one for one in found if value in helm_release_of(one)]

    def metadata_by_index(self, index: str, value: str) -> list[Metadata]:
        return [one.metadata for one in self.by_index(index, value)]


class FakeLive:
    def __init__(self, world: FakeContext, kind: str) -> None:
        self._world, self._kind = world, kind

    async def find(self, namespace: str, name: str) -> Object | None:
        self._world.calls.append(f"get {self._kind}/{name}")
        for error in self._world.live_errors.get(self._kind, []):
            raise error
        return FakeReader(self._world, self._kind).find(namespace, name)

    async def list(self, namespace: str) -> list[Object]:
        self._world.calls.append(f"list {self._kind}")
        return [Object(one.to_dict()) for (kind, _), one in self._world.stored.items() if kind == self._kind]


class FakeContext:
    """Keeps objects in a dict and records the calls; versions and preconditions are real.

    For single steps of a reconcile, which an API server does not show; `tests/scenarios/apps` has whole reconciles on the in-memory API
    server.
    """

    def __init__(self, *objects: Object, unserved: tuple[str, ...] = ()) -> None:
        self.objects = {(made.kind_name, made.name): made for made in objects}
        self.stored = self.objects
        """The objects of a live list; those of the caches by default."""
        self.unserved = unserved
        self.calls: list[str] = []
        self.patches: list[dict[str, Any]] = []
        self.live_errors: dict[str, list[Exception]] = {}
        self.held: tuple[Held, ...] = ()
        self.refusal: Exception | None = None
        self.before_write: Callable[[str], None] = lambda _: None
        self.plan: Plan[Any] | None = None
        self.log = structlog.get_logger("test")

    def now(self) -> datetime:
        return NOW

    def serves(self, kind: Kind[Any]) -> bool:
        return kind.kind not in self.unserved

    def cache(self, kind: Kind[Any]) -> FakeReader:
        return FakeReader(self, kind.kind)

    def live(self, kind: Kind[Any]) -> FakeLive:
        return FakeLive(self, kind.kind)

    async def apply_children(self, children: tuple[Child, ...]) -> Applied:
        self.calls.append(
            "apply " + ", ".join(f"{kind_of(child.object).kind}/{child.object.name}" for child in children)
        )
        if self.refusal is not None:
            raise self.refusal
        applied = Applied()
        held = {entry.key.kind.kind for entry in self.held}
        for child in children:
            kind = kind_of(child.object)
            if kind.kind not in held:
                stored = self._stored(child.object.to_dict())
                applied.add(Key("", kind, "team", child.object.name), stored)
        applied.held = self.held
        return applied

    def _stored(self, intent: dict[str, Any]) -> Object:
        key = (intent["kind"], intent["metadata"]["name"])
        before = self.objects.get(key)
        if before is not None and before.metadata.deleting:
            return before
        data: dict[str, Any] = {"status": {"observedGeneration": -1}} if before is None else before.to_dict()
        metadata = data.setdefault("metadata", {"uid": f"{key[0]}-uid", "generation": 1, "resourceVersion": "1"})
        if before is not None and before.spec != intent["spec"]:
            metadata["generation"] = before.metadata.generation + 1
        for part in ("labels", "annotations"):
            metadata[part] = {**metadata.get(part, {}), **intent["metadata"].get(part, {})}
        metadata |= {"name": key[1], "namespace": "team", "ownerReferences": [OWNER]}
        data |= {"apiVersion": intent["apiVersion"], "kind": key[0], "spec": intent["spec"]}
        self.objects[key] = Object(data)
        return self.objects[key]

    async def patch(
        self,
        kind: Kind[Any],
        name: str = "",
        namespace: str = "",
        *,
        patch: dict[str, Any],
        expect: Object | None = None,
    ) -> Object:
        if expect is not None:
            name, patch = expect.name, guarded_patch(patch, expected_version(expect))
        self.calls.append(f"patch {kind.kind}/{name}")
        self.before_write("patch")
        metadata = patch["metadata"]
        found = self._guarded(kind, name, metadata.get("uid", ""), metadata.get("resourceVersion", ""), expect)
        self.patches.append(patch)
        metadata = found.data["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **patch["metadata"].get("annotations", {})}
        found.data["spec"] = {**found.spec, **patch.get("spec", {})}
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        self.objects[kind.kind, name] = Object(found.data)
        return Object(found.to_dict())

    async def delete(
        self, kind: Kind[Any], name: str = "", namespace: str = "", *, uid: str = "", expect: Object | None = None
    ) -> bool:
        version = ""
        if expect is not None:
            name, uid, version = expect.name, expect.metadata.uid, expect.metadata.resource_version
        self.calls.append(f"delete {kind.kind}/{name}" + (f" at {version}" if version else ""))
        self.before_write("delete")
        if (kind.kind, name) not in self.objects:
            return False
        found = self._guarded(kind, name, uid, version, expect)
        found.data["metadata"]["deletionTimestamp"] = rfc3339(NOW)
        self.objects[kind.kind, name] = Object(found.data)
        return True

    def _guarded(self, kind: Kind[Any], name: str, uid: str, version: str, expect: Object | None) -> Object:
        found = self.objects.get((kind.kind, name))
        if found is None:
            missing = NotFound("gone", status=404)
            raise missing if expect is None else object_changed(missing)
        if (uid and uid != found.metadata.uid) or (version and version != found.metadata.resource_version):
            conflict = Conflict("the object has been modified", status=409)
            raise conflict if expect is None else object_changed(conflict)
        return Object(found.to_dict())

    async def execute(self, plan: Plan[Any]) -> Any:
        self.calls.append("carry out")
        self.plan = plan
        return plan.outcome

    def says(self) -> dict[str, str]:
        assert self.plan is not None
        return {mark.type: f"{mark.truth}/{mark.reason}" for mark in self.plan.set_conditions}

    def message(self, type_: str) -> str:
        assert self.plan is not None
        return next(mark.message for mark in self.plan.set_conditions if mark.type == type_)

    def fetch(self, kind: str = "HelmRepository", revision: str = "sha256:index") -> None:
        """source-controller fetches, and creates the HelmChart of a repository."""
        source = self.objects[kind, "shop"].to_dict()
        source["status"] = {
            "observedGeneration": source["metadata"]["generation"],
            "artifact": {"revision": revision},
        }
        self.objects[kind, "shop"] = Object(source)
        if kind == "HelmRepository":
            chart = {
                "observedGeneration": 1,
                "artifact": {"revision": "1.0.0"},
                "observedSourceArtifactRevision": revision,
            }
            metadata = {"name": "team-shop", "namespace": "team", "uid": "chart-uid", "generation": 1}
            self.objects["HelmChart", "team-shop"] = Object(
                {"apiVersion": source["apiVersion"], "kind": "HelmChart", "metadata": metadata, "status": chart}
            )

    def touch(self, kind: str, name: str, **spec: Any) -> None:
        """Another client writes the object."""
        data = self.objects[kind, name].to_dict()
        data["spec"] = {**data.get("spec", {}), **spec}
        data["metadata"]["resourceVersion"] = str(int(data["metadata"]["resourceVersion"]) + 1)
        self.objects[kind, name] = Object(data)
