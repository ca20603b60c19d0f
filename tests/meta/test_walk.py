"""The walk of one object through the library, as tools/walk.py shows it."""

import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from walk import Walk, is_wrapper, walk

from konverge_testing.loop import VirtualTimeLoop

LANDMARKS = (
    "client/responses.py",
    "client/http_transport.py",
    "informers/decode.py",
    "informers/store.py",
    "runtime/controller/event_handlers.py",
    "runtime/consistency/own_writes.py",
    "workqueue/queue.py",
    "runtime/controller/worker.py",
    "runtime/controller/pipeline.py",
    "runtime/apply/applier.py",
    "client/sender.py",
    "runtime/events/recorder.py",
    "runtime/controller/aftermath.py",
)
STEPS = (
    "KeyWorker._pass_barrier",
    "ReconcilePipeline._run_steps",
    "Finalizers.begin",
    "decode_object",
    "StatusEditors.create",
    "Context.__init__",
    "ReconcilerCall.run",
    "FailureReport.report",
    "StatusWriter.write",
    "KeyWorker._finish",
    "requeue_decision",
)
MOST_FILES = 38
MOST_WRAPPERS = 10


ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"


@pytest.fixture(scope="module")
def walked() -> Walk:
    with closing(VirtualTimeLoop()) as loop:
        return loop.run_until_complete(walk())


def test_walk_crosses_the_rooms_in_the_order_of_the_architecture_page(walked: Walk) -> None:
    files = list(walked.files)
    assert set(LANDMARKS) <= set(files)
    assert all(files.index(earlier) < files.index(later) for earlier, later in pairwise(LANDMARKS))


def test_the_walk_of_an_object_does_not_become_longer(walked: Walk) -> None:
    assert len(walked.files) <= MOST_FILES
    assert len(walked.wrappers) <= MOST_WRAPPERS


def test_architecture_page_lists_the_files_of_the_walk(walked: Walk) -> None:
    table = ARCHITECTURE.read_text().partition("| From | Files")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([\w/]+\.py)`", table)) == sorted(walked.files)


def test_worker_and_pipeline_take_their_steps_in_the_documented_order(walked: Walk) -> None:
    names = [code.co_qualname for code in walked.functions]
    places = [names.index(step) for step in STEPS]
    assert places == sorted(places)


def test_walk_includes_socket_requeue_metrics_and_events(walked: Walk) -> None:
    assert {function.co_qualname for functions in walked.files.values() for function in functions} >= {
        "RoundTripper.send",
        "requeue_decision",
        "ControllerMetrics.reconciled",
        "EventRecorder._send",
    }


def test_walk_leaves_out_the_test_kit(walked: Walk) -> None:
    assert [code.co_filename for code in walked.functions if "konverge_testing" in code.co_filename] == []


@pytest.mark.parametrize(
    ("source", "wraps"),
    [
        ("def get(self, key): return self._store.get(key)", True),
        ("async def send(self, call):\n    '''Send.'''\n    return await self._transport.send(call)", True),
        ("def get(self, key): return self._store.get(key) or MISSING", False),
        ("def get(self, key): return self._store.find(key)", False),
        ("def get(self, key):\n    self.count += 1\n    return self._store.get(key)", False),
    ],
)
def test_a_wrapper_only_hands_on_to_a_function_of_the_library(source: str, wraps: bool) -> None:
    assert is_wrapper(source, {"get", "send"}) is wraps
