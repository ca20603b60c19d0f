"""The walk of one object through the library, as tools/walk.py shows it."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import pytest
from walk import Walk, is_wrapper, walk

from konverge_testing.loop import VirtualTimeLoop

LANDMARKS = (
    "client/watch_stream.py",
    "informers/decode.py",
    "informers/store.py",
    "runtime/controller/event_handlers.py",
    "workqueue/queue.py",
    "runtime/consistency/barrier.py",
    "runtime/reconcile/runner.py",
    "runtime/apply/applier.py",
    "client/sender.py",
)
MOST_FILES = 53
MOST_WRAPPERS = 8


@pytest.fixture(scope="module")
def walked() -> Walk:
    with closing(VirtualTimeLoop()) as loop:
        return loop.run_until_complete(walk())


def test_an_object_comes_through_the_rooms_in_the_order_that_the_architecture_page_shows(walked: Walk) -> None:
    files = list(walked.files)
    assert set(LANDMARKS) <= set(files)
    assert all(files.index(one) < files.index(next_one) for one, next_one in pairwise(LANDMARKS))


def test_the_walk_of_an_object_does_not_become_longer(walked: Walk) -> None:
    assert len(walked.files) <= MOST_FILES
    assert len(walked.wrappers) <= MOST_WRAPPERS


def test_the_test_kit_is_left_out_of_the_walk(walked: Walk) -> None:
    assert [file for file in walked.files if file.startswith("testing/")] == []


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
