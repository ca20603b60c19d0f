"""The example of docs/guide/replay.md: the test that the command wrote of a recorded bug."""

import re
from pathlib import Path

import pytest
import queue_operator
import test_queue_recorded
from queue_operator import Queue, QueueSpec
from test_queue_recorded import test_queue_orders_key_error_is_not_repeated

import konverge as kv
from konverge.recording import Recording, read_recording, record
from konverge_testing import Lab
from konverge_testing.lab.environments import memory_lab
from konverge_testing.replay import compare, replay, scenario_of

__all__ = ["test_queue_orders_key_error_is_not_repeated"]


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version without weeks."""
    monkeypatch.delitem(queue_operator.HOURS, "w")


async def recorded(lab: Lab, file: Path) -> Recording:
    """Record a queue whose retention a user changes to weeks."""

    def build(manager: kv.Manager) -> None:
        record(manager, str(file))
        queue_operator.build(manager)

    lab.expects(KeyError)
    await lab.start(build, name="queue-operator")
    await lab.create(Queue.new("orders", spec=QueueSpec(retention="7d")))
    await lab.settled()
    await lab.patch(Queue, "orders", {"spec": {"retention": "2w"}})
    await lab.settled()
    await lab.stop()
    return read_recording(file)


def anonymous(text: str) -> str:
    """Return a text without uids, times and versions of konverge."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\(konverge [^)]*\)", "TIME", text)


async def test_the_command_writes_the_test_of_the_guide(bug: None, lab: Lab, tmp_path: Path) -> None:
    recording = await recorded(lab, tmp_path / "tape")
    failed = next(each for each in recording.reconciles if each.failed)
    text = scenario_of(recording, failed, "queue_operator", "build")
    assert anonymous(text) == anonymous(Path(test_queue_recorded.__file__).read_text())


async def test_the_test_of_the_guide_fails_with_the_bug(bug: None, lab: Lab) -> None:
    lab.dismiss()
    with pytest.raises(AssertionError, match="it ends as recorded"):
        await test_queue_orders_key_error_is_not_repeated(lab)


async def test_the_fixed_program_of_the_guide_writes_in_the_replay(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        planted.delitem(queue_operator.HOURS, "w")
        async with memory_lab(namespace="planted") as other:
            recording = await recorded(other, tmp_path / "tape")
    failed = next(each for each in recording.reconciles if each.failed)
    report = compare(recording, failed, await replay(recording, failed, queue_operator.build))
    assert (failed.outcome, report.replayed.outcome) == ("KeyError", "Done")
    assert [each.title for each in report.divergences][:1] == ["PATCH configmaps planted/orders"]
