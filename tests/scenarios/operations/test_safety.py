"""The invariant of the lab detects two running objects that exclude each other, with any engines."""

from typing import Any

import pytest
from apps.engine_shop import KINDS
from apps.operation_safety import NAME, UID, WORKS, Safety
from apps.operations import JOB, Operations, completed

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.rbac import plural_of
from konverge.reconcilers.apps.operations.engines.registry import ROWS
from konverge_testing import Lab, install_crds
from konverge_testing.argo import argo_crds
from konverge_testing.velero import velero_crds
from konverge_testing.volsync import volsync_crds

DONE: dict[str, dict[str, Any]] = {
    "Job": completed(),
    "Backup": {"phase": "PartiallyFailed"},
    "Restore": {"phase": "Completed"},
    "Workflow": {"phase": "Error"},
    "ReplicationSource": {"lastManualSync": "token"},
    "ReplicationDestination": {"lastManualSync": "token"},
}
SPECS: dict[str, dict[str, Any]] = {
    "Job": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
    "ReplicationSource": {"sourcePVC": "data", "trigger": {"manual": "token"}},
    "ReplicationDestination": {"trigger": {"manual": "token"}},
    "Restore": {"backupName": "given"},
}


async def made_for(ops: Operations, name: str, type_: str, kind: str) -> Object:
    """Create an Operation, and an object of an engine for it."""
    operation = await ops.create(name, type_)
    shown = {JOB.kind: JOB, **KINDS}[kind]
    labels, annotations = {UID: operation.metadata.uid}, {NAME: f"{ops.lab.namespace}/{name}"}
    return await ops.lab.create(shown.new(name, labels=labels, annotations=annotations, spec=SPECS.get(kind, {})))


async def end(lab: Lab, made: Object, kind: str) -> None:
    shown = {JOB.kind: JOB, **KINDS}[kind]
    plain = kind in ("Backup", "Restore", "Workflow")  # they have no status subresource
    await lab.patch(shown, made.name, {"status": DONE[kind]}, subresource="" if plain else "status")


def test_every_kind_that_an_engine_makes_is_watched_by_the_invariant() -> None:
    engines = {row.engine.name: row.engine for row in ROWS}
    made = {(kind.group, plural_of(kind)) for engine in engines.values() for kind in engine.makes}
    assert made - {("apps.vworkspace.io", "applicationinstances")} == set(WORKS)


@pytest.mark.parametrize("first", DONE)
@pytest.mark.parametrize("second", ["Job", "Restore"])
async def test_two_objects_that_exclude_each_other_are_found_until_one_has_ended(
    lab: Lab, first: str, second: str
) -> None:
    await install_crds(
        lab.client, [*velero_crds(), *argo_crds(), *volsync_crds(), crd(Operation), crd(ApplicationInstance)]
    )
    ops, safety = Operations(lab), Safety(lab)
    lab.always.remove(safety.check)
    begun = await made_for(ops, "first", "Backup", first)
    safety.check()
    await made_for(ops, "second", "Restore", second)
    with pytest.raises(AssertionError, match="at work at once"):
        safety.check()
    await end(lab, begun, first)
    safety.check()
