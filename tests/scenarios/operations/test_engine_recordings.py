"""Every recorded object of Velero, Argo and VolSync through the whole reconciler: how its Operation ends.

The table of the translation (tests/support/apps/recorded_ways.py) has every state on the way; this test compares phase and reason at the end,
with the real status written into the object of the Operation. Recordings of the Job controller are in test_job_recordings.py.
"""

from contextlib import AsyncExitStack

import pytest
from apps.engine_recordings import EngineRecordings
from apps.recorded_ways import RECORDED, WAYS, Recorded
from recordings import lines, scenarios

from konverge.crds.ops_v1alpha1 import Operation
from konverge_testing import Lab

LATER = {
    ("source-no-mover", "ReplicationSource/data"): "Pending/EngineError",
    ("source-no-mover", "ReplicationSource/two"): "Pending/EngineError",
    ("source-no-copymethod", "ReplicationSource/data"): "Running/EngineError",
}
"""The ends that show after the last line of a recording: an error counts once it lasts."""
NOT_PLAYED = {
    (
        "velero",
        "backup-deleted-and-synced-back",
        "Backup/synced#1",
    ): "Velero made it from its bucket; no Operation has made it",
}
"""The recorded objects that are left out, and why."""
KINDS = {"Backup", "Restore", "Workflow", "ReplicationSource", "ReplicationDestination"}
"""The kinds of objects that Operations make."""


def end_of(operation: Operation) -> str:
    """Return phase and reason."""
    phase = operation.status.phase or ""
    condition = operation.find_condition(phase if phase != "Pending" else "Running")
    return f"{phase}/{condition.reason if condition is not None else ''}"


def objects_of(engine: str) -> set[tuple[str, str, str]]:
    """Return every recorded object that could belong to an Operation: engine, recording, `Kind/name#nth`."""
    found: set[tuple[str, str, str]] = set()
    for recording in scenarios(engine):
        uids: dict[str, list[str]] = {}
        for line in lines(engine, recording):
            if line.object and line.object["kind"] in KINDS:
                metadata = line.object["metadata"]
                known = uids.setdefault(f"{line.object['kind']}/{metadata['name']}", [])
                if metadata["uid"] not in known:
                    known.append(metadata["uid"])
        found |= {
            (engine, recording, f"{which}#{nth}" if nth else which)
            for which, all_ in uids.items()
            for nth in range(len(all_))
        }
    return found


def expected(recorded: Recorded) -> str:
    """Return phase and reason of the Operation at the end."""
    state, _, reason = recorded.way[-1].partition("/")
    end = f"{state.replace('Accepted', 'Pending')}/{reason}"
    return LATER.get((recorded.recording, recorded.which), end)


@pytest.mark.parametrize("engine", WAYS)
def test_every_recorded_object_is_played_or_left_out_with_a_reason(engine: str) -> None:
    played = {(each.engine, each.recording, each.which) for each in RECORDED if each.engine == engine}
    left_out = {each for each in NOT_PLAYED if each[0] == engine}
    assert not played & left_out
    assert played | left_out == objects_of(engine)


@pytest.mark.parametrize("engine", WAYS)
async def test_the_recordings_of_an_engine_end_an_operation_as_their_table_says(lab: Lab, engine: str) -> None:
    objects = [each for each in RECORDED if each.engine == engine]
    ends = {each.id: expected(each) for each in objects}
    assert len(ends) == len(objects)
    async with AsyncExitStack() as stack:
        recordings = EngineRecordings(lab, stack)
        await recordings.open()
        assert {name: end_of(operation) for name, operation in (await recordings.play(objects)).items()} == ends
