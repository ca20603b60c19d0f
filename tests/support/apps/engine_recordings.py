"""Recordings of engines through the whole reconciler: the recorded statuses are written into the objects that Operations created.

Every recorded object has an Operation and a target of its own, and all are played at once, in virtual time and at the recorded distances.
"""

import asyncio
import copy
import json
from collections.abc import Iterable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

from apps.engine_shop import ALL, KINDS, EngineShop
from apps.recorded_ways import VOLUME, Recorded
from recordings import Json

from konverge.clock import from_rfc3339, rfc3339, wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Conflict, NotFound
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge_testing import Lab, install_crds
from konverge_testing.argo import argo_crds
from konverge_testing.velero import velero_crds
from konverge_testing.volsync import volsync_crds


class EngineRecordings:
    """A lab with the CRDs of the engines and without their controllers."""

    def __init__(self, lab: Lab, stack: AsyncExitStack) -> None:
        self.lab, self.shop = lab, EngineShop(lab, stack)

    async def open(self) -> None:
        await install_crds(self.lab.client, [*velero_crds(), *argo_crds(), *volsync_crds()])
        await self.shop.open(engines=False, target=False)
        available = {"apiVersion": "velero.io/v1", "spec": {"provider": "aws"}, "status": {"phase": "Available"}}
        await self._made("BackupStorageLocation", "default", available)
        namespace = await self.lab.get(NAMESPACE, self.lab.namespace)
        own = {
            "ops.vworkspace.io/operation-name": f"{self.lab.namespace}/before",
            "ops.vworkspace.io/namespace-uid": namespace.metadata.uid,
        }
        spec = {"includedNamespaces": [self.lab.namespace], "storageLocation": "default"}
        await self._made("Backup", "given", {"spec": spec, "status": {"phase": "Completed"}}, annotations=own)
        await self._made("WorkflowTemplate", "runbook", {"spec": {}})

    async def _made(self, kind: str, name: str, parts: Json, **metadata: Any) -> None:
        about = {"name": name, "namespace": self.lab.namespace, **metadata}
        made = Object({"apiVersion": KINDS[kind].api_version, "kind": kind, **parts, "metadata": about})
        await self.lab.client.create(made)

    async def play(self, objects: Iterable[Recorded]) -> dict[str, Operation]:
        """Play all objects, and return their Operations at the end."""
        played = list(objects)
        await asyncio.gather(*(self._play(recorded) for recorded in played))
        await asyncio.sleep(90)  # an object that vanished is tolerated for a minute
        return {recorded.id: await self.shop.get(recorded.id) for recorded in played}

    async def _play(self, recorded: Recorded) -> None:
        await self.shop.target(recorded.id, offers=ALL)
        operation = await self._operation(recorded)
        child = await self.shop.child(recorded.kind, recorded.id)
        began = wall_clock()
        events = recorded.lines()
        first = events[0]
        zero = from_rfc3339(first.object["metadata"]["creationTimestamp"])
        at = first.at
        # An object that existed before the recording began has a status in its first line.
        for line in events if first.object.get("status") else events[1:]:
            await asyncio.sleep(max(line.at - at, 0))
            at = max(line.at, at)
            if line.step:
                await self.shop.cancel(recorded.id)
            elif line.type == "DELETED":
                await self._delete(child)
            else:
                made = json.loads(json.dumps(line.object).replace('"t1"', f'"{operation.metadata.uid}"'))
                await self._write(child, made, began - zero, cancelled=bool(recorded.cancel_at))

    async def _operation(self, recorded: Recorded) -> Operation:
        known: dict[str, Json] = {
            "Restore": {"backupName": "given"},
            "Workflow": {"template": "runbook"},
            "ReplicationSource": VOLUME,
            "ReplicationDestination": VOLUME,
        }
        engine, parameters = recorded.translation.name, known.get(recorded.kind, {})
        return await self.shop.create(recorded.id, recorded.type, engine, target=recorded.id, parameters=parameters)

    async def _delete(self, child: Object) -> None:
        try:
            await self.lab.delete(KINDS[child.kind_name], child.name)
        except NotFound:
            pass  # the reconciler was first

    async def _write(self, child: Object, recorded: Json, shift: timedelta, *, cancelled: bool) -> None:
        """Give an object the recorded status, and those parts of the spec that another client changed."""
        kind = KINDS[child.kind_name]
        while True:
            try:
                newest = (await self.lab.get(kind, child.name)).to_dict()
            except NotFound:
                return
            wanted = copy.deepcopy(newest)
            for field in ("suspend", "shutdown", "trigger", "paused"):
                if not cancelled and recorded["spec"].get(field) != wanted["spec"].get(field):
                    wanted["spec"][field] = recorded["spec"].get(field)
                    if wanted["spec"][field] is None:
                        del wanted["spec"][field]
            status = _shifted(recorded.get("status"), shift)
            try:
                if child.kind_name.startswith("Replication"):
                    if wanted != newest:
                        wanted = (await self.lab.client.replace(Object(wanted))).to_dict()
                    await self.lab.client.replace(Object({**wanted, "status": status or {}}), subresource="status")
                elif status is not None or wanted != newest:
                    await self.lab.client.replace(Object({**wanted, **({"status": status} if status else {})}))
            except Conflict:
                continue
            except NotFound:
                return
            return


def _shifted(value: Any, shift: timedelta) -> Any:
    """Return plain data with its timestamps moved."""
    if isinstance(value, dict):
        return {key: _shifted(member, shift) for key, member in value.items()}
    if isinstance(value, list):
        return [_shifted(member, shift) for member in value]
    if isinstance(value, str) and len(value) == 20 and value.endswith("Z"):
        moment: datetime = from_rfc3339(value) + shift
        return rfc3339(moment)
    return value
