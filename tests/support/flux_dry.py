"""Flux's stand-in on a dict instead of an API server, and the recordings to compare it with."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from recordings import Json, lines, scenarios

from konverge_testing.flux.release import reconcile_release
from konverge_testing.flux.sources import reconcile_source
from konverge_testing.flux.state import FINALIZER, Delete, Finalizer, Put, Retry, Status, World

Events = list[tuple[str, str, Json]]


class Dry:
    """A store that keeps what the stand-in writes and every state on the way. It is the stand-in's `View`."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.objects: dict[tuple[str, str], Json] = {}
        self.seen: Events = []
        self._clock = datetime(2030, 1, 1, tzinfo=UTC)

    # the View of the stand-in

    def find(self, kind: str, namespace: str, name: str) -> Json | None:
        found = self.objects.get((kind, name))
        return None if found is None else copy.deepcopy(found)

    def now(self) -> datetime:
        self._clock += timedelta(milliseconds=20)
        return self._clock

    # from outside

    def put(self, kind: str, name: str, spec: Json, **metadata: Any) -> None:
        stored = self.objects.get((kind, name))
        if stored is None:
            flux = kind.startswith("Helm") or kind == "OCIRepository"
            stored = {
                "kind": kind,
                "metadata": {"name": name, "namespace": "team", "generation": 1},
                "spec": copy.deepcopy(spec),
            }
            if flux:
                stored["status"] = {"observedGeneration": -1}
            self._store("ADDED", {**stored, "metadata": {**stored["metadata"], **metadata}})
            return
        after = copy.deepcopy(stored)
        after["metadata"] |= metadata
        if after["spec"] != spec:
            after["spec"] = copy.deepcopy(spec)
            after["metadata"]["generation"] += 1
        self._store("MODIFIED", after)

    def put_secret(self, text: str, key: str = "values.yaml") -> None:
        self.objects["Secret", "vals"] = {"kind": "Secret", "data": {key: base64.b64encode(text.encode()).decode()}}

    def ask(self, token: str) -> None:
        """`flux reconcile helmrelease shop`."""
        after = copy.deepcopy(self.objects["HelmRelease", "shop"])
        after["metadata"]["annotations"] = {"reconcile.fluxcd.io/requestedAt": token}
        self._store("MODIFIED", after)

    def delete(self, kind: str, name: str) -> None:
        after = copy.deepcopy(self.objects[kind, name])
        if not after["metadata"].get("finalizers"):
            del self.objects[kind, name]
            self.seen.append(("DELETED", f"{kind}/{name}", after))
            return
        after["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        after["metadata"]["generation"] += 1
        self._store("MODIFIED", after)

    def _store(self, type_: str, stored: Json) -> None:
        kind, name = stored["kind"], stored["metadata"]["name"]
        self.objects[kind, name] = stored
        self.seen.append((type_, f"{kind}/{name}", copy.deepcopy(stored)))

    # the controllers

    def run(self, kind: str, name: str = "shop", times: int = 1) -> Retry | None:
        """Some reconciles of an object; returns the time of the next reconcile that the last reconcile requested."""
        again = None
        for _ in range(times):
            again = self._run(kind, name)
        return again

    def _run(self, kind: str, name: str) -> Retry | None:
        reconcile = reconcile_release if kind == "HelmRelease" else reconcile_source
        again = None
        for effect in reconcile(copy.deepcopy(self.objects[kind, name]), self.world, self):
            match effect:
                case Status(status=status):
                    self._store("MODIFIED", {**self.objects[kind, name], "status": copy.deepcopy(status)})
                case Finalizer(present=present):
                    self._finalizer(kind, name, present)
                case Put(object=made):
                    self.put(made["kind"], made["metadata"]["name"], made["spec"])
                case Delete(kind=other, name=named):
                    if (other, named) in self.objects:
                        self.delete(other, named)
                case Retry():
                    again = effect
        return again

    def _finalizer(self, kind: str, name: str, present: bool) -> None:
        stored = copy.deepcopy(self.objects[kind, name])
        stored["metadata"]["finalizers"] = [FINALIZER] if present else []
        if not present and stored["metadata"].get("deletionTimestamp"):
            del self.objects[kind, name]
            self.seen.append(("DELETED", f"{kind}/{name}", stored))
            return
        self._store("MODIFIED", stored)

    def install(self, **spec: Any) -> None:
        """A repository and a release of chart shop 1.0.0, run until both are idle: the beginning of most recordings."""
        self.put("HelmRepository", "shop", {"url": "http://charts"})
        self.put("HelmRelease", "shop", release_spec(**spec))
        self.run("HelmRepository")
        self.roll()

    def upgrade(self, **spec: Any) -> None:
        """Set another spec of the release, and run until the release is idle."""
        self.put("HelmRelease", "shop", release_spec(**spec))
        self.roll()

    def roll(self) -> None:
        """Reconcile the release, its chart, and the release again, in the order of their watches."""
        self.run("HelmRelease")
        chart = self.objects.get(("HelmChart", "team-shop"))
        if chart is not None and chart["status"].get("observedGeneration") != chart["metadata"]["generation"]:
            self.run("HelmChart", "team-shop")
            self.run("HelmRelease")


def release_spec(version: str = "1.0.0", **more: Any) -> Json:
    source = {"kind": "HelmRepository", "name": "shop"}
    chart = {"chart": {"spec": {"chart": "shop", "version": version, "sourceRef": source}}}
    if "chartRef" in more:
        chart = {}
    return {"interval": "30s", "timeout": "8s", "releaseName": "shop", **chart, "values": {}, **more}


def recorded(name: str) -> Events:
    """Return the events of a recording as (type, kind/name, object)."""
    events = [line for line in lines("flux", name) if line.object]
    return [(line.type, f"{line.object['kind']}/{line.object['metadata']['name']}", line.object) for line in events]


def conditions_of(made: Json) -> list[str]:
    found = (made.get("status") or {}).get("conditions", ())
    return [f"{entry['type']}={entry['status']}/{entry['reason']}" for entry in found]


def states(events: Events, which: str) -> list[str]:
    """Return the states of an object's conditions over time, without repetitions."""
    return _deduplicated(
        f"{'gone' if type_ == 'DELETED' else ''}{' '.join(conditions_of(made))}"
        for type_, name, made in events
        if name == which
    )


def progress(events: Events) -> list[str]:
    """Return the conditions of the release, and the fields that freshness depends on, without repetitions."""
    return _deduplicated(_progress(type_, made) for type_, name, made in events if name == "HelmRelease/shop")


def _progress(type_: str, made: Json) -> str:
    status, metadata = made.get("status") or {}, made["metadata"]
    stamped = [
        f"{text}@{entry['observedGeneration']}"
        for text, entry in zip(conditions_of(made), status.get("conditions", ()), strict=True)
    ]
    latest = (status.get("history") or [{}])[0]
    parts = {
        "generation": metadata["generation"],
        "deleting": "deletionTimestamp" in metadata,
        "attempted": status.get("lastAttemptedGeneration"),
        "revision": str(status.get("lastAttemptedRevision")).partition("+")[0],
        "observed": status.get("observedGeneration"),
        "handled": status.get("lastHandledReconcileAt"),
        "history": len(status.get("history") or ()),
        "latest": f"v{latest.get('version')} {str(latest.get('chartVersion')).partition('+')[0]} {latest.get('status')}",
        "failures": status.get("failures"),
    }
    return f"{type_ == 'DELETED'} {parts} {stamped}"


def _deduplicated(items: Iterable[str]) -> list[str]:
    result: list[str] = []
    for item in items:
        if not result or result[-1] != item:
            result.append(item)
    return result


@dataclass(frozen=True)
class ReconcileServices:
    """The verbs of a scenario."""

    spec: Callable[..., Json] = release_spec
    recorded: Callable[[str], Events] = recorded
    states: Callable[[Events, str], list[str]] = states
    progress: Callable[[Events], list[str]] = progress

    def names(self) -> list[str]:
        return scenarios("flux")

    def dry(self, **world: Any) -> Dry:
        return Dry(World(**world))
