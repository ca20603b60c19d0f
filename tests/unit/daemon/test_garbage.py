"""Garbage collection while an operator starts: which generations are collected, and which objects are exempt; no times."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.daemon import garbage
from konverge.daemon.engine import Operator, operate
from konverge.daemon.settings import Settings
from konverge_testing import Lab

NUMBER = 200
YOUNGEST = 0
"""The objects since the last collection. A collection of the oldest generation traverses every object."""


async def nothing(_object: kv.Object, _ctx: kv.Context[kv.Object]) -> kv.Outcome:
    return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(nothing)))


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that are collected on request during a test."""
    generations: list[int] = []

    def collected(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    threshold = gc.get_threshold()
    gc.disable()
    gc.callbacks.append(collected)
    try:
        yield generations
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
        gc.enable()
        gc.unfreeze()
        gc.freeze()  # the heap of a test run is frozen


async def test_a_start_exempts_modules_and_caches_and_collects_the_youngest_objects(
    lab: Lab, collections: list[int]
) -> None:
    for number in range(NUMBER):
        await lab.create(CONFIG_MAP.new(f"map-{number}"))
    frozen: list[int] = []

    def freeze() -> None:
        garbage.freeze()
        frozen.append(gc.get_freeze_count())

    stop = asyncio.Event()
    operator = Operator(name="maps", build=build, settings=Settings(metrics="0", health="0", debug="0"))
    running = asyncio.create_task(operate(operator, stop, config=lab.server.config(), built=freeze, settled=freeze))
    await asyncio.sleep(5)
    stop.set()
    await running
    added, ready = frozen
    assert ready > added + NUMBER, "the cached objects are exempt too"
    assert collections
    assert set(collections) == {YOUNGEST}


@pytest.mark.parametrize(("before", "after"), [(700, 10_000), (2_000, 10_000), (50_000, 50_000), (0, 0)])
def test_freezing_raises_the_threshold_of_new_objects(collections: list[int], before: int, after: int) -> None:
    older = gc.get_threshold()[1:]
    gc.set_threshold(before, *older)
    garbage.freeze()
    assert gc.get_threshold() == (after, *older)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_leaves_the_collector_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with garbage.paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()


def test_imports_of_kv_run_collect_no_garbage() -> None:
    code = (
        "import gc, konverge as kv\n"
        "kv.run\n"
        "collections = []\n"
        "gc.callbacks.append(lambda phase, info: collections.append(info['generation']))\n"
        "try: kv.run(None, name='maps')\n"
        "except SystemExit: pass\n"
        "print('COLLECTED', len(collections))\n"
    )
    variables = {"KONVERGE_DRAIN": "long"}  # bad settings end the program once everything is imported
    ended = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert "drain (variable KONVERGE_DRAIN)" in ended.stderr
    assert int(ended.stdout.rpartition("COLLECTED ")[2]) <= 4
