"""Plays recordings of Flux on a real API server, onto the objects of the reconciler under test.

The recorded statuses are written in order, with the server's generations in place of the recorded generations. Actions from outside are
done as a user of konverge would do them: a new version, values or deletion through the instance, a suspension on the release, a Secret as
it was. After each write the player waits until the reconciler is idle.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from recordings import lines

from konverge.clock import rfc3339, wall_clock
from konverge.conditions import Condition, find_condition
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Conflict, NotFound
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps import Settings, install
from konverge.reconcilers.apps.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from konverge_testing import Lab, install_crds
from konverge_testing.flux import flux_crds
from konverge_testing.flux.state import FINALIZER

KINDS: dict[str, Kind[Object]] = {
    kind.kind: kind for kind in (HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, HELM_CHART)
}
REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
SECRETS = {
    "Secret without the key": {"other.yaml": "a: 1"},
    "Secret with unparsable values": {"values.yaml": "[unclosed"},
    "Secret good": {"values.yaml": "a: 1"},
    "Secret edited": {"values.yaml": "a: 2"},
    "label removed, Secret edited": {"values.yaml": "a: 3"},
}
QUIET = 0.06


@dataclass
class Player:
    """Plays one recording in a lab."""

    lab: Lab
    name: str
    said: list[tuple[Condition, ...]] = field(default_factory=list)
    deleted: bool = False
    _position: int = 0
    _generations: dict[str, dict[int, int]] = field(default_factory=dict)
    _specs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.entries = lines("flux", self.name)
        releases = [entry.object for entry in self.entries if entry.object.get("kind") == "HelmRelease"]
        self.oci = "chartRef" in releases[0]["spec"]
        self.first = releases[0]["spec"]

    async def start(self, grace: float = 30.0) -> Player:
        await install_crds(self.lab.client, flux_crds())
        settings = Settings(source_grace=timedelta(seconds=grace))
        await self.lab.start(lambda manager: install(manager, settings), name="konverge")
        await self.lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": self._instance()}))
        await self.lab.until(HELM_RELEASE, "shop", lambda _: True)
        await self._rest()
        return self

    def _instance(self) -> dict[str, Any]:
        version = "1.0.0" if self.oci else self.first["chart"]["spec"]["version"]
        source = (
            {"sourceType": "oci", "url": "oci://registry.example.com"}
            if self.oci
            else {"sourceType": "helm", "url": "https://c.example.com"}
        )
        inline = {"source": "inline", "inline": self.first.get("values") or {}}
        secret = {"source": "secretRef", "secretRef": {"name": "vals", "key": "values.yaml"}}
        return {
            "appRef": {"catalogId": "shop"},
            "chart": {**source, "name": "shop", "version": version},
            "release": {"name": "shop", "namespace": self.lab.namespace},
            "values": secret if "valuesFrom" in self.first else inline,
        }

    # --- playing -------------------------------------------------------------------------------------------------------------

    async def feed(self, *, before: str = "") -> Player:
        """Play on, to the end or up to the step whose text begins with `before`."""
        while self._position < len(self.entries):
            entry = self.entries[self._position]
            if before and entry.step.startswith(before):
                return self
            self._position += 1
            if entry.step:
                await self._step(entry.step)
            elif entry.object["metadata"]["name"] in ("shop", "team-shop"):
                await self._event(entry.type, entry.object)
        assert not before, f"no step {before!r}"
        return self

    async def _step(self, text: str) -> None:
        for begins, data in SECRETS.items():
            if text.startswith(begins):
                encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
                metadata = {"name": "vals", "namespace": self.lab.namespace}
                await self.lab.client.apply(
                    SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}, force=True
                )
                await self._rest()

    async def _event(self, type_: str, recorded: dict[str, Any]) -> None:
        kind = KINDS[recorded["kind"]]
        name = f"{self.lab.namespace}-shop" if kind == HELM_CHART else "shop"
        if type_ == "DELETED":
            await self._let_go(kind, name)
        else:
            if not await self._mirror(kind, name, recorded):
                return
            await self._write(kind, name, recorded)
        await self._rest()

    async def _mirror(self, kind: Kind[Object], name: str, recorded: dict[str, Any]) -> bool:
        """Apply a recorded action to our objects; False if our object does not exist any more."""
        generations = self._generations.setdefault(kind.kind, {})
        generation, before = recorded["metadata"]["generation"], self._specs.get(kind.kind)
        if generation not in generations:
            self._specs[kind.kind] = recorded["spec"]
            if kind == HELM_CHART:
                await self._chart(name, recorded)
            elif recorded["metadata"].get("deletionTimestamp"):
                await self._delete_instance()
            elif before is not None:
                await self._change(kind, before, recorded["spec"])
        found = await self.lab.find(kind, name)
        if found is None:
            return False
        generations.setdefault(generation, found.metadata.generation)
        return True

    async def _change(self, kind: Kind[Object], before: dict[str, Any], after: dict[str, Any]) -> None:
        if kind == OCI_REPOSITORY:
            await self._upgrade({"chart": {"version": after["ref"]["tag"]}})
            return
        if kind != HELM_RELEASE:
            return
        version = (
            {"chart": {"version": after["chart"]["spec"]["version"]}}
            if after.get("chart") != before.get("chart")
            else {}
        )
        values = {} if after.get("values") == before.get("values") else {"values": {"inline": after["values"]}}
        if version or values:
            await self._upgrade({**version, **values})
        if after.get("suspend") != before.get("suspend"):
            await self.lab.patch(HELM_RELEASE, "shop", {"spec": {"suspend": after.get("suspend")}})
        if not version and not values and after.get("suspend") == before.get("suspend"):
            # A person edited a field of the release that konverge does not render, such as a strategy: edit such a field.
            release = await self.lab.get(HELM_RELEASE, "shop")
            await self.lab.patch(HELM_RELEASE, "shop", {"spec": {"maxHistory": release.metadata.generation + 10}})

    async def _upgrade(self, spec: dict[str, Any]) -> None:
        await self.lab.patch(ApplicationInstance, "shop", {"spec": spec})
        await self._rest()

    async def _delete_instance(self) -> None:
        self.deleted = True
        await self.lab.delete(ApplicationInstance, "shop")
        await self.lab.until(HELM_RELEASE, "shop", lambda release: release.metadata.deleting)

    async def _chart(self, name: str, recorded: dict[str, Any]) -> None:
        if await self.lab.find(HELM_CHART, name) is not None:
            await self.lab.patch(HELM_CHART, name, {"spec": recorded["spec"]})
            return
        labels = {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": self.lab.namespace}
        await self.lab.create(HELM_CHART.new(name, labels=labels, spec=recorded["spec"]))

    async def _write(self, kind: Kind[Object], name: str, recorded: dict[str, Any]) -> None:
        """Write the recorded status, and Flux's finalizer on the release."""
        while True:
            try:
                newest = await self.lab.get(kind, name)
                if kind == HELM_RELEASE and not newest.metadata.finalizers and recorded["metadata"].get("finalizers"):
                    newest.data["metadata"]["finalizers"] = [FINALIZER]
                    newest = await self.lab.client.replace(newest)
                status = self._status(kind.kind, newest, recorded.get("status") or {})
                stored = await self.lab.client.replace(Object({**newest.data, "status": status}), subresource="status")
                await self._shown(kind, stored)
                return
            except Conflict:
                continue
            except NotFound:
                return

    def _status(self, kind: str, newest: Object, recorded: dict[str, Any]) -> dict[str, Any]:
        generations = self._generations[kind]
        status: dict[str, Any] = json.loads(json.dumps(recorded))
        for field_ in ("observedGeneration", "lastAttemptedGeneration"):
            if status.get(field_, -1) > 0:
                status[field_] = generations[status[field_]]
        old = {entry["type"]: entry for entry in newest.get("status", "conditions", default=[])}
        for entry in status.get("conditions", ()):
            entry["observedGeneration"] = generations[entry["observedGeneration"]]
            before = old.get(entry["type"], {})
            same = all(before.get(part) == entry[part] for part in ("status", "reason", "message"))
            entry["lastTransitionTime"] = before["lastTransitionTime"] if same else rfc3339(wall_clock())
        at_work = any(entry["type"] == "Reconciling" for entry in status.get("conditions", ()))
        asked = newest.metadata.annotation(REQUESTED_AT)
        if kind == "HelmRelease" and asked and not at_work:
            status["lastHandledReconcileAt"] = asked  # the end of every reconcile of Flux has this state
        else:
            status.pop("lastHandledReconcileAt", None)
            if newest.get("status", "lastHandledReconcileAt"):
                status["lastHandledReconcileAt"] = newest.get("status", "lastHandledReconcileAt")
        return status

    async def _shown(self, kind: Kind[Object], stored: Object) -> None:
        """Wait until the reconciler's cache shows what was written."""
        informer = self.lab.manager.runner("applicationinstance").caches.informer(kind)
        assert informer is not None
        async with asyncio.timeout(60):
            while informer.store.shows(stored.namespace, stored.name, stored.metadata.resource_version) is False:
                await asyncio.sleep(0.005)

    async def _let_go(self, kind: Kind[Object], name: str) -> None:
        found = await self.lab.find(kind, name)
        if found is not None:
            await self.lab.patch(kind, name, {"metadata": {"finalizers": None}})
            if kind == HELM_CHART:
                await self.lab.delete(kind, name)

    # --- reports --------------------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        await self.lab.settled(quiet=QUIET)
        found = await self.lab.find(ApplicationInstance, "shop")
        if found is not None:
            self.said.append(found.conditions)

    async def ends_as(self, type_: str, status: str) -> None:
        """Wait until a condition has this status."""

        def shows(found: ApplicationInstance) -> bool:
            condition = found.find_condition(type_)
            return condition is not None and condition.status == status

        await self.lab.until(ApplicationInstance, "shop", shows)
        await self._rest()

    def last(self, type_: str) -> str:
        return _text(self.said[-1], type_)

    def message(self, type_: str) -> str:
        found = find_condition(self.said[-1], type_)
        return "" if found is None else found.message

    def ever(self, type_: str, text: str) -> bool:
        return any(_text(said, type_).startswith(text) for said in self.said)

    def changes(self, type_: str) -> list[str]:
        """Return the statuses of a condition, in order."""
        result: list[str] = []
        for said in self.said:
            found = find_condition(said, type_)
            if found is not None and (not result or result[-1] != found.status):
                result.append(found.status)
        return result


def _text(conditions: tuple[Condition, ...], type_: str) -> str:
    found = find_condition(conditions, type_)
    return "" if found is None else f"{found.status}/{found.reason}"
