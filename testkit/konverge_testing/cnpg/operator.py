"""The stories of Clusters: each begins like the recording of CloudNativePG 1.30, and ends as `CnpgWorld` defines."""

from __future__ import annotations

import base64
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

from konverge.client import ClientConfig
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.standin import Json, StandIn

__all__ = ["KINDS", "CnpgOperator", "CnpgWorld"]

KINDS: Final[Mapping[str, Kind[Object]]] = {
    "Cluster": kind("postgresql.cnpg.io/v1", "Cluster", namespaced=True, plural="clusters"),
    "Secret": kind("v1", "Secret", namespaced=True, plural="secrets"),
}

_HEALTHY: Final = "Cluster in healthy state"


@dataclass(slots=True)
class CnpgWorld:
    """Outcomes by the name of the Cluster. May be changed while the stand-in runs."""

    stuck: set[str] = field(default_factory=set)
    """Clusters whose first pod never runs; "*" for all."""
    failing: dict[str, str] = field(default_factory=dict)
    """A Cluster's last phase."""
    seconds: float = 90.0
    """How long a database takes to start."""


class CnpgOperator(StandIn):
    """Plays CloudNativePG until its `async with` ends."""

    NAME: ClassVar[str] = "cloudnative-pg"
    KINDS: ClassVar[Mapping[str, Kind[Object]]] = {"Cluster": KINDS["Cluster"]}

    def __init__(
        self,
        config: ClientConfig,
        *,
        world: CnpgWorld | None = None,
        namespace: str | None = None,
        pace: float = 1.0,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, namespace=namespace, pace=pace, random=random)
        self.world = CnpgWorld() if world is None else world

    def story(self, manifest: Json) -> Coroutine[Any, Any, None] | None:
        """Return the story of a Cluster."""
        return self._bootstrap(manifest)

    async def _bootstrap(self, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        if makes_secret := "secret" not in ((manifest.get("spec") or {}).get("bootstrap") or {}).get("initdb", {}):
            await self.sleep(0.25)
            await self._make_secret(manifest)
        await self._report(manifest, Initialized=("False", "BootstrapPending"))
        await self.sleep(0.2)
        await self._report(manifest, ConsistentSystemID=("False", "NotFound"))
        await self.sleep(0.7)
        phase = {"phase": "Setting up primary", "phaseReason": f"Creating primary instance {name}-1"}
        await self._report(manifest, phase, Ready=("False", "ClusterIsNotReady"))
        await self.sleep(0.4)
        # The real operator writes this too, long before a pod runs.
        await self._report(manifest, {"instances": 1}, Initialized=("True", "BootstrapCompleted"))
        if await self._ends_here(manifest, name):
            return
        await self.sleep(self.world.seconds)
        waiting = {
            "phase": "Waiting for the instances to become active",
            "phaseReason": "Some instances are not yet active. Please wait.",
        }
        await self._report(manifest, waiting)
        await self.sleep(3)
        if makes_secret:  # again: garbage collection may have removed a former Cluster's Secret of this name
            await self._make_secret(manifest)
        members = (manifest.get("spec") or {}).get("instances", 1)
        done = {
            "phase": _HEALTHY,
            "phaseReason": "",
            "instances": members,
            "readyInstances": members,
            "currentPrimary": f"{name}-1",
        }
        await self._report(manifest, done, Ready=("True", "ClusterIsReady"))

    async def _make_secret(self, manifest: Json) -> None:
        if await self.read(manifest) is not None:  # else a deleted Cluster's Secret would block its successor's name
            await self.create(_application_secret(manifest))

    async def _ends_here(self, manifest: Json, name: str) -> bool:
        while self.world.stuck & {name, "*"}:
            await self.sleep(5)
            if await self.read(manifest) is None:
                return True
        if name in self.world.failing:
            await self._report(manifest, {"phase": self.world.failing[name], "phaseReason": ""})
            return True
        return False

    async def _report(self, manifest: Json, status: Json | None = None, **conditions: tuple[str, str]) -> None:
        def edit(newest: Json) -> None:
            result = newest.setdefault("status", {})
            result.update(status or {})
            present = {entry["type"]: entry for entry in result.get("conditions", [])}
            for type_, (truth, reason) in conditions.items():
                present[type_] = {
                    "type": type_,
                    "status": truth,
                    "reason": reason,
                    "message": "",
                    "lastTransitionTime": self.now(),
                }
            result["conditions"] = list(present.values())

        await self.write(manifest, edit, "status")


def _application_secret(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    name, initdb = metadata["name"], ((manifest.get("spec") or {}).get("bootstrap") or {}).get("initdb", {})
    user, database = initdb.get("owner", "app"), initdb.get("database", "app")
    data = {
        "username": user,
        "user": user,
        "password": "played",
        "dbname": database,
        "host": f"{name}-rw",
        "port": "5432",
        "uri": f"postgresql://{user}:played@{name}-rw.{metadata['namespace']}:5432/{database}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/basic-auth",
        "metadata": {
            "name": f"{name}-app",
            "namespace": metadata["namespace"],
            "labels": {"cnpg.io/cluster": name},
            "ownerReferences": [
                {
                    "apiVersion": "postgresql.cnpg.io/v1",
                    "kind": "Cluster",
                    "name": name,
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
